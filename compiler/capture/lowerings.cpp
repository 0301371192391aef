// Lowerings of elementwise calls, casts, reductions, softmax, norms and losses. Movement is in lower_movement.cpp.
#include "compiler/capture/lowerings.h"
#include "compiler/capture/lowering_args.h"
#include "compiler/graph/compose.h"
#include "compiler/python/torch_door.h"
#include <algorithm>

namespace dyno::capture::lower {
using graph::NodeId;
using graph::Op;
using graph::Operand;
namespace compose = graph::compose;
using Node = Result<NodeId>;

namespace {
const Refusal unusual{"an argument of an unusual form"};
} // namespace

// ------------------------------------------------------------------------------------------------ elementwise
Node unary(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0);
    if (!x) return unusual;
    return r.builder().build(op, {*x}, {}, from);
}
Node unary_inplace(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    if (a.given(1) && a.flag(1) != false) return unusual;
    return unary(r, args, op, from);
}
Node square(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return compose::square(r.builder(), *x, from);
}
Node gelu(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0);
    auto how = a.given(1) ? a.text(1) : std::optional<std::string>("none");
    if (!x || !how || (*how != "none" && *how != "tanh")) return unusual;
    graph::Attributes attributes;
    attributes.ints = {*how == "tanh"};
    const graph::Type& type = r.builder().type(x->node);
    const bool by_onednn = *how == "none" && type.device == graph::DeviceKind::cpu && type.dtype == DType::f32 && type.numel() > 1;
    attributes.number = by_onednn && python::torch_gelu_drops_zero_sign();
    return r.builder().build(op, {*x}, attributes, from);
}
#define DYNO_ACTIVATION(name, inplace_index, call)                                                                                                   \
    Node name(Recording& r, const BoundArgs& args, Op, SourceSpan from) {                                                                            \
        Args a(r, args);                                                                                                                             \
        auto x = a.tensor(0);                                                                                                                        \
        if (!x || (inplace_index >= 0 && a.given(inplace_index) && a.flag(inplace_index) != false)) return unusual;                                  \
        graph::Builder& b = r.builder();                                                                                                             \
        return call;                                                                                                                                 \
    }
