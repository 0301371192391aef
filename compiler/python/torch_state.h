// What the door knows of torch in this process: filled once by torch_door.cpp under the GIL, read by the rest of the folder.
// Internal to this folder. Plain pointers to Python objects hold a count for the life of the process.
#pragma once
#include <Python.h>
#include <cstdint>

#include "compiler/python/layout.h"
#include "compiler/python/torch_door.h"
#include "compiler/scalar/dtype.h"

namespace dyno::python {

/// torch's exported functions by name; every pointer may be null.
struct TorchFunctions {
    // the C shim: stable by promise; 0 is success, and a failing call prints a stack trace of torch's own
    int (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, void**) = nullptr;
    int (*reinterpret)(void*, int64_t, const int64_t*, const int64_t*, int64_t, void**) = nullptr;
    int (*delete_handle)(void*) = nullptr;
    int (*to_pyobject)(void*, void*, void**) = nullptr; // torch 2.14
    // mangled names: stable by measurement only
    void* (*wrap_move)(void*) = nullptr; // THPVariable_Wrap(at::TensorBase&&)
    bool (*grad_mode)() = nullptr;
    bool (*inference_mode)() = nullptr;
    const void* (*autograd_state)() = nullptr; // references to thread-local state
    const void* (*function_state)() = nullptr;
    const void* (*hooks_state)() = nullptr;
    int64_t (*function_modes)() = nullptr;
    int (*function_disabled)() = nullptr;
    signed char (*default_dtype)() = nullptr;
    const void* (*context)() = nullptr; // the one global Context
    bool (*deterministic)(const void*) = nullptr;
    bool (*deterministic_warn)(const void*) = nullptr;
    bool (*tf32)(const void*) = nullptr;
    int (*num_threads)() = nullptr;
    int (*cuda_stream)(int32_t, void**) = nullptr; // of the C shim; null in builds for the CPU
    const bool* anomaly = nullptr;
};

/// Looks every function up in the libraries torch has loaded.
TorchFunctions find_torch_functions();

struct TorchState {
    enum class Phase : uint8_t { unknown, starting, ready } phase = Phase::unknown;
    bool by_offsets = false; // the layout was proved
    Layout at;
    TorchFunctions call;
    PyTypeObject* tensor_type = nullptr;
    PyTypeObject* parameter_type = nullptr;
    DType dtype_of[256] = {};       // by torch's number
    int16_t number_of[dtype_count]; // by DType; -1 where torch has none
    PyObject* dtypes[dtype_count] = {};
    uint64_t plain_keys[8] = {}; // key sets of fresh plain tensors; 0 ends
    bool cuda_keys = false;      // those of CUDA are among them
    PyObject* module = nullptr;
    PyObject* source = nullptr; // the namespace of torch_source.cpp
    const char* refused = nullptr;
};

extern TorchState torch_state;

// The public way (tensor_by_calls.cpp): the same answers by torch's public calls. Errors of those calls are "not plain".
bool read_by_calls(PyObject* object, struct TensorView& view);
uint32_t version_by_calls(PyObject* tensor);
void bump_by_calls(PyObject* tensor);
bool has_grad_by_calls(PyObject* tensor);

/// Is this key set one of fresh plain tensors? Learns CUDA's at the first CUDA tensor (that one call runs Python).
bool plain_keys_known(uint64_t keys, uint8_t device_type);

/// Finds how the ambient word can be read; called once by torch_ready().
void prove_ambient();

} // namespace dyno::python
