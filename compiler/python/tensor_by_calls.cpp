// The public way: what tensor.cpp reads by offsets, asked of torch's public calls. For a torch whose layout was refused.
// Some microseconds a tensor; it must give the same answers and must not leave an error set.
#include <limits>
#include <set>
#include <vector>

#include "compiler/python/ref.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_state.h"

namespace dyno::python {
namespace {

struct Names {
    PyObject *shape = intern("shape"), *stride = intern("stride"), *dtype = intern("dtype"), *device = intern("device"),
             *type = intern("type"), *index = intern("index"), *requires_grad = intern("requires_grad"), *grad_fn = intern("grad_fn"),
             *storage_offset = intern("storage_offset"), *untyped_storage = intern("untyped_storage"), *cdata = intern("_cdata"),
             *nbytes = intern("nbytes"), *data_ptr = intern("data_ptr"), *is_inference = intern("is_inference"),
             *version = intern("_version"), *raw_repr = intern("raw_repr"), *dispatch_keys = intern("_dispatch_keys"), *c = intern("_C"),
             *grad = intern("grad"), *is_leaf = intern("is_leaf"), *numel = intern("numel"), *increment = intern("_increment_version"),
             *unpack_dual = intern("_unpack_dual"), *vf = intern("_VF");
    static PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }
};

const Names& names() {
    static const Names all;
    return all;
}

/// Rows that views point at: kept for ever, since a view has no place for numbers of its own. Bounded; beyond, tensors are not plain.
const int64_t* kept_row(std::vector<int64_t> row) {
    static auto& rows = *new std::set<std::vector<int64_t>>;
    constexpr size_t most = 65536;
    row.push_back(0); // never empty, so that the pointer is good for rank 0 as well
    if (rows.size() >= most && !rows.count(row)) return nullptr;
    return rows.insert(std::move(row)).first->data();
}

/// One question after another; the first error makes all later answers 0 and `failed` true.
class Asker {
  public:
    bool failed = false;

    Owned<> attribute(PyObject* of, PyObject* name) { return checked(failed || !of ? nullptr : PyObject_GetAttr(of, name)); }
    Owned<> method(PyObject* of, PyObject* name) { return checked(failed || !of ? nullptr : PyObject_CallMethodNoArgs(of, name)); }
    uint64_t word(const Owned<>& value) {
        if (failed) return 0;
        const uint64_t word = PyLong_AsUnsignedLongLongMask(value.get());
        if (PyErr_Occurred()) fail();
        return word;
    }
    std::vector<int64_t> row(const Owned<>& tuple) {
        std::vector<int64_t> out;
        if (failed || !PyTuple_Check(tuple.get())) return fail(), out;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); i++) out.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.get(), i)));
        if (PyErr_Occurred()) fail();
        return out;
    }

  private:
    Owned<> checked(PyObject* value) {
        if (!value) fail();
        return Owned<>::steal(value);
    }
    void fail() {
        failed = true;
        PyErr_Clear();
    }
};

uint64_t key_set_of(Asker& ask, PyObject* object) {
    const Owned<> c = ask.attribute(torch_state.module, names().c);
    const Owned<> call = ask.attribute(c.get(), names().dispatch_keys);
    if (ask.failed) return 0;
    const Owned<> keys = Owned<>::steal(PyObject_CallOneArg(call.get(), object));
    if (!keys) {
        PyErr_Clear();
        ask.failed = true;
        return 0;
    }
    return ask.word(ask.method(keys.get(), names().raw_repr));
}

bool read_device(Asker& ask, PyObject* object, TensorView& view) {
    const Owned<> device = ask.attribute(object, names().device);
    const Owned<> type = ask.attribute(device.get(), names().type);
    const Owned<> index = ask.attribute(device.get(), names().index);
    if (ask.failed) return false;
    const bool cpu = PyUnicode_CompareWithASCIIString(type.get(), "cpu") == 0;
    if (!cpu && PyUnicode_CompareWithASCIIString(type.get(), "cuda") != 0) return false;
    view.device_type = cpu ? device_cpu : device_cuda;
    view.device_index = index.get() == Py_None ? int8_t{-1} : static_cast<int8_t>(PyLong_AsLong(index.get()));
    return true;
}

