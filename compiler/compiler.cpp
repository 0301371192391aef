// What bindings and reports ask of the compiler: start and stop, functions and cells run with the hook on, waiting and resetting.
#include "compiler/compiler.h"
#include "compiler/call_timer.h"
#include "compiler/capture/names.h"
#include "compiler/driver.h"
#include "compiler/eligibility.h"
#include "compiler/frame/layout.h"
#include "compiler/python/versions.h"
#include "compiler/replay/interrupt.h"
#include "compiler/replay/plan.h"
#include <algorithm>
#include <pthread.h>

namespace dyno::compiler {
namespace {

void in_child() {
    State& s = state();
    s.forked = true;
    s.queue.forget_thread();
}

/// The function whose frame stands for the callable: forward of a module, the function of a method or of __call__.
PyObject* python_function_of(PyObject* callable) {
    if (PyFunction_Check(callable)) return callable;
    if (PyMethod_Check(callable)) return python_function_of(PyMethod_GET_FUNCTION(callable));
    for (const char* name : {"forward", "__call__"}) {
        PyObject* f = _PyType_Lookup(Py_TYPE(callable), capture::interned(name));
        if (f && PyFunction_Check(f)) return f;
    }
    return nullptr;
}

} // namespace

State& state() {
    static auto* s = new State;
    return *s;
}

PyObject* graph_break_error = nullptr;

Config& config() { return state().config; }

bool start() {
    State& s = state();
    if (s.started) return true;
    python::have_dict_versions(); // proved by running Python: before the hook asks
    frame::Driver driver;
    driver.enter = enter;
    driver.at_point = at_point;
    driver.bug = on_bug;
    frame::install(driver);
    for (int nb = 0; nb < 13; nb++) capture::operator_function(nb); // while imports work: a cell's globals may lack __builtins__
    for (int op = 0; op < 6; op++) capture::compare_function(op);
    for (auto op : {bytecode::Op::negative, bytecode::Op::positive, bytecode::Op::invert}) capture::unary_function(static_cast<int>(op));
    pthread_atfork(nullptr, nullptr, in_child);
    s.queue.on_done([](void*) {
        State& st = state();
        if (st.post) st.post(st.post_context, "{\"event\": \"compiled\"}");
    }, nullptr);
    s.started = true;
    return true;
}

void install() { state().installed++; }
void uninstall() {
    if (state().installed > 0) state().installed--;
}
bool installed() { return state().installed > 0; }
void off_enter() { state().off++; }
void off_exit() {
    if (state().off > 0) state().off--;
}

PyObject* call_armed(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    State& s = state();
    if (!s.config.enabled || s.off > 0) return PyObject_Vectorcall(callable, args, nargsf, kwnames);
    install_finished();
    libraries_ready();
    if (PyObject* f = python_function_of(callable)) facts_of(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f))).asked = true;
    s.extents++;
    frame::hook_on();
    PyObject* result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    frame::hook_off();
    s.extents--;
    return result;
}

bool is_slow(PyObject* callable) {
    if (!PyFunction_Check(callable) || frame::top_activation()) return false;
    const CodeFacts* facts = find_facts(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable)));
    return facts && facts->slow;
}

PyObject* call_slow(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    const auto keep = Owned<>::borrow(reinterpret_cast<PyObject*>(code)); // the function may be redefined while it runs
    CallTimer timer(code, true);
    PyObject* result = PyObject_Vectorcall(function, args, nargsf, kwnames);
    timer.watch();
    return result;
}

PyObject* call_without_frame(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    State& s = state();
    if (!s.config.enabled || s.off > 0 || !PyFunction_Check(function) || (kwnames && PyTuple_GET_SIZE(kwnames))) return nullptr;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (code->co_argcount != n || code->co_kwonlyargcount || code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE)) return nullptr;
    if (s.queue.any_done()) install_finished();
    PyObject* slots[24] = {};
    if (code->co_nlocalsplus > 24) return nullptr;
    std::copy(args, args + n, slots);
    const capture::SegmentKey key{code, 0, cache::shape_of(slots, static_cast<uint32_t>(code->co_nlocalsplus), 0)};
    cache::Slot* slot = cache::find(key);
    if (!slot || slot->entries.empty()) return nullptr;
    // Only segments that reach the return: the others need the frame.
    for (const auto& entry : slot->entries)
        if (replay::segment_of(*entry->plan).exit.kind != capture::Exit::returns) return nullptr;
    if (is_in_doubt(*slot) && (!CallTimer::decided(code) || facts_of(code).slow)) return nullptr; // whole calls are compared, or were
    const replay::Inputs inputs{slots, static_cast<uint32_t>(code->co_nlocalsplus), function, PyFunction_GET_GLOBALS(function), reinterpret_cast<PyFunctionObject*>(function)->func_builtins};
    Attempt attempt = try_entries(*slot, inputs, code);
    return attempt.hit ? attempt.outcome.result : nullptr;
}

PyObject* run_cell(PyObject* code, PyObject* globals, const char*) {
    State& s = state();
    auto* co = reinterpret_cast<PyCodeObject*>(code);
    // The hook costs every Python call: it goes on only for cells that can reach something to compile.
    const bool worth = s.config.enabled && s.installed > 0 && s.off == 0 && PyDict_CheckExact(globals) && reaches_data(co, globals);
    if (!worth) return PyEval_EvalCode(code, globals, globals);
    install_finished();
    replay::interrupt_requested.store(false); // of an earlier cell
    frame::hook_on();
    PyObject* result = PyEval_EvalCode(code, globals, globals);
    frame::hook_off();
    return result;
}

void wait_until_in_place() {
    Py_BEGIN_ALLOW_THREADS;
    state().queue.wait_idle();
    Py_END_ALLOW_THREADS;
    install_finished();
}

void wait() {
    wait_until_in_place();
    Py_BEGIN_ALLOW_THREADS;
    state().queue.wait_improved();
    Py_END_ALLOW_THREADS;
    install_finished();
}

size_t reset(PyCodeObject* code) {
    wait_until_in_place();
    forget_facts(code);
    return cache::reset(code);
}

void interrupt() { replay::interrupt_requested.store(true); }
void quiesce() { state().queue.stop(); }
void get_ready() { libraries_ready(); }
void set_event_listener(void (*post)(void*, const char*), void* context) {
    state().post = post;
    state().post_context = context;
}

} // namespace dyno::compiler
