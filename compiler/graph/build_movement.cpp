// Movement rows: shapes checked and completed. A node is made even where the shape stays, since eager makes an object.
#include "compiler/graph/build_call.h"
#include "compiler/graph/promote.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <fmt/format.h>

namespace dyno::graph {

Result<NodeId> BuildCall::movement() {
    switch (op) {
    case Op::reshape:
        return reshape();
    case Op::permute:
        return permute();
    case Op::expand:
        return expand();
    case Op::slice:
        return slice();
    case Op::cat:
        return cat();
    case Op::flip: {
        Result<std::vector<int64_t>> flipped = axes(type(0).dims.size(), placed.domain == Domain::numpy);
        if (!flipped) return Refusal{flipped.reason()};
        return make(op, type(0).dtype, type(0).dims, {operand(0)}, *flipped);
    }
    default:
        DYNO_CHECK(false, "a movement row");
    }
    return refuse("");
}

Result<NodeId> BuildCall::reshape() {
    std::vector<int64_t> dims = attributes.dims;
    int64_t known = 1, unknown = -1;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] < -1 || (dims[i] == -1 && unknown >= 0)) return refuse("an impossible shape");
        if (dims[i] == -1)
            unknown = static_cast<int64_t>(i);
        else
            known *= dims[i];
    }
    int64_t total = type(0).numel();
    if (unknown >= 0) {
        if (known == 0 || total % known != 0) return refuse("an impossible shape");
        dims[unknown] = total / known;
    } else if (known != total) {
        return refuse(fmt::format("{} elements into {}", total, known));
    }
    return make(op, type(0).dtype, dims, {operand(0)});
}

Result<NodeId> BuildCall::permute() {
    size_t rank = type(0).dims.size();
    if (attributes.ints.size() != rank) return refuse("not a permutation of the axes");
    std::vector<int64_t> order, dims;
    std::vector<bool> seen(rank);
    for (int64_t axis : attributes.ints) {
        int64_t at = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
        if (at < 0 || at >= static_cast<int64_t>(rank) || seen[at]) return refuse("not a permutation of the axes");
        seen[at] = true;
        order.push_back(at);
        dims.push_back(type(0).dims[at]);
    }
    return make(op, type(0).dtype, dims, {operand(0)}, order);
}

Result<NodeId> BuildCall::expand() {
    const std::vector<int64_t>& old = type(0).dims;
    std::vector<int64_t> dims = attributes.dims;
    if (dims.size() < old.size()) return refuse("fewer dims than the value has");
    size_t lead = dims.size() - old.size();
    for (size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] == -1 && i >= lead) dims[i] = old[i - lead];
        bool fits = dims[i] >= 0 && (i < lead || old[i - lead] == dims[i] || old[i - lead] == 1);
        if (!fits) return refuse(fmt::format("size {} does not broadcast to {}", i < lead ? 1 : old[i - lead], dims[i]));
    }
    return make(op, type(0).dtype, dims, {operand(0)});
}

Result<NodeId> BuildCall::slice() {
    const std::vector<int64_t>& old = type(0).dims;
    const std::vector<int64_t>& dims = attributes.dims;
    if (dims.size() != old.size() || attributes.ints.size() != 2 * old.size())
        return refuse("one start, step and size per axis are needed");
    for (size_t i = 0; i < dims.size(); ++i) {
        int64_t start = attributes.ints[2 * i], step = attributes.ints[2 * i + 1], last = start + (dims[i] - 1) * step;
        if (dims[i] < 0 || step == 0) return refuse("an impossible slice");
        if (dims[i] > 0 && (start < 0 || start >= old[i] || last < 0 || last >= old[i])) return refuse("a slice that leaves the axis");
    }
    return make(op, type(0).dtype, dims, {operand(0)}, attributes.ints);
}

Result<NodeId> BuildCall::cat() {
    if (attributes.ints.size() != 1) return refuse("needs one axis");
    std::vector<int64_t> dims = type(0).dims;
    Result<std::vector<int64_t>> one = axes(dims.size(), false);
    if (!one) return Refusal{one.reason()};
    if (one->empty()) return refuse("0-d values");
    int64_t axis = (*one)[0];
    std::vector<PromotionOperand> promoted = promotion();
    DType common = common_dtype(placed.domain, promoted, b.default_float);
    if (common == DType::none) return refuse("no common element type");
    std::vector<NodeId> uses{b.cast(operand(0), common, from)};
    for (size_t i = 1; i < operands.size(); ++i) {
        std::vector<int64_t> other = type(i).dims;
        if (other.size() != dims.size()) return refuse("values of different rank");
        dims[axis] += other[axis];
        other[axis] = dims[axis];
        if (other != dims) return refuse("sizes differ outside the axis");
        uses.push_back(b.cast(operand(i), common, from));
    }
    return make(op, common, dims, std::move(uses), {axis});
}

} // namespace dyno::graph
