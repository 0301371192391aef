// Arithmetic whose roundings were measured from torch's kernels: addcmul, lerp and add with alpha fuse the last product with
// the sum, on the CPU by torch's own choice, on CUDA by the compiler's, which then fuses addcdiv too; 16-bit ones work in f32.
#include "compiler/graph/compose.h"
#include "compiler/graph/steps.h"
#include "compiler/scalar/round.h"
#include <cmath>
#include <limits>

namespace dyno::graph::compose {

namespace {

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

/// A constant of a tensor's dtype, spread later by broadcasting. Not a Python number: it has the dtype already.
NodeId constant_of(Builder& b, double value, DType dtype, SourceSpan from) { return b.constant(value, dtype, Domain::torch, from); }

bool on_cpu(const Builder& b, NodeId x) { return b.type(x).device == DeviceKind::cpu; }

/// The pointwise kernels of three tensors want one float dtype here; what promotes is left to eager.
std::optional<Refusal> not_alike(const Builder& b, std::initializer_list<NodeId> values, const char* name) {
    DType dtype = b.type(*values.begin()).dtype;
    for (NodeId value : values) {
        if (b.type(value).domain != Domain::torch) return Refusal{std::string(name) + ": not a function of NumPy"};
        if (!is_float(dtype) || b.type(value).dtype != dtype) return Refusal{std::string(name) + ": needs one float element type"};
    }
    return std::nullopt;
}

} // namespace

Maybe add(Builder& b, Operand x, Operand y, double alpha, SourceSpan from) {
    if (alpha == 1.0) return b.build(Op::add, {x, y}, {}, from);
    if (alpha == -1.0 && b.type(x.node).dtype != DType::b8 && b.type(y.node).dtype != DType::b8) return b.build(Op::sub, {x, y}, {}, from);
    if (x.wrapped || y.wrapped) return Refusal{"add with alpha of a Python number"};
    if (auto refusal = not_alike(b, {x.node, y.node}, "add with alpha")) return *refusal;
    DType dtype = b.type(x.node).dtype;
    if (is_half(dtype) && on_cpu(b, x.node)) return Refusal{"add with alpha of 16-bit floats"};
    Steps step(b, from);
    DType inner = inner_dtype(dtype);
    NodeId sum = step(Op::fma, {step.cast(y.node, inner), constant_of(b, alpha, inner, from), step.cast(x.node, inner)});
    return step.done(step.cast(sum, dtype));
}

Maybe sub(Builder& b, Operand x, Operand y, double alpha, SourceSpan from) {
    if (alpha == 1.0) return b.build(Op::sub, {x, y}, {}, from);
    return add(b, x, y, -alpha, from);
}

Maybe number_over(Builder& b, Operand number, Operand x, SourceSpan from) {
    if (b.type(x.node).domain == Domain::numpy) return b.build(Op::div, {number, x}, {}, from);
    Steps step(b, from);
    return step.done(step(Op::mul, {step(Op::reciprocal, {x}), number}));
}

Maybe square(Builder& b, NodeId x, SourceSpan from) {
    if (b.type(x).dtype == DType::b8) return Refusal{"square of bools"};
    return b.build(Op::mul, {x, x}, {}, from);
}

Maybe clamp(Builder& b, Operand x, std::optional<Operand> low, std::optional<Operand> high, SourceSpan from) {
    if (!low && !high) return Refusal{"clamp without bounds"};
    // torch finds the type from all three at once: an int tensor clamped by a float is a float.
    std::vector<PromotionOperand> promoted;
    for (const auto& operand : {std::optional(x), low, high})
        if (operand) promoted.push_back({b.type(operand->node).dtype, b.type(operand->node).dims.empty(), operand->wrapped});
    DType common = common_dtype(b.type(x.node).domain, promoted, b.default_float);
    if (common == DType::none || common == DType::b8) return Refusal{"clamp: not defined for this element type"};
    Steps step(b, from);
    bool numpy = b.type(x.node).domain == Domain::numpy;
    auto bound = [&](Operand value) { return numpy ? value : Operand(step.cast(value.node, common)); };
    NodeId result = numpy ? x.node : step.cast(x.node, common);
    if (low) result = step(Op::maximum, {bound(*low), result});
    if (high) result = step(Op::minimum, {bound(*high), result});
    return step.done(result);
}

Maybe lerp(Builder& b, NodeId start, NodeId end, Operand weight, SourceSpan from) {
    if (auto refusal = not_alike(b, {start, end}, "lerp")) return *refusal;
    DType dtype = b.type(start).dtype, inner = inner_dtype(dtype);
    if (!weight.wrapped && b.type(weight.node).dtype != dtype) return Refusal{"lerp: a weight of another element type"};
    Steps step(b, from);
    NodeId first = step.cast(start, inner), last = step.cast(end, inner), w = step.cast(weight.node, inner);
    NodeId difference = step(Op::sub, {last, first});
    // Below a half the sum starts from `start`, else from `end`.
    const Node constant = b[w];
    NodeId factor, base;
    if (constant.op == Op::constant) {
        bool near = std::fabs(constant.number) < 0.5;
        factor = near ? w : constant_of(b, scalar::round_to(inner, constant.number - 1.0), inner, from);
        base = near ? first : last;
    } else {
        NodeId near = step(Op::lt, {step(Op::abs, {w}), constant_of(b, 0.5, inner, from)});
        factor = step(Op::where, {near, w, step(Op::sub, {w, constant_of(b, 1.0, inner, from)})});
        base = step(Op::where, {near, first, last});
    }
    NodeId sum = step(Op::fma, {factor, difference, base});
    return step.done(step.cast(sum, dtype));
}

Maybe addcmul(Builder& b, NodeId x, NodeId first, NodeId second, double value, SourceSpan from) {
    if (auto refusal = not_alike(b, {x, first, second}, "addcmul")) return *refusal;
    DType dtype = b.type(x).dtype, inner = inner_dtype(dtype);
    Steps step(b, from);
    NodeId left = step.cast(first, inner), right = step.cast(second, inner), number = constant_of(b, value, inner, from);
    if (value != 1.0 && on_cpu(b, x))
        left = step(Op::mul, {left, number});
    else if (value != 1.0)
        right = step(Op::mul, {left, right}), left = number;
    NodeId sum = step(Op::fma, {left, right, step.cast(x, inner)});
    return step.done(step.cast(sum, dtype));
}

Maybe addcdiv(Builder& b, NodeId x, NodeId first, NodeId second, double value, SourceSpan from) {
    if (auto refusal = not_alike(b, {x, first, second}, "addcdiv")) return *refusal;
    DType dtype = b.type(x).dtype, inner = inner_dtype(dtype);
    Steps step(b, from);
    NodeId left = step.cast(first, inner), right = step.cast(second, inner), number = constant_of(b, value, inner, from);
    bool cpu = on_cpu(b, x);
    if (value != 1.0 && cpu) left = step(Op::mul, {left, number});
    NodeId quotient = step(Op::div, {left, right}), start = step.cast(x, inner);
    NodeId sum = cpu || value == 1.0 ? step(Op::add, {start, quotient}) : step(Op::fma, {number, quotient, start});
    return step.done(step.cast(sum, dtype));
}

Maybe masked_fill(Builder& b, NodeId x, NodeId mask, Operand value, SourceSpan from) {
    DType dtype = b.type(x).dtype, from_dtype = b.type(value.node).dtype;
    if (b.type(mask).dtype != DType::b8) return Refusal{"masked_fill: the mask is not bool"};
    if (!b.type(value.node).dims.empty()) return Refusal{"masked_fill: the value is not 0-d"};
    if (is_float(from_dtype) && !is_float(dtype)) return Refusal{"masked_fill: a float into integers"};
    Steps step(b, from);
    Result<std::vector<int64_t>> dims = broadcast_dims(b.type(x).dims, b.type(mask).dims);
    if (!dims) return Refusal{dims.reason()};
    return step.done(step(Op::where, {mask, step.cast(value.node, dtype), x}));
}

Maybe nan_to_num(Builder& b, NodeId x, double nan, std::optional<double> posinf, std::optional<double> neginf, SourceSpan from) {
    Type type = b.type(x);
    if (!is_float(type.dtype)) return Refusal{"nan_to_num of integers"};
    double limit = type.dtype == DType::f16    ? 65504.0
                   : type.dtype == DType::bf16 ? 0x1.fep127
                   : type.dtype == DType::f32  ? static_cast<double>(std::numeric_limits<float>::max())
                                               : std::numeric_limits<double>::max();
    auto number = [&](double value) { return b.constant(value, type.dtype, type.domain, from); };
    double infinity = std::numeric_limits<double>::infinity();
    Steps step(b, from);
    NodeId result = step(Op::where, {step(Op::isnan, {x}), number(nan), x});
    result = step(Op::where, {step(Op::eq, {x, number(infinity)}), number(posinf.value_or(limit)), result});
    result = step(Op::where, {step(Op::eq, {x, number(-infinity)}), number(neginf.value_or(-limit)), result});
    return step.done(result);
}

Maybe triangle(Builder& b, NodeId x, int64_t diagonal, bool lower, SourceSpan from) {
    const Type type = b.type(x);
    size_t rank = type.dims.size();
    if (rank < 2) return Refusal{"a triangle needs two axes"};
    int64_t rows = type.dims[rank - 2], columns = type.dims[rank - 1];
    auto count = [&](int64_t n) {
        return b.add_node({Op::iota, Type{DType::i64, {n}, type.device, type.device_index, type.domain}, {}, {}, 0.0, -1, from});
    };
    Steps step(b, from);
    NodeId row = step(Op::reshape, {count(rows)}, {.dims = {rows, 1}});
    NodeId limit = step(Op::add, {row, step.integer(diagonal, type.domain)});
    NodeId keep = step(lower ? Op::le : Op::ge, {count(columns), limit});
    NodeId zero = b.constant_integer(0, type.dtype, type.domain, from);
    return step.done(step(Op::where, {keep, x, zero}));
}

} // namespace dyno::graph::compose
