// The start of everything with torch: when it is imported, prove where its facts lie and find its functions; once a process.
// What is refused is said once and the public way serves. DYNO_REFUSE_PROBE=1 in the environment refuses the proof on purpose.
#pragma once
#include <Python.h>

#include "compiler/scalar/dtype.h"

namespace dyno::python {

/// True once torch is imported and usable, by offsets or by public calls. Runs the proof the first time it finds torch fully imported (some
/// ms, runs Python); afterwards one load. The driver calls it where Python may run: at the start of a cell, a call, a recording. False
/// while torch is still being imported, and while a transform or dispatch mode is active before the proof.
bool torch_ready();
/// The proof is under way, in this thread or in another: what a tensor is cannot be told yet.
bool torch_starting();

/// The module, borrowed; null before torch_ready().
PyObject* torch_module();

/// What the proof refused, in one sentence, or null. Facts are then read by public calls.
const char* refusal();

/// Bytes of the vectors in which torch's sums and norms add; 0 if unknown. For wider ones than AVX2's they have no code.
int64_t torch_vector_bytes();
/// Whether its norms multiply and add in one rounding: where the processor has that.
bool torch_norms_fuse();
/// Whether gelu of f32 tensors on the CPU gives +0.0 for -0.0: that differs among the processors that oneDNN has code for.
bool torch_gelu_drops_zero_sign();

/// torch.get_num_threads(); 0 while torch is not there.
int torch_num_threads();

/// torch's current stream on a CUDA device, for this thread, as the driver's handle. False where it cannot be had.
bool torch_cuda_stream(int device, void*& stream);

/// An exported function or thread-local of torch's libraries by its mangled name (libc10, libtorch_cpu, libtorch_python, libtorch_cuda if
/// loaded), or null. For at::_ops::X::call and the C shim.
void* torch_symbol(const char* name);

/// The address inside a plain tensor that torch's C shim takes for a borrowed AtenTensorHandle (and at::_ops for a const Tensor&); null
/// where the proof refused.
void* tensor_handle(PyObject* tensor);

/// Makes the Python object of an owned AtenTensorHandle and deletes the handle; null with an error set.
PyObject* wrap_handle(void* handle);

/// torch.float32 and the like, borrowed; null for a dtype torch lacks.
PyObject* torch_dtype(DType dtype);
/// torch's number of a dtype (c10::ScalarType), or -1.
int torch_dtype_number(DType dtype);
/// The dtype behind torch.float32 and the like; none if we have none.
DType dtype_of_torch(PyObject* torch_dtype);

} // namespace dyno::python
