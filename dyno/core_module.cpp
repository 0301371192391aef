// The extension dyno._core: bindings only. The type Compiled, the functions that dyno/*.py call, and the capsule for the kernel.
#include "compiler/cache/cache.h"
#include "compiler/compiler.h"
#include "compiler/facts.h"
#include "compiler/python/make_tensor.h"
#include "compiler/python/ref.h"
#include "compiler/python/torch_door.h"
#include "compiler/report/graph_picture.h"
#include "compiler/report/reasons.h"
#include "compiler/reports.h"
#include "dyno/core_api.h"
#include <Python.h>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <structmember.h>

using dyno::Owned;
namespace compiler = dyno::compiler;

namespace {

// ------------------------------------------------------------------------------------------------ Compiled
struct Compiled {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject* wrapped;  // what was given to dyno.compile
    PyObject* dict;
    PyObject* weak_list;
    bool strict;
};

PyObject* python_code_of(PyObject* target);

using EntryHits = std::map<const dyno::cache::Entry*, uint64_t>;

/// Parts that begin where the function begins, and how often each was used.
EntryHits first_parts(PyCodeObject* code) {
    EntryHits parts;
    for (auto& [key, slot] : dyno::cache::slots_of_code(code))
        if (key.unit == 0)
            for (const auto& e : slot->entries)
                if (e->plan) parts[e.get()] = e->hits;
    return parts;
}

/// Why the call that lies between `before` and now did not become one graph, or nothing if it did. What was made or used in it counts.
std::optional<std::string> why_not_whole(PyCodeObject* code, const EntryHits& before, int& line) {
    std::string reason;
    bool whole = false;
    for (auto [entry, hits] : first_parts(code)) {
        const auto known = before.find(entry);
        if (known != before.end() && known->second == hits) continue;
        const auto& exit = dyno::replay::segment_of(*entry->plan).exit;
        if (exit.kind == dyno::capture::Exit::returns) whole = true;
        else if (reason.empty()) reason = exit.reason, line = exit.at.line;
    }
    if (reason.empty() && whole) return std::nullopt;
    const dyno::CodeFacts* facts = compiler::find_facts(code);
    for (auto& [key, slot] : dyno::cache::slots_of_code(code))
        if (key.unit == 0 && reason.empty()) reason = slot->hopeless_reason;
    if (reason.empty()) reason = facts && !facts->why.empty() ? facts->why : "nothing was captured";
    return reason;
}

/// strict: after the call everything must have become one graph.
PyObject* call_strict(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    auto code = Owned<>::steal(python_code_of(self->wrapped));
    auto* co = reinterpret_cast<PyCodeObject*>(code.get());
    if (!co) return compiler::call_armed(self->wrapped, args, nargsf, kwnames);
    const EntryHits before = first_parts(co);
    compiler::facts_of(co).wanted_whole = true; // all of it is wanted, from the first call on
    PyObject* result = compiler::call_armed(self->wrapped, args, nargsf, kwnames);
    if (!result) return nullptr;
    compiler::wait_until_in_place();
    int line = co->co_firstlineno;
    const auto reason = why_not_whole(co, before, line);
    if (!reason) return result;
    Py_DECREF(result);
    const std::string words = dyno::report::in_words(*reason).text;
    PyErr_Format(compiler::graph_break_error, "%U is not one graph: %s (line %d)", co->co_qualname, words.c_str(), line);
    return nullptr;
}

PyObject* compiled_call(PyObject* self_object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    auto* self = reinterpret_cast<Compiled*>(self_object);
    // First: behind a look-up, which a hit can afford, these calls would be slower than plain ones by more than they may.
    if (!self->strict && compiler::is_slow(self->wrapped)) return compiler::call_slow(self->wrapped, args, nargsf, kwnames);
    if (PyObject* hit = compiler::call_without_frame(self->wrapped, args, nargsf, kwnames)) return hit;
    if (self->strict) return call_strict(self, args, nargsf, kwnames);
    return compiler::call_armed(self->wrapped, args, nargsf, kwnames);
}

int compiled_traverse(PyObject* o, visitproc visit, void* arg) {
    auto* self = reinterpret_cast<Compiled*>(o);
    Py_VISIT(self->wrapped);
    Py_VISIT(self->dict);
    Py_VISIT(Py_TYPE(o));
    return 0;
}
int compiled_clear(PyObject* o) {
    auto* self = reinterpret_cast<Compiled*>(o);
    Py_CLEAR(self->wrapped);
    Py_CLEAR(self->dict);
    return 0;
}
void compiled_dealloc(PyObject* o) {
    PyObject_GC_UnTrack(o);
    auto* self = reinterpret_cast<Compiled*>(o);
    if (self->weak_list) PyObject_ClearWeakRefs(o);
    compiled_clear(o);
    PyTypeObject* type = Py_TYPE(o);
    type->tp_free(o);
    Py_DECREF(type);
}
PyObject* compiled_get(PyObject* self, PyObject* object, PyObject*) { return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self); }
/// What the object itself has not, the wrapped function has: name, doc, signature, parameters of a module.
PyObject* compiled_getattro(PyObject* o, PyObject* name) {
    PyObject* own = PyObject_GenericGetAttr(o, name);
    if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
    PyErr_Clear();
    PyObject* wrapped = reinterpret_cast<Compiled*>(o)->wrapped;
    return wrapped ? PyObject_GetAttr(wrapped, name) : nullptr;
}
PyObject* compiled_repr(PyObject* o) { return PyUnicode_FromFormat("<compiled %R>", reinterpret_cast<Compiled*>(o)->wrapped); }
PyObject* compiled_name(PyObject* o, void* which) {
    return PyObject_GetAttrString(reinterpret_cast<Compiled*>(o)->wrapped, static_cast<const char*>(which));
}

