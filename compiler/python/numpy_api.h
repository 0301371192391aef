// NumPy's C API, one table for the whole folder. numpy_door.cpp owns it; the others see it. Internal to this folder.
#pragma once
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL dyno_numpy_api
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#ifndef DYNO_OWNS_NUMPY_API
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include "compiler/scalar/dtype.h"

namespace dyno::python {

/// What is known of the user's NumPy, once numpy_ready() answered true.
struct NumpyState {
    bool ready = false;
    bool refused = false;
    DType dtype_of[NPY_NTYPES_LEGACY] = {}; // by type number
    int number_of[dtype_count];             // by DType; -1 where NumPy has none
    PyArray_Descr* descr[dtype_count] = {}; // NumPy's own, native; kept for ever
    PyTypeObject* scalar_type[dtype_count] = {};
    PyObject* module = nullptr;
};
extern NumpyState numpy_state;

/// Finds how errstate can be read; called once by numpy_ready().
void prove_errstate();

/// The handler that takes array memory from the block cache: a capsule "mem_handler", borrowed.
PyObject* block_handler();

} // namespace dyno::python
