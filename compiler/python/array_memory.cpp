// The memory handler that large arrays of ours keep: NumPy frees and resizes through it, long after we are out of the way.
// It may be called with small sizes too (a resized array), on any thread that holds the GIL.
#include <cstdlib>
#include <cstring>

#include "compiler/python/make_tensor.h"
#include "compiler/python/numpy_api.h"

namespace dyno::python {
namespace {

void* block_malloc(void*, size_t bytes) { return take_block(bytes ? bytes : 1); }

void* block_calloc(void*, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
    void* block = take_block(bytes ? bytes : 1);
    return block ? std::memset(block, 0, bytes) : nullptr;
}

void block_free(void*, void* block, size_t) {
    if (block) give_block(block);
}

void* block_realloc(void*, void* old, size_t bytes) {
    void* block = take_block(bytes ? bytes : 1);
    if (!block || !old) return block;
    const size_t before = block_size(old);
    std::memcpy(block, old, before < bytes ? before : bytes);
    give_block(old);
    return block;
}

} // namespace

PyObject* block_handler() {
    static PyDataMem_Handler handler = {"dyno_blocks", 1, {nullptr, block_malloc, block_calloc, block_realloc, block_free}};
    static PyObject* const capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
    return capsule;
}

} // namespace dyno::python
