// Where the facts of a tensor lie in torch's objects, as byte offsets found by probe.cpp, and the loads that use them.
// Internal to this folder.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

namespace dyno::python {

/// Byte offsets; -1 is "not proved", and then `refused` is set and nothing is read by offsets.
struct Layout {
    int impl = -1; // in the Python object
    // in the TensorImpl
    int storage = -1, storage_offset = -1, numel = -1, ndim = -1, sizes = -1, strides = -1, heap = -1;
    int max_inline = -1; // sizes and strides of more dims lie in one heap block
    int dtype = -1, device_type = -1, device_index = -1, keys = -1, meta = -1, version_block = -1;
    int version = -1;                                              // in the counter's block
    int data = -1, nbytes = -1, checked = -1;                      // in the StorageImpl; checked: data shared until written
    int requires_grad = -1, grad_fn = -1, grad = -1, fw_grad = -1; // in the autograd meta
    uint64_t conj_bit = 0, neg_bit = 0, zero_bit = 0;              // in the key set
    uint64_t no_grad = 0; // what lies in place of a grad where there is none: torch's one undefined tensor, or null
    std::string refused;  // the first reason, or empty
};

template <class T>
inline T load(const void* p, int offset) {
    T value;
    std::memcpy(&value, static_cast<const char*>(p) + offset, sizeof value);
    return value;
}

/// One tensor's words, read without a call. The caller has checked the class, and the key set before it touches the storage.
struct TensorWords {
    const Layout& at;
    const void* impl;

    TensorWords(const Layout& layout, const void* object) : at(layout), impl(load<const void*>(object, layout.impl)) {}

    uint64_t keys() const { return load<uint64_t>(impl, at.keys); }
    uint16_t dtype() const { return load<uint16_t>(impl, at.dtype); }
    uint8_t device_type() const { return load<uint8_t>(impl, at.device_type); }
    int8_t device_index() const { return load<int8_t>(impl, at.device_index); }
    int64_t ndim() const { return load<int64_t>(impl, at.ndim); }
    int64_t numel() const { return load<int64_t>(impl, at.numel); }
    int64_t offset() const { return load<int64_t>(impl, at.storage_offset); }
    void* storage() const { return load<void*>(impl, at.storage); }
    const void* meta() const { return load<const void*>(impl, at.meta); }
    const int64_t* sizes() const { return row(at.sizes, 0); }
    const int64_t* strides() const { return row(at.strides, 1); }
    /// Null for an inference tensor.
    uint32_t* version() const {
        auto block = load<char*>(impl, at.version_block);
        return block ? reinterpret_cast<uint32_t*>(block + at.version) : nullptr;
    }

  private:
    const int64_t* row(int inline_offset, int which) const {
        const int64_t n = ndim();
        if (n <= at.max_inline) return reinterpret_cast<const int64_t*>(static_cast<const char*>(impl) + inline_offset);
        return load<const int64_t*>(impl, at.heap) + which * n;
    }
};

} // namespace dyno::python
