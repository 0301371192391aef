// The parts of the test extension, one file each.
#pragma once
#include <Python.h>
#include <cstdint>

namespace dyno::python {

extern PyMethodDef version_methods[], array_methods[], timing_methods[];

PyObject* tuple_of_row(const int64_t* row, int n);

} // namespace dyno::python
