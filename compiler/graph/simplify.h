// Pass: what changes no bit of any value. Dead nodes go; casts of casts where the inner one loses nothing; reshape of
// reshape, permute of permute, expand of expand, slice of slice, flip of flip; movement that moves nothing.
// Why here: after decompose and after autograd, which leave such chains; before fusion, which then sees fewer nodes.
// Promises: outputs, operands of externs and nodes with a twin stay nodes of their own (an object that eager made is never
// replaced by another one); a second run changes nothing.
#pragma once
#include "compiler/graph/graph.h"

namespace dyno::graph {

[[nodiscard]] Graph simplify(const Graph& graph);

/// Only the dead nodes. Eager calls stay: they may have effects.
[[nodiscard]] Graph drop_dead(const Graph& graph);

/// Every value of `from` has an equal one in `to`, so that the cast can be undone.
bool is_exact_cast(DType from, DType to);

} // namespace dyno::graph
