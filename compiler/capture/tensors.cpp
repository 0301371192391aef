// Calls on tensors and arrays: a node where a row lowers the call and the result is what the row said, else an extern.
#include "compiler/capture/data_memory.h"
#include "compiler/capture/lowerings.h"
#include "compiler/capture/recording.h"
#include "compiler/python/ambient.h"
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace dyno::capture {

/// The row's operand for a value: a node, or a Python number as constant or run-time scalar.
std::optional<graph::Operand> Recording::operand(ShadowId given, graph::Domain domain) {
    const ShadowId id = canonical(given);
    const Shadow& s = shadows_[id];
    if (s.kind == Shadow::tensor) return s.unsized ? std::nullopt : std::optional(graph::Operand(s.node, false));
    if (s.kind == Shadow::constant && s.real) {
        PyObject* v = s.real;
        if (PyBool_Check(v)) return graph::Operand(builder_.constant_integer(v == Py_True, DType::b8, domain), true);
        if (PyLong_CheckExact(v)) {
            const long long n = PyLong_AsLongLong(v);
            if (n == -1 && PyErr_Occurred()) {
                PyErr_Clear();
                return std::nullopt;
            }
            return graph::Operand(builder_.constant_integer(n, DType::i64, domain), true);
        }
        if (PyFloat_CheckExact(v)) return graph::Operand(builder_.constant(PyFloat_AS_DOUBLE(v), DType::f64, domain), true);
        return std::nullopt;
    }
    if (s.kind == Shadow::number) {
        if (auto it = scalar_nodes_.find(id); it != scalar_nodes_.end()) return graph::Operand(it->second, true);
        if (s.type != &PyFloat_Type && s.type != &PyLong_Type && s.type != &PyBool_Type) return std::nullopt;
        const graph::NodeId node = builder_.scalar(s.type == &PyFloat_Type ? DType::f64 : s.type == &PyBool_Type ? DType::b8 : DType::i64, domain, {}, last_call(s.ref));
        segment_.scalar_values.push_back(s.ref);
        scalar_nodes_[id] = node;
        return graph::Operand(node, true);
    }
    return std::nullopt;
}

/// The last extern on whose result the number depends, -1: none.
int64_t Recording::last_call(const ValueRef& r) const {
    if (r.kind == ValueRef::outcome) return segment_.outcomes[r.index].external;
    return r.kind == ValueRef::scalar ? segment_.scalar_steps[r.index].last_call : -1;
}

bool Recording::needs_autograd(const std::vector<ShadowId>& args) {
    if (!python::grad_enabled()) return false;
    return std::any_of(args.begin(), args.end(), [&](ShadowId given) {
        return any_part(given, [](const Shadow& s) { return s.kind == Shadow::tensor && s.requires_grad; });
    });
}

/// What has been read of a list or tuple that came from outside.
std::vector<ShadowId> Recording::items_read(ShadowId container) const {
    std::vector<ShadowId> items;
    if (shadows_[container].kind != Shadow::object || shadows_[container].identity) return items;
    const PlaceKey first{container, 'i', nullptr, std::numeric_limits<int64_t>::min()};
    for (auto it = places_.lower_bound(first); it != places_.end() && it->first.container == container && it->first.kind == 'i'; ++it)
        if (it->second) items.push_back(canonical(it->second));
    return items;
}

/// Whether `is` says so of a value or of anything in it, at any depth; what functions hold is not looked at. Values may hold themselves.
template <class Predicate>
bool Recording::any_part(ShadowId given, Predicate is) const {
    const Shadow& whole = shadows_[canonical(given)];
    if (whole.parts.empty() && (whole.kind != Shadow::object || whole.identity)) return is(whole); // nearly always
    visited_.resize(shadows_.size());
    const uint32_t walk = ++walk_;
    std::vector<ShadowId> open{canonical(given)};
    while (!open.empty()) {
        const ShadowId id = open.back();
        open.pop_back();
        if (!id || visited_[id] == walk) continue;
        visited_[id] = walk;
        const Shadow& s = shadows_[id];
        if (is(s)) return true;
        if (s.kind == Shadow::fresh && s.type == &PyFunction_Type) continue;
        for (ShadowId part : s.parts) open.push_back(canonical(part));
        for (ShadowId item : items_read(id)) open.push_back(item);
    }
    return false;
}

/// A call of a library function on known values is next: remember it for after().
Recording::Before Recording::pend_call(Activation& a, Call c) {
    if (!c.row) c.row = row_of(c.callable);
    bool any_tensor = false;
    for (size_t k = 0; k < c.args.size(); k++) {
        if (!c.args[k]) return stop(a, "an argument of unknown origin", "");
        if (PyList_CheckExact(c.values[k]) && at(c.args[k]).kind == Shadow::object && at(c.args[k]).written) { // a replay changes it after the call
            auto items = items_of(c.args[k], c.values[k]);
            if (!items) return stop_refused(a);
            c.args[k] = fresh(NewObject::list, std::move(*items), &PyList_Type);
        }
        if (!know_deep(c.args[k], c.values[k])) return stop_refused(a);
        any_tensor |= holds_tensor(c.args[k]);
    }
    if (states_a_fact(c)) return pend_constant();
    if (needs_autograd(c.args)) return stop(a, "needs autograd", "call it under torch.no_grad() to have it compiled");
    std::string name;
    Purity purity = c.row ? Purity::pure : purity_of(c.callable, name);
    if (c.name.empty()) c.name = c.row ? c.row->path : name;
    if (states_numpy_fact(c)) {
        own_python_ = true; // the dispatcher's, or isscalar()'s own
        return pend_constant();
    }
    if ((purity == Purity::random || purity == Purity::effect) && is_idle(c)) purity = Purity::pure;
    if (c.name == "numpy.ufunc.at" && c.nargs >= 3 && !c.kwnames) return store_at(a, std::move(c));
    if (purity == Purity::unknown) return stop(a, "a call of " + (name.empty() ? std::string("unknown native code") : name + ", which is not known to be free of effects"), "");
    if (purity == Purity::random && !may_draw(c)) return stop(a, c.name + " draws random numbers", "");
    if (c.name == "torch.tensor" && any_tensor) return stop(a, "torch.tensor() of tensors warns", "use clone()");
    if (purity == Purity::in_place) return stop(a, c.name + " writes in place", "");
    if (purity == Purity::effect) return stop(a, c.name + " has an effect outside", "");
    for (Py_ssize_t k = 0; c.kwnames && k < PyTuple_GET_SIZE(c.kwnames); k++) {
        const size_t index = c.nargs + static_cast<size_t>(k);
        PyObject* key = PyTuple_GET_ITEM(c.kwnames, k);
        if (PyUnicode_CompareWithASCIIString(key, "out") == 0 && c.values[index] != Py_None) {
            auto answer = out_argument(a, c);
            return answer ? *answer : stop(a, c.name + " writes in place (out=)", "");
        }
        if (PyUnicode_CompareWithASCIIString(key, "inplace") == 0 && c.values[index] != Py_False) return stop(a, c.name + " writes in place", "");
    }
    pending_call_ = std::move(c);
    pending_ = PendingKind::call;
    return Before::perform;
}

/// dropout() or batch_norm() that is told not to train: it draws nothing and writes nothing.
bool Recording::is_idle(const Call& c) {
    static const struct {
        const char* name;
        size_t position; // of the flag
    } flags[] = {{"dropout", 2}, {"feature_dropout", 2}, {"alpha_dropout", 2}, {"batch_norm", 5}, {"dropout1d", 2}, {"dropout2d", 2}, {"dropout3d", 2}};
    const std::string last = c.name.substr(c.name.rfind('.') + 1);
    for (const auto& flag : flags) {
        if (last != flag.name) continue;
        size_t at_index = flag.position;
        for (Py_ssize_t k = 0; c.kwnames && k < PyTuple_GET_SIZE(c.kwnames); k++)
            for (const char* word : {"training", "train"})
                if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c.kwnames, k), word) == 0) at_index = c.nargs + static_cast<size_t>(k);
        return at_index < c.args.size() && (at_index >= c.nargs || at_index == flag.position) && c.values[at_index] == Py_False && at(c.args[at_index]).kind == Shadow::constant;
    }
    return false;
}