DYNO_ACTIVATION(relu6, 1, compose::relu6(b, *x, from))
DYNO_ACTIVATION(hardtanh, 3, compose::hardtanh(b, *x, a.number_or(1, -1.0), a.number_or(2, 1.0), from))
DYNO_ACTIVATION(leaky_relu, 2, compose::leaky_relu(b, *x, a.number_or(1, 0.01), from))
DYNO_ACTIVATION(elu, 2, compose::elu(b, *x, a.number_or(1, 1.0), 1.0, 1.0, from))
DYNO_ACTIVATION(hardswish, 1, compose::hardswish(b, *x, from))
DYNO_ACTIVATION(hardsigmoid, 1, compose::hardsigmoid(b, *x, from))
DYNO_ACTIVATION(mish, 1, compose::mish(b, *x, from))
DYNO_ACTIVATION(glu, -1, compose::glu(b, *x, a.integer_or(1, -1), from))
#undef DYNO_ACTIVATION
Node softplus(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0);
    if (!x || a.number_or(1, 1.0) != 1.0 || a.number_or(2, 20.0) != 20.0) return unusual;
    return r.builder().build(op, {*x}, {}, from);
}
Node binary(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    // Exponents decide the algorithm: they are held to their value.
    if (op == Op::pow && !a.is_tensor(1)) a.hold(1);
    auto x = a.operand(0), y = a.operand(1);
    if (!x || !y) return unusual;
    if (a.domain() == graph::Domain::numpy && (op == Op::remainder || op == Op::floor_div || op == Op::fmod) &&
        (is_float(r.builder().type(x->node).dtype) || is_float(r.builder().type(y->node).dtype)))
        return Refusal{"NumPy's own flags of a floating-point remainder"};
    if (op == Op::pow && a.domain() == graph::Domain::numpy && a.is_tensor(0) && !a.is_tensor(1) && is_float(r.builder().type(x->node).dtype) && a.number(1) == 3.0) {
        // The cube by two products is within a rounding of the power, at a tenth of its price.
        auto square_of = r.builder().build(Op::mul, {*x, *x}, {}, from);
        return square_of ? r.builder().build(Op::mul, {Operand(*square_of), *x}, {}, from) : square_of;
    }
    if (op == Op::div && x->wrapped && !y->wrapped && a.domain() == graph::Domain::torch) return compose::number_over(r.builder(), *x, *y, from);
    return r.builder().build(op, {*x, *y}, {}, from);
}
Node add_alpha(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0), y = a.operand(1);
    auto alpha = a.given(2) ? a.number(2) : std::optional<double>(1.0);
    if (!x || !y || !alpha) return unusual;
    return compose::add(r.builder(), *x, *y, *alpha, from);
}
Node sub_alpha(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0), y = a.operand(1);
    auto alpha = a.given(2) ? a.number(2) : std::optional<double>(1.0);
    if (!x || !y || !alpha) return unusual;
    return compose::sub(r.builder(), *x, *y, *alpha, from);
}
Node where(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    if (!a.given(1) || !a.given(2)) return unusual;
    auto c = a.operand(0), x = a.operand(1), y = a.operand(2);
    if (!c || !x || !y) return unusual;
    auto made = r.builder().build(op, {*c, *x, *y}, {}, from);
    if (made && a.domain() == graph::Domain::torch)
        for (int k : {1, 2}) a.fits(k, r.builder().type(*made).dtype);
    return made;
}
Node clamp(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0);
    std::optional<Operand> low, high;
    if (a.given(1) && !a.none(1) && !(low = a.operand(1))) return unusual;
    if (a.given(2) && !a.none(2) && !(high = a.operand(2))) return unusual;
    if (!x || (!low && !high)) return unusual;
    auto made = compose::clamp(r.builder(), *x, low, high, from);
    if (made && a.domain() == graph::Domain::torch)
        for (int k : {1, 2}) a.fits(k, r.builder().type(*made).dtype);
    return made;
}
Node masked_fill(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0), mask = a.tensor(1);
    auto value = a.operand(2);
    if (!x || !mask || !value) return unusual;
    a.fits(2, r.builder().type(*x).dtype);
    return compose::masked_fill(r.builder(), *x, *mask, *value, from);
}
Node lerp(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0), y = a.tensor(1);
    if (!a.is_tensor(2)) a.hold(2);
    auto w = a.operand(2);
    if (!x || !y || !w) return unusual;
    return compose::lerp(r.builder(), *x, *y, *w, from);
}
Node addcmul(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0), y = a.tensor(1), z = a.tensor(2);
    if (!x || !y || !z) return unusual;
    return compose::addcmul(r.builder(), *x, *y, *z, a.number_or(3, 1.0), from);
}
Node addcdiv(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0), y = a.tensor(1), z = a.tensor(2);
    if (!x || !y || !z) return unusual;
    return compose::addcdiv(r.builder(), *x, *y, *z, a.number_or(3, 1.0), from);
}
Node tril(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return compose::triangle(r.builder(), *x, a.integer_or(1, 0), true, from);
}
Node triu(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return compose::triangle(r.builder(), *x, a.integer_or(1, 0), false, from);
}

