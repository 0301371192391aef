// `python_door`: the door's functions for pytest, and timings of the hot ones. Test code only.
#include <Python.h>
#include <chrono>
#include <string>

#include "compiler/python/ambient.h"
#include "compiler/python/ambient_plan.h"
#include "compiler/python/make_tensor.h"
#include "compiler/python/probe.h"
#include "compiler/python/ref.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_door.h"
#include "compiler/python/torch_state.h"
#include "compiler/python/versions.h"
#include "tests/python_door/door_methods.h"

namespace dyno::python {
namespace {

std::vector<int64_t> row_of(PyObject* sequence) {
    std::vector<int64_t> row;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence); i++) row.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(sequence, i)));
    return row;
}

DType dtype_named(const char* name) {
    for (int i = 0; i < dtype_count; i++)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    return DType::none;
}

PyObject* ready(PyObject*, PyObject*) { return PyBool_FromLong(torch_ready()); }
PyObject* refused(PyObject*, PyObject*) { return refusal() ? PyUnicode_FromString(refusal()) : Py_NewRef(Py_None); }
PyObject* threads(PyObject*, PyObject*) { return PyLong_FromLong(torch_num_threads()); }

PyObject* read(PyObject*, PyObject* tensor) {
    TensorView v;
    if (!read_tensor(tensor, v)) return Py_NewRef(Py_None);
    return Py_BuildValue(
        "{s:K,s:N,s:N,s:L,s:L,s:s,s:i,s:i,s:O,s:O,s:K,s:K,s:L,s:O,s:I,s:O}", "data", reinterpret_cast<unsigned long long>(v.data), "sizes",
        tuple_of_row(v.sizes, v.ndim), "strides", tuple_of_row(v.strides, v.ndim), "numel", static_cast<long long>(v.numel), "offset",
        static_cast<long long>(v.storage_offset), "dtype", std::string(name_of(v.dtype)).c_str(), "device_type", v.device_type,
        "device_index", v.device_index, "requires_grad", v.requires_grad ? Py_True : Py_False, "has_grad_fn",
        v.has_grad_fn ? Py_True : Py_False, "keys", static_cast<unsigned long long>(v.key_set), "storage",
        reinterpret_cast<unsigned long long>(v.storage), "nbytes", static_cast<long long>(v.storage_nbytes), "inference",
        v.inference ? Py_True : Py_False, "version", version_of(tensor), "has_grad", has_grad(tensor) ? Py_True : Py_False);
}

PyObject* plain(PyObject*, PyObject* tensor) { return PyBool_FromLong(is_plain_tensor(tensor)); }

PyObject* bump(PyObject*, PyObject* tensor) {
    bump_version(tensor);
    Py_RETURN_NONE;
}

/// matches(model, other, open_dim): does `other` match the facts of `model`, with one dim left open if open_dim >= 0?
PyObject* matches(PyObject*, PyObject* args) {
    PyObject *model, *other;
    int open_dim = -1;
    if (!PyArg_ParseTuple(args, "OO|i", &model, &other, &open_dim)) return nullptr;
    TensorFacts facts;
    if (!facts_of(model, facts)) return PyErr_SetString(PyExc_TypeError, "the model is not plain"), nullptr;
    if (open_dim >= 0) {
        facts.sizes[static_cast<size_t>(open_dim)] = any_size;
        for (int64_t& stride : facts.strides) stride = any_size;
    }
    return PyBool_FromLong(tensor_matches(other, facts));
}

/// probe(samples): None if proved, else the refusal.
PyObject* try_probe(PyObject*, PyObject* list) {
    const Layout layout = probe(list);
    return layout.refused.empty() ? Py_NewRef(Py_None) : PyUnicode_FromString(layout.refused.c_str());
}

/// The namespace of the torch source and the two dicts of numbers, for making samples.
PyObject* source(PyObject*, PyObject*) { return torch_state.source ? Py_NewRef(torch_state.source) : Py_NewRef(Py_None); }

PyObject* dtype_number(PyObject*, PyObject* name) { return PyLong_FromLong(torch_dtype_number(dtype_named(PyUnicode_AsUTF8(name)))); }

PyObject* words(PyObject*, PyObject*) {
    Ambient ambient;
    read_ambient(ambient);
    PyObject* list = PyList_New(Ambient::count);
    for (int i = 0; i < Ambient::count; i++) PyList_SET_ITEM(list, i, PyLong_FromUnsignedLongLong(ambient.words[i]));
    return list;
}