/// f(x, y, out=z) of a call that has a lowering: its result goes into z.
std::optional<Recording::Before> Recording::out_argument(Activation& a, const Call& given) {
    Call c = given;
    ShadowId target = 0;
    PyObject* object = nullptr;
    auto kept = Owned<>::steal(PyTuple_New(PyTuple_GET_SIZE(c.kwnames) - 1));
    for (Py_ssize_t k = 0, to = 0; k < PyTuple_GET_SIZE(c.kwnames); k++) {
        PyObject* key = PyTuple_GET_ITEM(c.kwnames, k);
        const size_t index = c.nargs + static_cast<size_t>(k);
        if (PyUnicode_CompareWithASCIIString(key, "out") != 0) {
            PyTuple_SET_ITEM(kept.get(), to++, Py_NewRef(key));
            continue;
        }
        target = canonical(c.args[index]);
        object = c.values[index];
        c.args.erase(c.args.begin() + static_cast<std::ptrdiff_t>(index));
        c.values.erase(c.values.begin() + static_cast<std::ptrdiff_t>(index));
        if (to < PyTuple_GET_SIZE(kept.get())) { // the names behind it
            for (Py_ssize_t j = k + 1; j < PyTuple_GET_SIZE(c.kwnames); j++) PyTuple_SET_ITEM(kept.get(), to++, Py_NewRef(PyTuple_GET_ITEM(c.kwnames, j)));
        }
        break;
    }
    if (!is_tensor(target) || python::numpy_scalar_dtype(object) != DType::none) return std::nullopt;
    c.kwnames = PyTuple_GET_SIZE(kept.get()) ? kept.get() : nullptr;
    call_names_ = std::move(kept);
    if (c.name == "numpy.dot" && !c.kwnames) return in_place_extern(a, std::move(c), target, object); // its out= has the result's type and shape
    if (!c.row || !c.row->lower) return std::nullopt;
    return in_place_call(a, std::move(c), target, object);
}

