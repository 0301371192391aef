// The extra slot of code objects: see code_extra.h. The API was renamed in CPython 3.12.
#include "compiler/cache/code_extra.h"

namespace dyno::cache {
namespace {

/// Asked for once a process; -1 while not asked, or refused.
Py_ssize_t slot_index = -1;

Py_ssize_t request_index(freefunc free) {
#if PY_VERSION_HEX >= 0x030c0000
    return PyUnstable_Eval_RequestCodeExtraIndex(free);
#else
    return _PyEval_RequestCodeExtraIndex(free);
#endif
}

} // namespace

void* code_extra(PyCodeObject* code) {
    if (slot_index < 0) return nullptr;
    void* data = nullptr;
#if PY_VERSION_HEX >= 0x030c0000
    const int failed = PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), slot_index, &data);
#else
    const int failed = _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), slot_index, &data);
#endif
    if (failed) PyErr_Clear();
    return failed ? nullptr : data;
}

bool set_code_extra(PyCodeObject* code, void* data, freefunc free) {
    if (slot_index < 0) slot_index = request_index(free);
    if (slot_index < 0) return false;
#if PY_VERSION_HEX >= 0x030c0000
    const int failed = PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), slot_index, data);
#else
    const int failed = _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), slot_index, data);
#endif
    if (failed) PyErr_Clear();
    return !failed;
}

} // namespace dyno::cache
