// The shape of every pass: walk a graph in order, give each node a replacement in a new graph.
#pragma once
#include "compiler/graph/build.h"
#include <functional>

namespace dyno::graph {

/// Makes the node of the new graph that stands for `node`, whose operands are ids of the new graph already.
/// `old` is its id in the old graph. Builder::add_node(node) keeps it.
using Replace = std::function<NodeId(Builder&, const Node& node, NodeId old)>;

/// The graph with every node replaced; inputs, scalars, externs, outputs and notes are carried over. A twin stays with the
/// node that replaces its own.
[[nodiscard]] Graph rewrite(const Graph& graph, const Replace& replace);

/// Whether computing the node can fail: integer division by what may be zero, integer powers of what may be negative. Such
/// a node is needed even if nothing uses its value, since eager would raise.
bool may_trap(const Graph& graph, NodeId id);

/// For each node, whether an output, an extern or a node that is itself used needs it. Inputs, scalars, eager calls and what may trap are
/// always used.
std::vector<bool> used_nodes(const Graph& graph);

/// For each node, whether its value must exist as an object: outputs, what externs use, calls and their results.
std::vector<bool> object_nodes(const Graph& graph);

} // namespace dyno::graph