/// numpy.add.at(x, indices, values).
Recording::Before Recording::store_at(Activation& a, Call c) {
    const ShadowId target = canonical(c.args[1]);
    PyObject* function = consumer("at");
    if (!function || !is_tensor(target) || Py_TYPE(c.values[1]) != names().ndarray || shadows_[target].unsized) return stop(a, c.name + " of an unusual call", "");
    for (size_t k = 2; k < c.args.size(); k++)
        if (is_tensor(c.args[k]) && root_of(c.args[k]) == root_of(target)) return stop(a, "a store into memory that is read at the same time", "");
    c.callable = function;
    return in_place_extern(a, std::move(c), target, nullptr);
}

/// Methods whose answer the guards of the tensor fix: size, stride, dim.
bool Recording::states_a_fact(const Call& c) const {
    if (Py_TYPE(c.callable) != &PyMethodDescr_Type) return false;
    auto* d = reinterpret_cast<PyMethodDescrObject*>(c.callable);
    if (d->d_common.d_type != names().tensor_base) return false;
    static const char* const facts[] = {"size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "storage_offset",
                                        "has_names", "is_inference", "is_conj", "is_neg", "is_same_size", "get_device"};
    for (const char* fact : facts)
        if (std::strcmp(d->d_method->ml_name, fact) == 0) {
            for (ShadowId id : c.args)
                if (!is_tensor(id) && shadows_[canonical(id)].kind != Shadow::constant) return false;
            // The offset into the storage is not among the guarded facts of an input.
            return std::strcmp(fact, "storage_offset") != 0;
        }
    return false;
}

