// NumPy arrays and NumPy scalars as plain words, fresh arrays and scalars, and NumPy's error state.
// NumPy 1.26 and later through its C API; NumPy is used when the user has imported it and is never imported from here.
// All functions need the GIL; reads change no reference count and run no Python.
#pragma once
#include <Python.h>
#include <cstdint>

#include "compiler/scalar/dtype.h"

namespace dyno::python {

/// What a plain array says. Pointers are borrowed from the array: valid until it is resized, reshaped in place or dies.
/// read_array fills every field; none has a default, as in TensorView.
struct ArrayView {
    void* data;
    const int64_t* shape;
    const int64_t* strides; // in bytes, as NumPy's
    int ndim;
    int64_t size; // elements
    DType dtype;
    bool writeable;
    bool owns_data;
    PyObject* base; // borrowed, or null
    bool c_contiguous;
    bool f_contiguous;
};

/// What a guard expects of an array. `any_size` (tensor.h) leaves a number open.
struct ArrayFacts {
    DType dtype = DType::none;
    bool writeable = false;
    int ndim = 0;
    const int64_t* shape = nullptr; // kept by the caller
    const int64_t* strides = nullptr;
};

/// True once NumPy is imported and its C API is one we can use. Cheap when asked again.
bool numpy_ready();
/// Why NumPy is there but not used, or null.
const char* numpy_refusal();

/// Exactly numpy.ndarray, native byte order, aligned, of a dtype we know (no structured, object, string, longdouble, longlong).
bool is_plain_array(PyObject* object);
/// Fills `view` if the array is plain, else answers false and leaves it alone.
bool read_array(PyObject* object, ArrayView& view);
/// Compares only.
bool array_matches(PyObject* object, const ArrayFacts& facts);

/// The dtype of a NumPy scalar of exact type (np.float64, np.bool_, ...), else none.
DType numpy_scalar_dtype(PyObject* object);
/// Copies the value of a NumPy scalar of exact type (at most 16 bytes) to `value`; none if it is not one.
DType read_numpy_scalar(PyObject* object, void* value);
/// A NumPy scalar with the value at `value`; np.True_ and np.False_ themselves for b8. New reference; null with an error set.
PyObject* make_numpy_scalar(DType dtype, const void* value);

/// A fresh, uninitialised array that owns its memory. `strides` (bytes) null: C order; else any dense order of the axes.
/// Large ones come from the block cache (make_tensor.h). New reference; null with NumPy's own error set.
PyObject* make_array(DType dtype, int ndim, const int64_t* shape, const int64_t* strides = nullptr);
/// Where 1 MiB and more come from: on (the default) the block cache, off NumPy's own allocator.
void use_blocks_for_arrays(bool on);

/// NumPy's errstate on this thread and context: bits 0-15 NumPy's own mask (3 bits each of divide, overflow, underflow, invalid), bit 32 a
/// callback is set. 0 while NumPy is not there. Some 5 ns.
uint64_t numpy_errstate();
/// The word of a thread that never touched errstate.
uint64_t numpy_default_errstate();

} // namespace dyno::python
