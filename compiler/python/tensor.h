// Tensors as plain words: what torch.Tensor and Parameter objects say, read at offsets that the probe proved (torch_door.h),
// or by torch's public calls where it refused. No torch header, no torch library.
// All functions need the GIL. None changes a reference count that the caller could see; none runs Python but the public path and, once, the first CUDA tensor.
#pragma once
#include <Python.h>
#include <cstdint>
#include <vector>

#include "compiler/scalar/dtype.h"

namespace dyno::python {

/// torch's numbers of the devices we know; others are kept as they come.
enum : uint8_t { device_cpu = 0, device_cuda = 1 };

/// What a plain tensor says. Pointers are borrowed from the tensor: valid until it is resized, rebound (`.data =`, `set_`) or dies.
/// read_tensor fills every field; none has a default, since clearing the struct would cost more than reading it.
struct TensorView {
    void* data;             // the first element: storage offset included
    const int64_t* sizes;   // ndim each
    const int64_t* strides; // in elements
    int ndim;
    int64_t numel;
    int64_t storage_offset; // in elements
    DType dtype;
    uint8_t device_type;
    int8_t device_index; // -1 on the CPU
    bool requires_grad;
    bool has_grad_fn;
    uint64_t key_set;
    void* storage; // identity of the storage: equal for views of one another
    int64_t storage_nbytes;
    bool inference;
};

/// The value of a size or stride in TensorFacts that matches every tensor.
constexpr int64_t any_size = INT64_MIN;

/// What a guard expects of a tensor; compared, never followed. `any_size` in sizes or strides leaves that number open.
struct TensorFacts {
    PyTypeObject* type = nullptr; // exact class
    uint64_t key_set = 0;
    DType dtype = DType::none;
    uint8_t device_type = device_cpu;
    int8_t device_index = -1;
    bool requires_grad = false;
    std::vector<int64_t> sizes, strides; // both ndim long
};

/// A tensor that dyno may compile for: the class is exactly torch.Tensor or Parameter, the key set is one that fresh plain tensors
/// have (so no conj, neg, zero, sparse, quantised, vmapped tensor), strided, of a dtype we know, no dual, its storage not shared lazily.
bool is_plain_tensor(PyObject* object);

/// True for exactly torch.Tensor or Parameter, plain or not. False while torch is not there.
bool is_tensor_class(PyTypeObject* type);

/// Fills `view` if the object is a plain tensor, else answers false and leaves it alone. Some 5 ns by offsets, 3 µs by public calls.
bool read_tensor(PyObject* object, TensorView& view);

/// The facts of a plain tensor, all numbers fixed. False if it is not plain.
bool facts_of(PyObject* object, TensorFacts& facts);

/// Compares only: is the object a plain tensor of these facts?
bool tensor_matches(PyObject* object, const TensorFacts& facts);

/// The version counter of a plain tensor; 0 for an inference tensor, which has none.
uint32_t version_of(PyObject* tensor);

/// Adds one to the version counter, as an in-place op would; nothing on an inference tensor. Cannot fail on plain tensors.
void bump_version(PyObject* tensor);

/// True if the leaf has a `.grad` (plain tensors only).
bool has_grad(PyObject* tensor);

} // namespace dyno::python
