// Types known by identity.
#include "compiler/capture/names.h"
#include "compiler/python/array.h"
#include "compiler/python/ref.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_door.h"
#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <string>
#include <unordered_map>

namespace dyno::capture {
namespace {

Names table;

/// By the type's version, which no other state of any type has. Of the present `table`.
struct KnownTraits {
    unsigned version = 0;
    Names::Traits traits{};
};
std::array<KnownTraits, 1024> known_traits;

bool torch_seen = false, numpy_seen = false;

/// sys.modules[name], borrowed, never imported from here.
PyObject* loaded(const char* name) {
    PyObject* modules = PyImport_GetModuleDict();
    return modules ? PyDict_GetItemString(modules, name) : nullptr;
}
template <class T>
void take(T*& slot, PyObject* owner, const char* name) {
    PyObject* v = owner ? PyObject_GetAttrString(owner, name) : nullptr;
    if (!v) PyErr_Clear();
    slot = reinterpret_cast<T*>(v); // library objects, kept for the process
}
void see_torch() {
    PyObject* torch = python::torch_module();
    take(table.torch_size, torch, "Size");
    take(table.torch_dtype, torch, "dtype");
    take(table.torch_layout, torch, "layout");
    take(table.torch_memory_format, torch, "memory_format");
    take(table.torch_device, torch, "device");
    take(table.tensor, torch, "Tensor");
    auto c = Owned<>::steal(PyObject_GetAttrString(torch, "_C"));
    if (c) {
        take(table.tensor_base, c.get(), "TensorBase");
        take(table.variable_functions, c.get(), "_VariableFunctions");
    }
    if (PyObject* nn = loaded("torch.nn.parameter")) take(table.parameter, nn, "Parameter");
    if (PyObject* m = loaded("torch.nn.modules.module")) {
        auto module = Owned<>::steal(PyObject_GetAttrString(m, "Module"));
        if (module) {
            table.module = module.share().release();
            table.module_setattr = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(module.get()), interned("__setattr__"));
            table.module_getattr = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(module.get()), interned("__getattr__"));
        }
    }
    PyErr_Clear();
}
void see_numpy() {
    PyObject* numpy = loaded("numpy");
    take(table.ndarray, numpy, "ndarray");
    take(table.numpy_dtype, numpy, "dtype");
    take(table.ufunc, numpy, "ufunc");
    auto sum = Owned<>::steal(PyObject_GetAttrString(numpy, "sum"));
    if (sum && !PyFunction_Check(sum.get())) {
        table.array_function = Py_TYPE(sum.get());
        Py_INCREF(table.array_function);
    }
    PyErr_Clear();
}

void see_collections() {
    take(table.deque, loaded("_collections"), "deque");
    take(table.defaultdict, loaded("_collections"), "defaultdict");
    PyObject* counter = nullptr;
    take(counter, loaded("collections"), "Counter");
    if (counter && PyType_Check(counter) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(counter), &PyDict_Type)) table.counter = reinterpret_cast<PyTypeObject*>(counter);
}

} // namespace

PyObject* interned(const char* text) {
    // Texts are literals, nearly always: their address finds them again.
    struct Known {
        const char* text;
        PyObject* string;
        const char* content;
    };
    static Known recent[256] = {};
    Known& slot = recent[(reinterpret_cast<uintptr_t>(text) >> 2) * 0x9E3779B97F4A7C15u >> 56];
    if (slot.text == text && std::strcmp(slot.content, text) == 0) return slot.string;
    static auto* known = new std::unordered_map<std::string, PyObject*>;
    auto [it, fresh] = known->try_emplace(text, nullptr);
    if (fresh) it->second = PyUnicode_InternFromString(text);
    slot = {text, it->second, it->first.c_str()};
    return it->second;
}

const Names& names() { return table; }

namespace {
/// Their frames are in no traceback, and the frames of others do not see them: as those of a builtin.
void see_consumers() {
    PyObject* module = loaded("dyno._consumers");
    PyObject* all = module ? PyModule_GetDict(module) : nullptr;
    PyObject* names = all ? PyDict_GetItemString(all, "__all__") : nullptr;
    if (!names || !PyList_Check(names)) return;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(names); k++)
        if (PyObject* function = PyDict_GetItem(all, PyList_GET_ITEM(names, k)); function && PyFunction_Check(function))
            reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->_co_firsttraceable = INT_MAX;
    table.consumers = Py_NewRef(all);
}
} // namespace

bool Names::is_consumer(PyCodeObject* code) const {
    return consumers && code->_co_firsttraceable == INT_MAX;
}

void refresh_names() {
    if (!table.method_descriptor) {
        table.method_descriptor = &PyMethodDescr_Type;
        table.wrapper_descriptor = &PyWrapperDescr_Type;
        table.classmethod_descriptor = &PyClassMethodDescr_Type;
        table.getset_descriptor = &PyGetSetDescr_Type;
    }
    if (!table.consumers) see_consumers();
    if (!table.deque) see_collections();
    const bool torch = !torch_seen && python::torch_ready(), numpy = !numpy_seen && python::numpy_ready();
    if (torch) torch_seen = true, see_torch();
    if (numpy) numpy_seen = true, see_numpy();
    if (torch || numpy) known_traits.fill({});
}