// ------------------------------------------------------------------------------------------------ casts
namespace {
Node cast_to(Recording& r, const BoundArgs& args, DType to, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x || to == DType::none || is_complex(to)) return unusual;
    if (r.builder().type(*x).dtype == to) { // a copy: the same dtype would have handed the operand back
        graph::Attributes attributes;
        attributes.dims = r.builder().type(*x).dims;
        return r.builder().build(Op::reshape, {*x}, attributes, from);
    }
    return r.builder().cast(*x, to, from);
}
} // namespace
Node to_float(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::f32, from); }
Node to_double(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::f64, from); }
Node to_half(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::f16, from); }
Node to_bfloat16(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::bf16, from); }
Node to_long(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::i64, from); }
Node to_int(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::i32, from); }
Node to_bool(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return cast_to(r, args, DType::b8, from); }
Node to_dtype(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    if (!a.given(1)) return unusual;
    return cast_to(r, args, a.dtype(1), from);
}
Node type_as(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto y = a.tensor(1);
    if (!y) return unusual;
    return cast_to(r, args, r.builder().type(*y).dtype, from);
}
Node astype(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    const DType to = a.dtype(1);
    auto x = a.tensor(0);
    // Out-of-range conversions of floats to integers warn and differ by CPU: NumPy's own.
    if (!x || (is_float(r.builder().type(*x).dtype) && is_int(to))) return unusual;
    return cast_to(r, args, to, from);
}
Node contiguous(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return cast_to(r, args, r.builder().type(*x).dtype, from);
}
Node copy(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    if (a.given(1)) return unusual;
    return contiguous(r, args, op, from);
}
Node fill_like(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return r.builder().full(0.0, r.builder().type(*x), from);
}
Node ones_like(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return r.builder().full(1.0, r.builder().type(*x), from);
}

// ------------------------------------------------------------------------------------------------ reductions
namespace {
/// The axes and keepdim of a call in either library's spelling: (x, dim, keepdim | dtype) or (a, axis, dtype, out, keepdims).
struct Reduction {
    NodeId x;
    std::vector<int64_t> axes;
    bool keepdim = false;
    DType dtype = DType::none;
    graph::SumOrder order;       // of a sum
    std::vector<int64_t> places; // of its dims, for that order
    /// The operand with its reduced dims in the order in which eager walks them: which the result does not show.
    NodeId walked(Recording& r, SourceSpan from) const {
        if (order.kind == graph::SumOrder::any || std::is_sorted(places.begin(), places.end())) return x;
        auto sorted = r.builder().build(Op::permute, {x}, {.ints = places}, from);
        return sorted ? *sorted : x;
    }
};
std::optional<Reduction> reduction_of(Args& a, const BoundArgs& args, int dim, int keepdim, int dtype, int out) {
    Reduction q;
    auto x = a.tensor(0);
    if (!x) return std::nullopt;
    q.x = *x;
    if (a.given(dim) && !a.none(dim)) {
        auto axes = a.integers(dim);
        if (!axes) return std::nullopt;
        q.axes = *axes;
        // An empty tuple means all axes in torch and none in NumPy: left to the libraries.
        if (q.axes.empty()) return std::nullopt;
    }
    if (a.given(keepdim)) {
        auto flag = a.flag(keepdim);
        if (!flag) return std::nullopt;
        q.keepdim = *flag;
    }
    if (dtype >= 0 && a.given(dtype) && !a.none(dtype)) {
        q.dtype = a.dtype(dtype);
        if (q.dtype == DType::none) return std::nullopt;
    }
    if (out >= 0 && a.given(out) && !a.none(out)) return std::nullopt;
    q.order = a.sum_order(0, q.axes, &q.places);
    return q;
}
/// How many elements each result comes from.
double reduced_count(Recording& r, const Reduction& q) {
    const std::vector<int64_t>& dims = r.builder().type(q.x).dims;
    if (q.axes.empty()) return static_cast<double>(r.builder().type(q.x).numel());
    double count = 1;
    for (int64_t axis : q.axes) {
        const int64_t at = axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis;
        if (at < 0 || at >= static_cast<int64_t>(dims.size())) return 0;
        count *= static_cast<double>(dims[static_cast<size_t>(at)]);
    }
    return count;
}
} // namespace

