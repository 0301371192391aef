// The text form of graphs: printed and parsed uniformly, no case per op.
//
//   %0: f32[8,16] = input {strides=[16,1]}
//   %1: f64[] = scalar
//   %2: f32[] = constant {number=0.5}
//   %3: f32[8,16] = exp %0 {ints=[..], number=.., twin=1, at=3:7}
//   extern 0 torch.matmul (%0, %3) view
//   output %3 {strides=[16,1]}
//
// A type is dtype[dims], then `@cuda:0` where it is not on the CPU and `numpy` where it is not torch's. `at` is code:line.
// Numbers are printed so that they read back to the same bits. Notes are not part of it.
#pragma once
#include "compiler/graph/graph.h"
#include "compiler/support/result.h"
#include <string>
#include <string_view>

namespace dyno::graph {

std::string to_text(const Graph& graph);
/// "%3: f32[8,16] = exp %0 {...}"
std::string to_text(const Graph& graph, NodeId id);
std::string to_text(const Type& type);
/// The graph, or a line and what is wrong there. Not verified. `#` begins a comment.
Result<Graph> parse(std::string_view text);

} // namespace dyno::graph
