// In which dtype an operation computes and which dtype its result has: the dtype column of the op table.
// Shapes are the builder's business. Nothing here makes nodes.
#pragma once
#include "compiler/graph/promote.h"
#include "compiler/support/result.h"
#include <span>

namespace dyno::graph {

/// The dtypes of one operation: operands are cast to `compute`, the result is `result`.
struct DTypeRule {
    DType compute;
    DType result;
};

/// Rule of an elementwise row (unary, binary) for these operands, or why the library (or we) refuse them.
Result<DTypeRule> elementwise_rule(Op op, Domain domain, std::span<const PromotionOperand> operands, DType default_float = DType::f32);

/// Rule of a reduction or of a composite row for an operand dtype (`requested`: the dtype argument, none if absent).
Result<DTypeRule> reduction_rule(Op op, Domain domain, DType operand, DType requested = DType::none, DType default_float = DType::f32);

} // namespace dyno::graph
