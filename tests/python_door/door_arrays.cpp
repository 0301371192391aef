// Arrays, scalars and errstate, for test_array.py.
#include <cstring>
#include <string>

#include "compiler/python/array.h"
#include "tests/python_door/door_methods.h"

namespace dyno::python {
namespace {

DType dtype_named(const char* name) {
    for (int i = 0; i < dtype_count; i++)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    return DType::none;
}

PyObject* ready(PyObject*, PyObject*) { return PyBool_FromLong(numpy_ready()); }

PyObject* read(PyObject*, PyObject* array) {
    ArrayView v;
    if (!read_array(array, v)) return Py_NewRef(Py_None);
    return Py_BuildValue("{s:K,s:N,s:N,s:L,s:s,s:i,s:i,s:O,s:i,s:i}", "data", reinterpret_cast<unsigned long long>(v.data), "shape",
                         tuple_of_row(v.shape, v.ndim), "strides", tuple_of_row(v.strides, v.ndim), "size", static_cast<long long>(v.size),
                         "dtype", std::string(name_of(v.dtype)).c_str(), "writeable", v.writeable, "owns_data", v.owns_data, "base",
                         v.base ? v.base : Py_None, "c", v.c_contiguous, "f", v.f_contiguous);
}

PyObject* matches(PyObject*, PyObject* args) {
    PyObject *model, *other;
    ArrayView v;
    if (!PyArg_ParseTuple(args, "OO", &model, &other) || !read_array(model, v)) return nullptr;
    return PyBool_FromLong(array_matches(other, {v.dtype, v.writeable, v.ndim, v.shape, v.strides}));
}

/// scalar(x): (dtype, a NumPy scalar made anew from the value read), or None.
PyObject* scalar(PyObject*, PyObject* object) {
    alignas(16) char value[16];
    const DType dtype = read_numpy_scalar(object, value);
    if (dtype == DType::none) return Py_NewRef(Py_None);
    return Py_BuildValue("sN", std::string(name_of(dtype)).c_str(), make_numpy_scalar(dtype, value));
}

PyObject* make(PyObject*, PyObject* args) {
    const char* dtype;
    PyObject *shape, *strides = Py_None;
    if (!PyArg_ParseTuple(args, "sO!|O", &dtype, &PyTuple_Type, &shape, &strides)) return nullptr;
    int64_t a[64], b[64];
    const auto n = static_cast<int>(PyTuple_GET_SIZE(shape));
    for (int i = 0; i < n; i++) {
        a[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        b[i] = strides == Py_None ? 0 : PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i));
    }
    return make_array(dtype_named(dtype), n, a, strides == Py_None ? nullptr : b);
}

PyObject* use_blocks(PyObject*, PyObject* on) {
    use_blocks_for_arrays(PyObject_IsTrue(on));
    Py_RETURN_NONE;
}

PyObject* errstate(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(numpy_errstate()); }

} // namespace

PyMethodDef array_methods[] = {
    {"numpy_ready", ready, METH_NOARGS, nullptr},      {"read_array", read, METH_O, nullptr},
    {"array_matches", matches, METH_VARARGS, nullptr}, {"scalar", scalar, METH_O, nullptr},
    {"make_array", make, METH_VARARGS, nullptr},       {"use_blocks", use_blocks, METH_O, nullptr},
    {"errstate", errstate, METH_NOARGS, nullptr},      {nullptr, nullptr, 0, nullptr},
};

} // namespace dyno::python
