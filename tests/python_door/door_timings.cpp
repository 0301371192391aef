// Nanoseconds of the hot functions: the best of seven short loops. Test code only; nothing is asserted on them.
#include <chrono>
#include <cstring>
#include <string>

#include "compiler/python/ambient.h"
#include "compiler/python/array.h"
#include "compiler/python/make_tensor.h"
#include "compiler/python/tensor.h"
#include "compiler/python/versions.h"
#include "tests/python_door/door_methods.h"

namespace dyno::python {
namespace {

template <class F>
double nanoseconds(long n, F f) {
    double best = 1e99;
    for (int round = 0; round < 7; round++) {
        const auto start = std::chrono::steady_clock::now();
        for (long i = 0; i < n; i++) f();
        const double each =
            std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(n);
        best = each < best ? each : best;
    }
    return best;
}

template <class T>
void keep(const T& value) {
    asm volatile("" ::"r"(&value) : "memory");
}

/// time(what, object, object): nanoseconds a turn.
PyObject* time(PyObject*, PyObject* args) {
    const char* text;
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "sOO", &text, &a, &b)) return nullptr;
    const std::string what = text;
    double ns = -1;
    if (what == "read pair")
        ns = nanoseconds(100000, [&] {
            TensorView v, w;
            keep(read_tensor(a, v));
            keep(read_tensor(b, w));
            keep(v);
            keep(w);
        });
    if (what == "match pair") {
        TensorFacts fa, fb;
        if (!facts_of(a, fa) || !facts_of(b, fb)) return PyErr_SetString(PyExc_TypeError, "not plain"), nullptr;
        ns = nanoseconds(100000, [&] {
            const bool x = tensor_matches(a, fa) && tensor_matches(b, fb);
            keep(x);
        });
    }
    if (what == "read arrays")
        ns = nanoseconds(100000, [&] {
            ArrayView v, w;
            keep(read_array(a, v));
            keep(read_array(b, w));
            keep(v);
        });
    if (what == "ambient") {
        Ambient first;
        read_ambient(first);
        ns = nanoseconds(100000, [&] {
            const bool x = ambient_matches(first);
            keep(x);
        });
    }
    if (what == "grad")
        ns = nanoseconds(100000, [&] {
            const bool x = grad_enabled();
            keep(x);
        });
    if (what == "errstate")
        ns = nanoseconds(100000, [&] {
            const uint64_t x = numpy_errstate();
            keep(x);
        });
    if (what == "bump") ns = nanoseconds(100000, [&] { bump_version(a); });
    if (what == "slot") {
        const AttributeSlot slot = find_attribute_slot(a, b);
        ns = nanoseconds(100000, [&] {
            PyObject* x = read_attribute_slot(a, slot, b);
            keep(x);
        });
    }
    if (what == "attribute")
        ns = nanoseconds(100000, [&] {
            PyObject* x = instance_attribute(a, b);
            keep(x);
        });
    if (what == "make tensor") {
        TensorView v;
        if (!read_tensor(a, v)) return PyErr_SetString(PyExc_TypeError, "not plain"), nullptr;
        ns = nanoseconds(v.numel > 100000 ? 200 : 20000, [&] { Py_XDECREF(make_tensor(v.dtype, {}, v.ndim, v.sizes, v.strides)); });
    }
    if (what == "make array") {
        ArrayView v;
        if (!read_array(a, v)) return PyErr_SetString(PyExc_TypeError, "not plain"), nullptr;
        ns = nanoseconds(v.size > 100000 ? 200 : 20000, [&] { Py_XDECREF(make_array(v.dtype, v.ndim, v.shape)); });
    }
    if (what == "make scalar") {
        const double x = 1.5;
        ns = nanoseconds(20000, [&] { Py_XDECREF(make_numpy_scalar(DType::f64, &x)); });
    }
    return ns < 0 ? PyErr_Format(PyExc_KeyError, "%s", text) : PyFloat_FromDouble(ns);
}

/// first_touch(MiB, turns): milliseconds of making a tensor, writing it all once and dropping it; the best turn.
PyObject* first_touch(PyObject*, PyObject* args) {
    long mib, turns;
    if (!PyArg_ParseTuple(args, "ll", &mib, &turns)) return nullptr;
    const int64_t n = mib << 18, one = 1;
    double best = 1e99;
    for (long turn = 0; turn < turns; turn++) {
        const auto start = std::chrono::steady_clock::now();
        PyObject* tensor = make_tensor(DType::f32, {}, 1, &n, &one);
        TensorView v;
        if (!tensor || !read_tensor(tensor, v)) return nullptr;
        std::memset(v.data, 1, static_cast<size_t>(n) * 4);
        Py_DECREF(tensor);
        const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        best = ms < best ? ms : best;
    }
    return PyFloat_FromDouble(best);
}

} // namespace

PyMethodDef timing_methods[] = {
    {"time", time, METH_VARARGS, nullptr}, {"first_touch", first_touch, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

} // namespace dyno::python
