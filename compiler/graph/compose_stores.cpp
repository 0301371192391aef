// x[...] = part as a value: what a tensor holds once a part of it, reached by movement, has been replaced.
#include "compiler/graph/compose.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/steps.h"
#include <algorithm>

namespace dyno::graph::compose {
namespace {

/// One axis of a slice: `count` elements from `start` on, `step` apart.
struct Cut {
    int64_t axis, start, step, count;
};

class Store {
  public:
    Store(Builder& b, SourceSpan from) : b_(b), step_(b, from), from_(from) {}

    Maybe through(NodeId base, std::span<const Node> path, NodeId part) {
        std::vector<NodeId> whole{base};
        for (const Node& move : path) {
            Node again = move;
            again.operands = {whole.back()};
            again.twin = -1;
            whole.push_back(b_.add_node(std::move(again)));
        }
        for (size_t k = path.size(); k-- > 0;) part = undo(b_[whole[k + 1]], whole[k], part);
        if (step_.failed()) return step_.done({});
        return b_.spread(part, b_.type(base), from_);
    }

  private:
    std::vector<int64_t> dims(NodeId id) const { return b_.type(id).dims; }
    /// One number for every element: no movement changes it.
    bool spread(NodeId part) const { return b_.type(part).dims.empty(); }

    /// The value of `before` whose image under `move` is `part`.
    NodeId undo(const Node& given, NodeId before, NodeId part) {
        if (step_.failed()) return {};
        const Node move = given; // building may move the nodes
        if (move.op == Op::slice) return put(before, cuts_of(move, before), part);
        if (move.op == Op::expand && b_.type(before).numel() != move.type.numel()) return step_.fail("a store through a broadcast");
        if (spread(part)) return part;
        switch (move.op) {
        case Op::permute: {
            std::vector<int64_t> back(move.ints.size());
            for (size_t k = 0; k < back.size(); k++) back[static_cast<size_t>(move.ints[k])] = static_cast<int64_t>(k);
            return step_(Op::permute, {part}, {.ints = back});
        }
        case Op::flip: return step_(Op::flip, {part}, {.ints = move.ints});
        case Op::reshape: case Op::expand: return step_(Op::reshape, {part}, {.dims = dims(before)});
        default: return step_.fail("a store through what is no view");
        }
    }

    std::vector<Cut> cuts_of(const Node& move, NodeId before) const {
        std::vector<Cut> cuts;
        const std::vector<int64_t>& all = b_.type(before).dims;
        for (size_t k = 0; k < all.size(); k++) {
            const Cut cut{static_cast<int64_t>(k), move.ints[2 * k], move.ints[2 * k + 1], move.type.dims[k]};
            if (cut.start != 0 || cut.step != 1 || cut.count != all[k]) cuts.push_back(cut);
        }
        return cuts;
    }

    /// Single positions are chosen by a mask, which fuses with what made the part; longer pieces are joined with their neighbours.
    NodeId put(NodeId x, std::vector<Cut> cuts, NodeId part) {
        if (step_.failed() || cuts.empty()) return part;
        if (std::any_of(cuts.begin(), cuts.end(), [](const Cut& cut) { return cut.count == 0; })) return x;
        const auto longer = std::find_if(cuts.begin(), cuts.end(), [&](const Cut& cut) { return !spread(part) && cut.count > 1; });
        if (longer == cuts.end()) return masked(x, cuts, part);
        Cut cut = *longer;
        cuts.erase(longer);
        if (cut.step < 0) {
            part = step_(Op::flip, {part}, {.ints = {cut.axis}});
            cut.start += (cut.count - 1) * cut.step;
            cut.step = -cut.step;
        }
        if (step_.failed()) return {};
        const int64_t size = dims(x)[static_cast<size_t>(cut.axis)], length = std::min(cut.count * cut.step, size - cut.start);
        NodeId middle = narrowed(x, cut.axis, cut.start, length);
        if (cut.step == 1) {
            middle = put(middle, std::move(cuts), part);
        } else {
            NodeId chosen = step_.take(narrow(b_, x, cut.axis, cut.start, cut.count, cut.step, from_));
            middle = dilated(middle, put(chosen, std::move(cuts), part), cut, length);
        }
        if (step_.failed()) return {};
        std::vector<Operand> pieces;
        if (cut.start > 0) pieces.emplace_back(narrowed(x, cut.axis, 0, cut.start));
        pieces.emplace_back(middle);
        if (cut.start + length < size) pieces.emplace_back(narrowed(x, cut.axis, cut.start + length, size - cut.start - length));
        return pieces.size() == 1 ? middle : step_.run(Op::cat, pieces, {.ints = {cut.axis}});
    }

