// Values of a replay: what a ValueRef stands for, as an object. Numbers are computed, new objects built when first asked for.
#include "compiler/frame/frame_state.h"
#include "compiler/python/array.h"
#include "compiler/python/make_tensor.h"
#include "compiler/python/tensor.h"
#include "compiler/replay/run_state.h"
#include "compiler/support/check.h"
#include <bit>
#include <cstring>

namespace dyno::replay {

using capture::NewObject;
using capture::ScalarStep;

namespace {

/// The result of a C API call that gives a new reference.
PyObject* must(PyObject* made) {
    if (!made) throw ComputeFailed();
    return made;
}

PyObject* binary(int op, PyObject* a, PyObject* b) {
    switch (op % 13) { // the in-place forms follow in the same order
    case 0: return PyNumber_Add(a, b);
    case 1: return PyNumber_And(a, b);
    case 2: return PyNumber_FloorDivide(a, b);
    case 3: return PyNumber_Lshift(a, b);
    case 4: return PyNumber_MatrixMultiply(a, b);
    case 5: return PyNumber_Multiply(a, b);
    case 6: return PyNumber_Remainder(a, b);
    case 7: return PyNumber_Or(a, b);
    case 8: return PyNumber_Power(a, b, Py_None);
    case 9: return PyNumber_Rshift(a, b);
    case 10: return PyNumber_Subtract(a, b);
    case 11: return PyNumber_TrueDivide(a, b);
    default: return PyNumber_Xor(a, b);
    }
}

PyObject* truth_object(int truth) { return truth < 0 ? nullptr : PyBool_FromLong(truth); }

PyObject* scalar_step(const ScalarStep& step, PyObject* a, PyObject* b, PyObject* callable) {
    switch (step.kind) {
    case ScalarStep::binary: return binary(step.op, a, b);
    case ScalarStep::compare: return PyObject_RichCompare(a, b, step.op);
    case ScalarStep::negative: return PyNumber_Negative(a);
    case ScalarStep::positive: return PyNumber_Positive(a);
    case ScalarStep::invert: return PyNumber_Invert(a);
    case ScalarStep::abs: return PyNumber_Absolute(a);
    case ScalarStep::to_float: return PyNumber_Float(a);
    case ScalarStep::to_int: return PyNumber_Long(a);
    case ScalarStep::to_bool: return truth_object(PyObject_IsTrue(a));
    case ScalarStep::not_: return truth_object(PyObject_Not(a));
    case ScalarStep::call: {
        PyObject* args[3] = {nullptr, a, b};
        return PyObject_Vectorcall(callable, args + 1, (b ? 2 : 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    }
    }
    return nullptr;
}

PyObject* make_function(RunState& run, const std::vector<ValueRef>& parts) {
    auto part = [&](size_t i) { return i < parts.size() ? run.value_or_null(parts[i]) : nullptr; };
    PyObject* code = part(0);
    auto made = Owned<>::steal(must(PyFunction_New(code, part(1))));
    auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
    auto put = [](PyObject*& field, PyObject* value) {
        if (value) Py_SETREF(field, Py_NewRef(value));
    };
    put(function->func_qualname, part(2));
    auto fill = [](PyObject*& field, PyObject* value) {
        if (value) Py_XSETREF(field, Py_NewRef(value));
    };
    fill(function->func_defaults, part(3));
    fill(function->func_kwdefaults, part(4));
    fill(function->func_closure, part(5));
    fill(function->func_annotations, part(6));
#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000
    function->func_version = reinterpret_cast<PyCodeObject*>(code)->co_version; // as MAKE_FUNCTION does
#endif
    return made.release();
}

PyObject* make_iterator(PyObject* iterable, int64_t position) {
    auto made = Owned<>::steal(must(PyObject_GetIter(iterable)));
    for (int64_t i = 0; i < position; ++i) {
        Owned<>::steal(PyIter_Next(made.get())).reset();
        if (PyErr_Occurred()) throw ComputeFailed();
    }
    return made.release();
}

/// An empty OrderedDict, defaultdict or Counter, or a deque of at most `bound` items (-1: of any number).
PyObject* empty_collection(PyTypeObject* type, int64_t bound) {
    auto nothing = Owned<>::steal(must(PyTuple_New(0)));
    if (PyType_IsSubtype(type, &PyDict_Type)) return must(type->tp_new(type, nothing.get(), nullptr));
    auto most = bound < 0 ? Owned<>::borrow(Py_None) : Owned<>::steal(must(PyLong_FromLongLong(bound)));
    return must(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(type), nothing.get(), most.get(), nullptr));
}

PyObject* make_collection(RunState& run, const NewObject& plan, PyObject*& place) {
    auto* type = reinterpret_cast<PyTypeObject*>(run.plan.anchors.objects()[plan.type]);
    place = empty_collection(type, plan.position);
    size_t i = 0;
    if (plan.kind == NewObject::list) {
        auto append = Owned<>::steal(must(PyObject_GetAttrString(place, "append")));
        for (; i < plan.parts.size(); ++i) Owned<>::steal(must(PyObject_CallOneArg(append.get(), run.value(plan.parts[i])))).reset();
        return place;
    }
    if (plan.parts.size() % 2 && PyObject_SetAttrString(place, "default_factory", run.value(plan.parts[i++])) < 0) throw ComputeFailed();
    const auto set = PyODict_Check(place) ? PyODict_SetItem : PyDict_SetItem;
    for (; i + 1 < plan.parts.size(); i += 2)
        if (set(place, run.value(plan.parts[i]), run.value(plan.parts[i + 1])) < 0) throw ComputeFailed();
    return place;
}

/// Containers are stored before their parts are made: a part may refer back to them.
PyObject* make_container(RunState& run, const NewObject& plan, PyObject*& place) {
    const auto n = static_cast<Py_ssize_t>(plan.parts.size());
    if (plan.type != nowhere && (plan.kind == NewObject::list || plan.kind == NewObject::dict)) return make_collection(run, plan, place);
    switch (plan.kind) {
    case NewObject::tuple:
        place = must(PyTuple_New(n));
        for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(place, i, Py_NewRef(run.value(plan.parts[i])));
        if (plan.type != nowhere) { // of a named tuple's class
            auto items = Owned<>::steal(std::exchange(place, nullptr));
            auto arguments = Owned<>::steal(must(PyTuple_Pack(1, items.get())));
            place = must(PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(run.plan.anchors.objects()[plan.type]), arguments.get(), nullptr));
        }
        return place;
    case NewObject::list:
        place = must(PyList_New(0)); // appended to, so that a collection never meets a null item
        for (const ValueRef& part : plan.parts)
            if (PyList_Append(place, run.value(part)) < 0) throw ComputeFailed();
        return place;
    case NewObject::dict:
        place = must(PyDict_New());
        for (Py_ssize_t i = 0; i + 1 < n; i += 2)
            if (PyDict_SetItem(place, run.value(plan.parts[i]), run.value(plan.parts[i + 1])) < 0) throw ComputeFailed();
        return place;
    case NewObject::set:
        place = must(PySet_New(nullptr));
        for (const ValueRef& part : plan.parts)
            if (PySet_Add(place, run.value(part)) < 0) throw ComputeFailed();
        return place;
    case NewObject::cell:
        place = must(PyCell_New(nullptr));
        if (n) PyCell_SET(place, Py_XNewRef(run.value_or_null(plan.parts[0])));
        return place;
    default: {
        auto* type = reinterpret_cast<PyTypeObject*>(run.plan.anchors.objects()[plan.type]);
        auto nothing = Owned<>::steal(must(PyTuple_New(0)));
        place = must(PyBaseObject_Type.tp_new(type, nothing.get(), nullptr));
        for (Py_ssize_t i = 0; i + 1 < n; i += 2)
            if (PyObject_GenericSetAttr(place, run.value(plan.parts[i]), run.value(plan.parts[i + 1])) < 0) throw ComputeFailed();
        return place;
    }
    }
}

PyObject* make_new(RunState& run, const NewObject& plan, PyObject*& place) {
    auto part = [&](size_t i) { return i < plan.parts.size() ? run.value_or_null(plan.parts[i]) : nullptr; };
    switch (plan.kind) {
    case NewObject::slice: return place = must(PySlice_New(part(0), part(1), part(2)));
    case NewObject::function: return place = make_function(run, plan.parts);
    case NewObject::method: return place = must(PyMethod_New(part(0), part(1)));
    case NewObject::range:
        return place = must(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyRange_Type), part(0), part(1), part(2), nullptr));
    case NewObject::list_iterator: case NewObject::tuple_iterator: case NewObject::range_iterator:
        return place = make_iterator(run.value(plan.parts.at(0)), plan.position);
    case NewObject::called: { // dict.values, enumerate, zip, reversed of builtin containers: no user code
        std::vector<PyObject*> args;
        for (const ValueRef& part : plan.parts) args.push_back(run.value(part));
        PyObject* callable = run.plan.anchors.objects()[plan.type];
        PyObject* names = plan.kwnames < run.plan.segment.constants.size() ? run.plan.segment.constants[plan.kwnames].get() : nullptr;
        const size_t positional = args.size() - (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
        const frame::Quiet quiet; // a library's Python
        auto made = Owned<>::steal(must(PyObject_Vectorcall(callable, args.data(), positional, names)));
        return place = plan.position < 0 ? made.release() : make_iterator(made.get(), plan.position);
    }
    default: return make_container(run, plan, place);
    }
}

PyObject* make_array_or_tensor(const fusion::Buffer& buffer, const graph::Type& type) {
    const int ndim = static_cast<int>(buffer.dims.size());
    if (type.domain == graph::Domain::torch) {
        const bool cuda = type.device == graph::DeviceKind::cuda;
        const python::Device device{static_cast<uint8_t>(cuda), cuda ? type.device_index : int8_t{-1}};
        return must(python::make_tensor(buffer.dtype, device, ndim, buffer.dims.data(), buffer.strides.data()));
    }
    int64_t bytes[64];
    DYNO_CHECK(ndim <= 64, "an array of more than 64 axes");
    for (int i = 0; i < ndim; ++i) bytes[i] = buffer.strides[i] * size_of(buffer.dtype);
    return must(python::make_array(buffer.dtype, ndim, buffer.dims.data(), bytes));
}

} // namespace

