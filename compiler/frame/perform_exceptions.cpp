// Raising, catching, with blocks: what CPython's loop does with the thread's error and its stack of handled exceptions.
#include "compiler/frame/perform.h"
#include "compiler/python/ref.h"

namespace dyno::frame::perform {
namespace {

/// `raise C`: the instance. Null with an error set.
PyObject* instantiate(PyObject* type) {
    PyObject* value = PyObject_CallNoArgs(type);
    if (!value || PyExceptionInstance_Check(value)) return value;
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", type, Py_TYPE(value));
    Py_DECREF(value);
    return nullptr;
}

/// `raise ... from cause`: attaches it. False with an error set.
bool attach_cause(PyObject* value, PyObject* cause) {
    if (PyExceptionClass_Check(cause)) {
        // CPython looks at what the call made from 3.13 on only.
        PyObject* made = bytecode::python >= 313 ? instantiate(cause) : PyObject_CallNoArgs(cause);
        if (!made) return false;
        PyException_SetCause(value, made);
        return true;
    }
    if (cause == Py_None) {
        PyException_SetCause(value, nullptr);
        return true;
    }
    if (!PyExceptionInstance_Check(cause)) {
        PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
        return false;
    }
    PyException_SetCause(value, Py_NewRef(cause));
    return true;
}

} // namespace

PyObject* take_exception() {
#if DYNO_312
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyException_SetTraceback(value, traceback ? traceback : Py_None);
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

void set_exception(PyObject* exception) {
#if DYNO_312
    PyErr_SetRaisedException(exception);
#else
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception))), exception, PyException_GetTraceback(exception));
#endif
}

void raise(const Instruction& i, PyObject** sp) {
    const auto cause = Owned<>::borrow(i.arg == 2 ? sp[-1] : nullptr);
    const auto raised = Owned<>::borrow(sp[i.arg == 2 ? -2 : -1]);
    const bool is_class = PyExceptionClass_Check(raised.get());
    if (!is_class && !PyExceptionInstance_Check(raised.get())) {
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
        return;
    }
    const auto value = is_class ? Owned<>::steal(instantiate(raised.get())) : raised.share();
    if (!value || (cause && !attach_cause(value.get(), cause.get()))) return;
    PyErr_SetObject(is_class ? raised.get() : reinterpret_cast<PyObject*>(Py_TYPE(value.get())), value.get());
}

PyObject* check_exc(PyObject* exception, PyObject* type) {
    bool fine = PyExceptionClass_Check(type);
    if (PyTuple_Check(type)) {
        fine = true;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(type); k++) fine &= PyExceptionClass_Check(PyTuple_GET_ITEM(type, k)) != 0;
    }
    return fine ? PyBool_FromLong(PyErr_GivenExceptionMatches(exception, type)) : in_pythons_words();
}

void push_exc(PyThreadState* ts, PyObject** top) {
    PyObject* exception = top[0];
    PyObject* previous = ts->exc_info->exc_value;
    top[0] = previous ? previous : Py_NewRef(Py_None);
    top[1] = exception;
    ts->exc_info->exc_value = Py_NewRef(exception);
}

void pop_except(PyThreadState* ts, PyObject* previous) {
    PyObject* old = ts->exc_info->exc_value;
    // 3.13 tests for null only when it looks for the outer exception.
    if (bytecode::python >= 313 && previous == Py_None) Py_CLEAR(previous);
    ts->exc_info->exc_value = previous;
    Py_XDECREF(old);
}

PyObject* with_hooks(PyObject* manager, PyObject** exit) {
    static PyObject* const names[2] = {PyUnicode_InternFromString("__enter__"), PyUnicode_InternFromString("__exit__")};
    Owned<> bound[2];
    for (int k = 0; k < 2; k++) {
        PyObject* found = _PyType_Lookup(Py_TYPE(manager), names[k]);
        if (!found) return in_pythons_words();
        const auto descriptor = Owned<>::borrow(found);
        descrgetfunc get = Py_TYPE(found)->tp_descr_get;
        bound[k] = get ? Owned<>::steal(get(found, manager, reinterpret_cast<PyObject*>(Py_TYPE(manager)))) : descriptor.share();
        if (!bound[k]) return nullptr;
    }
    *exit = bound[1].release();
    return bound[0].release();
}

PyObject* with_except(PyObject** sp) {
    PyObject* exception = sp[-1];
    const auto traceback = Owned<>::steal(PyException_GetTraceback(exception));
    PyObject* args[3] = {reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception, traceback ? traceback.get() : Py_None};
    return PyObject_Vectorcall(sp[-4], args, 3, nullptr);
}

void add_traceback(PyThreadState* ts) {
    PyFrameObject* object = PyThreadState_GetFrame(ts);
    if (object) PyTraceBack_Here(object);
    Py_XDECREF(object);
}

} // namespace dyno::frame::perform
