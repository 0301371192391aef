// From roots down: a node computed in the group becomes instructions, a node in memory a load. One value per (node, map),
// so everything is read and computed once.
#include "compiler/fusion/lower.h"
#include "compiler/fusion/costs.h"
#include "compiler/graph/op_info.h"
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <bit>

namespace dyno::fusion {
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;

namespace {

class Lowering {
  public:
    Lowering(const Graph& g, const Grouping& grouping, GroupId id, const Places& places)
        : g_(g), grouping_(grouping), group_(grouping.groups[id]), places_(places) {}

    Lowered run() {
        out_.nest.axes = group_.axes;
        for (const Root& root : group_.roots) {
            IndexMap map;
            if (!root.copy)
                map = group_.maps.at(root.node.index).front();
            else
                map = whole(g_[root.node].type.dims);
            const ValueId v = root.copy ? load_or_number(root.node, map) : value(root.node, map);
            const Location to = places_.of_root(root);
            out_.nest.stores.push_back({v, {parameter(to.buffer, g_[root.node].type.dtype, true), shifted(to, map)}});
        }
        name();
        return std::move(out_);
    }

  private:
    IndexMap whole(const std::vector<int64_t>& dims) const {
        IndexMap map(dims.size(), Affine{0, std::vector<int64_t>(group_.axes.size(), 0)});
        for (size_t d = 0; d < dims.size(); d++) map[d].strides[d] = 1;
        return map;
    }
    Affine shifted(const Location& place, const IndexMap& map) const {
        Affine at = address(place.strides, map, group_.axes.size());
        at.offset += place.offset;
        return at;
    }

    uint32_t parameter(uint32_t buffer, DType dtype, bool written) {
        for (uint32_t k = 0; k < out_.buffers.size(); k++) {
            if (out_.buffers[k] != buffer) continue;
            out_.nest.parameters[k].written |= written;
            return k;
        }
        out_.buffers.push_back(buffer);
        out_.nest.parameters.push_back({dtype, written});
        return static_cast<uint32_t>(out_.buffers.size() - 1);
    }

    ValueId append(Instruction i, NodeId from) {
        out_.nest.body.push_back(i);
        out_.nest.from.push_back(g_[from].from);
        return static_cast<ValueId>(out_.nest.body.size() - 1);
    }

    bool here(NodeId id) const { return group_.maps.count(id.index) != 0; }

    ValueId value(NodeId id, const IndexMap& map) {
        for (const auto& [known, v] : values_[id.index])
            if (known == map) return v;
        const ValueId v = compute(id, map);
        values_[id.index].push_back({map, v});
        return v;
    }

    ValueId compute(NodeId id, const IndexMap& map) {
        const Node& node = g_[id];
        if (node.op == Op::constant || node.op == Op::scalar || !here(id)) return load_or_number(id, map);
        const graph::OpKind kind = graph::info(node.op).kind;
        if (node.op == Op::iota) {
            out_.nest.indices.push_back(map[0]);
            return append(
                {.kind = Instruction::index, .dtype = node.type.dtype, .which = static_cast<uint32_t>(out_.nest.indices.size() - 1)}, id);
        }
        if (kind == graph::OpKind::movement) return moved(id, map);
        if (kind == graph::OpKind::reduction) return reduced(id, map);
        Instruction i{.kind = Instruction::apply, .op = graph::scalar_op_of(node.op), .dtype = node.type.dtype};
        DYNO_CHECK(i.op != scalar::ScalarOp::count_, "an op that loops know: composites are decomposed before fusion");
        for (NodeId o : node.operands) i.operands[i.arity++] = value(o, g_[o].type.dims.empty() ? IndexMap{} : map);
        if (node.type.domain == graph::Domain::numpy)
            out_.nest.reports_flags |= is_float(node.type.dtype) || is_float(g_[node.operands[0]].type.dtype);
        return append(i, id);
    }