PyObject* RunState::value(const ValueRef& ref) {
    PyObject* found = nullptr;
    switch (ref.kind) {
    case ValueRef::none: break;
    case ValueRef::constant: found = plan.segment.constants.at(ref.index).get(); break;
    case ValueRef::source: found = sources[ref.index]; break;
    case ValueRef::node: return object(plan.object_of_original(ref.index));
    case ValueRef::scalar: return scalar(ref.index);
    case ValueRef::fresh: return fresh(ref.index);
    case ValueRef::outcome: found = outcomes[ref.index]; break;
    }
    if (!found) throw ComputeFailed();
    return found;
}

PyObject* RunState::object(uint32_t index) {
    if (index >= objects.size()) throw ComputeFailed(); // a node that no step of the schedule makes
    if (objects[index]) return objects[index];
    const NodeObject& node = plan.objects[index];
    if (node.input != nowhere) return sources[plan.segment.input_sources[node.input]];
    if (node.buffer == nowhere) throw ComputeFailed(); // an extern's result that is not there yet
    const fusion::Buffer& memory = plan.product.schedule.buffers[node.buffer];
    if (node.numpy_scalar) return objects[index] = must(python::make_numpy_scalar(memory.dtype, buffer(node.buffer)));
    return objects[index] = make_array_or_tensor(memory, plan.product.graph[node.node].type);
}