PyMemberDef compiled_members[] = {{"__wrapped__", T_OBJECT_EX, offsetof(Compiled, wrapped), READONLY, "the plain function"},
                                  {"__dictoffset__", T_PYSSIZET, offsetof(Compiled, dict), READONLY, nullptr},
                                  {"__weaklistoffset__", T_PYSSIZET, offsetof(Compiled, weak_list), READONLY, nullptr},
                                  {"__vectorcalloffset__", T_PYSSIZET, offsetof(Compiled, vectorcall), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef compiled_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                                 {"__doc__", compiled_name, nullptr, nullptr, const_cast<char*>("__doc__")},
                                 {"__module__", compiled_name, nullptr, nullptr, const_cast<char*>("__module__")},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot compiled_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(compiled_dealloc)}, {Py_tp_traverse, reinterpret_cast<void*>(compiled_traverse)}, {Py_tp_clear, reinterpret_cast<void*>(compiled_clear)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)}, {Py_tp_descr_get, reinterpret_cast<void*>(compiled_get)}, {Py_tp_getattro, reinterpret_cast<void*>(compiled_getattro)},
                                {Py_tp_setattro, reinterpret_cast<void*>(PyObject_GenericSetAttr)}, {Py_tp_repr, reinterpret_cast<void*>(compiled_repr)}, {Py_tp_members, compiled_members}, {Py_tp_getset, compiled_getset}, {0, nullptr}};
PyType_Spec compiled_spec = {"dyno._core.Compiled", sizeof(Compiled), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, compiled_slots};
PyTypeObject* compiled_type = nullptr;

