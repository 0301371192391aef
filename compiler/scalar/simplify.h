// Simplifier of scalar expressions: fewer instructions, the same bits.
//
// The law for rules. A rule may be added only if, for every value of every leaf (NaN, infinities, both zeros, subnormals and
// integer extremes among them), the result is the same bit for bit, where all NaNs are one; it may not remove a trap; and it
// must make the expression shorter or a leaf of it. So: x * 1, x / 1, x - 0.0, x + -0.0, neg neg x, but never x + 0.0 (of
// -0.0), x * 0 (of NaN), x - x (of infinity), a / b * b. Checked by tests/scalar/simplify_test.cpp on random expressions.
#pragma once
#include "compiler/scalar/scalar_expr.h"

namespace dyno::scalar {

/// Folds constants by evaluate.h, shares equal instructions, applies the rules, drops what no result needs. Gated ops of
/// constants are not folded: the host's last bit is not the generated code's. A second run changes nothing.
[[nodiscard]] ScalarExpr simplify(const ScalarExpr& expr);

} // namespace dyno::scalar
