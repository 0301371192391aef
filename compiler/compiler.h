// The Compiler: the circle closes here (frame arrives -> look up -> replay, or record -> compile -> install). One per process,
// made by dyno._core; what bindings and reports may ask of it.
#pragma once
#include "compiler/cache/cache.h"
#include "compiler/facts.h"
#include <Python.h>

namespace dyno {

struct Config {
    bool enabled = true;
    bool debug_break_everywhere = false;
    bool debug_force_miss = false;
    int check = 0;
    bool reproducible = false;
};

namespace compiler {

Config& config();
/// Starts everything once: installs the driver. False with an error set if this interpreter is not for us.
bool start();

/// Transparent mode: counted.
void install();
void uninstall();
bool installed();
/// dyno.off(): frames run interpreted while the count is above zero.
void off_enter();
void off_exit();
/// Runs a function with the hook on and its code armed. Contract of PyObject_Vectorcall.
PyObject* call_armed(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames);
/// Whether the function turned out slower compiled: call_slow() runs it without the hook, which would make it slower still.
bool is_slow(PyObject* callable);
PyObject* call_slow(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames);
/// A hit without a frame, if one is possible now; null without an error: go the other way.
PyObject* call_without_frame(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames);
/// Contract of PyEval_EvalCode; loops and calls in it are compiled.
PyObject* run_cell(PyObject* code, PyObject* globals, const char* content_key);
/// Until what was recorded is compiled and installed. May run other threads.
void wait_until_in_place();
/// The same, and until its better code (level 2) is in place too.
void wait();
size_t reset(PyCodeObject* code);
void interrupt();
void quiesce();
/// Proves what is loaded of torch and NumPy, so that no first call pays for that.
void get_ready();
void set_event_listener(void (*post)(void*, const char*), void* context);
/// strict=True: records until one graph covers the call. Null with dyno.GraphBreak set.
extern PyObject* graph_break_error;

} // namespace compiler
} // namespace dyno