bool Names::is_library_code(PyCodeObject* code) const {
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    for (const char* part : {"/numpy/", "/torch/", "/einops/"})
        if (std::strstr(file, part) && std::strstr(file, "-packages/")) return true;
    // What those call of the standard library: contextlib, functools, warnings.
    return (std::strstr(file, "/lib/python") && !std::strstr(file, "-packages/")) || std::strncmp(file, "<frozen ", 8) == 0;
}
bool Names::is_installed_code(PyCodeObject* code) const {
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    return std::strstr(file, "-packages/") || std::strstr(file, "/lib/python");
}
bool Names::is_value_type(PyTypeObject* t) const {
    return t == torch_size || t == torch_device || is_singleton_type(t) || (numpy_dtype && PyType_IsSubtype(t, numpy_dtype));
}
bool Names::is_singleton_type(PyTypeObject* t) const { return t && (t == torch_dtype || t == torch_layout || t == torch_memory_format); }

namespace {
/// object's own, or a builtin container's that is the same function.
bool is_generic(PyObject* getattribute) {
    for (PyTypeObject* t : {&PyBaseObject_Type, &PyDict_Type, &PyODict_Type})
        if (getattribute == _PyType_Lookup(t, interned("__getattribute__"))) return true;
    return false;
}
bool has_operators_of_its_own(PyTypeObject* t) {
    static const char* const marks[] = {"__torch_function__", "__array_ufunc__", "__array_function__", "__torch_dispatch__"};
    return std::any_of(std::begin(marks), std::end(marks), [t](const char* mark) { return _PyType_Lookup(t, interned(mark)) != nullptr; });
}
/// Subclasses of builtin containers and numbers keep their base's C state: only the plain layout is followed.
bool has_plain_layout(PyTypeObject* t) {
    for (PyTypeObject* base : {&PyLong_Type, &PyFloat_Type, &PyUnicode_Type, &PyBytes_Type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)})
        if (PyType_IsSubtype(t, base)) return false;
    return t->tp_base != nullptr;
}
} // namespace

Names::Traits Names::found_traits(PyTypeObject* t) const {
    Traits found{};
    PyObject* getattribute = _PyType_Lookup(t, interned("__getattribute__"));
    const bool generic = is_generic(getattribute);
    found.followed = (t->tp_flags & Py_TPFLAGS_HEAPTYPE) && getattribute && (generic || PyFunction_Check(getattribute)) && has_plain_layout(t);
    found.plain = generic && found.followed;
    found.identity = t == &PyFunction_Type || t == &PyCFunction_Type || t == &PyModule_Type || t == method_descriptor || t == wrapper_descriptor ||
                     t == classmethod_descriptor || t == getset_descriptor || (ufunc && t == ufunc) || (array_function && t == array_function) ||
                     t == &PyProperty_Type || t == &PyStaticMethod_Type || t == &PyClassMethod_Type || t == &PyCode_Type || PyType_IsSubtype(t, &PyType_Type);
    found.overrides = t != tensor && t != parameter && t != ndarray && has_operators_of_its_own(t);
    if ((t->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyType_IsSubtype(t, &PyTuple_Type) && Py_TYPE(t) == &PyType_Type && t->tp_getattro == PyObject_GenericGetAttr) {
        PyObject* fields = _PyType_Lookup(t, interned("_fields"));
        const auto keeps = [&](const char* method) { return _PyType_Lookup(t, interned(method)) == _PyType_Lookup(&PyTuple_Type, interned(method)); };
        found.named_tuple = fields && PyTuple_CheckExact(fields) && keeps("__getitem__") && keeps("__iter__") && keeps("__len__") && t->tp_init == PyBaseObject_Type.tp_init &&
                            !t->tp_del && !t->tp_finalize;
        found.plain = found.plain || found.named_tuple;
        found.followed = found.followed || found.named_tuple;
    }
    const char* meta = Py_TYPE(t)->tp_name;
    found.enumeration = std::strcmp(meta, "EnumType") == 0 || std::strcmp(meta, "EnumMeta") == 0;
    return found;
}

Names::Traits Names::traits(PyTypeObject* t) const {
    const unsigned version = (t->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? t->tp_version_tag : 0;
    KnownTraits& known = known_traits[version % known_traits.size()];
    if (version && known.version == version) return known.traits;
    const Traits found = found_traits(t); // its look-ups give the type a version
    if (version) known = {version, found};
    return found;
}

int kw_names_before(const bytecode::Code& code, int unit) {
    for (int k = unit - 1; k >= 0 && k >= unit - 4; k--)
        if (code.instructions[static_cast<size_t>(k)].op == bytecode::Op::kw_names) return k;
    return unit;
}

} // namespace dyno::capture
