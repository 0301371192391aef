// Elementwise rows: promotion, broadcasting, and the places where a library computes something else than the plain row.
#include "compiler/graph/build_call.h"
#include "compiler/graph/rules.h"
#include "compiler/support/check.h"
#include <fmt/format.h>

namespace dyno::graph {

namespace {

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

DType inner_float(DType t) { return is_half(t) ? DType::f32 : t; }

} // namespace

/// torch's kernels for 16-bit floats read a 0-d operand in the inner f32 without rounding it to the tensor's dtype first:
/// on CPU the second operand of mul, div and floor_div; on CUDA numbers in either place of add, sub, mul, div.
bool BuildCall::keeps_scalar_unrounded(DType compute) const {
    if (placed.domain != Domain::torch || operands.size() != 2) return false;
    auto is_number = [&](size_t i) { return operands[i].wrapped || (type(i).dims.empty() && placed.device == DeviceKind::cpu); };
    if (placed.device == DeviceKind::cuda && op == Op::div && operands[1].wrapped) return true; // multiplies by the reciprocal
    if (!is_half(compute)) return false;
    if (placed.device == DeviceKind::cpu) return (op == Op::mul || op == Op::div || op == Op::floor_div) && is_number(1) && type(1).dtype != compute;
    return (op == Op::add || op == Op::sub || op == Op::mul || op == Op::div) && (operands[0].wrapped || operands[1].wrapped);
}

NodeId BuildCall::with_unrounded_scalar(DType compute, const std::vector<int64_t>& dims) {
    DType inner = inner_float(compute);
    bool cuda = placed.device == DeviceKind::cuda;
    auto side = [&](size_t i) {
        bool unrounded = operands[i].wrapped || (i == 1 && !cuda);
        return b.cast(unrounded ? operand(i) : b.cast(operand(i), compute, from), inner, from);
    };
    NodeId left = side(0), right = side(1);
    Op inner_op = op;
    if (cuda && op == Op::div && operands[1].wrapped) {
        right = make(Op::div, inner, {}, {b.constant(1.0, inner, placed.domain, from), right});
        inner_op = Op::mul;
    }
    NodeId result = make(inner_op, inner, dims, {fitted(left, inner, dims), fitted(right, inner, dims)});
    return b.cast(result, compute, from);
}

/// Constant exponents that the libraries do not raise to: the same products in the same order, rounded as eager rounds.
Result<NodeId> BuildCall::power(DType compute, const std::vector<int64_t>& dims, NodeId base) {
    double exponent = 0.0;
    bool torch = placed.domain == Domain::torch;
    if (!operands[1].wrapped || !constant_value(1, exponent)) return NodeId{};
    auto one = [&] { return fitted(b.constant_integer(1, compute, placed.domain, from), compute, dims); };
    auto times = [&](NodeId x, NodeId y) { return make(Op::mul, compute, dims, {x, y}); };
    if (!is_float(compute) && exponent < 0) return refuse("integers to a negative power");
    if (exponent == 0.0) return one();
    if (exponent == 1.0) return make(Op::cast, compute, dims, {base});
    if (exponent == 2.0) return times(base, base);
    if (exponent == 3.0 && torch) return times(times(base, base), base);
    if (!is_float(compute)) return NodeId{};
    if (exponent == 0.5 && torch) return make(Op::sqrt, compute, dims, {base});
    if (exponent == -1.0) return make(Op::reciprocal, compute, dims, {base});
    if (exponent == -2.0 && torch) return make(Op::reciprocal, compute, dims, {times(base, base)});
    if (exponent == -0.5 && torch) return make(Op::rsqrt, compute, dims, {base});
    return NodeId{};
}

Result<NodeId> BuildCall::elementwise() {
    std::vector<PromotionOperand> promoted = promotion();
    Result<DTypeRule> rule = elementwise_rule(op, placed.domain, promoted, b.default_float);
    if (!rule) return Refusal{rule.reason()};
    if (Result<bool> fits = check_weak_integers(rule->compute); !fits) return Refusal{fits.reason()};
    Result<std::vector<int64_t>> dims = common_dims();
    if (!dims) return Refusal{dims.reason()};
    if (keeps_scalar_unrounded(rule->compute)) {
        if (op == Op::floor_div && placed.device == DeviceKind::cuda) return refuse("torch multiplies by a reciprocal here");
        return with_unrounded_scalar(rule->compute, *dims);
    }
    std::vector<NodeId> uses;
    for (const Operand& operand : operands) uses.push_back(fitted(operand.node, rule->compute, *dims));
    if (op == Op::pow) {
        Result<NodeId> special = power(rule->compute, *dims, uses[0]);
        if (!special || special->valid()) return special;
    }
    NodeId result = make(op, rule->result, *dims, uses);
    if (op == Op::remainder && placed.domain == Domain::numpy && is_float(rule->compute)) {
        // NumPy gives a zero remainder the divisor's sign.
        NodeId zero = fitted(b.constant(0.0, rule->compute, placed.domain, from), rule->compute, *dims);
        NodeId is_zero = make(Op::eq, DType::b8, *dims, {result, zero});
        result = make(Op::where, rule->compute, *dims, {is_zero, make(Op::copysign, rule->compute, *dims, {zero, uses[1]}), result});
    }
    return result;
}

Result<NodeId> BuildCall::where() {
    if (placed.domain == Domain::torch && type(0).dtype != DType::b8) return refuse("the condition is not bool");
    std::vector<PromotionOperand> promoted = promotion();
    promoted.erase(promoted.begin());
    DType common = common_dtype(placed.domain, promoted, b.default_float);
    if (common == DType::none) return refuse("no common element type");
    if (Result<bool> fits = check_weak_integers(common); !fits) return Refusal{fits.reason()};
    Result<std::vector<int64_t>> dims = common_dims();
    if (!dims) return Refusal{dims.reason()};
    return make(Op::where, common, *dims, {fitted(operand(0), DType::b8, *dims), fitted(operand(1), common, *dims), fitted(operand(2), common, *dims)});
}

Result<NodeId> BuildCall::cast() {
    DType to = attributes.dtype;
    if (to == DType::none || is_complex(to)) return refuse("complex numbers are not modelled");
    if (to == DType::bf16 && placed.domain == Domain::numpy) return refuse("NumPy has no bfloat16");
    return make(Op::cast, to, type(0).dims, {operand(0)});
}

} // namespace dyno::graph
