// Pass: composite rows (mean, var, softmax, norms, gelu, ...) become rows that fusion knows.
// Why here: after capture and autograd, whose derivatives are written for the composites; before fusion, which has no
// composites. Needs: a verified graph. Promises: no composite is left; 16-bit floats are widened to f32 inside and rounded
// once; softmax subtracts the maximum; variance is the mean of centred squares, never E[x^2] - E[x]^2.
#pragma once
#include "compiler/graph/graph.h"

namespace dyno::graph {

[[nodiscard]] Graph decompose(const Graph& graph);

/// Whether eager ends this composite by adding +0.0, which a result of -0.0 shows: torch's CPU kernel of layer_norm takes a bias of zero
/// where there is none, and the gelu of oneDNN, which torch uses for f32, gives +0.0 for -0.0 on some processors.
[[nodiscard]] bool ends_with_zero(const Node& composite);

} // namespace dyno::graph
