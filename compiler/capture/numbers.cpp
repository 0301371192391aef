// Operators: on tensors a library call, on Python numbers a scalar step, on constants the result itself, on instances of
// Python classes a call of their method.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include <algorithm>
#include <cstring>
#include <utility>

namespace dyno::capture {
using bytecode::Op;

namespace {
// By BINARY_OP's number; the in-place ones follow 13 later.
const char* const operator_methods[13] = {"__add__", "__and__", "__floordiv__", "__lshift__", "__matmul__", "__mul__", "__mod__", "__or__", "__pow__", "__rshift__", "__sub__", "__truediv__", "__xor__"};
const char* const reflected_methods[13] = {"__radd__", "__rand__", "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmul__", "__rmod__", "__ror__", "__rpow__", "__rrshift__", "__rsub__", "__rtruediv__", "__rxor__"};
const char* const in_place_functions[13] = {"iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imul", "imod", "ior", "ipow", "irshift", "isub", "itruediv", "ixor"};
const char* const compare_methods[6] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
} // namespace

/// A scalar step whose value can be had before the program runs, or nothing.
Recording::Before Recording::number_operation(Activation& a, ScalarStep step, ShadowId x, ShadowId y, PyObject* result) {
    auto value = Owned<>::steal(result);
    if (!value) {
        PyErr_Clear();
        return stop(a, "an operation on numbers that raises", "");
    }
    if (!PyLong_CheckExact(value.get()) && !PyFloat_CheckExact(value.get()) && !PyBool_Check(value.get())) return stop(a, "numbers of an unusual type", "");
    const ShadowId id = y ? number_step(step, {x, y}, value.get()) : number_step(step, {x}, value.get());
    pend_fixed(id);
    pending_number_ = id;
    return Before::perform;
}

/// The operator of x[mask] += y changes what x[mask] has made: an eager call does.
Recording::Before Recording::change_private(Activation& a, int plain, ShadowId ix, ShadowId iy, PyObject* x, PyObject* y) {
    Call c;
    c.callable = operator_function(in_place_functions[plain]);
    c.args = {ix, iy};
    c.values = {x, y};
    c.nargs = 2;
    changes_private_ = true;
    return pend_call(a, std::move(c));
}

Recording::Before Recording::binary(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject *x = a.sp[-2], *y = a.sp[-1];
    const ShadowId gx = a.shadow(a.sp - 2), gy = a.shadow(a.sp - 1);
    if (!know(gx, x) || !know(gy, y)) return stop_refused(a);
    const ShadowId ix = canonical(gx), iy = canonical(gy);
    const Shadow::Kind kx = shadows_[ix].kind, ky = shadows_[iy].kind;
    const int nb = static_cast<int>(i.arg);
    const bool in_place = nb >= 13;
    if (kx == Shadow::tensor || ky == Shadow::tensor) {
        const ShadowId other = kx == Shadow::tensor ? iy : ix;
        PyObject* other_value = kx == Shadow::tensor ? y : x;
        const Shadow::Kind k = shadows_[other].kind;
        if (k != Shadow::tensor && k != Shadow::number && !(k == Shadow::constant && (PyLong_CheckExact(other_value) || PyFloat_CheckExact(other_value) || PyBool_Check(other_value))))
            return stop(a, std::string("an operator between a tensor and a ") + Py_TYPE(other_value)->tp_name, "");
        const bool scalar_object = kx == Shadow::tensor && segment_.numpy_scalar.size() > shadows_[ix].node.index && segment_.numpy_scalar[shadows_[ix].node.index];
        Call c;
        if (in_place && kx == Shadow::tensor && is_private(ix, x)) return change_private(a, nb - 13, ix, iy, x, y);
        const int plain = in_place ? nb - 13 : nb;
        c.callable = operator_function(plain);
        c.row = row_of(c.callable);
        c.args = {ix, iy};
        c.values = {x, y};
        c.nargs = 2;
        if (in_place && kx == Shadow::tensor && !scalar_object) return in_place_operator(a, std::move(c));
        return pend_call(a, std::move(c));
    }
    const bool numbers = (kx == Shadow::number || kx == Shadow::constant) && (ky == Shadow::number || ky == Shadow::constant);
    if (kx == Shadow::constant && ky == Shadow::constant) return pend_constant();
    auto is_number = [](PyObject* v) { return PyLong_CheckExact(v) || PyFloat_CheckExact(v) || PyBool_Check(v); };
    if (numbers && is_number(x) && is_number(y)) {
        ScalarStep step{};
        step.kind = ScalarStep::binary;
        step.op = in_place ? nb - 13 : nb;
        return number_operation(a, step, ix, iy, PyObject_CallFunctionObjArgs(operator_function(step.op), x, y, nullptr));
    }
    if (nb == 0 && (Py_TYPE(x) == names().torch_size || Py_TYPE(y) == names().torch_size) && PyTuple_Check(x) && PyTuple_Check(y) && fixed_value(ix, x) && fixed_value(iy, y))
        return pend_constant();
    // list + list, tuple + tuple, list * int, str % values of what was made or read here
    if ((PyList_CheckExact(x) && PyList_CheckExact(y)) || (PyTuple_CheckExact(x) && PyTuple_CheckExact(y))) {
        if (nb == 0 || (nb == 13 && PyTuple_CheckExact(x))) {
            auto left = items_of(ix, x);
            if (!left) return stop_refused(a);
            auto right = items_of(iy, y);
            if (!right) return stop_refused(a);
            left->insert(left->end(), right->begin(), right->end());
            const bool list = PyList_CheckExact(x);
            return pend_fixed(fresh(list ? NewObject::list : NewObject::tuple, std::move(*left), list ? &PyList_Type : &PyTuple_Type));
        }
    }
    const bool plain_items = PyList_CheckExact(y) || PyTuple_CheckExact(y) || PyDict_CheckExact(y) || made_deque(iy) || (ky == Shadow::iterator && !is_generator(iy));
    if (nb == 13 && PyList_CheckExact(x) && plain_items && (kx == Shadow::fresh || kx == Shadow::object)) {
        const Before answer = extend_list(a, ix, x, iy, y);
        return answer == Before::perform ? pend_fixed(ix) : answer;
    }
    if (nb == 13 && made_deque(ix)) {
        auto right = items_left(iy, y);
        if (!right) return stop_refused(a);
        for (ShadowId item : *right) push_to_deque(ix, item, false);
        return pend_fixed(ix);
    }
    if (nb == 7 && PyDict_CheckExact(x) && PyDict_CheckExact(y)) { // the right one's values, where both have a key
        const auto left = dict_items(ix, x);
        if (!left) return stop_refused(a);
        const auto right = dict_items(iy, y);
        if (!right) return stop_refused(a);
        const ShadowId merged = fresh(NewObject::dict, *left, &PyDict_Type);
        for (size_t k = 0; k + 1 < right->size(); k += 2)
            if (!set_fresh_dict_item(merged, (*right)[k], (*right)[k + 1])) return stop(a, "a dict key that is not a constant", "");
        return pend_fixed(merged);
    }
    if (nb == 5 && (PyList_CheckExact(x) || PyTuple_CheckExact(x)) && PyLong_CheckExact(y) && concrete(iy, y)) {
        auto items = items_of(ix, x);
        if (!items) return stop_refused(a);
        const long long times = PyLong_AsLongLong(y);
        if (times * static_cast<long long>(items->size()) > 4096) return stop(a, "a list of more than 4,096 items", "");
        std::vector<ShadowId> parts;
        for (long long k = 0; k < times; k++) parts.insert(parts.end(), items->begin(), items->end());
        const bool list = PyList_CheckExact(x);
        return pend_fixed(fresh(list ? NewObject::list : NewObject::tuple, std::move(parts), list ? &PyList_Type : &PyTuple_Type));
    }
    if (!in_place && names().is_plain_instance_type(Py_TYPE(x))) {
        PyObject* found = _PyType_Lookup(Py_TYPE(x), interned(operator_methods[nb]));
        guard_type_attribute(Py_TYPE(x), interned(operator_methods[nb]), found);
        // The right operand's reflected method goes first only if its type is a subclass.
        if (found && PyFunction_Check(found) && !(Py_TYPE(x) != Py_TYPE(y) && PyType_IsSubtype(Py_TYPE(y), Py_TYPE(x)))) {
            identity_object(found);
            return redirect_to(a, found, {ix, iy}, {x, y}, 2, Redirect::identity, redirect);
        }
    }
    if (!in_place && is_number(x) && names().is_plain_instance_type(Py_TYPE(y))) {
        PyObject* found = _PyType_Lookup(Py_TYPE(y), interned(reflected_methods[nb]));
        guard_type_attribute(Py_TYPE(y), interned(reflected_methods[nb]), found);
        if (found && PyFunction_Check(found)) {
            identity_object(found);
            return redirect_to(a, found, {iy, ix}, {y, x}, 2, Redirect::identity, redirect);
        }
    }
    return stop(a, std::string("an operator between a ") + Py_TYPE(x)->tp_name + " and a " + Py_TYPE(y)->tp_name, "");
}

namespace {
/// The largest and the smallest number an element can be; false if anything goes.
bool range_of(DType dtype, Owned<>& low, Owned<>& high) {
    if (is_float(dtype)) {
        const double most = dtype == DType::f16 ? 65504.0 : dtype == DType::bf16 ? 0x1.fep127 : dtype == DType::f32 ? 0x1.fffffep127 : 0.0;
        if (most == 0.0) return false;
        high = Owned<>::steal(PyFloat_FromDouble(most));
        low = Owned<>::steal(PyFloat_FromDouble(-most));
    } else if (is_int(dtype) && size_of(dtype) < 8) {
        const int bits = static_cast<int>(size_of(dtype) * 8);
        high = Owned<>::steal(PyLong_FromLongLong((1LL << (is_signed_int(dtype) ? bits - 1 : bits)) - 1));
        low = Owned<>::steal(PyLong_FromLongLong(is_signed_int(dtype) ? -(1LL << (bits - 1)) : 0));
    }
    return low && high;
}
} // namespace

void Recording::guard_range(ShadowId given, PyObject* value, DType dtype) {
    const ShadowId id = canonical(given);
    Owned<> low, high;
    if (shadows_[id].kind != Shadow::number || !range_of(dtype, low, high)) return;
    const std::pair<int, PyObject*> bounds[] = {{Py_GE, low.get()}, {Py_LE, high.get()}};
    for (auto [op, bound] : bounds)
        if (PyObject_RichCompareBool(value, bound, op) != 1) {
            PyErr_Clear();
            concrete(id, value);
            return;
        }
    for (auto [op, bound] : bounds) {
        ScalarStep step{};
        step.kind = ScalarStep::compare;
        step.op = op;
        Guard g;
        g.kind = Guard::truth;
        g.value = at(number_step(step, {id, constant(bound)}, Py_True)).ref;
        g.expected = 1;
        guard(g);
    }
}

bool Recording::in_range(PyObject* value, DType dtype) {
    Owned<> low, high;
    if (!range_of(dtype, low, high)) return true;
    const bool inside = PyObject_RichCompareBool(value, low.get(), Py_GE) == 1 && PyObject_RichCompareBool(value, high.get(), Py_LE) == 1;
    PyErr_Clear();
    return inside;
}

/// x += y on a tensor or array: its value is replaced.
Recording::Before Recording::in_place_operator(Activation& a, Call c) {
    const ShadowId target = c.args[0];
    PyObject* object = c.values[0];
    return in_place_call(a, std::move(c), target, object);
}
/// The call's result goes into the target, which is what the call returns.
Recording::Before Recording::in_place_call(Activation& a, Call c, ShadowId target, PyObject* object) {
    for (ShadowId id : c.args) {
        const Shadow::Kind kind = shadows_[canonical(id)].kind;
        if (kind != Shadow::tensor && kind != Shadow::number && kind != Shadow::constant) return stop(a, "an in-place operation on unusual operands", "");
    }
    if (needs_autograd(c.args) || needs_autograd({target})) return stop(a, "needs autograd", "call it under torch.no_grad() to have it compiled");
    if (std::string why = unwritable(target); !why.empty()) return stop(a, why, "");
    if (!c.row || !c.row->lower) return stop(a, "an in-place operator that is not lowered", "");
    const SourceSpan from = span_of(a);
    pending_call_ = std::move(c);
    BoundArgs bound;
    if (!bind(pending_call_.row->parameters, pending_call_.args, pending_call_.values.data(), pending_call_.nargs, pending_call_.kwnames, bound)) return stop(a, "an in-place operator on unusual operands", "");
    auto node = pending_call_.row->lower(*this, bound, pending_call_.row->op, from);
    if (!node) return stop(a, native_reason_.empty() ? node.reason() : std::exchange(native_reason_, {}), "");
    const graph::Type was = builder_.type(shadows_[target].node), made = builder_.type(*node);
    if (made.dims != was.dims || made.domain != was.domain || made.device != was.device) return stop(a, "an in-place operator that would change the shape", "");
    if (made.dtype != was.dtype) {
        const bool same_kind = (is_float(made.dtype) && is_float(was.dtype)) || (is_int(made.dtype) && is_int(was.dtype) && is_signed_int(made.dtype) == is_signed_int(was.dtype));
        const graph::OpKind kind = graph_kind(*node);
        if (!same_kind || (kind != graph::OpKind::unary && kind != graph::OpKind::binary && kind != graph::OpKind::ternary)) return stop(a, "an in-place operator that changes the element type", "");
    }
    if (made.domain == graph::Domain::numpy && is_float(made.dtype) && !varies(*node)) return stop(a, "NumPy's own warnings of an operation on constants", "");
    const graph::NodeId value = builder_.cast(*node, was.dtype, from);
    auto root = value_of_root(target, value, from);
    if (!root) return stop(a, root.reason(), "");
    return pend_write(a, target, *root, value, object);
}
/// x.zero_(), x.fill_(y), x.copy_(y), and the fill of arrays.
Recording::Before Recording::fill_method(Activation& a, const Call& c, bool returns_self) {
    const ShadowId target = c.args[0];
    if (needs_autograd(c.args)) return stop(a, "needs autograd", "call it under torch.no_grad() to have it compiled");
    if (std::string why = unwritable(target); !why.empty()) return stop(a, why, "");
    const SourceSpan from = span_of(a);
    const graph::Type type = builder_.type(shadows_[target].node);
    graph::NodeId value;
    if (c.args.size() == 1) {
        value = builder_.cast(builder_.constant_integer(0, DType::i64, type.domain, from), type.dtype, from);
    } else {
        if (is_tensor(c.args[1]) && root_of(c.args[1]) == root_of(target)) return stop(a, "a store into memory that is read at the same time", "");
        auto stored = stored_value(c.args[1], c.values[1], type, from);
        if (!stored) return stop(a, stored.reason(), "");
        value = *stored;
        auto common = graph::broadcast_dims(builder_.type(value).dims, type.dims);
        if (!common || *common != type.dims) return stop(a, "a store of another shape", "");
    }
    value = builder_.spread(value, type, from);
    auto root = value_of_root(target, value, from);
    if (!root) return stop(a, root.reason(), "");
    return pend_write(a, target, *root, value, returns_self ? c.values[0] : nullptr);
}
/// x.add_(y): the method without the underscore, its value put in x's place.
bool Recording::in_place_method(Activation& a, Call& c, Before& answer) {
    if (Py_TYPE(c.callable) != &PyMethodDescr_Type || c.args.empty()) return false;
    auto* d = reinterpret_cast<PyMethodDescrObject*>(c.callable);
    if (names().ndarray && d->d_common.d_type == names().ndarray && !c.kwnames && c.nargs == 2 && std::strcmp(d->d_method->ml_name, "fill") == 0) {
        if (!know(c.args[0], c.values[0]) || !know(c.args[1], c.values[1])) return answer = stop_refused(a), true;
        for (ShadowId& id : c.args) id = canonical(id);
        if (shadows_[c.args[0]].kind != Shadow::tensor || Py_TYPE(c.values[0]) != names().ndarray) return false;
        answer = fill_method(a, c, false);
        return true;
    }
    if (!names().tensor_base || d->d_common.d_type != names().tensor_base) return false;
    const std::string name = d->d_method->ml_name;
    if (name.size() < 2 || name.back() != '_' || name[name.size() - 2] == '_') return false;
    if (!c.kwnames && ((name == "zero_" && c.nargs == 1) || ((name == "fill_" || name == "copy_") && c.nargs == 2))) {
        for (size_t k = 0; k < c.args.size(); k++)
            if (!know(c.args[k], c.values[k])) return answer = stop_refused(a), true;
        for (ShadowId& id : c.args) id = canonical(id);
        if (shadows_[c.args[0]].kind != Shadow::tensor || (name == "copy_" && shadows_[c.args[1]].kind != Shadow::tensor)) return false;
        answer = fill_method(a, c, true);
        return true;
    }
    PyObject* plain = _PyType_Lookup(names().tensor, interned(name.substr(0, name.size() - 1).c_str()));
    static const char* const called[] = {"scatter_", "scatter_add_", "scatter_reduce_", "index_add_", "index_copy_", "index_fill_", "index_reduce_", "index_put_",
                                         "masked_scatter_", "put_", "cumsum_", "cumprod_"};
    const bool by_call = plain && std::any_of(std::begin(called), std::end(called), [&](const char* one) { return name == one; });
    const CallRow* row = plain ? row_of(plain) : nullptr;
    if (by_call && !row) {
        for (size_t k = 0; k < c.args.size(); k++)
            if (!know_deep(c.args[k], c.values[k])) return answer = stop_refused(a), true;
        for (ShadowId& id : c.args) id = canonical(id);
        if (shadows_[c.args[0]].kind != Shadow::tensor || shadows_[c.args[0]].unsized) return false;
        c.callable = plain;
        c.name = "torch.Tensor." + name.substr(0, name.size() - 1);
        const ShadowId target = c.args[0];
        PyObject* object = c.values[0];
        answer = in_place_extern(a, std::move(c), target, object);
        return true;
    }
    const graph::OpKind kind = row ? graph::info(row->op).kind : graph::OpKind::extern_;
    if (!row || (kind != graph::OpKind::unary && kind != graph::OpKind::binary && kind != graph::OpKind::ternary)) return false;
    for (size_t k = 0; k < c.args.size(); k++)
        if (!know(c.args[k], c.values[k])) return answer = stop_refused(a), true;
    for (ShadowId& id : c.args) id = canonical(id);
    if (shadows_[c.args[0]].kind != Shadow::tensor) return false;
    c.row = row;
    c.name = "torch.Tensor." + name;
    answer = in_place_operator(a, std::move(c));
    return true;
}

Recording::Before Recording::compare(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject *x = a.sp[-2], *y = a.sp[-1];
    const ShadowId gx = a.shadow(a.sp - 2), gy = a.shadow(a.sp - 1);
    if (!know(gx, x) || !know(gy, y)) return stop_refused(a);
    const ShadowId ix = canonical(gx), iy = canonical(gy);
    const Shadow::Kind kx = shadows_[ix].kind, ky = shadows_[iy].kind;
    const int op = static_cast<int>(i.arg & 0xff);
    if (kx == Shadow::tensor || ky == Shadow::tensor) {
        if (i.arg & bytecode::to_bool_bit) return stop(a, "the branch depends on tensor data", "use torch.where or numpy.where to keep both sides in one graph");
        const ShadowId other = kx == Shadow::tensor ? iy : ix;
        const Shadow::Kind k = shadows_[other].kind;
        PyObject* other_value = kx == Shadow::tensor ? y : x;
        if (k != Shadow::tensor && k != Shadow::number && !(k == Shadow::constant && (PyLong_CheckExact(other_value) || PyFloat_CheckExact(other_value) || PyBool_Check(other_value))))
            return stop(a, std::string("a comparison of a tensor with a ") + Py_TYPE(other_value)->tp_name, "");
        Call c;
        c.callable = compare_function(op);
        c.row = row_of(c.callable);
        c.args = {ix, iy};
        c.values = {x, y};
        c.nargs = 2;
        return pend_call(a, std::move(c));
    }
    auto value_known = [&](ShadowId id) { return shadows_[id].kind == Shadow::constant || shadows_[id].identity; };
    if (value_known(ix) && value_known(iy)) return pend_constant();
    auto is_number = [](PyObject* v) { return PyLong_CheckExact(v) || PyFloat_CheckExact(v) || PyBool_Check(v); };
    if (is_number(x) && is_number(y) && (kx == Shadow::number || ky == Shadow::number)) {
        ScalarStep step{};
        step.kind = ScalarStep::compare;
        step.op = op;
        return number_operation(a, step, ix, iy, PyObject_RichCompare(x, y, op));
    }
    if (PyTuple_Check(x) && PyTuple_Check(y) && (Py_TYPE(x) == names().torch_size || Py_TYPE(y) == names().torch_size) && fixed_value(ix, x) && fixed_value(iy, y)) return pend_constant();
    // Numbers, strings, None, functions against one another: types are guarded, so the answer of == is fixed by the types.
    const bool equality = op == Py_EQ || op == Py_NE;
    auto simple = [&](PyObject* v, ShadowId id) { return is_number(v) || v == Py_None || PyUnicode_CheckExact(v) || shadows_[id].identity || names().is_value_type(Py_TYPE(v)); };
    if (equality && simple(x, ix) && simple(y, iy) && Py_TYPE(x) != Py_TYPE(y)) return pend_constant();
    // A builtin container is equal to nothing of another kind, whatever is in it.
    auto container = [](PyObject* v) { return PyList_CheckExact(v) || PyTuple_CheckExact(v) || PyDict_CheckExact(v); };
    auto known_kind = [&](PyObject* v, ShadowId id) { return container(v) || simple(v, id); };
    if (equality && (container(x) || container(y)) && known_kind(x, ix) && known_kind(y, iy) && Py_TYPE(x) != Py_TYPE(y)) return pend_constant();
    if (equality && (PyTuple_CheckExact(x) || PyList_CheckExact(x)) && Py_TYPE(x) == Py_TYPE(y)) {
        // Shapes as tuples and lists of known values.
        auto left = items_of(ix, x);
        if (!left) return stop_refused(a);
        auto right = items_of(iy, y);
        if (!right) return stop_refused(a);
        for (size_t k = 0; k < left->size(); k++)
            if (!key_of((*left)[k], PySequence_Fast_GET_ITEM(x, static_cast<Py_ssize_t>(k)))) return stop(a, "a comparison of sequences of run-time values", "");
        for (size_t k = 0; k < right->size(); k++)
            if (!key_of((*right)[k], PySequence_Fast_GET_ITEM(y, static_cast<Py_ssize_t>(k)))) return stop(a, "a comparison of sequences of run-time values", "");
        return pend_constant();
    }
    if (names().is_plain_instance_type(Py_TYPE(x)) && !(i.arg & bytecode::to_bool_bit)) {
        PyObject* found = _PyType_Lookup(Py_TYPE(x), interned(compare_methods[op]));
        guard_type_attribute(Py_TYPE(x), interned(compare_methods[op]), found);
        if (found && PyFunction_Check(found) && !(Py_TYPE(x) != Py_TYPE(y) && PyType_IsSubtype(Py_TYPE(y), Py_TYPE(x)))) {
            identity_object(found);
            return redirect_to(a, found, {ix, iy}, {x, y}, 2, Redirect::identity, redirect);
        }
    }
    return stop(a, std::string("a comparison of a ") + Py_TYPE(x)->tp_name + " with a " + Py_TYPE(y)->tp_name, "");
}

Recording::Before Recording::unary(Activation& a, const Instruction& i, Redirect& redirect) {
    (void)redirect;
    PyObject* x = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 1);
    if (!know(given, x)) return stop_refused(a);
    const ShadowId id = canonical(given);
    const Shadow::Kind kind = shadows_[id].kind;
    if (kind == Shadow::constant) return pend_constant();
    if (kind == Shadow::tensor) {
        if (i.op == Op::logical_not || i.op == Op::to_bool) return stop(a, "the branch depends on tensor data", "use torch.where or numpy.where to keep both sides in one graph");
        Call c;
        c.callable = unary_function(static_cast<int>(i.op));
        c.row = row_of(c.callable);
        c.args = {id};
        c.values = {x};
        c.nargs = 1;
        return pend_call(a, std::move(c));
    }
    if (kind == Shadow::number) {
        ScalarStep step{};
        step.kind = i.op == Op::negative ? ScalarStep::negative : i.op == Op::positive ? ScalarStep::positive : i.op == Op::invert ? ScalarStep::invert
                    : i.op == Op::logical_not ? ScalarStep::not_ : ScalarStep::to_bool;
        PyObject* result = nullptr;
        if (i.op == Op::logical_not || i.op == Op::to_bool) {
            const int t = PyObject_IsTrue(x);
            if (t >= 0) result = Py_NewRef((t != 0) == (i.op == Op::to_bool) ? Py_True : Py_False);
        } else result = i.op == Op::negative ? PyNumber_Negative(x) : i.op == Op::positive ? PyNumber_Positive(x) : PyNumber_Invert(x);
        return number_operation(a, step, id, 0, result);
    }
    if (i.op == Op::logical_not || i.op == Op::to_bool) {
        if (auto answer = truth_of_container(a, id, x)) return *answer;
        if (shadows_[id].identity && (PyFunction_Check(x) || PyType_Check(x) || PyModule_Check(x) || PyCFunction_Check(x))) return pend_constant();
        if (names().is_plain_instance_type(Py_TYPE(x)) && !_PyType_Lookup(Py_TYPE(x), interned("__bool__")) && !_PyType_Lookup(Py_TYPE(x), interned("__len__"))) {
            guard_type_attribute(Py_TYPE(x), interned("__bool__"), nullptr);
            guard_type_attribute(Py_TYPE(x), interned("__len__"), nullptr);
            return pend_constant();
        }
    }
    return stop(a, std::string("an operator on a ") + Py_TYPE(x)->tp_name, "");
}