    NodeId narrowed(NodeId x, int64_t axis, int64_t start, int64_t length) {
        if (start == 0 && length == dims(x)[static_cast<size_t>(axis)]) return x;
        return step_.take(narrow(b_, x, axis, start, length, 1, from_));
    }

    /// `middle` with every step-th element along the axis taken from `chosen`.
    NodeId dilated(NodeId middle, NodeId chosen, const Cut& cut, int64_t length) {
        if (step_.failed()) return {};
        std::vector<int64_t> apart = dims(chosen), joined = apart;
        const auto at = static_cast<size_t>(cut.axis);
        apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(at) + 1, 1);
        joined[at] *= cut.step;
        NodeId wide = step_(Op::reshape, {chosen}, {.dims = apart});
        apart[at + 1] = cut.step;
        wide = step_(Op::reshape, {step_(Op::expand, {wide}, {.dims = apart})}, {.dims = joined});
        wide = narrowed(wide, cut.axis, 0, length);
        return step_(Op::where, {every(middle, cut.axis, cut.step), wide, middle});
    }

    Operand number(int64_t n, const Type& type) { return {b_.constant_integer(n, DType::i64, type.domain, from_), true}; }

    /// Positions along one axis of x, broadcast against it.
    NodeId positions(NodeId x, int64_t axis) {
        const Type type = b_.type(x);
        const int64_t n = type.dims[static_cast<size_t>(axis)];
        NodeId line = b_.add_node({Op::iota, Type{DType::i64, {n}, type.device, type.device_index, type.domain}, {}, {}, 0.0, -1, from_});
        std::vector<int64_t> shape(type.dims.size(), 1);
        shape[static_cast<size_t>(axis)] = n;
        return step_(Op::reshape, {line}, {.dims = shape});
    }
    NodeId every(NodeId x, int64_t axis, int64_t step) {
        const Type type = b_.type(x);
        return step_(Op::eq, {step_(Op::remainder, {positions(x, axis), number(step, type)}), number(0, type)});
    }

    NodeId masked(NodeId x, const std::vector<Cut>& cuts, NodeId part) {
        const Type type = b_.type(x);
        NodeId mask{};
        const auto both = [&](NodeId condition) { mask = mask.valid() ? step_(Op::logical_and, {mask, condition}) : condition; };
        for (Cut cut : cuts) {
            if (cut.step < 0) {
                cut.start += (cut.count - 1) * cut.step;
                cut.step = -cut.step;
            }
            const NodeId at = positions(x, cut.axis);
            if (cut.count == 1) {
                both(step_(Op::eq, {at, number(cut.start, type)}));
                continue;
            }
            both(step_(Op::ge, {at, number(cut.start, type)}));
            both(step_(Op::lt, {at, number(cut.start + (cut.count - 1) * cut.step + 1, type)}));
            if (cut.step > 1)
                both(step_(Op::eq, {step_(Op::remainder, {step_(Op::sub, {at, number(cut.start, type)}), number(cut.step, type)}), number(0, type)}));
        }
        return step_(Op::where, {mask, part, x});
    }

    Builder& b_;
    Steps step_;
    SourceSpan from_;
};

} // namespace

Maybe put_back(Builder& b, NodeId base, std::span<const Node> path, NodeId part, SourceSpan from) { return Store(b, from).through(base, path, part); }

std::optional<std::vector<Node>> movement_between(const Builder& b, NodeId base, NodeId view) {
    std::vector<Node> path;
    while (!(view == base)) {
        const Node& node = b[view];
        if (info(node.op).kind != OpKind::movement || node.op == Op::cat) return std::nullopt;
        path.push_back(node);
        view = node.operands[0];
    }
    std::reverse(path.begin(), path.end());
    return path;
}

} // namespace dyno::graph::compose
