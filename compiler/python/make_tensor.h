// Fresh torch tensors for results, and the bounded cache of large memory blocks they may stand on.
// A made tensor is what torch.empty_strided gives: version 0, no grad, resizable, an inference tensor under inference mode.
#pragma once
#include <Python.h>
#include <cstddef>
#include <cstdint>

#include "compiler/scalar/dtype.h"

namespace dyno::python {

struct Device {
    uint8_t type = 0; // torch's number: 0 CPU, 1 CUDA
    int8_t index = -1;
};

/// An uninitialised tensor. The strides must be dense or larger (as torch.empty_strided wants). New reference; null with torch's own error
/// set. GIL.
PyObject* make_tensor(DType dtype, Device device, int ndim, const int64_t* sizes, const int64_t* strides);

/// A tensor that shares memory with `base` but is no view for autograd (no _base, its own version): for values inside a replay or results
/// that were fresh in eager too. Null with an error set if that cannot be made. GIL.
PyObject* make_alias(PyObject* base, int ndim, const int64_t* sizes, const int64_t* strides, int64_t storage_offset);

/// The least size in bytes for which a CPU tensor or an array stands on a block of ours.
constexpr int64_t large_bytes = int64_t{1} << 20;

/// How large CPU tensors are made: `adopted` storage over the block cache where it was proved (the default), or `fresh` blocks of torch's
/// own allocator with huge-page advice. The environment variable DYNO_FRESH_BLOCKS=1 chooses fresh.
enum class LargeTensors : uint8_t { adopted, fresh };
void use_large_tensors(LargeTensors way);
/// The way in use: adopted only where the proof held.
LargeTensors large_tensors();

/// Bytes that lie idle in the cache. Any thread.
size_t block_cache_bytes();
/// Gives all idle blocks back to the system; answers how many bytes. Any thread.
size_t block_cache_release();
/// The most the cache keeps idle (an eighth of the memory this process may use, at most 1 GiB, unless set).
void block_cache_limit(size_t bytes);

/// A block of at least `bytes`, 4 KiB aligned, contents arbitrary; null if the system has none. Any thread, no GIL.
void* take_block(size_t bytes);
/// How many bytes a block really has.
size_t block_size(void* block);
/// Gives a block back: kept for the next one, or unmapped when the cache is full or memory is short. Any thread, no GIL.
void give_block(void* block) noexcept;

} // namespace dyno::python
