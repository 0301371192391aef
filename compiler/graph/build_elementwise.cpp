// Elementwise rows: promotion, broadcasting, and the places where a library computes something else than the plain row.
#include "compiler/graph/build_call.h"
#include "compiler/graph/op_info.h"
#include "compiler/scalar/gpu_ops.h"
#include "compiler/graph/rules.h"
#include "compiler/support/check.h"
#include <cmath>
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
    if (placed.device == DeviceKind::cpu)
        return (op == Op::mul || op == Op::div || op == Op::floor_div) && is_number(1) && type(1).dtype != compute;
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

/// An invalid id unless the exponent is such a constant. Constant exponents that the libraries do not raise to: the same products, rounded
/// as eager rounds: torch's CPU kernels for f16 work in f32 and round once; those for bf16, and CUDA's, round each product.
NodeId BuildCall::power(DType compute, const std::vector<int64_t>& dims, NodeId base) {
    double exponent = 0.0;
    bool torch = placed.domain == Domain::torch;
    if (!operands[1].wrapped || !constant_value(1, exponent)) return NodeId{};
    if (exponent == 0.0) return fitted(b.constant_integer(1, compute, placed.domain, from), compute, dims);
    if (exponent == 1.0) return make(Op::cast, compute, dims, {base});
    if (exponent == 2.0) return make(Op::mul, compute, dims, {base, base});
    bool cubes = torch && exponent == 3.0;
    bool halves = std::fabs(exponent) == 0.5;
    bool f16_in_f32 = torch && compute == DType::f16 && placed.device == DeviceKind::cpu;
    if (halves && f16_in_f32) return NodeId{}; // its kernel calls pow here, which differs at -inf and -0
    bool floats = is_float(compute) && (exponent == 0.5 || exponent == -1.0 || (torch && (exponent == -2.0 || exponent == -0.5)));
    if (!cubes && !floats) return NodeId{};
    DType inner = f16_in_f32 ? DType::f32 : compute;
    NodeId x = b.cast(base, inner, from);
    auto one = [&](Op node_op, NodeId value) { return make(node_op, inner, dims, {value}); };
    auto times = [&](NodeId left, NodeId right) { return make(Op::mul, inner, dims, {left, right}); };
    NodeId result = cubes              ? times(times(x, x), x)
                    : exponent == 0.5  ? one(Op::sqrt, x)
                    : exponent == -1.0 ? one(Op::reciprocal, x)
                    : exponent == -2.0 ? one(Op::reciprocal, times(x, x))
                                       : one(Op::rsqrt, x);
    return b.cast(result, compute, from);
}

/// What NumPy does to a row's result that torch does not.
NodeId BuildCall::numpy_variant(NodeId result, const std::vector<NodeId>& uses) {
    DType dtype = b.type(result).dtype;
    const std::vector<int64_t> dims = b.type(result).dims;
    if (placed.domain != Domain::numpy || !is_float(dtype)) return result;
    if (op == Op::sign) return make(Op::where, dtype, dims, {make(Op::isnan, DType::b8, dims, {uses[0]}), uses[0], result});
    if (op != Op::remainder) return result;
    // A zero remainder has the divisor's sign.
    NodeId zero = fitted(b.constant(0.0, dtype, placed.domain, from), dtype, dims);
    NodeId is_zero = make(Op::eq, DType::b8, dims, {result, zero});
    return make(Op::where, dtype, dims, {is_zero, make(Op::copysign, dtype, dims, {zero, uses[1]}), result});
}

/// What GPU loops compute; a division by a zero that only run time knows is whatever the hardware makes of it.
Result<bool> BuildCall::check_gpu(DType compute) const {
    if (placed.device != DeviceKind::cuda) return true;
    if (const char* why = scalar::not_on_gpu(scalar_op_of(op), compute)) return refuse(why);
    const bool divides = op == Op::floor_div || op == Op::remainder || op == Op::fmod;
    double divisor = 0.0;
    if (divides && (!operands[1].wrapped || !constant_value(1, divisor) || divisor == 0.0)) return refuse("the divisor may be zero");
    return true;
}

Result<NodeId> BuildCall::elementwise() {
    std::vector<PromotionOperand> promoted = promotion();
    Result<DTypeRule> rule = elementwise_rule(op, placed.domain, promoted, b.default_float);
    if (!rule) return Refusal{rule.reason()};
    if (Result<bool> fits = check_weak_numbers(rule->compute); !fits) return Refusal{fits.reason()};
    Result<std::vector<int64_t>> dims = common_dims();
    if (!dims) return Refusal{dims.reason()};
    if (keeps_scalar_unrounded(rule->compute)) {
        if (op == Op::floor_div && placed.device == DeviceKind::cuda) return refuse("torch multiplies by a reciprocal here");
        return with_unrounded_scalar(rule->compute, *dims);
    }
    double exponent = 0.0;
    bool negative = op == Op::pow && operands[1].wrapped && constant_value(1, exponent) && exponent < 0;
    if (negative && !is_float(rule->compute)) return refuse("integers to a negative power");
    std::vector<NodeId> uses;
    for (const Operand& operand : operands) uses.push_back(fitted(operand.node, rule->compute, *dims));
    if (op == Op::pow)
        if (NodeId special = power(rule->compute, *dims, uses[0]); special.valid()) return special;
    if (Result<bool> fits = check_gpu(rule->compute); !fits) return Refusal{fits.reason()};
    return numpy_variant(make(op, rule->result, *dims, uses), uses);
}

Result<NodeId> BuildCall::ternary() {
    if (op == Op::where) return where();
    if (op != Op::fma) return refuse("not a row of the builder");
    Result<std::vector<int64_t>> dims = common_dims();
    if (!dims) return Refusal{dims.reason()};
    DType dtype = type(0).dtype;
    std::vector<NodeId> uses;
    for (size_t i = 0; i < operands.size(); ++i) {
        if (type(i).dtype != dtype || !is_float(dtype)) return refuse("needs one float element type");
        uses.push_back(fitted(operand(i), dtype, *dims));
    }
    return make(op, dtype, *dims, uses);
}

Result<NodeId> BuildCall::where() {
    if (placed.domain == Domain::torch && type(0).dtype != DType::b8) return refuse("the condition is not bool");
    std::vector<PromotionOperand> promoted = promotion();
    promoted.erase(promoted.begin());
    DType common = common_dtype(placed.domain, promoted, b.default_float);
    if (common == DType::none) return refuse("no common element type");
    if (Result<bool> fits = check_weak_numbers(common); !fits) return Refusal{fits.reason()};
    Result<std::vector<int64_t>> dims = common_dims();
    if (!dims) return Refusal{dims.reason()};
    return make(Op::where, common, *dims,
                {fitted(operand(0), DType::b8, *dims), fitted(operand(1), common, *dims), fitted(operand(2), common, *dims)});
}

Result<NodeId> BuildCall::cast() {
    DType to = attributes.dtype;
    if (to == DType::none || is_complex(to)) return refuse("complex numbers are not modelled");
    if (to == DType::bf16 && placed.domain == Domain::numpy) return refuse("NumPy has no bfloat16");
    if (placed.domain == Domain::numpy && to == DType::f16 && type(0).dtype == DType::f64)
        return refuse("NumPy rounds f64 to f16 once, casts here go by way of f32");
    return make(Op::cast, to, type(0).dims, {operand(0)});
}

} // namespace dyno::graph
