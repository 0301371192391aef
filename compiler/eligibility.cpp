// Which code is worth compiling: it must be able to reach a tensor or an array, and be the user's or asked for.
#include "compiler/eligibility.h"
#include "compiler/capture/names.h"
#include "compiler/driver.h"
#include "compiler/frame/layout.h"
#include "compiler/python/array.h"
#include "compiler/python/torch_door.h"
#include <cstring>

namespace dyno::compiler {
namespace {

bool mentions_data(PyCodeObject* code, PyObject* globals, int depth);

bool is_data_object(PyObject* v, int depth) {
    if (PyModule_CheckExact(v)) {
        const char* name = PyModule_GetName(v);
        if (!name) PyErr_Clear();
        return name && (std::strncmp(name, "torch", 5) == 0 || std::strncmp(name, "numpy", 5) == 0);
    }
    PyTypeObject* t = Py_TYPE(v);
    if (std::strncmp(t->tp_name, "numpy.", 6) == 0) return true;
    if (python::is_tensor_class(t)) return true;
    if (PyFunction_Check(v)) return depth < 6 && mentions_data(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(v)), PyFunction_GET_GLOBALS(v), depth + 1);
    if (PyType_Check(v)) {
        auto* type = reinterpret_cast<PyTypeObject*>(v);
        PyObject* module = type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__module__") : nullptr;
        if (module && PyUnicode_Check(module) && std::strncmp(PyUnicode_AsUTF8(module), "torch", 5) == 0) return true;
        PyObject *key, *value;
        Py_ssize_t pos = 0;
        while (depth < 4 && type->tp_dict && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyDict_Next(type->tp_dict, &pos, &key, &value))
            if (PyFunction_Check(value) && is_data_object(value, depth + 1)) return true;
        return false;
    }
    if ((t->tp_flags & Py_TPFLAGS_HEAPTYPE) && depth < 4) return is_data_object(reinterpret_cast<PyObject*>(t), depth + 1);
    if (PyCFunction_CheckExact(v)) {
        auto* f = reinterpret_cast<PyCFunctionObject*>(v);
        const char* m = f->m_module && PyUnicode_Check(f->m_module) ? PyUnicode_AsUTF8(f->m_module) : "";
        return std::strncmp(m, "torch", 5) == 0 || std::strncmp(m, "numpy", 5) == 0;
    }
    return std::strcmp(t->tp_name, "builtin_function_or_method") != 0 && std::strncmp(t->tp_name, "torch", 5) == 0;
}

/// Whether the code, or code it reaches by constant names, mentions a tensor or array source.
bool mentions_data(PyCodeObject* code, PyObject* globals, int depth) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(code->co_names); k++) {
        PyObject* name = PyTuple_GET_ITEM(code->co_names, k);
        PyObject* v = PyDict_GetItemWithError(globals, name);
        if (v && v != globals && is_data_object(v, depth)) return true;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(code->co_consts); k++) {
        PyObject* c = PyTuple_GET_ITEM(code->co_consts, k);
        if (PyCode_Check(c) && depth < 6 && mentions_data(reinterpret_cast<PyCodeObject*>(c), globals, depth + 1)) return true;
    }
    PyErr_Clear();
    return false;
}

/// Functions of cells and of files in the user's folder; library functions are inlined when called.
bool is_users(PyCodeObject* code, PyObject* globals) {
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    if (std::strcmp(file, "<string>") == 0 && PyDict_CheckExact(globals)) { // made by exec: it is whose module made it
        PyObject *name = PyDict_GetItemString(globals, "__name__"), *from = PyDict_GetItemString(globals, "__file__");
        if (name && PyUnicode_Check(name) && PyUnicode_Tailmatch(name, capture::interned("namedtuple_"), 0, PY_SSIZE_T_MAX, -1) == 1) return false;
        if (from && PyUnicode_Check(from) && (file = PyUnicode_AsUTF8(from)) == nullptr) return PyErr_Clear(), false;
    }
    if (std::strstr(file, "site-packages") || std::strstr(file, "/lib/python") || std::strncmp(file, "<frozen", 7) == 0 || std::strncmp(file, "<dyno", 5) == 0) return false;
    return std::strstr(file, "dyno/magics") == nullptr && std::strstr(file, "dyno/_") == nullptr && std::strstr(file, "dyno/kernel") == nullptr;
}