bool read_storage(Asker& ask, PyObject* object, TensorView& view) {
    const Owned<> storage = ask.method(object, names().untyped_storage);
    view.storage = reinterpret_cast<void*>(ask.word(ask.attribute(storage.get(), names().cdata)));
    view.storage_nbytes = static_cast<int64_t>(ask.word(ask.method(storage.get(), names().nbytes)));
    view.storage_offset = static_cast<int64_t>(ask.word(ask.method(object, names().storage_offset)));
    const uint64_t base = ask.word(ask.method(storage.get(), names().data_ptr)); // data_ptr of an empty tensor itself is always 0
    view.data = base ? reinterpret_cast<char*>(base) + view.storage_offset * size_of(view.dtype) : nullptr;
    return !ask.failed;
}

/// A dual's tangent is not None.
bool is_dual(Asker& ask, PyObject* object) {
    const Owned<> vf = ask.attribute(torch_state.module, names().vf);
    const Owned<> unpack = ask.attribute(vf.get(), names().unpack_dual);
    if (ask.failed) return true;
    const Owned<> level = Owned<>::steal(PyLong_FromLong(0));
    PyObject* args[] = {object, level.get()};
    const Owned<> parts = Owned<>::steal(PyObject_Vectorcall(unpack.get(), args, 2, nullptr));
    if (!parts) return PyErr_Clear(), true;
    return !PyTuple_Check(parts.get()) || PyTuple_GET_SIZE(parts.get()) < 2 || PyTuple_GET_ITEM(parts.get(), 1) != Py_None;
}

} // namespace

bool read_by_calls(PyObject* object, TensorView& out) {
    if (torch_state.phase != TorchState::Phase::ready) return false;
    KeepError keep;
    Asker ask;
    TensorView view;
    view.key_set = key_set_of(ask, object);
    if (ask.failed || !read_device(ask, object, view) || !plain_keys_known(view.key_set, view.device_type)) return false;
    view.dtype = dtype_of_torch(ask.attribute(object, names().dtype).get());
    if (view.dtype == DType::none || !read_storage(ask, object, view)) return false;
    const std::vector<int64_t> sizes = ask.row(ask.attribute(object, names().shape)), strides = ask.row(ask.method(object, names().stride));
    view.ndim = static_cast<int>(sizes.size());
    view.numel = static_cast<int64_t>(ask.word(ask.method(object, names().numel)));
    view.requires_grad = ask.attribute(object, names().requires_grad).get() == Py_True;
    view.has_grad_fn = view.requires_grad && ask.attribute(object, names().grad_fn).get() != Py_None;
    view.inference = ask.method(object, names().is_inference).get() == Py_True;
    if (ask.failed || is_dual(ask, object)) return false;
    view.sizes = kept_row(sizes);
    view.strides = kept_row(strides);
    if (!view.sizes || !view.strides) return false;
    out = view;
    return true;
}

uint32_t version_by_calls(PyObject* tensor) {
    KeepError keep;
    Asker ask;
    if (ask.method(tensor, names().is_inference).get() == Py_True) return 0;
    return static_cast<uint32_t>(ask.word(ask.attribute(tensor, names().version)));
}

void bump_by_calls(PyObject* tensor) {
    KeepError keep;
    Asker ask;
    if (ask.method(tensor, names().is_inference).get() == Py_True) return;
    const Owned<> c = ask.attribute(torch_state.module, names().c);
    const Owned<> increment = ask.attribute(c.get(), names().increment);
    const Owned<> list = Owned<>::steal(PyTuple_Pack(1, tensor));
    if (!ask.failed && list && !Owned<>::steal(PyObject_CallOneArg(increment.get(), list.get()))) PyErr_Clear();
}

bool has_grad_by_calls(PyObject* tensor) {
    KeepError keep;
    Asker ask;
    if (ask.attribute(tensor, names().is_leaf).get() != Py_True) return false;
    return !ask.failed && ask.attribute(tensor, names().grad).get() != Py_None;
}

} // namespace dyno::python
