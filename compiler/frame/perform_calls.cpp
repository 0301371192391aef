// Calls as CPython makes them, functions, and what needs a call to be performed.
#include "compiler/frame/operands.h"
#include "compiler/frame/perform.h"
#include "compiler/python/ref.h"

namespace dyno::frame::perform {

PyObject* call(const Running& a, const Instruction& i) {
    const CallOperands c = call_operands(a, i);
    // args[-1] is the callable's or an empty slot of ours: the callee may use it for a moment.
    return PyObject_Vectorcall(c.callable, c.args, c.positional | PY_VECTORCALL_ARGUMENTS_OFFSET, c.kwnames);
}

PyObject* call_ex(const Running& a, const Instruction& i) {
    const CallExOperands c = call_ex_operands(a, i);
    PyObject* arguments = *c.arguments;
    if (c.keywords && !PyDict_CheckExact(c.keywords)) return in_pythons_words();
    if (PyTuple_CheckExact(arguments)) return PyObject_Call(c.callable, arguments, c.keywords);
    if (!Py_TYPE(arguments)->tp_iter && !PySequence_Check(arguments)) return in_pythons_words();
    const auto tuple = Owned<>::steal(PySequence_Tuple(arguments));
    return tuple ? PyObject_Call(c.callable, tuple.get(), c.keywords) : nullptr;
}

bool entered_without_c(PyObject* callable) {
    return PyFunction_Check(callable) || (PyMethod_Check(callable) && PyFunction_Check(PyMethod_GET_FUNCTION(callable)));
}

PyObject* make_function(const Instruction& i, PyObject* globals, PyObject** sp) {
    PyObject* made = PyFunction_New(sp[-1], globals);
    if (!made) return nullptr;
    auto* function = reinterpret_cast<PyFunctionObject*>(made);
#if DYNO_312
    // Without it CPython does not specialise closures.
    function->func_version = reinterpret_cast<PyCodeObject*>(function->func_code)->co_version;
#endif
    if (bytecode::python >= 313) return made;
    PyObject** part = sp - 1;
    if (i.arg & 8) function->func_closure = Py_NewRef(*--part);
    if (i.arg & 4) function->func_annotations = Py_NewRef(*--part);
    if (i.arg & 2) function->func_kwdefaults = Py_NewRef(*--part);
    if (i.arg & 1) function->func_defaults = Py_NewRef(*--part);
    return made;
}

PyObject* set_function_attr(const Instruction& i, PyObject** sp) {
    auto* function = reinterpret_cast<PyFunctionObject*>(sp[-1]);
    PyObject* value = Py_NewRef(sp[-2]);
    switch (i.arg) {
    case 8:
        function->func_closure = value;
        break;
    case 4:
        function->func_annotations = value;
        break;
    case 2:
        function->func_kwdefaults = value;
        break;
    default:
        function->func_defaults = value;
        break;
    }
    return Py_NewRef(sp[-1]);
}

PyObject* print_expr(PyObject* value) {
    PyObject* hook = PySys_GetObject("displayhook");
    if (!hook) return in_pythons_words();
    const auto function = Owned<>::borrow(hook);
    const auto result = Owned<>::steal(PyObject_CallOneArg(function.get(), value));
    return result ? done() : nullptr;
}

PyObject* match_keys(PyObject* map, PyObject* keys) {
    const Py_ssize_t n = PyTuple_GET_SIZE(keys);
    if (n == 0) return PyTuple_New(0);
    const auto seen = Owned<>::steal(PySet_New(nullptr));
    const auto absent = Owned<>::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
    const auto get = Owned<>::steal(PyObject_GetAttrString(map, "get"));
    auto values = Owned<>::steal(PyTuple_New(n));
    if (!seen || !absent || !get || !values) return nullptr;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject* key = PyTuple_GET_ITEM(keys, k);
        const int duplicate = PySet_Contains(seen.get(), key);
        if (duplicate > 0) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
        if (duplicate || PySet_Add(seen.get(), key) < 0) return nullptr;
        PyObject* args[2] = {key, absent.get()};
        auto value = Owned<>::steal(PyObject_Vectorcall(get.get(), args, 2, nullptr));
        if (!value) return nullptr;
        if (value.get() == absent.get()) return Py_NewRef(Py_None);
        PyTuple_SET_ITEM(values.get(), k, value.release());
    }
    return values.release();
}

PyObject* yield_from_iter(PyObject* iterable) {
    if (PyCoro_CheckExact(iterable)) return in_pythons_words(); // allowed in some generators only
    if (PyGen_CheckExact(iterable)) return Py_NewRef(iterable);
    return PyObject_GetIter(iterable);
}

PyObject* next_result(PyObject* value, PyObject* fallback, bool ended) {
    auto given = Owned<>::steal(value), instead = Owned<>::steal(fallback);
    if (!ended || !given) return given.release();
    if (instead) return instead.release();
    if (given.get() == Py_None) PyErr_SetNone(PyExc_StopIteration);
    else if (const auto stop = Owned<>::steal(PyObject_CallOneArg(PyExc_StopIteration, given.get()))) PyErr_SetObject(PyExc_StopIteration, stop.get());
    return nullptr;
}

} // namespace dyno::frame::perform
