// Which code is worth compiling.
#pragma once
#include "compiler/frame/layout.h"
#include <Python.h>

namespace dyno::compiler {

/// A cell, a script: names live in a dict, code runs once.
bool is_module_code(frame::InterpreterFrame* f, PyCodeObject* code);
/// Whether torch or NumPy is there. Their proofs run Python, which comes here too - frames of their own and of threads that are let in
/// meanwhile: those get a no.
bool libraries_ready();
/// Whether the cell mentions a tensor or array source, or imports torch or NumPy itself: the functions that it defines and calls may
/// be compiled from then on.
bool reaches_data(PyCodeObject* code, PyObject* globals);
/// Whether it is the user's own code, not a library's, and has a loop.
bool has_users_loop(PyCodeObject* code, frame::InterpreterFrame* f);
/// Whether the frame that arrives is to be looked at. Counts the call.
bool is_armed(PyCodeObject* code, frame::InterpreterFrame* f);

} // namespace dyno::compiler