/// matches_ambient(words): the guard's form of the comparison.
PyObject* matches_ambient(PyObject*, PyObject* list) {
    Ambient expected;
    for (int i = 0; i < Ambient::count; i++) expected.words[i] = PyLong_AsUnsignedLongLongMask(PyList_GET_ITEM(list, i));
    return PyBool_FromLong(ambient_matches(expected));
}

PyObject* reason(PyObject*, PyObject*) {
    Ambient ambient;
    read_ambient(ambient);
    const char* why = ambient_reason(ambient);
    return why ? PyUnicode_FromString(why) : Py_NewRef(Py_None);
}

PyObject* modes(PyObject*, PyObject*) { return Py_BuildValue("iii", grad_enabled(), inference_mode(), deterministic_algorithms()); }
PyObject* way(PyObject*, PyObject*) { return PyUnicode_FromString(ambient_way()); }
PyObject* way_refused(PyObject*, PyObject*) {
    return ambient_plan.refused ? PyUnicode_FromString(ambient_plan.refused) : Py_NewRef(Py_None);
}
PyObject* set_way(PyObject*, PyObject* number) {
    return PyBool_FromLong(use_ambient_way(static_cast<AmbientPlan::Way>(PyLong_AsLong(number))));
}

PyObject* make(PyObject*, PyObject* args) {
    const char* dtype;
    PyObject *sizes, *strides;
    if (!PyArg_ParseTuple(args, "sO!O!", &dtype, &PyTuple_Type, &sizes, &PyTuple_Type, &strides)) return nullptr;
    const auto a = row_of(sizes), b = row_of(strides);
    return make_tensor(dtype_named(dtype), {}, static_cast<int>(a.size()), a.data(), b.data());
}

PyObject* alias(PyObject*, PyObject* args) {
    PyObject *base, *sizes, *strides;
    long long offset;
    if (!PyArg_ParseTuple(args, "OO!O!L", &base, &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &offset)) return nullptr;
    const auto a = row_of(sizes), b = row_of(strides);
    return make_alias(base, static_cast<int>(a.size()), a.data(), b.data(), offset);
}

PyObject* large_way(PyObject*, PyObject* fresh) {
    if (fresh != Py_None) use_large_tensors(PyObject_IsTrue(fresh) ? LargeTensors::fresh : LargeTensors::adopted);
    return PyUnicode_FromString(large_tensors() == LargeTensors::adopted ? "adopted" : "fresh");
}

PyObject* idle_bytes(PyObject*, PyObject*) { return PyLong_FromSize_t(block_cache_bytes()); }
PyObject* release_blocks(PyObject*, PyObject*) { return PyLong_FromSize_t(block_cache_release()); }
PyObject* limit_blocks(PyObject*, PyObject* bytes) {
    block_cache_limit(PyLong_AsSize_t(bytes));
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"ready", ready, METH_NOARGS, nullptr},
    {"refusal", refused, METH_NOARGS, nullptr},
    {"threads", threads, METH_NOARGS, nullptr},
    {"read", read, METH_O, nullptr},
    {"plain", plain, METH_O, nullptr},
    {"bump", bump, METH_O, nullptr},
    {"matches", matches, METH_VARARGS, nullptr},
    {"probe", try_probe, METH_O, nullptr},
    {"source", source, METH_NOARGS, nullptr},
    {"dtype_number", dtype_number, METH_O, nullptr},
    {"words", words, METH_NOARGS, nullptr},
    {"matches_ambient", matches_ambient, METH_O, nullptr},
    {"reason", reason, METH_NOARGS, nullptr},
    {"modes", modes, METH_NOARGS, nullptr},
    {"way", way, METH_NOARGS, nullptr},
    {"way_refused", way_refused, METH_NOARGS, nullptr},
    {"set_way", set_way, METH_O, nullptr},
    {"make", make, METH_VARARGS, nullptr},
    {"alias", alias, METH_VARARGS, nullptr},
    {"large_way", large_way, METH_O, nullptr},
    {"idle_bytes", idle_bytes, METH_NOARGS, nullptr},
    {"release_blocks", release_blocks, METH_NOARGS, nullptr},
    {"limit_blocks", limit_blocks, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "python_door", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyObject* tuple_of_row(const int64_t* row, int n) {
    PyObject* tuple = PyTuple_New(n);
    for (int i = 0; i < n; i++) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(row[i]));
    return tuple;
}

} // namespace dyno::python

PyMODINIT_FUNC PyInit_python_door() {
    PyObject* m = PyModule_Create(&dyno::python::module);
    if (m && (PyModule_AddFunctions(m, dyno::python::version_methods) < 0 || PyModule_AddFunctions(m, dyno::python::array_methods) < 0 ||
              PyModule_AddFunctions(m, dyno::python::timing_methods) < 0))
        Py_CLEAR(m);
    return m;
}
