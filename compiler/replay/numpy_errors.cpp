// NumPy's error state while NumPy's own functions run in a compute phase: what the user would be told there must fail the phase instead, so that
// the segment runs natively and NumPy tells it itself, once and with the user's stack.
#include "compiler/python/array.h"
#include "compiler/replay/run_state.h"

namespace dyno::replay {
namespace {

/// numpy.seterr, kept for the life of the process; null while NumPy is not there.
PyObject* seterr() {
    static PyObject* function = nullptr;
    if (function) return function;
    PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy"); // borrowed
    if (numpy) function = PyObject_GetAttrString(numpy, "seterr");
    if (!function) PyErr_Clear();
    return function;
}

constexpr const char* names[] = {"divide", "over", "under", "invalid"}; // in the order of numpy_errstate()'s bits

} // namespace

RaiseNumpyErrors::RaiseNumpyErrors() {
    const uint64_t state = python::numpy_errstate();
    auto modes = Owned<>::steal(PyDict_New());
    PyObject* function = seterr();
    if (!modes || !function) throw ComputeFailed();
    for (int i = 0; i < 4; ++i) {
        auto mode = Owned<>::steal(PyUnicode_FromString(state >> (3 * i) & 7 ? "raise" : "ignore"));
        if (!mode || PyDict_SetItemString(modes.get(), names[i], mode.get()) < 0) throw ComputeFailed();
    }
    auto nothing = Owned<>::steal(PyTuple_New(0));
    old_ = Owned<>::steal(PyObject_Call(function, nothing.get(), modes.get()));
    if (!old_) throw ComputeFailed();
}

RaiseNumpyErrors::~RaiseNumpyErrors() {
    python::KeepError keep;
    auto nothing = Owned<>::steal(PyTuple_New(0));
    auto done = Owned<>::steal(PyObject_Call(seterr(), nothing.get(), old_.get()));
    if (!done) PyErr_Clear();
}

} // namespace dyno::replay
