// Makes torch tensors for results: small ones by torch's C shim, large CPU ones on blocks of the cache, the rest by torch.empty_strided.
// The adopted storage is the only place where torch's objects are written besides version counters: three words and the size of a storage
// that torch has just made, while it is empty and nobody else has it, and only where the meaning of those words was proved.
#include "compiler/python/make_tensor.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>

#include "compiler/python/ref.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_state.h"

namespace dyno::python {
namespace {

const TorchState& state = torch_state;

// ---- the public way

Owned<> tuple_of(int n, const int64_t* row) {
    Owned<> tuple = Owned<>::steal(PyTuple_New(n));
    for (int i = 0; tuple && i < n; i++) PyTuple_SET_ITEM(tuple.get(), i, PyLong_FromLongLong(row[i]));
    return tuple;
}

Owned<> device_object(Device device) {
    return Owned<>::steal(
        device.index < 0 ? PyObject_CallMethod(state.module, "device", "s", device.type == device_cpu ? "cpu" : "cuda")
                         : PyObject_CallMethod(state.module, "device", "si", device.type == device_cpu ? "cpu" : "cuda", device.index));
}

PyObject* make_by_call(DType dtype, Device device, int ndim, const int64_t* sizes, const int64_t* strides) {
    static PyObject* const names = Py_BuildValue("(ss)", "dtype", "device");
    static PyObject* const function = PyUnicode_InternFromString("empty_strided");
    PyObject* torch_type = state.module ? torch_dtype(dtype) : nullptr;
    if (!torch_type) return PyErr_SetString(PyExc_TypeError, "torch has no tensor of this dtype"), nullptr;
    const Owned<> where = device_object(device), a = tuple_of(ndim, sizes), b = tuple_of(ndim, strides);
    const Owned<> callable = Owned<>::steal(PyObject_GetAttr(state.module, function));
    if (!where || !a || !b || !callable) return nullptr;
    PyObject* args[] = {a.get(), b.get(), torch_type, where.get()};
    return PyObject_Vectorcall(callable.get(), args, 2, names);
}

// ---- adopted storage

struct Adoption {
    bool proved = false;
    int context = -1, deleter = -1; // in the StorageImpl
};

bool is_code_of_c10(const void* p) {
    Dl_info info;
    return dladdr(p, &info) && info.dli_fname && std::strstr(info.dli_fname, "libc10.so");
}

void* shim_tensor(int ndim, const int64_t* sizes, const int64_t* strides, int number, Device device = {}) {
    void* handle = nullptr;
    return state.call.empty_strided(ndim, sizes, strides, number, device.type, device.index, &handle) == 0 ? handle : nullptr;
}

char* storage_of_handle(void* handle) { return load<char*>(load<const void*>(handle, 0), state.at.storage); }

/// Of the two words after the data, one (the context) repeats the data and the other (the deleter) is one and the same function of libc10
/// in every fresh CPU tensor. An empty tensor has no data, and its words are free to be overwritten.
Adoption prove_adoption() {
    Adoption found;
    const TorchFunctions& f = state.call;
    if (!state.by_offsets || !f.empty_strided || !f.reinterpret || !f.delete_handle || !f.wrap_move) return found;
    const int64_t one = 1, zero = 0;
    const int number = state.number_of[static_cast<int>(DType::f32)];
    for (int context : {8, 16}) {
        bool all = true;
        const void* seen = nullptr;
        for (int64_t n : {int64_t{16}, int64_t{100}, int64_t{5000}}) {
            void* handle = shim_tensor(1, &n, &one, number);
            if (!handle) return {};
            const char* storage = storage_of_handle(handle);
            const void* deleter = load<const void*>(storage, state.at.data + 24 - context);
            all = all && load<void*>(storage, state.at.data) == load<void*>(storage, state.at.data + context) && is_code_of_c10(deleter) &&
                  (!seen || seen == deleter) && load<int64_t>(storage, state.at.nbytes) == n * 4;
            seen = deleter;
            f.delete_handle(handle);
        }
        if (all && found.context >= 0) return {}; // both would do: not proved
        if (all) found = {true, state.at.data + context, state.at.data + 24 - context};
    }
    void* empty = found.proved ? shim_tensor(1, &zero, &one, number) : nullptr;
    if (!empty) return {};
    const char* storage = storage_of_handle(empty);
    found.proved =
        !load<void*>(storage, state.at.data) && !load<void*>(storage, found.context) && load<int64_t>(storage, state.at.nbytes) == 0;
    f.delete_handle(empty);
    return found.proved ? found : Adoption{};
}

const Adoption& adoption() {
    static const Adoption proof = prove_adoption(); // first asked after torch is ready, under the GIL
    return proof;
}

void store(char* to, int offset, const void* word) { std::memcpy(to + offset, &word, sizeof word); }

/// A tensor whose storage is a block of ours; null without an error where that cannot be had.
PyObject* make_adopted(DType dtype, int ndim, const int64_t* sizes, const int64_t* strides, int64_t bytes) {
    const int64_t zero = 0, one = 1;
    void* empty = shim_tensor(1, &zero, &one, state.number_of[static_cast<int>(dtype)]);
    if (!empty) return nullptr;
    void* block = take_block(static_cast<size_t>(bytes));
    if (!block) return state.call.delete_handle(empty), nullptr;
    char* storage = storage_of_handle(empty);
    store(storage, state.at.data, block);
    store(storage, adoption().context, block);
    store(storage, adoption().deleter, reinterpret_cast<const void*>(&give_block));
    std::memcpy(storage + state.at.nbytes, &bytes, sizeof bytes);
    void* full = nullptr;
    const int error = state.call.reinterpret(empty, ndim, sizes, strides, 0, &full);
    state.call.delete_handle(empty); // the block goes with the storage if there is no `full`
    return error ? nullptr : wrap_handle(full);
}

// ---- the choice

LargeTensors large_way = [] {
    const char* fresh = std::getenv("DYNO_FRESH_BLOCKS");
    return fresh && *fresh && *fresh != '0' ? LargeTensors::fresh : LargeTensors::adopted;
}();

/// Bytes from the first to the last element; -1 on overflow, for torch to complain about.
int64_t extent(DType dtype, int ndim, const int64_t* sizes, const int64_t* strides) {
    int64_t last = 0;
    for (int i = 0; i < ndim; i++) {
        if (sizes[i] == 0) return 0;
        int64_t step;
        if (sizes[i] < 0 || strides[i] < 0 || __builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return -1;
    }
    int64_t bytes;
    return __builtin_mul_overflow(last + 1, size_of(dtype), &bytes) ? -1 : bytes;
}

void advise_huge_pages(PyObject* tensor) {
    TensorView view;
    if (!read_tensor(tensor, view)) return;
    constexpr uintptr_t page = 4096;
    const auto begin = (reinterpret_cast<uintptr_t>(view.data) + page - 1) & ~(page - 1);
    const auto end = (reinterpret_cast<uintptr_t>(view.data) + static_cast<uintptr_t>(view.storage_nbytes)) & ~(page - 1);
    if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

/// A failing shim prints torch's stack trace: what is large enough to fail on a GPU in use is torch.empty_strided's to refuse.
constexpr int64_t large_cuda_bytes = int64_t{1} << 30;

bool shim_usable() {
    return state.by_offsets && state.call.empty_strided && state.call.delete_handle && (state.call.wrap_move || state.call.to_pyobject);
}

} // namespace

PyObject* make_tensor(DType dtype, Device device, int ndim, const int64_t* sizes, const int64_t* strides) {
    const int number = torch_dtype_number(dtype);
    const int64_t bytes = extent(dtype, ndim, sizes, strides);
    if (number < 0 || bytes < 0 || !shim_usable()) return make_by_call(dtype, device, ndim, sizes, strides);
    if (device.type == device_cuda && bytes < large_cuda_bytes) {
        void* handle = shim_tensor(ndim, sizes, strides, number, device);
        if (handle) return wrap_handle(handle);
    }
    if (device.type != device_cpu) return make_by_call(dtype, device, ndim, sizes, strides);
    const bool large = bytes >= large_bytes;
    if (large && large_tensors() == LargeTensors::adopted) {
        if (PyObject* tensor = make_adopted(dtype, ndim, sizes, strides, bytes)) return tensor;
        if (PyErr_Occurred()) return nullptr;
    }
    // A failing shim prints torch's stack trace; what might fail for want of memory is torch.empty_strided's to refuse.
    if (large) {
        PyObject* tensor = make_by_call(dtype, device, ndim, sizes, strides);
        if (tensor) advise_huge_pages(tensor);
        return tensor;
    }
    void* handle = shim_tensor(ndim, sizes, strides, number);
    return handle ? wrap_handle(handle) : make_by_call(dtype, device, ndim, sizes, strides);
}

PyObject* make_alias(PyObject* base, int ndim, const int64_t* sizes, const int64_t* strides, int64_t storage_offset) {
    TensorView view;
    if (!read_tensor(base, view)) return PyErr_SetString(PyExc_TypeError, "an alias needs a plain tensor"), nullptr;
    const int64_t bytes = extent(view.dtype, ndim, sizes, strides);
    if (bytes < 0 || storage_offset < 0 || (bytes > 0 && storage_offset * size_of(view.dtype) + bytes > view.storage_nbytes))
        return PyErr_SetString(PyExc_ValueError, "an alias must lie in its storage"), nullptr;
    void* handle = nullptr;
    if (shim_usable() && state.call.reinterpret &&
        state.call.reinterpret(tensor_handle(base), ndim, sizes, strides, storage_offset - view.storage_offset, &handle) == 0)
        return wrap_handle(handle);
    const int64_t zero = 0, one = 1;
    Owned<> out = Owned<>::steal(make_by_call(view.dtype, {view.device_type, view.device_index}, 1, &zero, &one));
    const Owned<> storage = Owned<>::steal(out ? PyObject_CallMethod(base, "untyped_storage", nullptr) : nullptr);
    const Owned<> a = tuple_of(ndim, sizes), b = tuple_of(ndim, strides);
    if (!storage || !a || !b) return nullptr;
    return PyObject_CallMethod(out.get(), "set_", "OLOO", storage.get(), static_cast<long long>(storage_offset), a.get(), b.get());
}

void use_large_tensors(LargeTensors way) { large_way = way; }
LargeTensors large_tensors() {
    return large_way == LargeTensors::adopted && state.phase == TorchState::Phase::ready && adoption().proved ? large_way
                                                                                                              : LargeTensors::fresh;
}

} // namespace dyno::python