// ------------------------------------------------------------------------------------------------ targets
/// The code object behind a function, method, module, Compiled or partial; a new reference, or null without an error.
PyObject* python_code_of(PyObject* target) {
    if (PyCode_Check(target)) return Py_NewRef(target);
    if (Py_IS_TYPE(target, compiled_type)) return python_code_of(reinterpret_cast<Compiled*>(target)->wrapped);
    if (PyFunction_Check(target)) return Py_NewRef(PyFunction_GET_CODE(target));
    if (PyMethod_Check(target)) return python_code_of(PyMethod_GET_FUNCTION(target));
    auto inner = Owned<>::steal(PyObject_GetAttrString(target, "func"));
    PyErr_Clear();
    if (inner && PyCallable_Check(inner.get()) && !PyType_Check(target)) return python_code_of(inner.get());
    for (const char* name : {"forward", "__call__"}) {
        PyObject* f = nullptr;
        auto text = Owned<>::steal(PyUnicode_InternFromString(name));
        f = _PyType_Lookup(Py_TYPE(target), text.get());
        if (f && PyFunction_Check(f)) return Py_NewRef(PyFunction_GET_CODE(f));
    }
    return nullptr;
}
std::string name_of(PyObject* target, PyCodeObject* code) {
    auto name = Owned<>::steal(PyObject_GetAttrString(target, "__name__"));
    PyErr_Clear();
    if (name && PyUnicode_Check(name.get())) return PyUnicode_AsUTF8(name.get());
    if (!PyFunction_Check(target) && !PyMethod_Check(target) && !PyCode_Check(target)) return Py_TYPE(target)->tp_name;
    return PyUnicode_AsUTF8(code->co_name);
}