/// Looks at the value and at what it holds: the arguments of a library call are read by it as a whole.
bool Recording::know_deep(ShadowId given, PyObject* value, int depth) {
    if (!know(given, value)) return false;
    const ShadowId id = canonical(given);
    if (depth > 3) return refuse("arguments nested deeply");
    const Shadow& s = shadows_[id];
    if (s.kind == Shadow::iterator) return refuse("an iterator as the argument of a library call");
    if ((s.kind == Shadow::object || s.kind == Shadow::fresh) && (PyTuple_CheckExact(value) || PyList_CheckExact(value) || is_named_tuple(value))) {
        if (s.kind == Shadow::object && s.written && PyList_CheckExact(value)) return refuse("a list that was changed, inside the argument of a library call");
        auto items = items_of(id, value);
        if (!items) return false;
        for (size_t k = 0; k < items->size(); k++)
            if (!know_deep((*items)[k], PySequence_Fast_GET_ITEM(value, static_cast<Py_ssize_t>(k)), depth + 1)) return false;
        return true;
    }
    if (s.kind == Shadow::fresh && PySlice_Check(value)) {
        auto* slice = reinterpret_cast<PySliceObject*>(value);
        PyObject* parts[3] = {slice->start, slice->stop, slice->step};
        const std::vector<ShadowId> ids = s.parts;
        for (size_t k = 0; k < 3 && k < ids.size(); k++)
            if (ids[k] && !know_deep(ids[k], parts[k], depth + 1)) return false;
        return true;
    }
    if (made_dict(id)) return refuse("a dict as the argument of a library call");
    if (made_deque(id)) return refuse("a deque as the argument of a library call");
    if (s.kind == Shadow::object && !s.identity) return refuse(std::string("a ") + Py_TYPE(value)->tp_name + " as the argument of a library call");
    if (s.kind == Shadow::fresh && (s.type == &PyFunction_Type || s.type == &PyMethod_Type)) return refuse("a function as the argument of a library call");
    if (s.kind == Shadow::object && (PyFunction_Check(value))) return refuse("a function as the argument of a library call");
    return true;
}
bool Recording::holds_written(ShadowId given) const {
    return any_part(given, [&](const Shadow& s) {
        if (s.kind != Shadow::tensor) return false;
        const Shadow& root = shadows_[root_of(static_cast<ShadowId>(&s - shadows_.data()))];
        return root.kind == Shadow::tensor && root.written && root.source != Guard::none_;
    });
}
bool Recording::holds_unsized(ShadowId given) const {
    return any_part(given, [](const Shadow& s) { return s.kind == Shadow::tensor && s.unsized; });
}
bool Recording::holds_tensor(ShadowId given) const {
    return any_part(given, [](const Shadow& s) { return s.kind == Shadow::tensor; });
}

Recording::Before Recording::call_library(Activation& a, Call c) { return pend_call(a, std::move(c)); }

bool Recording::library_function(PyObject* function) const { return row_of(function) != nullptr || is_library_leaf(function); }

ShadowId Recording::tensor_shadow(graph::NodeId node, PyObject* object, ValueRef ref) {
    Shadow s;
    s.kind = Shadow::tensor;
    s.node = node;
    s.ref = ref;
    s.type = Py_TYPE(object);
    python::TensorView view;
    if (python::read_tensor(object, view)) s.requires_grad = view.requires_grad;
    const ShadowId id = add(std::move(s));
    if (is_data(object)) {
        if (PyObject* weak = PyWeakref_NewRef(object, nullptr)) weak_.insert_or_assign(object, Owned<>::steal(weak));
        else PyErr_Clear();
        by_object_[object] = id;
    }
    return id;
}

/// Holds a number, or the numbers among a sequence's items at any depth, to what they are now.
bool Recording::hold_numbers(ShadowId given, PyObject* value) {
    if (!know(given, value)) return false;
    const ShadowId id = canonical(given);
    if (shadows_[id].kind == Shadow::number) return concrete(id, value) != nullptr;
    const bool sequence = PyTuple_CheckExact(value) || PyList_CheckExact(value) || is_named_tuple(value);
    if (!sequence || shadows_[id].kind == Shadow::constant) return true;
    const auto items = items_of(id, value);
    if (!items) return false;
    for (size_t k = 0; k < items->size(); k++)
        if (!hold_numbers((*items)[k], PySequence_Fast_GET_ITEM(value, static_cast<Py_ssize_t>(k)))) return false;
    return true;
}

