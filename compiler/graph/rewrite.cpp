// One walk for all passes.
#include "compiler/graph/rewrite.h"
#include "compiler/support/check.h"
#include <unordered_set>

namespace dyno::graph {

Graph rewrite(const Graph& graph, const Replace& replace) {
    Builder builder;
    std::vector<NodeId> now(graph.nodes.size());
    for (const Extern& call : graph.externs) builder.add_extern(call.name, {}, call.makes_view);
    // Two objects stay two, even where a pass finds that their values are one.
    const std::vector<bool> is_object = object_nodes(graph);
    std::unordered_set<uint32_t> taken;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
        Node node = graph.nodes[i];
        int32_t twin = std::exchange(node.twin, -1);
        for (NodeId& operand : node.operands) operand = now[operand.index];
        now[i] = replace(builder, node, {i});
        if (is_object[i] && now[i].valid() && !taken.insert(now[i].index).second) {
            now[i] = builder.duplicate(now[i]);
            taken.insert(now[i].index);
        }
        if (twin >= 0 && now[i].valid()) builder.set_twin(now[i], static_cast<uint32_t>(twin));
    }
    Graph out = std::move(builder).take();
    auto moved = [&](NodeId id) {
        DYNO_CHECK(now[id.index].valid(), "a node in use was dropped");
        return now[id.index];
    };
    for (const Input& input : graph.inputs) out.inputs.push_back({moved(input.node), input.strides});
    for (const ScalarInput& scalar : graph.scalars) out.scalars.push_back({moved(scalar.node)});
    for (const Output& output : graph.outputs) out.outputs.push_back({moved(output.node), output.strides});
    for (size_t k = 0; k < graph.externs.size(); ++k)
        for (NodeId use : graph.externs[k].uses)
            if (now[use.index].valid()) out.externs[k].uses.push_back(now[use.index]);
    out.notes.insert(out.notes.begin(), graph.notes.begin(), graph.notes.end());
    return out;
}

bool may_trap(const Graph& graph, NodeId id) {
    const Node& node = graph[id];
    bool divides = node.op == Op::floor_div || node.op == Op::remainder || node.op == Op::fmod;
    if ((!divides && node.op != Op::pow) || !is_int(node.type.dtype)) return false;
    NodeId second = node.operands[1];
    while (graph[second].op == Op::expand || graph[second].op == Op::reshape) second = graph[second].operands[0];
    if (graph[second].op != Op::constant) return true;
    int64_t value = graph[second].ints[0];
    return divides ? value == 0 || (value == -1 && is_signed_int(node.type.dtype)) : value < 0 && is_signed_int(node.type.dtype);
}

std::vector<bool> used_nodes(const Graph& graph) {
    std::vector<bool> used(graph.nodes.size());
    for (const Input& input : graph.inputs) used[input.node.index] = true;
    for (const ScalarInput& scalar : graph.scalars) used[scalar.node.index] = true;
    for (const Output& output : graph.outputs) used[output.node.index] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
        const Node& node = graph.nodes[i];
        // An eager call may have effects and may raise: it runs whether its value is used or not.
        if (node.op == Op::extern_call || may_trap(graph, {static_cast<uint32_t>(i)})) used[i] = true;
        if (!used[i]) continue;
        for (NodeId operand : node.operands) used[operand.index] = true;
        if (node.twin >= 0)
            for (NodeId use : graph.externs[node.twin].uses) used[use.index] = true;
    }
    return used;
}

std::vector<bool> object_nodes(const Graph& graph) {
    std::vector<bool> object(graph.nodes.size());
    for (const Output& output : graph.outputs) object[output.node.index] = true;
    std::vector<bool> called(graph.externs.size()); // some were replaced by others while recording
    for (const Node& node : graph.nodes) {
        if (node.op == Op::extern_call) called[static_cast<size_t>(node.ints[0])] = true;
        if (node.twin >= 0) called[static_cast<size_t>(node.twin)] = true;
    }
    for (size_t k = 0; k < graph.externs.size(); ++k)
        for (NodeId use : graph.externs[k].uses) object[use.index] = object[use.index] || called[k];
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        if (graph.nodes[i].op == Op::extern_call || graph.nodes[i].op == Op::extern_result || graph.nodes[i].twin >= 0) object[i] = true;
    return object;
}

} // namespace dyno::graph
