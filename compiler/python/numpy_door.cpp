// Meets NumPy when the user has imported it: its C API, its dtypes and scalar types. It must not import NumPy itself.
#define DYNO_OWNS_NUMPY_API 1
#include "compiler/python/numpy_api.h"

#include <string>

#include "compiler/python/array.h"
#include "compiler/python/ref.h"

namespace dyno::python {

NumpyState numpy_state;

namespace {

struct NumpyName {
    DType dtype;
    int number;
};
// On this platform int64 is C's long; long long is another dtype of the same size and is left to NumPy.
constexpr NumpyName numpy_names[] = {
    {DType::b8, NPY_BOOL},       {DType::u8, NPY_UINT8},        {DType::i8, NPY_INT8},     {DType::i16, NPY_INT16},
    {DType::i32, NPY_INT32},     {DType::i64, NPY_INT64},       {DType::u16, NPY_UINT16},  {DType::u32, NPY_UINT32},
    {DType::u64, NPY_UINT64},    {DType::f16, NPY_FLOAT16},     {DType::f32, NPY_FLOAT32}, {DType::f64, NPY_FLOAT64},
    {DType::c64, NPY_COMPLEX64}, {DType::c128, NPY_COMPLEX128},
};

std::string refused_because;

bool refuse(const std::string& why) {
    refused_because = "NumPy runs interpreted: " + why;
    numpy_state.refused = true;
    return false;
}

/// numpy as sys.modules has it, once its import is over.
Borrowed<> imported_numpy() {
    static PyObject* const name = PyUnicode_InternFromString("numpy");
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* module = modules && PyDict_Check(modules) ? PyDict_GetItemWithError(modules, name) : nullptr;
    if (!module) return nullptr;
    const Owned<> spec = Owned<>::steal(PyObject_GetAttrString(module, "__spec__"));
    const Owned<> busy = Owned<>::steal(spec ? PyObject_GetAttrString(spec.get(), "_initializing") : nullptr);
    PyErr_Clear();
    return busy.get() == Py_True ? nullptr : module;
}

bool start(PyObject* module) {
    if (_import_array() < 0) {
        PyErr_Clear();
        return refuse("its C API is not one this build can use");
    }
    for (int& number : numpy_state.number_of) number = -1;
    for (auto [dtype, number] : numpy_names) {
        const int at = static_cast<int>(dtype);
        PyArray_Descr* descr = PyArray_DescrFromType(number);
        if (!descr) return PyErr_Clear(), refuse("a dtype is missing");
        if (static_cast<int64_t>(PyDataType_ELSIZE(descr)) != size_of(dtype)) return refuse("a dtype has another size");
        numpy_state.dtype_of[number] = dtype;
        numpy_state.number_of[at] = number;
        numpy_state.descr[at] = descr;
        numpy_state.scalar_type[at] = descr->typeobj;
    }
    numpy_state.module = Py_NewRef(module);
    return true;
}

} // namespace

bool numpy_ready() {
    if (numpy_state.ready || numpy_state.refused) return numpy_state.ready;
    KeepError keep;
    const Borrowed<> module = imported_numpy();
    if (!module || !start(module.get())) return false;
    prove_errstate();
    return numpy_state.ready = true;
}

const char* numpy_refusal() { return numpy_state.refused ? refused_because.c_str() : nullptr; }

} // namespace dyno::python
