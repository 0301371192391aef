// Which element type an operation computes in, from its operands' types: torch's categories (dimensioned tensors over
// 0-d tensors over Python numbers) and NumPy's NEP 50 (Python numbers are weak). Checked against both libraries by
// tests/graph/op_rules.tsv.
#pragma once
#include "compiler/graph/graph.h"
#include <span>

namespace dyno::graph {

/// What promotion looks at of one operand.
struct PromotionOperand {
    DType dtype;
    bool zero_dim = false; // a 0-d tensor or array
    bool wrapped = false;  // a Python number: bool b8, int i64, float f64
};

/// The dtype that holds both, DType::none where torch refuses the pair.
DType promote_torch(DType a, DType b);
/// The dtype that holds both, as numpy.promote_types.
DType promote_numpy(DType a, DType b);

/// The common dtype of an operation's operands; none if there is none. `default_float` is torch's default dtype, which a
/// Python float takes part as.
DType common_dtype(Domain domain, std::span<const PromotionOperand> operands, DType default_float = DType::f32);

} // namespace dyno::graph