// ------------------------------------------------------------------------------------------------ functions
PyObject* core_compile(PyObject*, PyObject* args) {
    PyObject *fn, *strict, *dynamic;
    if (!PyArg_ParseTuple(args, "OOO", &fn, &strict, &dynamic)) return nullptr;
    if (Py_IS_TYPE(fn, compiled_type)) return Py_NewRef(fn);
    auto code = Owned<>::steal(python_code_of(fn));
    if (!code) return Py_NewRef(fn); // no Python code: nothing to compile
    auto* self = PyObject_GC_New(Compiled, compiled_type);
    if (!self) return nullptr;
    self->vectorcall = compiled_call;
    self->wrapped = Py_NewRef(fn);
    self->dict = nullptr;
    self->weak_list = nullptr;
    self->strict = PyObject_IsTrue(strict) == 1;
    PyObject_GC_Track(self);
    compiler::get_ready();
    return reinterpret_cast<PyObject*>(self);
}
PyObject* core_install(PyObject*, PyObject*) { return compiler::install(), Py_NewRef(Py_None); }
PyObject* core_uninstall(PyObject*, PyObject*) { return compiler::uninstall(), Py_NewRef(Py_None); }
PyObject* core_off_enter(PyObject*, PyObject*) { return compiler::off_enter(), Py_NewRef(Py_None); }
PyObject* core_off_exit(PyObject*, PyObject*) { return compiler::off_exit(), Py_NewRef(Py_None); }
PyObject* core_wait_until_in_place(PyObject*, PyObject*) { return compiler::wait_until_in_place(), Py_NewRef(Py_None); }
PyObject* core_wait(PyObject*, PyObject*) { return compiler::wait(), Py_NewRef(Py_None); }
PyObject* core_reset(PyObject*, PyObject* target) {
    Owned<> code;
    if (target != Py_None && !(code = Owned<>::steal(python_code_of(target)))) return PyLong_FromLong(0);
    size_t bytes = compiler::reset(reinterpret_cast<PyCodeObject*>(code.get()));
    if (target == Py_None) bytes += dyno::python::block_cache_release(); // memory kept for results to come
    return PyLong_FromSize_t(bytes);
}
PyObject* text(const std::string& s) { return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())); }
/// What a function of ours answers, with a C++ exception as Python's: none may pass through the interpreter.
template <typename Make> PyObject* guarded(Make make) {
    try {
        return make();
    } catch (const std::exception& bug) {
        return PyErr_Format(PyExc_RuntimeError, "a bug of dyno's: %s", bug.what());
    }
}
PyObject* core_stats(PyObject*, PyObject*) {
    return guarded([] { return text(dyno::report::stats_json()); });
}
PyObject* core_report(PyObject*, PyObject* args) {
    const char *kind, *options;
    PyObject* target;
    if (!PyArg_ParseTuple(args, "sOs", &kind, &target, &options)) return nullptr;
    compiler::wait_until_in_place();
    if (std::strcmp(kind, "status") == 0) return guarded([] { return text(dyno::report::status_report(compiler::installed(), "")); });
    auto code = Owned<>::steal(python_code_of(target));
    if (!code) return PyErr_Format(PyExc_TypeError, "a %s has no Python code to compile", Py_TYPE(target)->tp_name);
    auto* co = reinterpret_cast<PyCodeObject*>(code.get());
    return guarded([&] { return text(dyno::report::function_report(kind, co, name_of(target, co), compiler::find_facts(co), options)); });
}
PyObject* core_control(PyObject*, PyObject* args) {
    const char *command, *options;
    PyObject* target;
    if (!PyArg_ParseTuple(args, "sOs", &command, &target, &options)) return nullptr;
    if (std::strcmp(command, "release") == 0) return text(nlohmann::json{{"ok", true}, {"bytes", dyno::python::block_cache_release()}}.dump());
    if (std::strcmp(command, "reason") == 0 && PyUnicode_Check(target)) { // how a recorded phrase is told
        const char* phrase = PyUnicode_AsUTF8(target);
        if (!phrase) return nullptr;
        const dyno::report::Reason told = dyno::report::in_words(phrase);
        return text(nlohmann::json{{"ok", true}, {"text", told.text}, {"hint", told.hint}}.dump());
    }
    const bool on = std::strcmp(command, "on") == 0;
    if (!on && std::strcmp(command, "off") != 0) return PyErr_Format(PyExc_ValueError, "no control command '%s'", command);
    if (target == Py_None) {
        if (on != compiler::installed()) on ? compiler::install() : compiler::uninstall();
        return text(R"({"ok": true})");
    }
    auto code = Owned<>::steal(python_code_of(target));
    if (!code) return PyErr_Format(PyExc_TypeError, "a %s has no Python code to compile", Py_TYPE(target)->tp_name);
    dyno::CodeFacts& facts = compiler::facts_of(reinterpret_cast<PyCodeObject*>(code.get()));
    facts.refused = !on;
    facts.asked = on;
    if (on) facts.cold = false;
    return text(R"({"ok": true})");
}
PyObject* core_run_cell(PyObject*, PyObject* args) {
    PyObject *code, *globals;
    const char* key;
    if (!PyArg_ParseTuple(args, "O!O!z", &PyCode_Type, &code, &PyDict_Type, &globals, &key)) return nullptr;
    return compiler::run_cell(code, globals, key);
}
PyObject* core_set_config(PyObject*, PyObject* args) {
    const char* name;
    PyObject* value;
    if (!PyArg_ParseTuple(args, "sO", &name, &value)) return nullptr;
    dyno::Config& c = compiler::config();
    const long number = PyLong_Check(value) ? PyLong_AsLong(value) : 0;
    if (std::strcmp(name, "check") == 0) c.check = static_cast<int>(number);
    else if (std::strcmp(name, "debug_break_everywhere") == 0) c.debug_break_everywhere = number != 0;
    else if (std::strcmp(name, "debug_force_miss") == 0) c.debug_force_miss = number != 0;
    else if (std::strcmp(name, "reproducible") == 0) c.reproducible = number != 0;
    else return PyErr_Format(PyExc_AttributeError, "no setting '%s'", name);
    Py_RETURN_NONE;
}
PyObject* core_get_config(PyObject*, PyObject*) {
    const dyno::Config& c = compiler::config();
    return text(nlohmann::json{{"check", c.check}, {"debug_break_everywhere", c.debug_break_everywhere}, {"debug_force_miss", c.debug_force_miss}, {"reproducible", c.reproducible}}.dump());
}
PyObject* core_draw_svg(PyObject*, PyObject* dot) {
    const char* source = PyUnicode_AsUTF8(dot);
    if (!source) return nullptr;
    auto svg = dyno::report::draw(source);
    if (!svg) Py_RETURN_NONE;
    return text(*svg);
}

