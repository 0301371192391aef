// The kernel's only line to the compiler: the capsule of dyno/core_api.h. Input: dyno._core, if it is there. Output: one function
// that runs a cell's code object, compiled or plain. It must not include anything of the compiler.
#pragma once

#include <Python.h>

#include <deque>
#include <functional>
#include <string>

namespace dyno::kernel {

/// Looks for the capsule and checks its version. Returns "" on success, else one clause that says what is missing. GIL held.
std::string connect_compiler();

/// Runs a module code object: by the compiler if connected, else by PyEval_EvalCode. Contract of PyEval_EvalCode. GIL held.
PyObject* run_cell(PyObject* code, PyObject* globals, const char* content_key);

/// Asks compute phases to stop; nothing if not connected. Any thread, no GIL.
void interrupt_compiled_code();

/// Sets what wakes the kernel's loop when an event is queued. Called on the compiler's threads.
void wake_on_event(std::function<void()> wake);

/// Takes the queued compiler events, oldest first. Any thread.
std::deque<std::string> take_events();

/// Stops the compiler's workers and drops the connection. GIL held.
void disconnect_compiler();

} // namespace dyno::kernel
