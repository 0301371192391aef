// First who may be taken apart, on the old graph; then one rewriting in which such a node is known by its parts only.
#include "compiler/graph/sink_cats.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/rewrite.h"
#include <algorithm>
#include <map>
#include <optional>

namespace dyno::graph {

namespace {

constexpr size_t most_parts = 8;

/// How a value falls in parts: sizes along an axis.
struct Partition {
    int64_t axis = 0;
    std::vector<int64_t> sizes;
    bool operator==(const Partition&) const = default;
};

class Sinker {
  public:
    explicit Sinker(const Graph& g) : g_(g), partition_(g.nodes.size()), sunk_(object_nodes(g)) {
        sunk_.flip();
        for (uint32_t k = 0; k < g.nodes.size(); k++) partition(k);
        for (uint32_t k = 0; k < g.nodes.size(); k++) sunk_[k] = sunk_[k] && partition_[k] && g.nodes[k].twin < 0;
        for (uint32_t k = 0; k < g.nodes.size(); k++)
            for (NodeId operand : g.nodes[k].operands)
                if (sunk_[operand.index] && !takes_parts(k, operand.index)) sunk_[operand.index] = false;
        for (uint32_t k = 0; k < g.nodes.size(); k++) sunk_[k] = sunk_[k] && (g.nodes[k].op == Op::cat || has_sunk_operand(k));
    }

    Graph run() {
        if (std::find(sunk_.begin(), sunk_.end(), true) == sunk_.end()) return g_;
        return rewrite(g_, [&](Builder& b, const Node& node, NodeId old) { return replaced(b, node, old.index); });
    }

  private:
    /// Of a cat, and of what is computed of one element by element; none where two would have to agree and do not.
    void partition(uint32_t k) {
        const Node& node = g_.nodes[k];
        if (node.op == Op::cat && node.operands.size() <= most_parts) {
            Partition p{node.ints[0], {}};
            for (NodeId part : node.operands) p.sizes.push_back(g_[part].type.dims[static_cast<size_t>(p.axis)]);
            partition_[k] = std::move(p);
        }
        if (!is_elementwise(node.op)) return;
        for (NodeId operand : node.operands) {
            const auto& theirs = partition_[operand.index];
            if (!theirs) continue;
            if (partition_[k] && *partition_[k] != *theirs) {
                partition_[k].reset();
                return;
            }
            partition_[k] = theirs;
        }
    }

    /// A user that can be computed part by part, and is not wider: its result may be stored in the operand's place.
    bool takes_parts(uint32_t user, uint32_t operand) const {
        const Node& u = g_.nodes[user];
        const Node& o = g_.nodes[operand];
        return is_elementwise(u.op) && u.twin < 0 && partition_[user] == partition_[operand] && u.type.dims == o.type.dims && size_of(u.type.dtype) <= size_of(o.type.dtype);
    }

    bool has_sunk_operand(uint32_t k) const {
        const auto& operands = g_.nodes[k].operands;
        return std::any_of(operands.begin(), operands.end(), [&](NodeId o) { return sunk_[o.index]; });
    }

    NodeId replaced(Builder& b, const Node& node, uint32_t old) {
        const Node& was = g_.nodes[old];
        if (was.op == Op::cat && sunk_[old]) {
            parts_[old] = node.operands;
            return node.operands[0]; // nobody asks for it as a whole
        }
        if (!is_elementwise(was.op) || !has_sunk_operand(old)) return b.add_node(node);
        const Partition& p = *partition_[old];
        std::vector<NodeId> parts;
        int64_t start = 0;
        for (size_t k = 0; k < p.sizes.size(); k++) {
            Node part = node;
            part.type.dims[static_cast<size_t>(p.axis)] = p.sizes[k];
            for (size_t j = 0; j < node.operands.size(); j++)
                part.operands[j] = sunk_[was.operands[j].index] ? parts_.at(was.operands[j].index)[k] : cut(b, node.operands[j], p.axis, start, p.sizes[k]);
            parts.push_back(b.add_node(part));
            start += p.sizes[k];
        }
        if (sunk_[old]) {
            parts_[old] = parts;
            return parts[0];
        }
        Node whole = node;
        whole.op = Op::cat;
        whole.operands = std::move(parts);
        whole.ints = {p.axis};
        whole.number = 0;
        return b.add_node(whole);
    }

    /// A part of an operand; numbers have no parts.
    static NodeId cut(Builder& b, NodeId value, int64_t axis, int64_t start, int64_t size) {
        Node slice;
        slice.op = Op::slice;
        slice.type = b.type(value);
        if (slice.type.dims.empty()) return value;
        slice.operands = {value};
        for (size_t k = 0; k < slice.type.dims.size(); k++) {
            const bool here = static_cast<int64_t>(k) == axis;
            slice.ints.push_back(here ? start : 0);
            slice.ints.push_back(1);
        }
        slice.type.dims[static_cast<size_t>(axis)] = size;
        slice.from = b[value].from;
        return b.add_node(slice);
    }

    const Graph& g_;
    std::vector<std::optional<Partition>> partition_; // by node
    std::vector<bool> sunk_;                          // by node: exists in parts only
    std::map<uint32_t, std::vector<NodeId>> parts_;   // by node: in the new graph
};

} // namespace

Graph sink_cats(const Graph& graph) { return Sinker(graph).run(); }

} // namespace dyno::graph