ShadowId Recording::finish_call(Activation& a, PyObject* result) {
    Call& c = pending_call_;
    pending_activation_ = &a;
    // Functions that may hand an operand back: the operand's own object.
    if (is_data(result) && !(changes_private_ && !c.values.empty() && result == c.values[0]))
        for (size_t k = 0; k < c.values.size(); k++) {
            if (c.values[k] != result) continue;
            bool held = true; // it may hang on a number: dropout by 0.0 is its operand
            for (size_t j = 0; j < c.args.size() && k == 0; j++) held = held && hold_numbers(c.args[j], c.values[j]);
            if (k == 0 && held && (!holds_unsized(c.args[k]) || is_idle(c))) return canonical(c.args[k]);
            end_before(a, c.name + (k == 0 ? " may hand back its operand, by its size" : " hands back an argument that it may have written"), "");
            return 0;
        }
    if (c.row && c.row->lower) {
        BoundArgs bound;
        if (bind(c.row->parameters, c.args, c.values.data(), c.nargs, c.kwnames, bound)) {
            auto node = c.row->lower(*this, bound, c.row->op, span_of(a));
            if (finished_) return 0;
            if (node) {
                const ShadowId id = finish_lowered(a, result, *node);
                if (id || finished_) return id;
            }
            if (!native_reason_.empty()) {
                end_before(a, std::exchange(native_reason_, {}), "");
                return 0;
            }
        }
    }
    if (auto parted = finish_parted(a, result)) return *parted;
    return finish_extern(a, result);
}

/// The result stands on the storage of an operand.
bool Recording::shares_storage(PyObject* result) const {
    python::TensorView mine, other;
    if (!python::read_tensor(result, mine)) return false;
    for (PyObject* v : pending_call_.values)
        if (python::is_tensor_class(Py_TYPE(v)) && python::read_tensor(v, other) && other.storage == mine.storage) return true;
    return false;
}

ShadowId Recording::finish_lowered(Activation& a, PyObject* result, graph::NodeId node, bool checkable) {
    std::vector<int64_t> strides;
    const graph::Type t = type_of(result, &strides);
    const graph::Type& said = builder_.type(node);
    const bool scalar_object = python::numpy_scalar_dtype(result) != DType::none;
    if (t.dtype != said.dtype || t.dims != said.dims || t.domain != said.domain) return 0;
    // What constants make is worked out by the compiler, which raises no flag.
    const graph::OpKind how = graph_kind(node);
    if (said.domain == graph::Domain::numpy && is_float(said.dtype) && how != graph::OpKind::leaf && how != graph::OpKind::movement && !varies(node)) return 0;
    // Integer arithmetic of NumPy scalar objects warns when it overflows; arrays wrap in silence.
    const graph::OpKind kind_of = graph_kind(node);
    if (scalar_object && is_int(t.dtype) && (kind_of == graph::OpKind::unary || kind_of == graph::OpKind::binary)) return 0;
    if (said.domain == graph::Domain::torch && (t.device != said.device)) return 0;
    bool view = false;
    if (!scalar_object && t.numel() == 0 && graph_kind(node) == graph::OpKind::movement && builder_[node].op != graph::Op::cat) {
        // Nothing to overlap with: a view is known by its base.
        python::ArrayView array;
        view = python::read_array(result, array) ? array.base != nullptr : shares_storage(result);
    }
    std::vector<ShadowId> bases;
    if (!scalar_object && t.numel() > 0) {
        const Memory mine = memory_of(result);
        for (size_t k = 0; k < pending_call_.values.size(); k++)
            if (is_data(pending_call_.values[k]) && overlaps(mine, memory_of(pending_call_.values[k]))) bases.push_back(canonical(pending_call_.args[k]));
        view |= !bases.empty();
    }
    if (view && graph_kind(node) != graph::OpKind::movement) return 0;
    python::ArrayView array;
    if (!view && !scalar_object && python::read_array(result, array) && array.base) return 0; // a view of a copy that nobody else has
    if (claimed_.contains(node.index)) node = builder_.duplicate(node);
    // An eager call on the object would see it before the change, which is committed last: such a node goes unchecked.
    bool written = false;
    for (ShadowId id : pending_call_.args) written |= holds_written(id);
    uint32_t twin = 0;
    const bool checked = limits_.twins && checkable && !written;
    if (view || checked) twin = make_extern(pending_call_, view);
    // A view of changed memory is read by its value: the memory has its new elements only after the commit.
    if (view ? !written : checked) builder_.set_twin(node, twin);
    if (finished_) return 0;
    node_strides_.resize(builder_.size());
    node_strides_[node.index] = strides;
    claimed_.insert(node.index);
    segment_.numpy_scalar.resize(builder_.size());
    segment_.numpy_scalar[node.index] = scalar_object;
    if (said.domain == graph::Domain::numpy) segment_.numpy_flags = true;
    tensor_nodes_++;
    line_note(a, "captured", "", "");
    const ShadowId id = tensor_shadow(node, result, {ValueRef::node, node.index});
    if (bases.size() == 1 && follow_view(id, bases[0], twin)) return id;
    if (view && written) {
        end_before(a, "a view of an unusual kind of a tensor that was changed in place", "");
        return 0;
    }
    for (ShadowId base : bases) shadows_[base].viewed = true;
    shadows_[id].viewed = view;
    if (!view && python::is_plain_tensor(result)) shadows_[id].writes = python::version_of(result); // torch's own code fills some results in place
    return id;
}

