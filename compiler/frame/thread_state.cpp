// What the evaluator asks of the thread and the interpreter: who observes, whether to stop for signals and others.
#define Py_BUILD_CORE 1
#include <Python.h>
#undef HAVE_STD_ATOMIC // the internal headers' C11 atomics are not C++; they fall back on compiler builtins
extern "C" {
#include <internal/pycore_interp.h>
#if PY_VERSION_HEX >= 0x030D0000
int _Py_HandlePending(PyThreadState*);
void _PyEval_FrameClearAndPop(PyThreadState*, struct _PyInterpreterFrame*);
#endif
}
#include "compiler/frame/session.h"

namespace dyno::frame {

bool locally_observed([[maybe_unused]] PyCodeObject* code) {
#if DYNO_312
    if (!code->_co_monitoring) return false;
    const auto& tools = code->_co_monitoring->local_monitors;
    for (size_t i = 0; i < sizeof tools; i++)
        if (reinterpret_cast<const uint8_t*>(&tools)[i]) return true;
#endif
    return false;
}

const volatile int* poll_word([[maybe_unused]] PyThreadState* ts) {
#if DYNO_313
    return nullptr;
#else
    return reinterpret_cast<const volatile int*>(&ts->interp->ceval.eval_breaker);
#endif
}

#if DYNO_313
int poll_now(PyThreadState* ts) { return _Py_HandlePending(ts); }
bool is_polling_frame(PyCodeObject*) { return false; }
void prepare_polling() {}
void leave_by_error(PyThreadState* ts, InterpreterFrame* f) { _PyEval_FrameClearAndPop(ts, f); }
#else
namespace {
/// A trivial function: its RESUME in CPython's loop makes the check.
PyObject* polling_function() {
    static PyObject* const function = [] {
        PyObject* scope = PyDict_New();
        PyObject* none = PyRun_String("def check_for_interrupts(): pass", Py_file_input, scope, scope);
        PyObject* made = PyDict_GetItemString(scope, "check_for_interrupts");
        Py_XINCREF(made);
        Py_XDECREF(none);
        Py_DECREF(scope);
        return made;
    }();
    return function;
}
} // namespace

void prepare_polling() { polling_function(); }

bool is_polling_frame(PyCodeObject* code) { return PyFunction_GET_CODE(polling_function()) == reinterpret_cast<PyObject*>(code); }

int poll_now(PyThreadState*) {
    PyObject* done = PyObject_CallNoArgs(polling_function());
    if (done) {
        Py_DECREF(done);
        return 0;
    }
    // The function's own entry is taken off the traceback.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(traceback);
    PyErr_Restore(type, value, nullptr);
    return -1;
}
#endif

} // namespace dyno::frame