PyMethodDef methods[] = {{"compile", core_compile, METH_VARARGS, "compile(fn, strict, dynamic)"},
                         {"install", core_install, METH_NOARGS, nullptr},
                         {"uninstall", core_uninstall, METH_NOARGS, nullptr},
                         {"off_enter", core_off_enter, METH_NOARGS, nullptr},
                         {"off_exit", core_off_exit, METH_NOARGS, nullptr},
                         {"wait", core_wait, METH_NOARGS, nullptr},
                         {"wait_until_in_place", core_wait_until_in_place, METH_NOARGS, nullptr},
                         {"reset", core_reset, METH_O, nullptr},
                         {"stats", core_stats, METH_NOARGS, nullptr},
                         {"report", core_report, METH_VARARGS, "report(kind, target, options) -> JSON text"},
                         {"control", core_control, METH_VARARGS, "control(command, target, options) -> JSON text"},
                         {"run_cell", core_run_cell, METH_VARARGS, nullptr},
                         {"set_config", core_set_config, METH_VARARGS, nullptr},
                         {"get_config", core_get_config, METH_NOARGS, nullptr},
                         {"draw_svg", core_draw_svg, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

// ------------------------------------------------------------------------------------------------ the capsule
PyObject* api_run_cell(PyObject* code, PyObject* globals, const char* key) { return compiler::run_cell(code, globals, key); }
void api_interrupt() { compiler::interrupt(); }
void api_on_event(void (*post)(void*, const char*), void* context) { compiler::set_event_listener(post, context); }
void api_quiesce() { compiler::quiesce(); }
dyno_core_api api = {DYNO_CORE_API_ABI, sizeof(dyno_core_api), api_run_cell, api_interrupt, api_on_event, api_quiesce};

void read_environment() {
    dyno::Config& c = compiler::config();
    auto flag = [](const char* name) {
        const char* v = std::getenv(name);
        return v && *v && std::strcmp(v, "0") != 0;
    };
    c.debug_break_everywhere = flag("DYNO_DEBUG_BREAK_EVERYWHERE");
    c.debug_force_miss = flag("DYNO_DEBUG_FORCE_MISS");
    if (const char* n = std::getenv("DYNO_CHECK")) c.check = std::atoi(n);
}

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dyno._core", "The compiler. Use it through `import dyno`.", -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit__core() {
    if (Py_Version >> 16 != PY_VERSION_HEX >> 16) {
        PyErr_SetString(PyExc_ImportError, "dyno._core was built for another version of Python");
        return nullptr;
    }
    PyObject* m = PyModule_Create(&definition);
    if (!m) return nullptr;
    compiled_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(m, &compiled_spec, nullptr));
    compiler::graph_break_error = PyErr_NewExceptionWithDoc("dyno.GraphBreak", "Raised by dyno.compile(fn, strict=True) when a call did not become one graph.", PyExc_RuntimeError, nullptr);
    PyObject* capsule = PyCapsule_New(&api, DYNO_CORE_API_CAPSULE, nullptr);
    if (!compiled_type || !compiler::graph_break_error || !capsule || PyModule_AddObjectRef(m, "Compiled", reinterpret_cast<PyObject*>(compiled_type)) < 0 ||
        PyModule_AddObjectRef(m, "GraphBreak", compiler::graph_break_error) < 0 || PyModule_AddObject(m, "api", capsule) < 0 || !compiler::start()) {
        Py_DECREF(m);
        return nullptr;
    }
    PyModule_AddObjectRef(m, "CAPABLE", Py_True);
    read_environment();
    Py_AtExit(compiler::quiesce); // LLVM's own statics go after that: no thread may be at work in it
    return m;
}
