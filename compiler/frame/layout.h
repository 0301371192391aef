// Where CPython 3.11, 3.12 and 3.13 keep what a running frame is: code, function, position, namespaces, links, counters.
// The only header that looks into _PyInterpreterFrame. Inline reads and writes; nothing here runs code or changes a count.
#pragma once
#include <Python.h>
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#define DYNO_UNDEFINE_CORE
#endif
#undef HAVE_STD_ATOMIC // the internal headers' C11 atomics are not C++; they fall back on compiler builtins
extern "C" {
#include <internal/pycore_frame.h>
#define PyObject_GC_IsFinalized dyno_unused_is_finalized // declared once as a function and once as static, from 3.12 on
#include <internal/pycore_interp.h>
#undef PyObject_GC_IsFinalized
}
#ifdef DYNO_UNDEFINE_CORE
#undef Py_BUILD_CORE
#undef DYNO_UNDEFINE_CORE
#endif

namespace dyno::frame {

using InterpreterFrame = _PyInterpreterFrame;
using CodeUnit = _Py_CODEUNIT;

#define DYNO_312 (PY_VERSION_HEX >= 0x030C0000)
#define DYNO_313 (PY_VERSION_HEX >= 0x030D0000)

inline PyCodeObject* code_object(InterpreterFrame* f) {
#if DYNO_313
    return reinterpret_cast<PyCodeObject*>(f->f_executable);
#else
    return f->f_code;
#endif
}
inline PyFunctionObject* function_of(InterpreterFrame* f) {
#if DYNO_312
    return reinterpret_cast<PyFunctionObject*>(f->f_funcobj);
#else
    return f->f_func;
#endif
}
inline PyObject* globals_of(InterpreterFrame* f) { return f->f_globals; }
inline PyObject* builtins_of(InterpreterFrame* f) { return f->f_builtins; }
/// The namespace of a class body or of a module; null in functions.
inline PyObject* namespace_of(InterpreterFrame* f) { return f->f_locals; }
inline PyObject** locals_of(InterpreterFrame* f) { return f->localsplus; }
inline bool in_generator(InterpreterFrame* f) { return f->owner == FRAME_OWNED_BY_GENERATOR; }
inline InterpreterFrame* frame_of_generator(PyObject* generator) {
    return reinterpret_cast<InterpreterFrame*>(reinterpret_cast<PyGenObject*>(generator)->gi_iframe);
}
inline CodeUnit* units_of(PyCodeObject* code) { return reinterpret_cast<CodeUnit*>(code->co_code_adaptive); }

/// Whether a local is a cell: a variable that inner functions use.
inline bool is_cell_variable(PyCodeObject* code, int slot) { return PyBytes_AS_STRING(code->co_localspluskinds)[slot] & 0x40; } // CO_FAST_CELL

/// The instruction at `unit` is running: what line numbers, tracebacks and warnings read.
inline void set_running(InterpreterFrame* f, CodeUnit* unit) {
#if DYNO_313
    f->instr_ptr = unit;
#else
    f->prev_instr = unit;
#endif
}
/// The unit last said to be running.
inline int running_unit(InterpreterFrame* f, PyCodeObject* code) {
#if DYNO_313
    return static_cast<int>(f->instr_ptr - units_of(code));
#else
    return static_cast<int>(f->prev_instr - units_of(code));
#endif
}
/// The instruction at `unit` comes next once CPython's loop gets the frame.
inline void set_next(InterpreterFrame* f, CodeUnit* unit) {
#if DYNO_313
    f->instr_ptr = unit;
#else
    f->prev_instr = unit - 1;
#endif
}
/// The unit that comes next in a frame that nobody runs.
inline int next_unit(InterpreterFrame* f, PyCodeObject* code) {
#if DYNO_313
    return static_cast<int>(f->instr_ptr - units_of(code));
#else
    return static_cast<int>(f->prev_instr + 1 - units_of(code));
#endif
}
/// True before the frame's first instruction.
inline bool is_fresh(InterpreterFrame* f, PyCodeObject* code) { return next_unit(f, code) == 0; }

/// Whether the garbage collector is at work: Python code that starts now is a finaliser's or a callback's, at no point of the program.
inline bool collecting() { return PyInterpreterState_Get()->gc.collecting != 0; }

/// The thread's current frame. CPython's loop links a frame itself: unlink before handing one over.
inline InterpreterFrame*& current_frame(PyThreadState* ts) {
#if DYNO_313
    return ts->current_frame;
#else
    return ts->cframe->current_frame;
#endif
}
inline int& python_recursion(PyThreadState* ts) {
#if DYNO_312
    return ts->py_recursion_remaining;
#else
    return ts->recursion_remaining;
#endif
}
inline int c_stack_left(PyThreadState* ts) {
#if DYNO_312
    return ts->c_recursion_remaining;
#else
    return ts->recursion_remaining;
#endif
}

} // namespace dyno::frame
