// One walk from users to operands: which values' zeros have a sign that somebody could see.
#include "compiler/graph/zero_signs.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/rewrite.h"

namespace dyno::graph {

namespace {

enum class Use : uint8_t {
    none,   // the user gives the same for either zero
    passed, // at most a zero of its own differs in sign
    seen,
};

Use use_of(const Node& user, size_t operand) {
    switch (user.op) {
    case Op::exp: case Op::exp2: case Op::cosh: case Op::cos: case Op::abs: case Op::log: case Op::log2: case Op::log10: case Op::sigmoid:
    case Op::isnan: case Op::isinf: case Op::isfinite: case Op::logical_not: case Op::logical_and: case Op::logical_or: case Op::logical_xor:
    case Op::eq: case Op::ne: case Op::lt: case Op::le: case Op::gt: case Op::ge:
    case Op::argmax: case Op::argmin:
        return Use::none;
    case Op::add: case Op::sub: case Op::mul: case Op::neg: case Op::sqrt: case Op::sinh: case Op::sin: case Op::tanh: case Op::erf: case Op::relu:
    case Op::maximum: case Op::minimum: case Op::where: case Op::amax: case Op::amin: case Op::first_max: case Op::first_min: case Op::sum:
    case Op::reshape: case Op::permute: case Op::expand: case Op::slice: case Op::flip: case Op::cat:
        return Use::passed;
    case Op::cast:
        return is_float(user.type.dtype) ? Use::passed : Use::none;
    case Op::div:
        return operand == 0 ? Use::passed : Use::seen;
    default:
        return Use::seen;
    }
}

} // namespace

Graph forget_zero_signs(const Graph& graph) {
    std::vector<bool> seen = object_nodes(graph);
    bool any = false;
    for (size_t k = graph.nodes.size(); k-- > 0;) {
        const Node& node = graph.nodes[k];
        any = any || node.op == Op::first_max || node.op == Op::first_min;
        for (size_t j = 0; j < node.operands.size(); j++) {
            const Use use = use_of(node, j);
            if (use == Use::seen || (use == Use::passed && seen[k])) seen[node.operands[j].index] = true;
        }
    }
    if (!any) return graph;
    return rewrite(graph, [&](Builder& b, const Node& node, NodeId old) {
        Node made = node;
        if (!seen[old.index] && node.op == Op::first_max) made.op = Op::amax;
        if (!seen[old.index] && node.op == Op::first_min) made.op = Op::amin;
        return b.add_node(made);
    });
}

} // namespace dyno::graph