Node reduce(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    const bool numpy = a.domain() == graph::Domain::numpy;
    std::optional<Reduction> q;
    if (!numpy) q = reduction_of(a, args, 1, 2, args.count > 3 ? 3 : -1, -1);
    else if (args.count == 5) q = reduction_of(a, args, 1, 4, 2, 3);
    else q = reduction_of(a, args, 1, 3, -1, 2);
    if (!q) return unusual;
    if (numpy && op == Op::mean && reduced_count(r, *q) == 0) return r.make_native("the mean of nothing warns"), unusual;
    // Products: NumPy's go in turn, along whichever axis.
    if (op == Op::prod && numpy && !a.falling_strides(0).empty())
        q->order = {.kind = graph::SumOrder::in_turn};
    else if (op != Op::sum && op != Op::mean)
        q->order = {};
    return compose::reduce(r.builder(), op, q->walked(r, from), q->axes, q->keepdim, q->dtype, 0.0, from, q->order);
}
/// max(x), or max(x, y) of two tensors. (Of a tensor and an axis there are two results.)
Node extreme(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x || (a.given(1) && !a.is_tensor(1))) return unusual;
    if (a.given(1)) return binary(r, args, op == Op::amax ? Op::maximum : Op::minimum, from);
    return compose::reduce(r.builder(), op, *x, {}, false, DType::none, 0.0, from);
}
Node arg_reduce(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    const bool keep = args.count > 2 && a.given(2) && a.flag(2) == true;
    if (a.given(1) && !a.none(1)) {
        auto axis = a.integer(1);
        if (!axis) return unusual;
        return compose::reduce(r.builder(), op, *x, {*axis}, keep, DType::none, 0.0, from);
    }
    if (keep) return unusual;
    graph::Attributes flat;
    flat.dims = {-1};
    auto line = r.builder().build(Op::reshape, {*x}, flat, from);
    if (!line) return line;
    return compose::reduce(r.builder(), op, *line, {0}, false, DType::none, 0.0, from);
}
namespace {
Node variance_of(Recording& r, const BoundArgs& args, bool deviation, SourceSpan from) {
    Args a(r, args);
    auto q = reduction_of(a, args, 1, 3, -1, -1);
    if (!q) return unusual;
    double correction = 1.0;
    if (a.given(2)) {
        auto c = a.number(2);
        if (!c) return unusual;
        correction = *c;
    }
    if (a.given(4)) {
        auto unbiased = a.flag(4);
        if (!unbiased) return unusual;
        correction = *unbiased ? 1.0 : 0.0;
    }
    if (reduced_count(r, *q) <= correction) return r.make_native("the variance of too few elements warns"), unusual;
    if (deviation) return compose::standard_deviation(r.builder(), q->x, q->axes, q->keepdim, correction, from);
    return compose::reduce(r.builder(), Op::var, q->x, q->axes, q->keepdim, DType::none, correction, from);
}
Node numpy_variance_of(Recording& r, const BoundArgs& args, bool deviation, SourceSpan from) {
    Args a(r, args);
    auto q = reduction_of(a, args, 1, 5, 2, 3);
    if (!q || q->dtype != DType::none) return unusual;
    const double ddof = a.number_or(4, 0.0);
    if (reduced_count(r, *q) <= ddof) return r.make_native("the variance of too few elements warns"), unusual;
    if (deviation) return compose::standard_deviation(r.builder(), q->walked(r, from), q->axes, q->keepdim, ddof, from, q->order);
    return compose::reduce(r.builder(), Op::var, q->walked(r, from), q->axes, q->keepdim, DType::none, ddof, from, q->order);
}
} // namespace
Node variance(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return variance_of(r, args, false, from); }
Node deviation(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return variance_of(r, args, true, from); }
Node numpy_variance(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return numpy_variance_of(r, args, false, from); }
Node numpy_deviation(Recording& r, const BoundArgs& args, Op, SourceSpan from) { return numpy_variance_of(r, args, true, from); }
Node logsumexp(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto q = reduction_of(a, args, 1, 2, -1, -1);
    if (!q) return unusual;
    return compose::reduce(r.builder(), op, q->x, q->axes, q->keepdim, DType::none, 0.0, from);
}

// ------------------------------------------------------------------------------------------------ rows
namespace {
Node softmax_of(Recording& r, const BoundArgs& args, Op op, int dtype, SourceSpan from) {
    Args a(r, args);
    auto x = a.operand(0);
    auto axis = a.given(1) ? a.integer(1) : std::nullopt;
    if (!x || !axis) return unusual;
    graph::Attributes attributes;
    attributes.ints = {*axis};
    if (a.given(dtype) && !a.none(dtype)) {
        attributes.dtype = a.dtype(dtype);
        if (attributes.dtype == DType::none) return unusual;
    }
    return r.builder().build(op, {*x}, attributes, from);
}
} // namespace
Node softmax(Recording& r, const BoundArgs& args, Op op, SourceSpan from) { return softmax_of(r, args, op, 2, from); }
Node softmax_functional(Recording& r, const BoundArgs& args, Op op, SourceSpan from) { return softmax_of(r, args, op, 3, from); }

