// What graph operations cost, in nanoseconds an element: enough to choose between computing again and a trip to memory.
#pragma once
#include "compiler/fusion/loop_nest.h"
#include "compiler/graph/graph.h"

namespace dyno::fusion {

/// One element of the node: its own work only. Movement and leaves are free.
[[nodiscard]] double cost_of(const graph::Graph& graph, graph::NodeId node);

} // namespace dyno::fusion
