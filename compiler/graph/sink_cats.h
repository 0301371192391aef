// A pass: concatenations go behind the elementwise operations that use them, so that loops write the parts where they end.
#pragma once
#include "compiler/graph/graph.h"

namespace dyno::graph {

/// f(cat(a, b), y) becomes cat(f(a, y's first part), f(b, y's second part)) where nobody else sees the inner cat: it is never in memory.
[[nodiscard]] Graph sink_cats(const Graph& graph);

} // namespace dyno::graph