    ValueId reduced(NodeId id, const IndexMap& map) {
        static constexpr std::pair<Op, Reduction> rows[] = {
            {Op::sum, Reduction::sum},       {Op::prod, Reduction::prod},     {Op::amax, Reduction::amax}, {Op::amin, Reduction::amin},
            {Op::argmax, Reduction::argmax}, {Op::argmin, Reduction::argmin}, {Op::welford_mean, Reduction::welford_mean},
            {Op::welford_var, Reduction::welford_var},
            {Op::first_max, Reduction::first_max}, {Op::first_min, Reduction::first_min}, {Op::any, Reduction::any},   {Op::all, Reduction::all}};
        const Node& node = g_[id];
        Instruction i{.kind = Instruction::reduce, .dtype = node.type.dtype, .arity = 1};
        for (const auto& [op, how] : rows)
            if (op == node.op) i.how = how;
        i.operands[0] = value(node.operands[0], group_.reduced.at(id.index));
        if (node.type.domain == graph::Domain::numpy && is_float(node.type.dtype)) out_.nest.reports_flags = true;
        if (node.order.kind != graph::SumOrder::any) {
            out_.nest.orders.push_back({node.order, linear(node.type.dims, map, group_.axes.size())});
            for (size_t k = 0; k < group_.axes.size(); k++) // reduced axes have size 1
                if (group_.axes[k].kind == Axis::row) out_.nest.orders.back().result.strides[k] = 0;
            i.which = static_cast<uint32_t>(out_.nest.orders.size());
        }
        return append(i, id);
    }

    ValueId moved(NodeId id, const IndexMap& map) {
        const NodeId operand = g_[id].operands[0];
        Sent sent = through_movement(g_, id, map, group_.axes);
        if (sent.kind == Sent::map) return value(operand, g_[operand].type.dims.empty() ? IndexMap{} : sent.operand);
        // Not affine: the operand is in memory in row-major order, where a reshape changes nothing.
        DYNO_CHECK(g_[id].op == Op::reshape && !here(operand), "only a reshape of memory may be opaque");
        const auto copy = grouping_.contiguous_copy.find(operand.index);
        const Location place = copy != grouping_.contiguous_copy.end() ? places_.of_copy(operand) : places_.of(operand);
        Affine at = linear(g_[id].type.dims, map, group_.axes.size());
        at.offset += place.offset;
        return load(operand, place, at);
    }

    ValueId load(NodeId id, const Location& place, Affine at) {
        const DType t = g_[id].type.dtype;
        const Access access{parameter(place.buffer, t, false), std::move(at)};
        for (ValueId v = 0; v < out_.nest.body.size(); v++)
            if (out_.nest.body[v].kind == Instruction::load && out_.nest.loads[out_.nest.body[v].which] == access) return v;
        out_.nest.loads.push_back(access);
        return append({.kind = Instruction::load, .dtype = t, .which = static_cast<uint32_t>(out_.nest.loads.size() - 1)}, id);
    }

    ValueId load_or_number(NodeId id, const IndexMap& map) {
        const Node& node = g_[id];
        if (node.op == Op::constant) return append({.kind = Instruction::constant, .dtype = node.type.dtype, .bits = bits_of(node)}, id);
        if (node.op == Op::scalar) {
            out_.scalars.push_back(id);
            out_.nest.scalars.push_back(node.type.dtype);
            return append({.kind = Instruction::scalar, .dtype = node.type.dtype, .which = static_cast<uint32_t>(out_.scalars.size() - 1)},
                          id);
        }
        const Location place = places_.of(id);
        return load(id, place, shifted(place, map));
    }

    static uint64_t bits_of(const Node& node) {
        const DType t = node.type.dtype;
        if (!is_float(t))
            return node.ints.empty() ? static_cast<uint64_t>(static_cast<int64_t>(node.number)) : static_cast<uint64_t>(node.ints[0]);
        if (t == DType::f64) return std::bit_cast<uint64_t>(node.number);
        const auto narrow = static_cast<float>(node.number);
        if (t == DType::f32) return std::bit_cast<uint32_t>(narrow);
        return t == DType::f16 ? scalar::float_to_half(narrow) : scalar::float_to_bfloat(narrow);
    }

    void name() {
        std::string text;
        for (const Instruction& i : out_.nest.body) {
            if (i.kind != Instruction::apply && i.kind != Instruction::reduce) continue;
            const std::string op = i.kind == Instruction::reduce ? name_of(i.how) : std::string(scalar::info(i.op).name);
            text += (text.empty() ? "" : "_") + op;
            if (text.size() > 60) break;
        }
        out_.nest.name = text.empty() ? "copy" : text;
    }

    const Graph& g_;
    const Grouping& grouping_;
    const Group& group_;
    const Places& places_;
    std::map<uint32_t, std::vector<std::pair<IndexMap, ValueId>>> values_;
    Lowered out_;
};

} // namespace

Lowered lower(const Graph& graph, const Grouping& grouping, GroupId group, const Places& places) {
    Lowered lowered = Lowering(graph, grouping, group, places).run();
    lowered.nest = simplify_axes(std::move(lowered.nest));
    verify(lowered.nest);
    return lowered;
}

} // namespace dyno::fusion
