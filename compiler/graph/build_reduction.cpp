// Reductions and the composite rows: axes normalised, integers widened, reduced axes kept as size 1.
#include "compiler/graph/build_call.h"
#include "compiler/graph/rules.h"
#include <algorithm>
#include <fmt/format.h>

namespace dyno::graph {

Result<std::vector<int64_t>> BuildCall::axes(size_t rank, bool all_if_empty) const {
    std::vector<int64_t> out;
    int64_t limit = std::max<int64_t>(1, static_cast<int64_t>(rank));
    for (int64_t axis : attributes.ints) {
        if (axis < -limit || axis >= limit) return refuse(fmt::format("axis {} of {} dims", axis, rank));
        if (rank > 0) out.push_back(axis < 0 ? axis + limit : axis);
    }
    if (attributes.ints.empty() && all_if_empty)
        for (size_t i = 0; i < rank; ++i) out.push_back(static_cast<int64_t>(i));
    std::sort(out.begin(), out.end());
    if (std::adjacent_find(out.begin(), out.end()) != out.end()) return refuse("an axis named twice");
    return out;
}

namespace {

std::vector<int64_t> reduced_dims(std::vector<int64_t> dims, const std::vector<int64_t>& axes) {
    for (int64_t axis : axes) dims[axis] = 1;
    return dims;
}

} // namespace

/// Eager's order, where it adds the elements as they are.
SumOrder BuildCall::order_for(DType compute) const {
    const bool adds = op == Op::sum || op == Op::prod || op == Op::mean || op == Op::var || op == Op::layer_norm || op == Op::welford_mean ||
                      op == Op::welford_var;
    const bool followed = placed.device == DeviceKind::cpu && (compute == DType::f32 || compute == DType::f64) && type(0).dtype == compute;
    return adds && followed ? attributes.order : SumOrder{};
}

Result<NodeId> BuildCall::reduction() {
    Result<DTypeRule> rule = reduction_rule(op, placed.domain, type(0).dtype, attributes.dtype, b.default_float);
    if (!rule) return Refusal{rule.reason()};
    if (op == Op::argmax || op == Op::argmin) return argument_of_extreme(rule->compute);
    Result<std::vector<int64_t>> reduced = axes(type(0).dims.size(), true);
    if (!reduced) return Refusal{reduced.reason()};
    const bool first = op == Op::first_max || op == Op::first_min, extreme = first || op == Op::amax || op == Op::amin;
    if (first && reduced->size() > 1) return refuse("more than one axis");
    for (int64_t axis : *reduced)
        if (extreme && type(0).dims[axis] == 0) return refuse("no elements along a reduced axis");
    NodeId value = b.cast(operand(0), rule->compute, from);
    if (reduced->empty() && first) return value;
    if (reduced->empty()) { // of a 0-d value: a row of one element
        value = make(Op::reshape, rule->compute, {1}, {value});
        const NodeId one = make(op, rule->compute, {1}, {value}, {0});
        return b.cast(make(Op::reshape, rule->compute, {}, {one}), rule->result, from);
    }
    // Only floats have equals that differ.
    const Op how = first && !is_float(rule->compute) ? (op == Op::first_max ? Op::amax : Op::amin) : op;
    NodeId result = make(how, rule->compute, reduced_dims(type(0).dims, *reduced), {value}, *reduced, 0.0, order_for(rule->compute));
    return b.cast(result, rule->result, from);
}

Result<NodeId> BuildCall::argument_of_extreme(DType dtype) {
    const std::vector<int64_t> dims = type(0).dims;
    if (attributes.ints.size() > 1) return refuse("more than one axis");
    Result<std::vector<int64_t>> one = axes(dims.size(), false);
    if (!one) return Refusal{one.reason()};
    NodeId value = operand(0);
    std::vector<int64_t> kept(dims.size(), 1);
    if (type(0).numel() == 0) return refuse("no elements");
    if (one->empty()) {
        value = make(Op::reshape, dtype, {type(0).numel()}, {value});
        NodeId flat = make(op, DType::i64, {1}, {value}, {0});
        return make(Op::reshape, DType::i64, kept, {flat});
    }
    return make(op, DType::i64, reduced_dims(dims, *one), {value}, *one);
}

/// Composite rows. The operand has the row's dtype; what is computed wider inside is decompose's business.
Result<NodeId> BuildCall::normalisation() {
    Result<DTypeRule> rule = reduction_rule(op, placed.domain, type(0).dtype, attributes.dtype, b.default_float);
    if (!rule) return Refusal{rule.reason()};
    NodeId value = b.cast(operand(0), rule->compute, from);
    const std::vector<int64_t> dims = type(0).dims;
    switch (op) {
    case Op::mean:
    case Op::var:
    case Op::logsumexp: {
        Result<std::vector<int64_t>> reduced = axes(dims.size(), true);
        if (!reduced) return Refusal{reduced.reason()};
        if (op == Op::logsumexp && type(0).numel() == 0) return refuse("no elements");
        return make(op, rule->result, reduced_dims(dims, *reduced), {value}, *reduced, op == Op::var ? attributes.number : 0.0,
                    order_for(rule->compute));
    }
    case Op::softmax:
    case Op::log_softmax: {
        if (attributes.ints.size() != 1) return refuse("needs one axis");
        Result<std::vector<int64_t>> axis = axes(dims.size(), false);
        if (!axis) return Refusal{axis.reason()};
        if (axis->empty()) return refuse("a 0-d value");
        if (type(0).numel() == 0) return refuse("no elements"); // decomposed, they would have no maximum
        return make(op, rule->result, dims, {value}, *axis);
    }
    case Op::layer_norm:
    case Op::rms_norm: {
        size_t most = op == Op::layer_norm ? 3 : 2;
        if (attributes.ints.size() != 1 || operands.size() > most) return refuse("unusual arguments");
        int64_t trailing = attributes.ints[0];
        if (trailing < 1 || trailing > static_cast<int64_t>(dims.size())) return refuse("more normalised axes than the value has");
        std::vector<int64_t> tail(dims.end() - trailing, dims.end());
        std::vector<NodeId> uses{value};
        for (size_t i = 1; i < operands.size(); ++i) {
            if (type(i).dims != tail || type(i).dtype != rule->compute) return refuse("weight or bias of another shape or element type");
            uses.push_back(operand(i));
        }
        return make(op, rule->result, dims, std::move(uses), {trailing}, attributes.number, order_for(rule->compute));
    }
    case Op::gelu:
        if (attributes.ints.size() != 1 || (attributes.ints[0] != 0 && attributes.ints[0] != 1)) return refuse("an unknown approximation");
        return make(op, rule->result, dims, {value}, attributes.ints, attributes.number);
    default:
        return make(op, rule->result, dims, {value}, {}, attributes.number);
    }
}

} // namespace dyno::graph
