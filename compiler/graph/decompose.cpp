// One function per composite row, all in the inner dtype of Parts.
#include "compiler/graph/decompose.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/rewrite.h"
#include "compiler/graph/steps.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <limits>

namespace dyno::graph {

namespace {

/// In which dtype a composite is computed. torch's variances on the CPU run in f64: with a mean that is rounded to f32, values far
/// from zero lie close together for nothing.
DType inner_of(const Node& n) {
    if (n.op == Op::var && n.type.device == DeviceKind::cpu && n.type.domain == Domain::torch) return DType::f64;
    return inner_dtype(n.type.dtype);
}

/// One composite node being taken apart: its first operand widened, and the steps towards its value.
struct Parts : Steps {
    Builder& b;
    const Node& node;
    DType inner;
    NodeId x;
    Parts(Builder& builder, const Node& composite)
        : Steps(builder, composite.from), b(builder), node(composite), inner(inner_of(composite)),
          x(cast(composite.operands[0], inner)) {}

    bool on_gpu() const { return node.type.device == DeviceKind::cuda; }
    NodeId number(double value) { return b.constant(value, inner, node.type.domain, node.from); }
    NodeId reduced(Op op, NodeId value, const std::vector<int64_t>& axes) {
        // No axes on a node means that it has no dims. What is summed starts from +0.0, which shows where the value is -0.0.
        if (axes.empty()) return op == Op::sum ? (*this)(Op::add, {value, number(0.0)}) : value;
        return (*this)(op, {value}, {.ints = axes, .dtype = op == Op::sum ? inner : DType::none, .order = node.order});
    }
    int64_t count(const std::vector<int64_t>& axes) const {
        int64_t n = 1;
        for (int64_t axis : axes) n *= b.type(x).dims[axis];
        return n;
    }
    NodeId mean_of(NodeId value, const std::vector<int64_t>& axes) {
        return (*this)(Op::div, {reduced(Op::sum, value, axes), number(static_cast<double>(count(axes)))});
    }
    std::vector<int64_t> trailing() const {
        std::vector<int64_t> axes;
        int64_t rank = static_cast<int64_t>(node.type.dims.size());
        for (int64_t axis = rank - node.ints[0]; axis < rank; ++axis) axes.push_back(axis);
        return axes;
    }
    NodeId weight(size_t i) { return cast(node.operands[i], inner); }
};

NodeId mean(Parts& p) { return p.mean_of(p.x, p.node.ints); }

NodeId var(Parts& p) {
    NodeId centred = p(Op::sub, {p.x, p.mean_of(p.x, p.node.ints)});
    NodeId squares = p.reduced(Op::sum, p(Op::mul, {centred, centred}), p.node.ints);
    double divisor = std::max(0.0, static_cast<double>(p.count(p.node.ints)) - p.node.number);
    return p(Op::div, {squares, p.number(divisor)});
}

NodeId softmax(Parts& p) {
    NodeId powers = p(Op::exp, {p(Op::sub, {p.x, p.reduced(Op::amax, p.x, p.node.ints)})});
    // A product with the row's reciprocal: GPUs divide in a dozen operations.
    if (p.on_gpu()) return p(Op::mul, {powers, p(Op::reciprocal, {p.reduced(Op::sum, powers, p.node.ints)})});
    return p(Op::div, {powers, p.reduced(Op::sum, powers, p.node.ints)});
}

NodeId log_softmax(Parts& p) {
    NodeId shifted = p(Op::sub, {p.x, p.reduced(Op::amax, p.x, p.node.ints)});
    NodeId total = p.reduced(Op::sum, p(Op::exp, {shifted}), p.node.ints);
    return p(Op::sub, {shifted, p(Op::log, {total})});
}

NodeId logsumexp(Parts& p) {
    NodeId most = p.reduced(Op::amax, p.x, p.node.ints);
    // A row of -inf, or with +inf, is not shifted: inf - inf would be NaN.
    NodeId shift = p(Op::where, {p(Op::isinf, {most}), p.number(0.0), most});
    NodeId total = p.reduced(Op::sum, p(Op::exp, {p(Op::sub, {p.x, shift})}), p.node.ints);
    return p(Op::add, {p(Op::log, {total}), shift});
}

/// The norm as torch's CPU kernel works it out, step by step.
NodeId ordered_layer_norm(Parts& p) {
    const std::vector<int64_t> axes = p.trailing();
    NodeId centred = p(Op::sub, {p.x, p.reduced(Op::welford_mean, p.x, axes)});
    NodeId variance = p(Op::add, {p.reduced(Op::welford_var, p.x, axes), p.number(p.node.number)});
    NodeId value = p(Op::mul, {centred, p(Op::div, {p.number(1.0), p(Op::sqrt, {variance})})});
    if (p.node.operands.size() > 2) return p(Op::fma, {value, p.weight(1), p.weight(2)});
    return p.node.operands.size() > 1 ? p(Op::mul, {value, p.weight(1)}) : value;
}

NodeId layer_norm(Parts& p) {
    if (p.node.order.kind == SumOrder::welford) return ordered_layer_norm(p);
    std::vector<int64_t> axes = p.trailing();
    NodeId centred = p(Op::sub, {p.x, p.mean_of(p.x, axes)});
    NodeId variance = p.mean_of(p(Op::mul, {centred, centred}), axes);
    NodeId scale = p(Op::rsqrt, {p(Op::add, {variance, p.number(p.node.number)})});
    NodeId value = p(Op::mul, {centred, scale});
    if (p.node.operands.size() > 1) value = p(Op::mul, {value, p.weight(1)});
    if (p.node.operands.size() > 2) value = p(Op::add, {value, p.weight(2)});
    return value;
}

NodeId rms_norm(Parts& p) {
    NodeId square = p.mean_of(p(Op::mul, {p.x, p.x}), p.trailing());
    NodeId value = p(Op::mul, {p.x, p(Op::rsqrt, {p(Op::add, {square, p.number(p.node.number)})})});
    return p.node.operands.size() > 1 ? p(Op::mul, {value, p.weight(1)}) : value;
}

NodeId gelu(Parts& p) {
    if (p.node.ints[0] == 0) {
        NodeId half = p(Op::mul, {p.x, p.number(0.5)});
        NodeId bent = p(Op::erf, {p(Op::mul, {p.x, p.number(0.70710678118654752440)})});
        return p(Op::mul, {half, p(Op::add, {p.number(1.0), bent})});
    }
    NodeId cube = p(Op::mul, {p(Op::mul, {p.x, p.x}), p.x});
    NodeId inside = p(Op::add, {p.x, p(Op::mul, {p.number(0.044715), cube})});
    if (!p.on_gpu()) {
        NodeId bent = p(Op::tanh, {p(Op::mul, {p.number(0.79788456080286535588), inside})});
        return p(Op::mul, {p(Op::mul, {p.x, p.number(0.5)}), p(Op::add, {p.number(1.0), bent})});
    }
    // GPUs compute this at the price of a trip to memory: (1 + tanh(y)) / 2 is sigmoid(2 y), half the operations, and does not cancel.
    return p(Op::mul, {p.x, p(Op::sigmoid, {p(Op::mul, {p.number(1.59576912160573071176), inside})})});
}

NodeId silu(Parts& p) {
    if (p.on_gpu()) return p(Op::mul, {p.x, p(Op::sigmoid, {p.x})});
    return p(Op::div, {p.x, p(Op::add, {p.number(1.0), p(Op::exp, {p(Op::neg, {p.x})})})});
}

NodeId softplus(Parts& p) {
    NodeId soft = p(Op::log1p, {p(Op::exp, {p.x})});
    return p(Op::where, {p(Op::gt, {p.x, p.number(20.0)}), p.x, soft});
}

NodeId expanded(Builder& builder, const Node& node) {
    Parts parts(builder, node);
    NodeId value;
    switch (node.op) {
    case Op::mean:
        value = mean(parts);
        break;
    case Op::var:
        value = var(parts);
        break;
    case Op::softmax:
        value = softmax(parts);
        break;
    case Op::log_softmax:
        value = log_softmax(parts);
        break;
    case Op::logsumexp:
        value = logsumexp(parts);
        break;
    case Op::layer_norm:
        value = layer_norm(parts);
        break;
    case Op::rms_norm:
        value = rms_norm(parts);
        break;
    case Op::gelu:
        value = gelu(parts);
        break;
    case Op::silu:
        value = silu(parts);
        break;
    case Op::softplus:
        value = softplus(parts);
        break;
    default:
        DYNO_CHECK(false, std::string(info(node.op).name));
    }
    if (ends_with_zero(node)) value = parts(Op::add, {value, parts.number(0.0)});
    Result<NodeId> done = parts.done(value);
    DYNO_CHECK(bool(done), std::string(info(node.op).name) + ": " + done.reason());
    return builder.cast(*done, node.type.dtype, node.from);
}

} // namespace

bool ends_with_zero(const Node& n) {
    if (n.type.device != DeviceKind::cpu) return false;
    if (n.op == Op::layer_norm) return n.operands.size() < 3;
    return n.op == Op::gelu && n.number != 0;
}

Graph decompose(const Graph& graph) {
    return rewrite(graph, [](Builder& builder, const Node& node, NodeId) {
        return info(node.op).kind == OpKind::composite ? expanded(builder, node) : builder.add_node(node);
    });
}

} // namespace dyno::graph
