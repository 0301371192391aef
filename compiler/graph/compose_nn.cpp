// Activations of torch.nn.functional. Numbers are constants of the inner dtype, as the kernels hold them.
#include "compiler/graph/compose.h"
#include "compiler/graph/steps.h"

namespace dyno::graph::compose {

namespace {

/// Steps in the inner dtype of one torch tensor, rounded to its own at the end.
struct Inner : Steps {
    Builder& b;
    SourceSpan from;
    DType dtype, inner;
    NodeId x;
    Inner(Builder& builder, NodeId value, SourceSpan span, const char* name)
        : Steps(builder, span), b(builder), from(span), dtype(builder.type(value).dtype), inner(inner_dtype(dtype)) {
        if (!is_float(dtype) || builder.type(value).domain != Domain::torch)
            fail(std::string(name) + ": not defined for this element type");
        x = cast(value, inner);
    }
    NodeId number(double value) { return failed() ? NodeId{} : b.constant(value, inner, Domain::torch, from); }
    /// min(max(x, low), high) of the inner value, NaN kept.
    NodeId between(NodeId value, double low, double high) {
        return (*this)(Op::minimum, {number(high), (*this)(Op::maximum, {number(low), value})});
    }
    Maybe rounded(NodeId value) { return done(cast(value, dtype)); }
};

} // namespace

Maybe hardtanh(Builder& b, NodeId x, double low, double high, SourceSpan from) {
    // The bounds are of the tensor's own dtype.
    DType dtype = b.type(x).dtype;
    Inner step(b, x, from, "hardtanh");
    if (step.failed()) return step.done({});
    NodeId lowest = b.constant(low, dtype, Domain::torch, from), highest = b.constant(high, dtype, Domain::torch, from);
    return step.done(step(Op::minimum, {highest, step(Op::maximum, {lowest, x})}));
}

Maybe relu6(Builder& b, NodeId x, SourceSpan from) { return hardtanh(b, x, 0.0, 6.0, from); }

Maybe leaky_relu(Builder& b, NodeId x, double slope, SourceSpan from) {
    Inner step(b, x, from, "leaky_relu");
    NodeId positive = step(Op::gt, {step.x, step.number(0.0)});
    return step.rounded(step(Op::where, {positive, step.x, step(Op::mul, {step.x, step.number(slope)})}));
}

Maybe elu(Builder& b, NodeId x, double alpha, double scale, double input_scale, SourceSpan from) {
    Inner step(b, x, from, "elu");
    NodeId negative = input_scale == 1.0 ? step.x : step(Op::mul, {step.x, step.number(input_scale)});
    negative = step(Op::mul, {step(Op::expm1, {negative}), step.number(alpha * scale)});
    NodeId positive = scale == 1.0 ? step.x : step(Op::mul, {step.x, step.number(scale)});
    return step.rounded(step(Op::where, {step(Op::gt, {step.x, step.number(0.0)}), positive, negative}));
}

Maybe hardswish(Builder& b, NodeId x, SourceSpan from) {
    Inner step(b, x, from, "hardswish");
    NodeId gate = step.between(step(Op::add, {step.x, step.number(3.0)}), 0.0, 6.0);
    return step.rounded(step(Op::div, {step(Op::mul, {step.x, gate}), step.number(6.0)}));
}

Maybe hardsigmoid(Builder& b, NodeId x, SourceSpan from) {
    Inner step(b, x, from, "hardsigmoid");
    NodeId gate = step.between(step(Op::add, {step.x, step.number(3.0)}), 0.0, 6.0);
    return step.rounded(step(Op::div, {gate, step.number(6.0)}));
}

Maybe logsigmoid(Builder& b, NodeId x, SourceSpan from) {
    Inner step(b, x, from, "logsigmoid");
    NodeId tail = step(Op::log1p, {step(Op::exp, {step(Op::neg, {step(Op::abs, {step.x})})})});
    return step.rounded(step(Op::sub, {step(Op::minimum, {step.x, step.number(0.0)}), tail}));
}

Maybe mish(Builder& b, NodeId x, SourceSpan from) {
    Inner step(b, x, from, "mish");
    NodeId soft = step(Op::log1p, {step(Op::exp, {step.x})});
    return step.rounded(step(Op::mul, {step.x, step(Op::tanh, {soft})}));
}

Maybe glu(Builder& b, NodeId x, int64_t axis, SourceSpan from) {
    const std::vector<int64_t>& dims = b.type(x).dims;
    int64_t at = axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis;
    if (at < 0 || at >= static_cast<int64_t>(dims.size()) || dims[at] % 2) return Refusal{"glu: the axis does not halve"};
    int64_t half = dims[at] / 2;
    Inner step(b, x, from, "glu");
    NodeId value = step.take(narrow(b, x, at, 0, half, 1, from)), gate = step.take(narrow(b, x, at, half, half, 1, from));
    return step.rounded(step(Op::mul, {step.cast(value, step.inner), step(Op::sigmoid, {step.cast(gate, step.inner)})}));
}

} // namespace dyno::graph::compose
