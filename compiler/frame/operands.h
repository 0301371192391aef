// Where the operands of a call lie on the stack, which differs between CPython's versions.
#pragma once
#include "compiler/frame/evaluator.h"

namespace dyno::frame {

/// The operands of Op::call and Op::call_kw; all borrowed from the stack.
struct CallOperands {
    PyObject* callable;
    PyObject** args;   // self first where the call has one; keyword values last
    size_t positional; // self included
    PyObject* kwnames; // null without keywords
    PyObject** bottom; // first of the values that the call takes from the stack
    PyObject** callable_slot;
};

inline CallOperands call_operands(const Activation& a, const bytecode::Instruction& i) {
    const bool names_on_top = i.op == bytecode::Op::call_kw;
    PyObject** first = a.sp - names_on_top - i.arg;
    PyObject* kwnames = names_on_top ? a.sp[-1] : a.kwnames;
    const size_t named = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
    // Up to 3.12: method, self, or NULL, callable. From 3.13: callable, self or NULL.
    const bool self = bytecode::python >= 313 ? first[-1] != nullptr : first[-2] != nullptr;
    PyObject** callable = bytecode::python >= 313 || self ? first - 2 : first - 1;
    return {*callable, first - self, i.arg - named + self, kwnames, first - 2, callable};
}

/// The operands of Op::call_ex: positional arguments (any iterable) and a dict or null.
struct CallExOperands {
    PyObject* callable;
    PyObject** arguments; // the slot of the iterable
    PyObject* keywords;
    PyObject** bottom;
};

inline CallExOperands call_ex_operands(const Activation& a, const bytecode::Instruction& i) {
    PyObject** arguments = a.sp - (i.arg & 1) - 1;
    return {bytecode::python >= 313 ? arguments[-2] : arguments[-1], arguments, i.arg & 1 ? a.sp[-1] : nullptr, arguments - 2};
}

} // namespace dyno::frame
