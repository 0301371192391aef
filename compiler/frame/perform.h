// Inside frame/ only: CPython's operations behind the canonical instructions, by family. Each performs the real operation
// on operands that stay on the stack (the evaluator drops them), and returns a new reference, null with an error set, or
// `in_pythons_words`: nothing was done and the frame must be handed back, since CPython composes the error's text.
#pragma once
#include "compiler/frame/session.h"

// Exported by all versions, declared in an internal header by 3.13.
extern "C" int _PyObject_GetMethod(PyObject* object, PyObject* name, PyObject** method);

namespace dyno::frame::perform {

using bytecode::Instruction;

/// See the head of this file. Never dereferenced.
inline PyObject* in_pythons_words() { return reinterpret_cast<PyObject*>(uintptr_t{1}); }
/// The outcome of an instruction without result: as above, with null for errors; `done` is not a reference.
inline PyObject* done() { return Py_None; }
inline PyObject* done_if(int status) { return status < 0 ? nullptr : done(); }

// ---- values
PyObject* binary(uint32_t op, PyObject* a, PyObject* b);
PyObject* compare(uint32_t arg, PyObject* a, PyObject* b);
PyObject* unary(bytecode::Op op, PyObject* v);
/// What BINARY_OP or COMPARE_OP comes to once a method that was called for it answered NotImplemented: the other operand's method, if it was
/// not that one (`reflected`), then what holds of any objects, or TypeError.
PyObject* after_not_implemented(const Instruction& i, PyObject* a, PyObject* b, bool reflected);
PyObject* slice(PyObject** operands);       // container, from, to
PyObject* store_slice(PyObject** operands); // value, container, from, to
PyObject* build(const Instruction& i, PyObject** sp);
PyObject* add_to_container(const Instruction& i, PyObject** sp);
PyObject* format(const Instruction& i, PyObject** sp);
/// `*target += addition` on exact strings without a copy where nobody else holds the left one. 0 or -1.
int append_text(PyObject** target, PyObject* addition);

// ---- unpacking: a list of the values (UNPACK_SEQUENCE: exactly arg; UNPACK_EX: those in the middle as one list)
PyObject* unpack(const Instruction& i, PyObject* from);

// ---- names and attributes
PyObject* load_global(InterpreterFrame* f, PyObject* name);
PyObject* load_name(InterpreterFrame* f, PyObject* name);
/// An AttributeError that __getattr__ raised is told which object and name it is about, as CPython's attribute look-up does.
void tell_attribute_error(PyObject* object, PyObject* name);
/// The namespace first, the globals and builtins then.
PyObject* load_dict_or_global(InterpreterFrame* f, PyObject* scope, PyObject* name);
/// The class's namespace first, the cell then.
PyObject* load_dict_or_cell(PyObject* scope, PyObject* name, PyObject* cell);
PyObject* store_name(InterpreterFrame* f, PyObject* name, PyObject* value);
PyObject* delete_name(const Instruction& i, InterpreterFrame* f, PyObject* name);
PyObject* setup_annotations(InterpreterFrame* f);
PyObject* import_name(InterpreterFrame* f, PyObject* name, PyObject** operands); // level, names
PyObject* import_from(PyObject* module, PyObject* name);
PyObject* builtin(InterpreterFrame* f, const char* name);
/// super().name. `operands`: super, class, self.
PyObject* load_super(const Instruction& i, PyObject* name, PyObject** operands);

// ---- calls and functions
PyObject* call(const Running& a, const Instruction& i);
PyObject* call_ex(const Running& a, const Instruction& i);
/// True where CPython's loop would enter the callee without a C call, which leaves the caller at the call's last unit.
bool entered_without_c(PyObject* callable);
PyObject* make_function(const Instruction& i, PyObject* globals, PyObject** sp);
PyObject* set_function_attr(const Instruction& i, PyObject** sp);
PyObject* print_expr(PyObject* value);

// ---- exceptions
/// The raised exception, taken, with its traceback attached.
PyObject* take_exception();
/// Sets the exception again, as RERAISE does; takes over `exception`.
void set_exception(PyObject* exception);
/// RAISE_VARARGS with operands: sets the error.
void raise(const Instruction& i, PyObject** sp);
PyObject* check_exc(PyObject* exception, PyObject* type);
void push_exc(PyThreadState* ts, PyObject** top); // top[0]: exception; becomes previous, top[1]: exception
void pop_except(PyThreadState* ts, PyObject* previous);
/// __enter__ and __exit__ bound to the manager. Null: an error is set; in_pythons_words(): one is missing.
PyObject* with_hooks(PyObject* manager, PyObject** exit);
PyObject* with_except(PyObject** sp);
/// Adds this frame's entry to the traceback of the error that is set.
void add_traceback(PyThreadState* ts);

// ---- patterns and generators
PyObject* match_keys(PyObject* map, PyObject* keys);
PyObject* yield_from_iter(PyObject* iterable);
/// The result of next() on a generator, which yielded `value` or, `ended`, returned it; takes over both. `fallback`: next()'s, or null.
PyObject* next_result(PyObject* value, PyObject* fallback, bool ended);

} // namespace dyno::frame::perform
