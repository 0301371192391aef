// The table of library callables that have a lowering, by identity: torch.relu, Tensor.relu, numpy.add.
// What is not in it is an extern (pure), a modelled builtin, or unknown native code.
#pragma once
#include "compiler/graph/build.h"
#include <Python.h>
#include <span>
#include <string>
#include <vector>

namespace dyno::capture {

class Recording;

/// Arguments of a call by parameter: shadow id (0 absent) and value, in the order of the row's parameter list.
struct BoundArgs {
    uint32_t ids[10] = {};
    PyObject* values[10] = {};
    size_t count = 0;
    std::vector<uint32_t> rest_ids; // what a "*" parameter gathered
    std::vector<PyObject*> rest_values;
};
using Lowering = Result<graph::NodeId> (*)(Recording&, const BoundArgs&, graph::Op, SourceSpan);

/// One callable. `parameters`: names by position, "*" for what follows only by name.
struct CallRow {
    graph::Op op;
    Lowering lower;
    const char* parameters;
    const char* path; // "torch.relu"
};

enum class Purity : uint8_t {
    pure,     // may be called in a compute phase
    in_place, // writes its first operand
    random,   // draws from a generator
    effect,   // anything else that is not for a replay
    unknown,  // not a library function we know
};

/// The row of a callable, or null.
const CallRow* row_of(PyObject* callable);
/// Whether a torch or NumPy C callable may be an extern.
Purity purity_of(PyObject* callable, std::string& name);
/// A Python function of a library that is called as a whole, since it is pure and its inside is of no use.
bool is_library_leaf(PyObject* function);
/// Functions whose result's size depends on data: nonzero, unique, masked selection.
bool data_dependent_shape(const std::string& name);
/// A callable that reads a getset descriptor of a library type (x.T), kept for the process; null if there is none.
PyObject* getter_of(PyObject* descriptor);
PyObject* getter_named(PyObject* attribute);
/// The callable and row of an operator on tensors: operator.add for BINARY_OP's number, operator.lt for a comparison.
PyObject* operator_function(int nb);
PyObject* compare_function(int op);
PyObject* unary_function(int canonical_op);
/// operator.name, kept for the process.
PyObject* operator_function(const char* name);
/// Arguments by parameter; false if the call has a form that the row does not take.
bool bind(const char* parameters, const std::span<const uint32_t>& ids, PyObject* const* values, size_t nargs, PyObject* kwnames, BoundArgs& out);

} // namespace dyno::capture
