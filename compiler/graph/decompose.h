// Pass: composite rows (mean, var, softmax, norms, gelu, ...) become rows that fusion knows.
// Why here: after capture and autograd, whose derivatives are written for the composites; before fusion, which has no
// composites. Needs: a verified graph. Promises: no composite is left; 16-bit floats are widened to f32 inside and rounded
// once; softmax subtracts the maximum; variance is the mean of centred squares, never E[x^2] - E[x]^2.
#pragma once
#include "compiler/graph/graph.h"

namespace dyno::graph {

[[nodiscard]] Graph decompose(const Graph& graph);

} // namespace dyno::graph
