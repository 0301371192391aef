// Costs of graph nodes, by way of the scalar ops they become.
#include "compiler/fusion/costs.h"
#include "compiler/graph/op_info.h"

namespace dyno::fusion {

double cost_of(const graph::Graph& graph, graph::NodeId node) {
    const scalar::ScalarOp op = graph::scalar_op_of(graph[node].op);
    if (op != scalar::ScalarOp::count_) return cost_of(op);
    return graph::info(graph[node].op).kind == graph::OpKind::reduction ? 0.2 : 0.0;
}

} // namespace dyno::fusion
