// Views and stores into them: which tensors and arrays of a recording share memory, and what a change of one makes of the others.
// A view is known by its base and the movement that leads to it. A store gives the whole memory a new value; every view of it is
// then derived anew, so that each shadow always names the present value.
#include "compiler/capture/lowerings.h"
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/graph/compose.h"
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include <algorithm>
#include <set>

namespace dyno::capture {
namespace compose = graph::compose;

ShadowId Recording::root_of(ShadowId given) const {
    ShadowId id = canonical(given);
    for (auto view = views_.find(id); view != views_.end(); view = views_.find(id)) id = canonical(view->second.base);
    return id;
}

/// A new tensor shadow is a view of `base`: true if the movement between them is known.
bool Recording::follow_view(ShadowId id, ShadowId base, uint32_t twin) {
    base = canonical(base);
    auto path = compose::movement_between(builder_, shadows_[base].node, shadows_[id].node);
    const ValueRef ref = ref_of(base);
    bool named = false;
    for (const ValueRef& arg : segment_.externs[twin].args) named |= arg == ref;
    if (!path || !named) return false;
    views_[id] = {base, std::move(*path), twin, ref};
    if (holds_written(base)) derive_again(id, shadows_[id].node);
    return true;
}

/// Why the memory under a tensor or array may not be written here; empty if it may.
std::string Recording::unwritable(ShadowId given) const {
    const ShadowId root = root_of(given);
    auto unusual = [&](ShadowId id) -> const char* {
        const Shadow& s = shadows_[id];
        if (s.viewed) return "memory that a view of an unusual kind shares is changed in place";
        if (s.requires_grad) return "a tensor that requires grad is changed in place";
        return nullptr;
    };
    if (shadows_[root].unsized) return "a tensor whose size depends on data is changed in place";
    if (const char* why = unusual(root)) return why;
    for (const auto& [id, view] : views_)
        if (root_of(id) == root)
            if (const char* why = unusual(id)) return why;
    const Shadow& s = shadows_[root];
    if (segment_.numpy_scalar.size() > s.node.index && segment_.numpy_scalar[s.node.index]) return "a NumPy scalar is changed in place";
    if (s.source == Guard::none_) return {};
    for (const Guard& g : segment_.guards) {
        if (g.source != s.source || (g.kind != Guard::tensor && g.kind != Guard::array)) continue;
        const ArrayFacts& facts = segment_.facts[g.expected];
        if (g.kind == Guard::array && !facts.writeable) return "an array that is read-only is changed in place";
        std::vector<std::pair<int64_t, int64_t>> axes; // stride and size
        bool empty = false;
        for (size_t k = 0; k < facts.sizes.size(); k++) {
            if (facts.strides[k] < 0 && facts.sizes[k] > 1) return "an array that lies backwards in memory is changed in place";
            empty |= facts.sizes[k] == 0;
            if (facts.sizes[k] > 1) axes.emplace_back(facts.strides[k], facts.sizes[k]);
        }
        if (empty) return {};
        std::sort(axes.begin(), axes.end());
        int64_t reach = 1, numel = 1; // gaps are not written; where no axis steps into what the smaller ones cover, no element is there twice
        for (const auto& [stride, size] : axes) {
            if (stride < reach) return "a tensor whose elements overlap is changed in place";
            reach += (size - 1) * stride;
            numel *= size;
        }
        if (reach != numel && facts.device_type != python::device_cpu) return "a tensor with gaps is changed in place";
        return {};
    }
    return "a tensor of unknown memory is changed in place";
}

/// What the root of the target's memory holds once the target's value has been replaced.
Result<graph::NodeId> Recording::value_of_root(ShadowId target, graph::NodeId value, SourceSpan from) {
    ShadowId id = canonical(target);
    for (auto view = views_.find(id); view != views_.end(); view = views_.find(id)) {
        const ShadowId base = canonical(view->second.base);
        auto whole = compose::put_back(builder_, shadows_[base].node, view->second.path, value, from);
        if (!whole) return whole;
        value = *whole;
        id = base;
    }
    return builder_.spread(value, builder_.type(shadows_[id].node), from);
}

/// Node and object of a view, from its base's present value. `known`: its value, if there is one already.
void Recording::derive_again(ShadowId id, graph::NodeId known) {
    const View& view = views_.at(id);
    const ShadowId base = canonical(view.base);
    graph::NodeId value = known;
    if (!value.valid()) {
        value = shadows_[base].node;
        for (graph::Node step : view.path) {
            step.operands = {value};
            step.twin = -1;
            value = builder_.add_node(std::move(step));
        }
    }
    // The object: what the view's own call gives of the base as it will be.
    ExternTemplate call;
    const ExternTemplate& made = segment_.externs[view.twin];
    call.callable = Owned<>::borrow(made.callable.get());
    call.kwnames = Owned<>::borrow(made.kwnames.get());
    call.args = made.args;
    const ValueRef now = ref_of(base);
    for (ValueRef& arg : call.args)
        if (arg == view.base_ref) arg = now;
    graph::NodeId memory = shadows_[base].as_object.valid() ? shadows_[base].as_object : shadows_[base].node;
    if (shadows_[base].source != Guard::none_)
        for (size_t k = 0; k < segment_.input_sources.size(); k++)
            if (segment_.input_sources[k] == shadows_[base].source) memory = builder_.graph().inputs[k].node;
    const uint32_t twin = builder_.add_extern(builder_.graph().externs[view.twin].name, {memory}, true);
    segment_.externs.push_back(std::move(call));
    const std::vector<int64_t> strides = node_strides_[shadows_[id].node.index];
    const graph::NodeId object = builder_.duplicate(value);
    builder_.set_twin(object, twin);
    node_strides_.resize(builder_.size());
    node_strides_[object.index] = strides;
    claimed_.insert(object.index);
    segment_.numpy_scalar.resize(builder_.size());
    views_.at(id).twin = twin;
    views_.at(id).base_ref = now;
    // Before the commit the memory of an input still holds its old elements: its views are read by their values, not through it.
    const bool outside = shadows_[root_of(id)].source != Guard::none_;
    shadows_[id].node = outside ? value : object;
    shadows_[id].as_object = outside ? object : graph::NodeId{};
    node_strides_[shadows_[id].node.index] = strides;
}

/// The target's memory has a new value (of the root, from value_of_root; invalid: the same as before).
void Recording::write_memory(ShadowId target, graph::NodeId root_value, graph::NodeId value) {
    const ShadowId root = root_of(target);
    Shadow& s = shadows_[root];
    s.writes++;
    if (s.source != Guard::none_) s.written = true;
    if (!root_value.valid()) return;
    // Memory has a node of its own, never one that another object, a number or a constant stands for. An input stored into an input is
    // copied in commit, which needs no node.
    const bool from_outside = builder_[root_value].op == graph::Op::input && s.source != Guard::none_;
    const bool leaf = graph_kind(root_value) == graph::OpKind::leaf && !from_outside;
    const bool scalar = segment_.numpy_scalar.size() > root_value.index && segment_.numpy_scalar[root_value.index];
    if (leaf || scalar || claimed_.contains(root_value.index)) root_value = builder_.duplicate(root_value);
    claimed_.insert(root_value.index);
    node_strides_.resize(builder_.size());
    node_strides_[root_value.index] = node_strides_[s.node.index];
    segment_.numpy_scalar.resize(builder_.size());
    if (builder_.type(root_value).domain == graph::Domain::numpy) segment_.numpy_flags = true;
    s.node = root_value;
    std::vector<ShadowId> family;
    for (const auto& [id, view] : views_)
        if (root_of(id) == root) family.push_back(id);
    for (ShadowId id : family) derive_again(id, id == canonical(target) ? value : graph::NodeId{});
}

// ------------------------------------------------------------------------------------------------ rows
/// How many rows the loop over a tensor or array meets; -1 if that is not known.
int64_t Recording::rows_of_tensor(ShadowId given) const {
    const Shadow& s = shadows_[canonical(given)];
    if (s.kind != Shadow::tensor || s.unsized) return -1;
    const std::vector<int64_t>& dims = builder_.type(s.node).dims;
    return dims.empty() ? -1 : dims[0];
}
std::optional<std::vector<ShadowId>> Recording::few_rows(ShadowId id) {
    const int64_t rows = rows_of_tensor(id);
    if (rows < 0 || rows > static_cast<int64_t>(limits_.unrolled_turns)) return refuse("a list of a tensor's rows"), std::nullopt;
    if (needs_autograd({id})) return refuse("needs autograd", "call it under torch.no_grad() to have it compiled"), std::nullopt;
    own_python_ = true; // Tensor.__iter__
    std::vector<ShadowId> items;
    for (int64_t k = 0; k < rows; k++) items.push_back(row_of_tensor(id, k));
    return items;
}
/// x[k] as iteration gives it: a view, or a NumPy scalar. Its object is not looked at.
ShadowId Recording::row_of_tensor(ShadowId given, int64_t k) {
    const ShadowId base = canonical(given);
    PyTypeObject* type = shadows_[base].type;
    auto made = compose::select(builder_, shadows_[base].node, 0, k, {});
    if (!made) return 0;
    graph::NodeId node = *made;
    if (claimed_.contains(node.index)) node = builder_.duplicate(node);
    const bool number = builder_.type(node).domain == graph::Domain::numpy && builder_.type(node).dims.empty();
    std::vector<int64_t> strides = node_strides_[shadows_[base].node.index];
    if (!strides.empty()) strides.erase(strides.begin());
    auto index = Owned<>::steal(PyLong_FromLongLong(k));
    Call call;
    call.callable = _PyType_Lookup(type, interned("__getitem__"));
    call.args = {base, constant(index.get())};
    call.nargs = 2;
    call.name = builder_.type(node).domain == graph::Domain::numpy ? "numpy.ndarray.__getitem__" : "torch.Tensor.__getitem__";
    const bool written = holds_written(base);
    uint32_t twin = 0;
    if (!number || (limits_.twins && !written)) twin = make_extern(call, !number);
    if (number ? limits_.twins && !written : !written) builder_.set_twin(node, twin);
    node_strides_.resize(builder_.size());
    node_strides_[node.index] = strides;
    claimed_.insert(node.index);
    segment_.numpy_scalar.resize(builder_.size());
    segment_.numpy_scalar[node.index] = number;
    tensor_nodes_++;
    Shadow s;
    s.kind = Shadow::tensor;
    s.node = node;
    s.ref = {ValueRef::node, node.index};
    // Rows of a Parameter are plain tensors.
    s.type = number ? nullptr : type == names().ndarray ? type : names().tensor;
    s.requires_grad = shadows_[base].requires_grad;
    const ShadowId id = add(std::move(s));
    if (!number && !follow_view(id, base, twin)) {
        shadows_[base].viewed = shadows_[id].viewed = true;
        if (written) return 0;
    }
    return id;
}

// ------------------------------------------------------------------------------------------------ x[...] = value
namespace {
/// Addresses of all elements, if there are not too many.
std::optional<std::set<const char*>> addresses(PyObject* object) {
    python::TensorView t;
    python::ArrayView n;
    std::vector<int64_t> sizes, strides;
    const char* data;
    if (python::read_tensor(object, t)) {
        data = static_cast<const char*>(t.data);
        for (int k = 0; k < t.ndim; k++) sizes.push_back(t.sizes[k]), strides.push_back(t.strides[k] * size_of(t.dtype));
    } else if (python::read_array(object, n)) {
        data = static_cast<const char*>(n.data);
        for (int k = 0; k < n.ndim; k++) sizes.push_back(n.shape[k]), strides.push_back(n.strides[k]);
    } else return std::nullopt;
    int64_t numel = 1;
    for (int64_t s : sizes) numel *= s;
    if (numel > 65536) return std::nullopt;
    std::set<const char*> all;
    for (int64_t k = 0; k < numel; k++) {
        const char* at = data;
        for (size_t d = sizes.size(), rest = static_cast<size_t>(k); d-- > 0; rest /= static_cast<size_t>(sizes[d]))
            at += static_cast<int64_t>(rest % static_cast<size_t>(sizes[d])) * strides[d];
        all.insert(at);
    }
    return all;
}
/// torch copies element by element in an order of its own: a part of the source must not be overwritten meanwhile.
bool overlap_in_part(PyObject* to, PyObject* from) {
    auto a = addresses(to), b = addresses(from);
    if (!a || !b) return true;
    if (*a == *b) return false;
    for (const char* at : *a)
        if (b->contains(at)) return true;
    return false;
}
bool same_steps(const std::vector<graph::Node>& a, const std::vector<graph::Node>& b) {
    if (a.size() != b.size()) return false;
    for (size_t k = 0; k < a.size(); k++)
        if (a[k].op != b[k].op || a[k].ints != b[k].ints || !(a[k].type == b[k].type)) return false;
    return true;
}
} // namespace

/// The value's node as elements of `type`: one number (dims {}) or a tensor; a reason if eager would warn, raise or round otherwise.
Result<graph::NodeId> Recording::stored_value(ShadowId given, PyObject* value, const graph::Type& type, SourceSpan from) {
    const ShadowId id = canonical(given);
    const Shadow::Kind kind = shadows_[id].kind;
    if (kind != Shadow::tensor && kind != Shadow::number && kind != Shadow::constant) return Refusal{std::string("a ") + Py_TYPE(value)->tp_name + " is stored into a tensor or array"};
    auto x = operand(id, type.domain);
    if (!x) return Refusal{"a value of an unusual type is stored into a tensor or array"};
    const graph::Type given_type = builder_.type(x->node);
    if (kind == Shadow::tensor) {
        if (given_type.domain != type.domain) return Refusal{"a store between torch and NumPy"};
        if (given_type.device != type.device || given_type.device_index != type.device_index) return Refusal{"a store between devices"};
        if (type.domain == graph::Domain::numpy && is_float(given_type.dtype) && is_int(type.dtype)) return Refusal{"floats are stored into integers"};
    } else {
        if (PyFloat_CheckExact(value) && !is_float(type.dtype)) return Refusal{"a float is stored into integers"};
        if (type.dtype == DType::b8 && !PyBool_Check(value)) return Refusal{"a number is stored into truth values"};
        if (is_int(type.dtype) || (is_float(type.dtype) && type.dtype != DType::f64)) {
            if (kind == Shadow::number) guard_range(id, value, type.dtype);
            if (type.domain == graph::Domain::numpy && shadows_[canonical(id)].kind == Shadow::constant && !in_range(value, type.dtype)) return Refusal{"a number that does not fit is stored"};
        }
        x = operand(id, type.domain);
    }
    return builder_.cast(x->node, type.dtype, from);
}

Recording::Before Recording::store_tensor_item(Activation& a, ShadowId id, PyObject* object, ShadowId key_id, PyObject* key, ShadowId v, PyObject* value) {
    if (!know_deep(key_id, key) || !know(v, value)) return stop_refused(a);
    v = canonical(v);
    if (needs_autograd({id, v})) return stop(a, "needs autograd", "call it under torch.no_grad() to have it compiled");
    if (std::string why = unwritable(id); !why.empty()) return stop(a, why, "");
    const SourceSpan from = span_of(a);
    const graph::Type type = builder_.type(shadows_[id].node);
    if (is_complex(type.dtype)) return stop(a, "a store into complex numbers", "");
    if (shadows_[v].kind == Shadow::tensor && shadows_[v].unsized && selects_by_mask(key_id, key))
        if (auto answer = store_of_unknown_size(a, id, object, canonical(key_id), v, value)) return *answer;
    auto stored = stored_value(v, value, type, from);
    if (!stored) return stop(a, stored.reason(), "");
    graph::NodeId part = *stored, made;
    if (selects_by_mask(key_id, key)) {
        const ShadowId mask = canonical(key_id);
        if (!is_tensor(mask) || builder_.type(shadows_[mask].node).dtype != DType::b8 || builder_.type(shadows_[mask].node).domain != type.domain)
            return stop(a, "an in-place store by a mask of an unusual kind", "");
        std::vector<int64_t> shape = builder_.type(shadows_[mask].node).dims;
        if (builder_.type(part).numel() != 1) return stop(a, "an in-place store of several values by a mask", "use torch.where or numpy.where");
        if (shape.empty() || shape.size() > type.dims.size() || !std::equal(shape.begin(), shape.end(), type.dims.begin())) return stop(a, "an in-place store by a mask of another shape", "");
        shape.resize(type.dims.size(), 1);
        auto wide = builder_.build(graph::Op::reshape, {shadows_[mask].node}, {.dims = shape}, from);
        auto number = builder_.build(graph::Op::reshape, {part}, {.dims = {}}, from);
        if (!wide || !number) return stop(a, "an in-place store by a mask of an unusual kind", "");
        auto chosen = builder_.build(graph::Op::where, {*wide, *number, shadows_[id].node}, {}, from);
        if (!chosen) return stop(a, chosen.reason(), "");
        made = *chosen;
    } else {
        BoundArgs args;
        args.count = 2;
        args.ids[0] = id, args.ids[1] = key_id;
        args.values[0] = object, args.values[1] = key;
        auto region = lower::getitem(*this, args, graph::Op::slice, from);
        auto path = region ? compose::movement_between(builder_, shadows_[id].node, *region) : std::nullopt;
        if (!path) {
            auto answer = store_by_indices(a, id, key_id, v);
            return answer ? *answer : stop(a, "an in-place store by an index of an unusual kind", "");
        }
        if (auto mine = views_.find(v); mine != views_.end() && canonical(mine->second.base) == id && same_steps(mine->second.path, *path)) {
            // x[k] += y: what was changed is stored where it lies.
            return pend_write(a, id, {}, {}, nullptr);
        }
        if (is_tensor(v) && type.domain == graph::Domain::torch && root_of(v) == root_of(id)) {
            auto real = Owned<>::steal(PyObject_GetItem(object, key));
            PyErr_Clear();
            if (!real || overlap_in_part(real.get(), value)) return stop(a, "a store into memory that is read at the same time", "");
        }
        std::vector<int64_t> dims = builder_.type(part).dims;
        const std::vector<int64_t> wanted = builder_.type(*region).dims;
        if (!dims.empty()) {
            while (dims.size() > wanted.size() && dims.front() == 1) dims.erase(dims.begin());
            auto trimmed = builder_.build(graph::Op::reshape, {part}, {.dims = dims}, from);
            auto common = graph::broadcast_dims(dims, wanted);
            if (!trimmed || !common || *common != wanted) return stop(a, "a store of another shape", "");
            part = builder_.type(*trimmed).numel() == 1 ? *builder_.build(graph::Op::reshape, {*trimmed}, {.dims = {}}, from) : builder_.expand(*trimmed, wanted, from);
        }
        auto whole = compose::put_back(builder_, shadows_[id].node, *path, part, from);
        if (!whole) return stop(a, whole.reason(), "");
        made = *whole;
    }
    auto root = value_of_root(id, made, from);
    if (!root) return stop(a, root.reason(), "");
    return pend_write(a, id, *root, made, nullptr);
}

/// x.scatter_(...): a replay makes the call of the same name without underscore, whose value is put in x's place. `result`: as pend_write.
Recording::Before Recording::in_place_extern(Activation& a, Call c, ShadowId target, PyObject* result, bool sized) {
    std::vector<ShadowId> all = c.args;
    all.push_back(target);
    if (needs_autograd(all)) return stop(a, "needs autograd", "call it under torch.no_grad() to have it compiled");
    if (std::string why = unwritable(target); !why.empty()) return stop(a, why, "");
    for (ShadowId id : all)
        if (holds_written(id)) return stop(a, "a tensor that was changed in place is used by a library call", "");
    for (ShadowId id : all)
        if (sized && holds_unsized(id)) return stop(a, c.name + " with values whose size depends on data", "");
    const graph::Type type = builder_.type(shadows_[target].node);
    if (is_complex(type.dtype) || node_strides_[shadows_[target].node.index] != graph::row_major(type.dims)) return stop(a, c.name + " of a tensor that is not laid out row by row", "");
    pending_call_ = std::move(c);
    in_place_target_ = target;
    pending_result_ = result;
    pending_ = PendingKind::in_place_call;
    return Before::perform;
}

/// The program's own call succeeded: one that raises leaves no trace in the graph.
ShadowId Recording::finish_in_place_call(Activation& a, PyObject* result) {
    const SourceSpan from = span_of(a);
    const graph::Type type = builder_.type(shadows_[in_place_target_].node);
    const uint32_t external = make_extern(pending_call_, false);
    if (discarded_) return end_before(a, "an argument of " + pending_call_.name + " cannot be named", ""), 0;
    const graph::NodeId made = builder_.extern_call(external, type, from);
    Outcome outcome{};
    outcome.external = external;
    outcome.item = -1;
    outcome.type = type.domain == graph::Domain::torch ? names().tensor : names().ndarray;
    outcome.node = made;
    outcome.strides = graph::row_major(type.dims);
    node_strides_.resize(builder_.size());
    node_strides_[made.index] = outcome.strides;
    segment_.numpy_scalar.resize(builder_.size());
    segment_.externs[external].results.push_back(static_cast<uint32_t>(segment_.outcomes.size()));
    segment_.outcomes.push_back(std::move(outcome));
    auto root = value_of_root(in_place_target_, made, from);
    if (!root) return end_before(a, root.reason(), ""), 0;
    pending_root_ = *root;
    pending_node_ = made;
    return finish_in_place(a, result);
}

/// A result of an eager call, of a size that data decides, that only the operand stack holds: changing it is seen by nobody.
bool Recording::is_private(ShadowId id, PyObject* object) const {
    const Shadow& s = shadows_[id];
    return s.unsized && !s.viewed && !s.requires_grad && s.source == Guard::none_ && s.ref.kind == ValueRef::outcome && Py_REFCNT(object) == 1;
}

/// x[mask] = values, as many as the mask chooses: a call that makes what x holds afterwards. Nothing: of an unusual kind.
std::optional<Recording::Before> Recording::store_of_unknown_size(Activation& a, ShadowId id, PyObject* object, ShadowId mask, ShadowId v, PyObject* value) {
    const graph::Type type = builder_.type(shadows_[id].node), given = type_of(value, nullptr);
    if (!is_tensor(mask) || builder_.type(shadows_[mask].node).dtype != DType::b8 || builder_.type(shadows_[mask].node).domain != type.domain || builder_.type(shadows_[mask].node).device != type.device) return std::nullopt;
    if (given.dtype != type.dtype || given.domain != type.domain || given.device != type.device || given.device_index != type.device_index) return std::nullopt;
    const bool torch = type.domain == graph::Domain::torch;
    if (torch ? !python::is_plain_tensor(object) : Py_TYPE(object) != names().ndarray) return std::nullopt;
    Call c;
    c.callable = torch ? _PyType_Lookup(names().tensor, interned("index_put")) : consumer("put_masked");
    if (!c.callable) return std::nullopt;
    c.args = {id, torch ? fresh(NewObject::tuple, {mask}, &PyTuple_Type) : mask, v};
    c.nargs = 3;
    c.name = torch ? "torch.Tensor.index_put" : "numpy.ndarray.__setitem__";
    return in_place_extern(a, std::move(c), id, nullptr, false);
}

/// x[i] = y, x[i, j] = y with tensors of integers: index_put.
std::optional<Recording::Before> Recording::store_by_indices(Activation& a, ShadowId id, ShadowId key_id, ShadowId v) {
    const graph::Type type = builder_.type(shadows_[id].node);
    const ShadowId key = canonical(key_id);
    const std::vector<ShadowId> indices = shadows_[key].kind == Shadow::fresh && shadows_[key].type == &PyTuple_Type ? shadows_[key].parts : std::vector<ShadowId>{key};
    if (type.domain != graph::Domain::torch || indices.empty() || indices.size() > type.dims.size() || !is_tensor(v)) return std::nullopt;
    std::vector<int64_t> shape;
    for (ShadowId index : indices) {
        if (!is_tensor(index)) return std::nullopt;
        const graph::Type t = builder_.type(shadows_[canonical(index)].node);
        if (t.domain != type.domain || t.device != type.device || (t.dtype != DType::i64 && t.dtype != DType::i32)) return std::nullopt;
        const auto wider = graph::broadcast_dims(shape, t.dims);
        if (!wider) return std::nullopt;
        shape = *wider;
    }
    shape.insert(shape.end(), type.dims.begin() + static_cast<long>(indices.size()), type.dims.end());
    const graph::Type given = builder_.type(shadows_[canonical(v)].node);
    const auto common = graph::broadcast_dims(given.dims, shape);
    if (given.dtype != type.dtype || given.domain != type.domain || given.device != type.device || !common || *common != shape) return std::nullopt;
    Call c;
    c.callable = _PyType_Lookup(names().tensor, interned("index_put"));
    if (!c.callable) return std::nullopt;
    c.args = {id, fresh(NewObject::tuple, indices, &PyTuple_Type), canonical(v)};
    c.nargs = 3;
    c.name = "torch.Tensor.index_put";
    return in_place_extern(a, std::move(c), id, nullptr);
}

/// after() will apply it, if the instruction gives `result` (null: whatever it gives).
Recording::Before Recording::pend_write(Activation& a, ShadowId target, graph::NodeId root_value, graph::NodeId value, PyObject* result) {
    (void)a;
    in_place_target_ = target;
    pending_root_ = root_value;
    pending_node_ = value;
    pending_result_ = result;
    pending_ = PendingKind::in_place;
    return Before::perform;
}

ShadowId Recording::finish_in_place(Activation& a, PyObject* result) {
    if (pending_result_ && result != pending_result_) {
        end_before(a, "an in-place operator made a new object", "");
        return 0;
    }
    write_memory(in_place_target_, pending_root_, pending_node_);
    tensor_nodes_++;
    line_note(a, "captured", "", "");
    if (!pending_result_ && result == Py_None) return constant(Py_None);
    return in_place_target_;
}

} // namespace dyno::capture