Recording::Before Recording::is_op(Activation& a, const Instruction& i) {
    (void)i;
    PyObject *x = a.sp[-2], *y = a.sp[-1];
    const ShadowId gx = a.shadow(a.sp - 2), gy = a.shadow(a.sp - 1);
    if (!know(gx, x) || !know(gy, y)) return stop_refused(a);
    const ShadowId ix = canonical(gx), iy = canonical(gy);
    if (ix == iy) return pend_constant();
    auto singleton = [](PyObject* v) { return v == Py_None || v == Py_True || v == Py_False || v == Py_Ellipsis || v == Py_NotImplemented; };
    // Against a singleton: the other's type is guarded, or it is the singleton.
    if (singleton(x) || singleton(y)) return pend_constant();
    if (Py_TYPE(x) != Py_TYPE(y)) return pend_constant();
    auto by_identity = [&](ShadowId id) { return shadows_[id].identity; };
    if (by_identity(ix) && by_identity(iy)) return pend_constant();
    // Objects made here differ from every other object.
    const Shadow &sx = shadows_[ix], &sy = shadows_[iy];
    auto made_here = [](const Shadow& s) { return s.kind == Shadow::fresh || (s.kind == Shadow::tensor && s.source == Guard::none_); };
    const bool scalars = (sx.kind == Shadow::tensor && !PyObject_TypeCheck(x, names().ndarray ? names().ndarray : &PyLong_Type) && sx.type != names().tensor) || sx.kind == Shadow::number || sx.kind == Shadow::constant;
    if (!scalars && (made_here(sx) || made_here(sy)) && x != y) return pend_constant();
    if (sx.kind == Shadow::object && sy.kind == Shadow::object && sx.source != Guard::none_ && sy.source != Guard::none_) {
        Guard g;
        g.kind = x == y ? Guard::same : Guard::distinct;
        g.source = sx.source;
        g.other = sy.source;
        guard(g);
        return pend_constant();
    }
    return stop(a, "an identity test of values whose identity is not fixed", "");
}

Recording::Before Recording::format_value(Activation& a, const Instruction& i) {
    const int count = i.op == Op::build_string ? static_cast<int>(i.arg) : i.op == Op::format_value && (i.arg & 4) ? 2 : i.op == Op::format_spec ? 2 : 1;
    for (int k = 1; k <= count; k++) {
        const ShadowId given = a.shadow(a.sp - k);
        if (!know(given, a.sp[-k])) return stop_refused(a);
        if (shadows_[canonical(given)].kind != Shadow::constant) return stop(a, "text is made of run-time values", "");
    }
    return pend_constant();
}

} // namespace dyno::capture