bool Recording::varies(graph::NodeId node) {
    for (uint32_t k = static_cast<uint32_t>(varies_.size()); k < builder_.size(); k++) {
        const graph::Node& n = builder_[{k}];
        bool any = n.op == graph::Op::input || n.op == graph::Op::scalar || n.op == graph::Op::extern_call;
        for (graph::NodeId operand : n.operands) any = any || varies_[operand.index];
        varies_.push_back(any);
    }
    return varies_[node.index];
}

/// Facts that the guards of a tensor fix. 0: no such fact; `call_needed`: an attribute that is a call (x.T).
ShadowId Recording::attribute_of_tensor(ShadowId id, PyObject* object, PyObject* name, bool& call_needed) {
    static const char* const facts[] = {"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "size", "itemsize", "nbytes", "is_sparse", "is_leaf", "is_quantized", "is_meta",
                                        "is_nested", "is_mkldnn", "is_mps", "is_cpu", "is_complex"};
    static const char* const calls[] = {"T", "mT", "H", "mH", "real", "imag"};
    const char* text = PyUnicode_AsUTF8(name);
    PyTypeObject* type = Py_TYPE(object);
    PyObject* found = _PyType_Lookup(type, name);
    if (!found || Py_TYPE(found) != &PyGetSetDescr_Type) return 0;
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) guard_type_attribute(type, name, found);
    if (at(id).unsized)
        for (const char* sized : {"shape", "size", "nbytes", "ndim"})
            if (std::strcmp(text, sized) == 0) return 0;
    for (const char* fact : facts)
        if (std::strcmp(text, fact) == 0) {
            if (Py_TYPE(object) == names().ndarray || python::is_tensor_class(type) || python::numpy_scalar_dtype(object) != DType::none) {
                auto value = Owned<>::steal(PyObject_GetAttr(object, name));
                if (!value || !is_immutable(value.get())) {
                    PyErr_Clear();
                    return 0;
                }
                return constant(value.get());
            }
        }
    for (const char* call : calls)
        if (std::strcmp(text, call) == 0) {
            // torch warns of transposing what is no matrix.
            python::TensorView view;
            const bool matrices = text[0] == 'm';
            if (std::strlen(text) <= 2 && python::read_tensor(object, view) && (matrices ? view.ndim < 2 : view.ndim != 2)) return 0;
            Call c;
            c.callable = getter_of(found);
            if (!c.callable) return 0;
            c.args = {id};
            c.values = {object};
            c.nargs = 1;
            c.name = std::string(type == names().ndarray ? "numpy.ndarray." : "torch.Tensor.") + text;
            c.row = row_of(c.callable);
            pending_call_ = std::move(c);
            pending_ = PendingKind::call;
            call_needed = true;
            return 0;
        }
    return 0;
}

} // namespace dyno::capture
