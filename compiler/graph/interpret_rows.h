// Rows of the interpreter that gather many elements into one: reductions and composites. Internal to interpret.cpp.
#pragma once
#include "compiler/graph/interpret.h"

namespace dyno::graph {

HostArray interpret_reduction(const Node& node, const HostArray& x);
/// Straight from the composite's formula in double, not by decompose, so that each checks the other.
HostArray interpret_composite(const Node& node, std::span<const HostArray> operands);

} // namespace dyno::graph
