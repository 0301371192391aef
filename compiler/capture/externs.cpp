// Eager calls that stay in the graph: how a replay makes them, which of their results are followed, and how.
#include "compiler/capture/data_memory.h"
#include "compiler/capture/lowerings.h"
#include "compiler/capture/recording.h"
#include "compiler/python/ambient.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace dyno::capture {

uint32_t Recording::make_extern(const Call& c, bool view) {
    ExternTemplate t;
    t.callable = Owned<>::borrow(c.callable);
    t.kwnames = Owned<>::borrow(c.kwnames);
    std::vector<graph::NodeId> uses;
    std::set<ShadowId> seen; // values may hold themselves
    auto collect = [&](auto& self, ShadowId given) -> void {
        if (!seen.insert(canonical(given)).second) return;
        const Shadow& s = at(given);
        if (s.kind == Shadow::tensor) uses.push_back(s.as_object.valid() ? s.as_object : s.node);
        if (s.kind == Shadow::fresh || s.kind == Shadow::outcome)
            for (ShadowId p : std::vector<ShadowId>(s.parts))
                if (p) self(self, p);
        for (ShadowId item : items_read(canonical(given))) self(self, item);
    };
    for (ShadowId id : c.args) {
        t.args.push_back(ref_of(id));
        if (t.args.back().kind == ValueRef::none) discard(refusal_);
        collect(collect, id);
    }
    std::sort(uses.begin(), uses.end());
    uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
    const uint32_t index = builder_.add_extern(c.name, std::move(uses), view);
    bool of_numpy = c.name.rfind("numpy", 0) == 0;
    for (graph::NodeId use : builder_.graph().externs[index].uses) of_numpy |= builder_.type(use).domain == graph::Domain::numpy;
    if (of_numpy) segment_.numpy_externs = true;
    std::string unused;
    if (!c.row && purity_of(c.callable, unused) == Purity::random && !is_idle(c)) t.draws = of_numpy ? ExternTemplate::numpy_numbers : ExternTemplate::torch_numbers;
    if (python::grad_enabled() != grad_at_start_) t.grad_mode = python::grad_enabled();
    segment_.externs.push_back(std::move(t));
    return index;
}

/// Whether the size of a tensor or array that the pending call made may be another next time.
bool Recording::is_unsized(const Call& c, PyObject* result) {
    const graph::Type t = type_of(result, nullptr);
    if (!is_data(result)) return false;
    // So many of each: the size follows from the number, which is held.
    bool repeats = c.name.ends_with(".repeat_interleave") && c.args.size() > 1;
    for (size_t k = 1; k < c.args.size() && repeats; k++) repeats = c.values[k] == Py_None || (PyLong_CheckExact(c.values[k]) && concrete(c.args[k], c.values[k]));
    if (t.dtype == DType::none || (data_dependent_shape(c.name) && !repeats)) return true;
    if (c.row && c.row->lower == lower::where && c.args.size() == 1) return true;
    if (c.row && c.row->lower == lower::getitem && c.args.size() == 2 && selects_by_mask(c.args[1], c.values[1])) return true;
    for (ShadowId id : c.args)
        if (holds_unsized(id)) return !t.dims.empty();
    return false;
}
/// A library call that draws from torch's or NumPy's global generator, on the CPU: a replay may make it, in its order.
bool Recording::may_draw(const Call& c) const {
    for (Py_ssize_t k = 0; c.kwnames && k < PyTuple_GET_SIZE(c.kwnames); k++)
        for (const char* word : {"generator", "device"})
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c.kwnames, k), word) == 0 && c.values[c.nargs + static_cast<size_t>(k)] != Py_None) return false;
    for (ShadowId id : c.args)
        if (is_tensor(id) && builder_.type(shadows_[canonical(id)].node).device != graph::DeviceKind::cpu) return false;
    return true;
}

ShadowId Recording::extern_value(uint32_t external, int item, PyObject* value, graph::NodeId call, bool unsized) {
    std::vector<int64_t> strides;
    const graph::Type t = type_of(value, &strides);
    Outcome outcome{};
    outcome.external = external;
    outcome.item = item;
    outcome.type = Py_TYPE(value);
    if (unsized) {
        const ShadowId id = tensor_shadow(call, value, {ValueRef::outcome, static_cast<uint32_t>(segment_.outcomes.size())});
        shadows_[id].unsized = true;
        outcome.is_view = changes_private_; // the operand itself, empty or not
        const Memory mine = memory_of(value);
        const CallRow* row = pending_call_.row;
        const bool chosen = row && row->lower == lower::getitem && pending_call_.args.size() == 2 && selects_by_mask(pending_call_.args[1], pending_call_.values[1]); // a copy, empty or not
        for (size_t k = 0; k < pending_call_.values.size() && !chosen; k++)
            if (is_data(pending_call_.values[k]) && (!mine.first || overlaps(mine, memory_of(pending_call_.values[k])))) outcome.is_view = at(pending_call_.args[k]).viewed = shadows_[id].viewed = true;
        segment_.externs[external].results.push_back(static_cast<uint32_t>(segment_.outcomes.size()));
        segment_.outcomes.push_back(std::move(outcome));
        return id;
    }
    if (t.dtype != DType::none) {
        const graph::NodeId node = item < 0 ? call : builder_.extern_result(call, item, t);
        outcome.node = node;
        outcome.strides = strides;
        node_strides_.resize(builder_.size());
        node_strides_[node.index] = strides;
        claimed_.insert(node.index);
        segment_.numpy_scalar.resize(builder_.size());
        segment_.numpy_scalar[node.index] = python::numpy_scalar_dtype(value) != DType::none;
        const ShadowId id = tensor_shadow(node, value, {ValueRef::node, node.index});
        if (python::is_plain_tensor(value)) {
            shadows_[id].made_at = python::version_of(value);
            const auto base = Owned<>::steal(PyObject_GetAttrString(value, "_base"));
            if (!base) PyErr_Clear();
            shadows_[id].viewed = base.get() != Py_None; // its memory is another tensor's, whoever has that
        }
        if (is_data(value)) {
            const Memory mine = memory_of(value);
            for (size_t k = 0; k < pending_call_.values.size(); k++)
                if (is_data(pending_call_.values[k]) && overlaps(mine, memory_of(pending_call_.values[k]))) {
                    outcome.is_view = true;
                    at(pending_call_.args[k]).viewed = true;
                    shadows_[id].viewed = true;
                }
        }
        segment_.externs[external].results.push_back(static_cast<uint32_t>(segment_.outcomes.size()));
        segment_.outcomes.push_back(std::move(outcome));
        return id;
    }
    Shadow s;
    s.type = Py_TYPE(value);
    s.ref = {ValueRef::outcome, static_cast<uint32_t>(segment_.outcomes.size())};
    if (PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value)) s.kind = Shadow::number;
    else return 0;
    segment_.externs[external].results.push_back(static_cast<uint32_t>(segment_.outcomes.size()));
    segment_.outcomes.push_back(std::move(outcome));
    return add(std::move(s));
}

