// Which memory a tensor or an array covers. Internal to this folder.
#pragma once
#include "compiler/capture/names.h"
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"

namespace dyno::capture {

/// The memory a tensor or array covers, and who owns it.
struct Memory {
    const char *first = nullptr, *last = nullptr;
    const void* owner = nullptr;
};
inline Memory memory_of(PyObject* object) {
    Memory m;
    python::TensorView t;
    python::ArrayView n;
    if (python::read_tensor(object, t)) {
        m.owner = t.storage;
        m.first = m.last = static_cast<const char*>(t.data);
        int64_t low = 0, high = size_of(t.dtype);
        for (int k = 0; k < t.ndim; k++) {
            if (!t.sizes[k]) return m;
            const int64_t reach = (t.sizes[k] - 1) * t.strides[k] * size_of(t.dtype);
            (reach < 0 ? low : high) += reach;
        }
        m.first += low, m.last += high;
    } else if (python::read_array(object, n)) {
        m.first = m.last = static_cast<const char*>(n.data);
        int64_t low = 0, high = size_of(n.dtype);
        for (int k = 0; k < n.ndim; k++) {
            if (!n.shape[k]) return m;
            const int64_t reach = (n.shape[k] - 1) * n.strides[k];
            (reach < 0 ? low : high) += reach;
        }
        m.first += low, m.last += high;
    }
    return m;
}
inline bool overlaps(const Memory& a, const Memory& b) {
    if (a.owner && a.owner == b.owner) return true;
    return a.first && b.first && a.first < b.last && b.first < a.last;
}
inline bool is_data(PyObject* v) { return python::is_tensor_class(Py_TYPE(v)) || Py_TYPE(v) == names().ndarray; }

} // namespace dyno::capture
