// Data of ours that lives and dies with a code object: CPython's extra slot of code objects, under an index of our own.
#pragma once
#include <Python.h>

namespace dyno::cache {

/// What hangs on the code object, or null. GIL held.
void* code_extra(PyCodeObject* code);
/// Hangs `data` on the code object. `free` of the first call is used for all: it runs when the code object dies. False: no index is left.
bool set_code_extra(PyCodeObject* code, void* data, freefunc free);

} // namespace dyno::cache
