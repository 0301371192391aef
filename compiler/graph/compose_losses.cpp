// Losses of torch.nn.functional. Picking a class by its index is a sum over the classes of one value and zeros: exact, and it
// fuses with the softmax that reads all classes anyway.
#include "compiler/graph/compose.h"
#include "compiler/graph/steps.h"

namespace dyno::graph::compose {

namespace {

Maybe reduced(Builder& b, Maybe value, LossReduction reduction, SourceSpan from, SumOrder order = {}) {
    if (!value || reduction == LossReduction::none) return value;
    return reduce(b, reduction == LossReduction::mean ? Op::mean : Op::sum, *value, {}, false, DType::none, 0.0, from, order);
}

std::optional<Refusal> not_pair(const Builder& b, NodeId input, NodeId target) {
    const Type &x = b.type(input), &y = b.type(target);
    if (!is_float(x.dtype) || x.dtype != y.dtype || x.dims != y.dims || x.domain != Domain::torch)
        return Refusal{"a loss of values unlike in shape or element type"};
    return std::nullopt;
}

} // namespace

Maybe mse_loss(Builder& b, NodeId input, NodeId target, LossReduction reduction, SourceSpan from, SumOrder order) {
    if (auto refusal = not_pair(b, input, target)) return *refusal;
    Steps step(b, from);
    NodeId difference = step(Op::sub, {input, target});
    return reduced(b, step.done(step(Op::mul, {difference, difference})), reduction, from, order);
}

Maybe l1_loss(Builder& b, NodeId input, NodeId target, LossReduction reduction, SourceSpan from, SumOrder order) {
    if (auto refusal = not_pair(b, input, target)) return *refusal;
    Steps step(b, from);
    return reduced(b, step.done(step(Op::abs, {step(Op::sub, {input, target})})), reduction, from, order);
}

Maybe bce_with_logits(Builder& b, NodeId input, NodeId target, LossReduction reduction, SourceSpan from) {
    if (auto refusal = not_pair(b, input, target)) return *refusal;
    Steps step(b, from);
    NodeId rest = step(Op::sub, {step.number(1.0), target});
    NodeId loss = step(Op::sub, {step(Op::mul, {rest, input}), step.take(logsigmoid(b, input, from))});
    return reduced(b, step.done(loss), reduction, from);
}

namespace {

/// log_softmax of logits at the picked class: the class is picked first, which rounds the same and needs one pass over the classes.
NodeId picked_log_probability(Steps& step, Builder& b, NodeId logits, NodeId hit, int64_t axis, SourceSpan from) {
    const DType narrow = b.type(logits).dtype, wide = inner_dtype(narrow);
    NodeId x = step.cast(logits, wide);
    NodeId most = step(Op::amax, {x}, {.ints = {axis}});
    NodeId total = step(Op::sum, {step(Op::exp, {step(Op::sub, {x, most})})}, {.ints = {axis}});
    NodeId picked = step(Op::sum, {step(Op::where, {hit, x, b.constant(0.0, wide, Domain::torch, from)})}, {.ints = {axis}});
    return step.cast(step(Op::sub, {step(Op::sub, {picked, most}), step(Op::log, {total})}), narrow);
}

Maybe nll_of(Builder& b, NodeId scores, bool logits, NodeId target, int64_t ignore_index, LossReduction reduction, SourceSpan from) {
    const Type x = b.type(scores), t = b.type(target);
    if (!is_float(x.dtype) || t.dtype != DType::i64 || x.domain != Domain::torch || x.dims.empty())
        return Refusal{"nll_loss: needs floats and i64 class indices"};
    int64_t axis = x.dims.size() == 1 ? 0 : 1, classes = x.dims[axis];
    std::vector<int64_t> kept = x.dims, dropped = x.dims, along(x.dims.size(), 1);
    kept[axis] = 1;
    along[axis] = classes;
    dropped.erase(dropped.begin() + axis);
    if (t.dims != dropped) return Refusal{"nll_loss: class indices of another shape"};
    Steps step(b, from);
    auto integer = [&](int64_t value) { return b.constant_integer(value, DType::i64, Domain::torch, from); };
    NodeId index = step(Op::reshape, {target}, {.dims = kept});
    NodeId counted = step(Op::ne, {index, integer(ignore_index)});
    NodeId inside = step(Op::logical_and, {step(Op::ge, {index, integer(0)}), step(Op::lt, {index, integer(classes)})});
    NodeId good = step(Op::logical_or, {inside, step(Op::logical_not, {counted})});
    NodeId whole = step.cast(good, DType::i64); // index // 1, or a trap: also on GPUs, as torch's own kernel asserts there
    NodeId checked = x.device == DeviceKind::cpu ? step(Op::floor_div, {index, whole}) : b.add_node({Op::floor_div, b.type(index), {index, whole}, {}, 0.0, -1, from});
    NodeId positions = b.add_node({Op::iota, Type{DType::i64, {classes}, x.device, x.device_index, x.domain}, {}, {}, 0.0, -1, from});
    NodeId hit = step(Op::eq, {checked, step(Op::reshape, {positions}, {.dims = along})});
    NodeId zero = b.constant(0.0, x.dtype, Domain::torch, from);
    NodeId picked = logits ? picked_log_probability(step, b, scores, hit, axis, from)
                           : step(Op::sum, {step(Op::where, {hit, scores, zero})}, {.ints = {axis}});
    NodeId loss = step(Op::where, {counted, step(Op::neg, {picked}), zero});
    if (reduction == LossReduction::none) return step.done(step(Op::reshape, {loss}, {.dims = dropped}));
    NodeId total = step.take(reduce(b, Op::sum, step.cast(loss, inner_dtype(x.dtype)), {}, false, DType::none, 0.0, from));
    if (reduction == LossReduction::mean) {
        NodeId count = step.take(reduce(b, Op::sum, counted, {}, false, DType::none, 0.0, from));
        total = step(Op::div, {total, step.cast(count, inner_dtype(x.dtype))});
    }
    return step.done(step.cast(total, x.dtype));
}

} // namespace

Maybe nll_loss(Builder& b, NodeId log_probabilities, NodeId target, int64_t ignore_index, LossReduction reduction, SourceSpan from) {
    return nll_of(b, log_probabilities, false, target, ignore_index, reduction, from);
}

Maybe cross_entropy(Builder& b, NodeId logits, NodeId target, int64_t ignore_index, LossReduction reduction, SourceSpan from) {
    if (b.type(logits).device == DeviceKind::cuda) return nll_of(b, logits, true, target, ignore_index, reduction, from);
    size_t rank = b.type(logits).dims.size();
    Maybe log_probabilities = b.build(Op::log_softmax, {logits}, {.ints = {rank == 1 ? 0 : 1}}, from);
    if (!log_probabilities) return log_probabilities;
    return nll_loss(b, *log_probabilities, target, ignore_index, reduction, from);
}

} // namespace dyno::graph::compose