namespace {
Node norm_of(Recording& r, const BoundArgs& args, Op op, int operands, int eps, double default_eps, SourceSpan from) {
    Args a(r, args);
    auto axes = a.integers(1);
    if (!axes) return unusual;
    graph::Attributes attributes;
    attributes.ints = {static_cast<int64_t>(axes->size())};
    if (a.given(eps) && a.none(eps)) return unusual;
    attributes.number = a.number_or(eps, default_eps);
    std::vector<Operand> list;
    bool absent = false;
    for (int k : {0, 2, 3}) {
        if (k > operands) break;
        if (k && (!a.given(k) || a.none(k))) {
            absent = true;
            continue;
        }
        auto x = a.operand(k);
        if (!x || absent) return unusual; // a bias without a weight
        list.push_back(*x);
    }
    if (op == Op::layer_norm) attributes.order = a.moments_order(0, axes->size());
    return r.builder().build(op, std::span<const Operand>(list), attributes, from);
}
} // namespace
Node layer_norm(Recording& r, const BoundArgs& args, Op op, SourceSpan from) { return norm_of(r, args, op, 3, 4, 1e-5, from); }
Node rms_norm(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    if (!a.given(3) || a.none(3)) return unusual; // the default eps depends on the dtype
    return norm_of(r, args, op, 2, 3, 0.0, from);
}

namespace {
std::optional<compose::LossReduction> loss_reduction(Args& a) {
    if ((a.given(2) && !a.none(2)) || (a.given(3) && !a.none(3))) return std::nullopt;
    if (!a.given(4)) return compose::LossReduction::mean;
    auto how = a.text(4);
    if (!how) return std::nullopt;
    if (*how == "mean") return compose::LossReduction::mean;
    if (*how == "sum") return compose::LossReduction::sum;
    if (*how == "none") return compose::LossReduction::none;
    return std::nullopt;
}
/// The sum over all elements' losses, which are dense and lie as both operands do.
Node loss(Recording& r, Args& a, SourceSpan from, decltype(compose::mse_loss)* compose_loss) {
    auto x = a.tensor(0), y = a.tensor(1);
    auto how = loss_reduction(a);
    if (!x || !y || !how) return unusual;
    Reduction q{*x};
    const std::vector<int64_t> falling = a.falling_strides(0);
    if (*how != compose::LossReduction::none && !falling.empty() && falling == a.falling_strides(1)) q.order = a.sum_order(0, {}, &q.places, true);
    const NodeId input = q.walked(r, from);
    q.x = *y;
    return compose_loss(r.builder(), input, q.walked(r, from), *how, from, q.order);
}
} // namespace
Node mse_loss(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    return loss(r, a, from, compose::mse_loss);
}
Node l1_loss(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    return loss(r, a, from, compose::l1_loss);
}
/// On GPUs, where a wrong class index ends the context in eager too. On the CPU it is an error of Python's, and torch's loop is fast.
Node cross_entropy(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0), y = a.tensor(1);
    if (!x || !y || r.builder().type(*x).device != graph::DeviceKind::cuda) return unusual;
    for (int k : {2, 3, 5})
        if (a.given(k) && !a.none(k)) return unusual;
    if (a.number_or(7, 0.0) != 0.0) return unusual;
    const std::string how = a.given(6) ? a.text(6).value_or("") : "mean";
    if (how != "mean" && how != "sum" && how != "none") return unusual;
    const auto reduction = how == "mean" ? compose::LossReduction::mean : how == "sum" ? compose::LossReduction::sum : compose::LossReduction::none;
    return compose::cross_entropy(r.builder(), *x, *y, a.integer_or(4, -100), reduction, from);
}

} // namespace dyno::capture::lower
