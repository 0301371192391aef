// The law of graphs, checked. Run after each pass in debug builds and by every test.
//
//  1. Operands come before their users; ids are in range; arity as the row says.
//  2. Every dtype is real (not none, not complex); dims are not negative.
//  3. Elementwise nodes: operands have the node's dims, and one dtype (where: condition b8), which is the node's unless the
//     row's result is b8.
//  4. Operands live on the node's device; host numbers (scalars, constants, and 0-d values computed from them alone) may be
//     used anywhere, also without expand where the dims are equal.
//  5. Torch and NumPy values do not meet; host numbers are of both.
//  6. Reductions: axes sorted, distinct, in range; their sizes become 1; argmax and argmin give i64, any and all take b8.
//  7. Movement: reshape keeps the number of elements; permute is a permutation; expand broadcasts; slice stays inside; cat adds up.
//  8. extern_call: ints[0] is an extern whose uses are the operands. extern_result: its operand is a call.
//  9. inputs and scalars list exactly the Op::input and Op::scalar nodes, each once; a tensor is never a constant with dims.
// 10. Outputs and twins are in range; strides have the rank of the node.
#pragma once
#include "compiler/graph/graph.h"
#include <string>
#include <vector>

namespace dyno::graph {

/// All breaches, each as "%7 add: operand %3 has dims [8], expected [8, 16]". Empty: a good graph.
std::vector<std::string> verify(const Graph& graph);

/// Throws InternalError with the breaches and the graph's text.
void check(const Graph& graph, const char* after);

} // namespace dyno::graph
