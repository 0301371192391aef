// One function per family of rules; each looks at a node and at most one operand.
#include "compiler/graph/simplify.h"
#include "compiler/graph/rewrite.h"
#include <algorithm>

namespace dyno::graph {

namespace {

int mantissa_bits(DType t) {
    switch (t) {
    case DType::f16:
        return 11;
    case DType::bf16:
        return 8;
    case DType::f32:
        return 24;
    case DType::f64:
        return 53;
    default:
        return 0;
    }
}

/// What the node can be made of instead; `made` is a new node, otherwise an id that exists.
struct Found {
    NodeId same;
    Node made{};
    bool fresh = false;
};

Found keep(const Node& node) { return {{}, node, true}; }
Found forward(NodeId id) { return {id, {}, false}; }

Node like(const Node& node, NodeId operand, std::vector<int64_t> ints = {}) {
    Node out = node;
    out.operands = {operand};
    out.ints = std::move(ints);
    return out;
}

Found cast_rule(const Builder& b, const Node& node) {
    NodeId inner = node.operands[0];
    const Node& below = b[inner];
    if (below.type.dtype == node.type.dtype) return forward(inner);
    if (below.op != Op::cast) return keep(node);
    NodeId source = below.operands[0];
    if (!is_exact_cast(b.type(source).dtype, below.type.dtype)) return keep(node);
    if (b.type(source).dtype == node.type.dtype) return forward(source);
    return keep(like(node, source));
}

Found slice_rule(const Builder& b, const Node& node) {
    NodeId inner = node.operands[0];
    const Node& below = b[inner];
    bool whole = below.type.dims == node.type.dims;
    for (size_t i = 0; whole && i < node.type.dims.size(); ++i) whole = node.ints[2 * i] == 0 && node.ints[2 * i + 1] == 1;
    if (whole) return forward(inner);
    if (below.op != Op::slice) return keep(node);
    std::vector<int64_t> ints = node.ints;
    for (size_t i = 0; i < node.type.dims.size(); ++i) {
        ints[2 * i] = below.ints[2 * i] + node.ints[2 * i] * below.ints[2 * i + 1];
        ints[2 * i + 1] = below.ints[2 * i + 1] * node.ints[2 * i + 1];
    }
    return keep(like(node, below.operands[0], ints));
}

Found permute_rule(const Builder& b, const Node& node) {
    NodeId source = node.operands[0];
    std::vector<int64_t> order = node.ints;
    const Node& below = b[source];
    if (below.op == Op::permute) {
        for (int64_t& axis : order) axis = below.ints[axis];
        source = below.operands[0];
    }
    if (std::is_sorted(order.begin(), order.end())) return forward(source);
    return keep(like(node, source, order));
}

Found flip_rule(const Builder& b, const Node& node) {
    NodeId source = node.operands[0];
    std::vector<int64_t> axes = node.ints;
    const Node& below = b[source];
    if (below.op == Op::flip) {
        axes.clear();
        std::set_symmetric_difference(node.ints.begin(), node.ints.end(), below.ints.begin(), below.ints.end(), std::back_inserter(axes));
        source = below.operands[0];
    }
    if (axes.empty()) return forward(source);
    return keep(like(node, source, axes));
}

Found movement_rule(const Builder& b, const Node& node) {
    NodeId source = node.operands[0];
    while (b[source].op == node.op) source = b[source].operands[0];
    if (b.type(source).dims == node.type.dims) return forward(source);
    return keep(like(node, source));
}

Found rule(const Builder& b, const Node& node) {
    switch (node.op) {
    case Op::cast:
        return cast_rule(b, node);
    case Op::slice:
        return slice_rule(b, node);
    case Op::permute:
        return permute_rule(b, node);
    case Op::flip:
        return flip_rule(b, node);
    case Op::reshape:
    case Op::expand:
        return movement_rule(b, node);
    case Op::cat:
        return node.operands.size() == 1 ? forward(node.operands[0]) : keep(node);
    default:
        return keep(node);
    }
}

} // namespace

bool is_exact_cast(DType from, DType to) {
    if (from == to) return true;
    if (to == DType::b8) return false;
    if (from == DType::b8) return true;
    if (is_float(from))
        return (is_float(to) && mantissa_bits(to) >= mantissa_bits(from) && to != DType::f16) || (from == DType::f16 && to == DType::f32);
    int digits = static_cast<int>(8 * size_of(from)) - (is_signed_int(from) ? 1 : 0);
    if (is_float(to)) return digits <= mantissa_bits(to) && (to != DType::f16 || digits <= 11);
    int room = static_cast<int>(8 * size_of(to)) - (is_signed_int(to) ? 1 : 0);
    return digits <= room && (is_signed_int(to) || is_unsigned_int(from));
}

Graph drop_dead(const Graph& graph) {
    std::vector<bool> used = used_nodes(graph);
    return rewrite(graph, [&](Builder& b, const Node& node, NodeId old) { return used[old.index] ? b.add_node(node) : NodeId{}; });
}

Graph simplify(const Graph& graph) {
    std::vector<bool> objects = object_nodes(graph);
    Graph shorter = rewrite(graph, [&](Builder& b, const Node& node, NodeId old) {
        if (graph[old].twin >= 0) return b.add_node(node);
        Found found = rule(b, node);
        if (found.fresh) return b.add_node(found.made);
        bool same_type = b.type(found.same) == node.type; // a host number may have been placed on a device
        return objects[old.index] || !same_type ? b.add_node(node) : found.same;
    });
    return drop_dead(shorter);
}

} // namespace dyno::graph