PyObject* RunState::scalar(uint32_t index) {
    if (scalars[index]) return scalars[index];
    const ScalarStep& step = plan.segment.scalar_steps[index];
    PyObject* callable = step.kind == ScalarStep::call ? plan.anchors.objects()[step.callable] : nullptr;
    PyObject* a = value(step.a);
    return scalars[index] = must(scalar_step(step, a, value_or_null(step.b), callable));
}

PyObject* RunState::fresh(uint32_t index) {
    if (fresh_objects[index]) return fresh_objects[index];
    return make_new(*this, plan.segment.fresh[index], fresh_objects[index]);
}

uint64_t RunState::scalar_bits(uint32_t index) {
    PyObject* number = value(plan.segment.scalar_values.at(index));
    const graph::NodeId node = plan.product.graph.scalars[index].node;
    uint64_t bits = 0;
    const DType dtype = plan.product.graph[node].type.dtype;
    if (is_float(dtype)) {
        // An int too large for a double fails here, as it does in eager.
        bits = std::bit_cast<uint64_t>(PyFloat_CheckExact(number) ? PyFloat_AS_DOUBLE(number) : PyFloat_AsDouble(number));
    } else if (is_int(dtype)) {
        auto whole = Owned<>::steal(PyNumber_Index(number));
        if (whole) bits = dtype == DType::u64 ? PyLong_AsUnsignedLongLong(whole.get()) : static_cast<uint64_t>(PyLong_AsLongLong(whole.get()));
    } else {
        DYNO_CHECK(dtype == DType::b8, "a run-time number that is neither a float, an integer nor a truth value");
        bits = PyObject_IsTrue(number) > 0;
    }
    if (PyErr_Occurred()) throw ComputeFailed();
    return bits;
}

} // namespace dyno::replay