/// Inside a call of dyno.compile's, a library's models too: everything but the libraries that are called as a whole.
bool is_compilable(PyCodeObject* code) {
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    if (std::strncmp(file, "<frozen", 7) == 0) return false;
    if (std::strstr(file, "/torch/nn/modules/") || std::strstr(file, "/torch/nn/functional")) return true;
    for (const char* part : {"/lib/python3", "/torch/", "/numpy/", "dyno/magics", "dyno/_", "dyno/kernel"})
        if (std::strstr(file, part) && !(part[1] == 'l' && std::strstr(file, "-packages/"))) return false;
    return true;
}

bool holds_data(PyObject* const* locals, int n) {
    for (int k = 0; k < n; k++)
        if (locals[k] && is_data_object(locals[k], 5)) return true;
    return false;
}

/// forward() of a library's model called from a cell: what users mean by "my model".
bool is_forward(frame::InterpreterFrame* f, PyCodeObject* code) {
    if (PyUnicode_CompareWithASCIIString(code->co_name, "forward") != 0 || code->co_argcount < 1 || !f->localsplus[0]) return false;
    PyObject* module = capture::names().module;
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    return module && PyObject_IsInstance(f->localsplus[0], module) == 1 && file && !std::strstr(file, "/torch/nn/");
}

bool imports_data(PyCodeObject* code) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(code->co_names); k++)
        for (const char* library : {"torch", "numpy"})
            if (PyUnicode_Tailmatch(PyTuple_GET_ITEM(code->co_names, k), capture::interned(library), 0, PY_SSIZE_T_MAX, -1) == 1) return true;
    return false;
}

} // namespace

bool reaches_data(PyCodeObject* code, PyObject* globals) {
    return (libraries_ready() && mentions_data(code, globals, 0)) || imports_data(code);
}

bool is_module_code(frame::InterpreterFrame* f, PyCodeObject* code) { return f->f_locals && f->f_locals == f->f_globals && !(code->co_flags & CO_OPTIMIZED); }

bool libraries_ready() {
    static bool asking = false;
    if (asking) return false;
    asking = true;
    const bool ready = python::torch_ready() | python::numpy_ready();
    capture::refresh_names();
    asking = false;
    return ready;
}

bool has_users_loop(PyCodeObject* code, frame::InterpreterFrame* f) {
    CodeFacts& facts = facts_of(code);
    if (facts.users_loop == 0) {
        const bytecode::Code* decoded = is_users(code, f->f_globals) ? bytecode::code_of(code) : nullptr;
        if (!decoded) PyErr_Clear();
        facts.users_loop = decoded && decoded->has_loops() && !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) ? 2 : 1;
    }
    return facts.users_loop == 2;
}

bool is_armed(PyCodeObject* code, frame::InterpreterFrame* f) {
    State& s = state();
    if (!s.config.enabled || s.off > 0 || python::torch_starting()) return false;
    CodeFacts& facts = facts_of(code);
    facts.calls++;
    if (facts.refused) return false;
    if (facts.asked) return true;
    if (facts.cold || (s.extents == 0 && (!s.installed || !(is_users(code, f->f_globals) || is_forward(f, code))))) return false;
    if (s.extents > 0 && !is_compilable(code)) return false;
    if (!libraries_ready()) return is_module_code(f, code) && imports_data(code); // a loop may follow the import
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) return false;
    if (is_module_code(f, code)) return true; // run_cell looked
    if (facts.mentions == 0 || facts.calls > facts.looked_at + 256) { // names may come to mean something else
        facts.looked_at = facts.calls;
        facts.mentions = PyDict_CheckExact(f->f_globals) && mentions_data(code, f->f_globals, 0) ? 2 : 1;
    }
    return facts.mentions == 2 || holds_data(f->localsplus, code->co_nlocalsplus);
}

} // namespace dyno::compiler