ShadowId Recording::finish_extern(Activation& a, PyObject* result) {
    Call& c = pending_call_;
    auto refuse_result = [&](const std::string& why) -> ShadowId {
        end_before(a, why, "");
        return 0;
    };
    const bool sequence = PyTuple_Check(result) || PyList_CheckExact(result);
    graph::Type first = type_of(result, nullptr);
    const bool number = PyFloat_CheckExact(result) || PyLong_CheckExact(result) || PyBool_Check(result);
    for (ShadowId id : c.args) // an eager call would see the object before its change, which is committed last
        if (holds_written(id)) return refuse_result("a tensor that was changed in place is used by a library call");
    if (first.dtype == DType::none && !number && !sequence && !is_data(result)) {
        // Immutable answers about static facts (dtype, device) are constants; None means an effect.
        if (result != Py_None && is_immutable(result) && !PyUnicode_CheckExact(result)) return constant(result);
        return refuse_result(c.name + " returns a " + Py_TYPE(result)->tp_name);
    }
    if (PyTuple_CheckExact(result) && all_constant(c)) { // torch._C._nn._parse_to(device, dtype): constants of constants
        std::vector<ShadowId> parts;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(result); k++) {
            PyObject* item = PyTuple_GET_ITEM(result, k);
            if (is_immutable(item) && !is_data(item)) parts.push_back(constant(item));
        }
        if (static_cast<Py_ssize_t>(parts.size()) == PyTuple_GET_SIZE(result)) return fresh(NewObject::tuple, std::move(parts), &PyTuple_Type);
    }
    if (sequence)
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(result); k++) {
            PyObject* item = PySequence_Fast_GET_ITEM(result, k);
            if (type_of(item, nullptr).dtype == DType::none && !is_data(item) && !PyLong_CheckExact(item) && !PyFloat_CheckExact(item) && !PyBool_Check(item))
                return refuse_result(c.name + " returns a sequence of other things than tensors");
        }
    if (sequence && PySequence_Fast_GET_SIZE(result) == 0) return refuse_result(c.name + " returns an empty sequence");
    const uint32_t external = make_extern(c, false);
    if (discarded_) return refuse_result("an argument of " + c.name + " cannot be named");
    if (sequence) first = type_of(PySequence_Fast_GET_ITEM(result, 0), nullptr);
    if (first.dtype == DType::none) {
        first.dtype = PyFloat_CheckExact(result) ? DType::f64 : DType::i64;
        first.domain = Py_TYPE(result) == names().ndarray ? graph::Domain::numpy : graph::Domain::torch;
    }
    const graph::NodeId call = builder_.extern_call(external, first, span_of(a));
    node_strides_.resize(builder_.size());
    node_strides_[call.index] = graph::row_major(first.dims); // of what nobody but other calls reads
    tensor_nodes_++;
    line_note(a, "captured", "", "");
    if (!sequence) {
        const ShadowId id = extern_value(external, -1, result, call, is_unsized(c, result));
        return id ? id : refuse_result(c.name + " returns a value that is not followed");
    }
    std::vector<ShadowId> parts;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(result); k++) {
        PyObject* part = PySequence_Fast_GET_ITEM(result, k);
        const ShadowId id = extern_value(external, static_cast<int>(k), part, call, is_unsized(c, part));
        if (!id) return refuse_result(c.name + " returns a value that is not followed");
        parts.push_back(id);
    }
    if (PyTuple_CheckExact(result)) return fresh(NewObject::tuple, std::move(parts), &PyTuple_Type);
    if (PyList_CheckExact(result)) return fresh(NewObject::list, std::move(parts), &PyList_Type);
    Shadow s;
    s.kind = Shadow::outcome;
    s.type = Py_TYPE(result);
    s.parts = std::move(parts);
    s.ref = {ValueRef::outcome, static_cast<uint32_t>(segment_.outcomes.size())};
    Outcome whole{};
    whole.external = external;
    whole.type = Py_TYPE(result);
    segment_.externs[external].results.push_back(static_cast<uint32_t>(segment_.outcomes.size()));
    segment_.outcomes.push_back(std::move(whole));
    return add(std::move(s));
}

} // namespace dyno::capture
