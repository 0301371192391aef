// The walk over nodes, elementwise rows, movement and eager calls. Rows that gather many elements: interpret_rows.cpp.
#include "compiler/graph/interpret.h"
#include "compiler/graph/interpret_rows.h"
#include "compiler/graph/op_info.h"
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include <fmt/format.h>

namespace dyno::graph {

using scalar::Value;

namespace {

/// Positions of a row-major index.
std::vector<int64_t> unravel(int64_t index, const std::vector<int64_t>& dims) {
    std::vector<int64_t> out(dims.size());
    for (size_t i = dims.size(); i-- > 0;) {
        out[i] = index % dims[i];
        index /= dims[i];
    }
    return out;
}

int64_t ravel(const std::vector<int64_t>& at, const std::vector<int64_t>& dims) {
    int64_t index = 0;
    for (size_t i = 0; i < dims.size(); ++i) index = index * dims[i] + at[i];
    return index;
}

/// Where the element at `to` of a movement node comes from in its only operand.
std::vector<int64_t> source_of(const Node& node, const std::vector<int64_t>& to, const std::vector<int64_t>& dims) {
    std::vector<int64_t> from(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
        switch (node.op) {
        case Op::expand: {
            int64_t at = to[to.size() - dims.size() + i];
            from[i] = dims[i] == 1 ? 0 : at;
            break;
        }
        case Op::slice:
            from[i] = node.ints[2 * i] + to[i] * node.ints[2 * i + 1];
            break;
        default:
            from[i] = to[i];
        }
    }
    if (node.op == Op::permute)
        for (size_t i = 0; i < dims.size(); ++i) from[node.ints[i]] = to[i];
    if (node.op == Op::flip)
        for (int64_t axis : node.ints) from[axis] = dims[axis] - 1 - to[axis];
    return from;
}

class Interpreter {
  public:
    Interpreter(const Graph& graph, const ExternCall& call) : g_(graph), call_(call), values_(graph.nodes.size()) {}

    Result<std::vector<HostArray>> run(std::span<const HostArray> inputs, std::span<const Value> scalars) {
        DYNO_CHECK(inputs.size() == g_.inputs.size() && scalars.size() == g_.scalars.size(), "a value for each input and scalar");
        for (size_t i = 0; i < inputs.size(); ++i) {
            const Type& type = g_[g_.inputs[i].node].type;
            DYNO_CHECK(inputs[i].dtype == type.dtype && inputs[i].dims == type.dims, "inputs of the graph's types");
            values_[g_.inputs[i].node.index] = inputs[i];
        }
        for (size_t i = 0; i < scalars.size(); ++i) {
            values_[g_.scalars[i].node.index] = made(g_[g_.scalars[i].node]);
            values_[g_.scalars[i].node.index].set(0, scalars[i]);
        }
        for (uint32_t i = 0; i < g_.nodes.size(); ++i)
            if (!node(i)) return Refusal{fmt::format("%{} {}: trapped", i, info(g_.nodes[i].op).name)};
        return std::move(values_);
    }

  private:
    static HostArray made(const Node& node) { return HostArray(node.type.dtype, node.type.dims); }
    const HostArray& operand(const Node& node, size_t i) const { return values_[node.operands[i].index]; }

    bool node(uint32_t i) {
        const Node& n = g_.nodes[i];
        switch (info(n.op).kind) {
        case OpKind::leaf:
            return leaf(i), true;
        case OpKind::unary:
        case OpKind::binary:
        case OpKind::ternary:
        case OpKind::cast:
            return elementwise(i);
        case OpKind::reduction:
            values_[i] = interpret_reduction(n, operand(n, 0));
            return true;
        case OpKind::composite:
            return composite(i), true;
        case OpKind::movement:
            return movement(i), true;
        case OpKind::extern_:
            return eager(i), true;
        }
        return true;
    }

    void leaf(uint32_t i) {
        const Node& n = g_.nodes[i];
        if (n.op == Op::input || n.op == Op::scalar) return;
        values_[i] = made(n);
        if (n.op == Op::constant)
            values_[i].set(0, is_float(n.type.dtype) ? Value::of_float(n.type.dtype, n.number) : Value::of_int(n.type.dtype, n.ints[0]));
        if (n.op == Op::iota)
            for (int64_t k = 0; k < values_[i].numel(); ++k)
                values_[i].set(k, Value::of_int(n.type.dtype, scalar::wrap_to(n.type.dtype, k)));
    }

    bool elementwise(uint32_t i) {
        const Node& n = g_.nodes[i];
        scalar::ScalarOp op = scalar_op_of(n.op);
        values_[i] = made(n);
        std::vector<Value> arguments(n.operands.size());
        for (int64_t k = 0; k < values_[i].numel(); ++k) {
            for (size_t a = 0; a < arguments.size(); ++a) arguments[a] = operand(n, a).at(k);
            std::optional<Value> value = scalar::apply(op, n.type.dtype, arguments);
            if (!value) return false;
            values_[i].set(k, *value);
        }
        return true;
    }

    void composite(uint32_t i) {
        const Node& n = g_.nodes[i];
        std::vector<HostArray> operands;
        for (size_t k = 0; k < n.operands.size(); ++k) operands.push_back(operand(n, k));
        values_[i] = interpret_composite(n, operands);
    }

    void movement(uint32_t i) {
        const Node& n = g_.nodes[i];
        HostArray out = made(n);
        if (n.op == Op::cat) {
            int64_t offset = 0, axis = n.ints[0];
            for (size_t a = 0; a < n.operands.size(); ++a) {
                const HostArray& part = operand(n, a);
                for (int64_t k = 0; k < part.numel(); ++k) {
                    std::vector<int64_t> to = unravel(k, part.dims);
                    to[axis] += offset;
                    out.set(ravel(to, out.dims), part.at(k));
                }
                offset += part.dims[axis];
            }
        } else {
            const HostArray& x = operand(n, 0);
            for (int64_t k = 0; k < out.numel(); ++k)
                out.set(k, x.at(n.op == Op::reshape ? k : ravel(source_of(n, unravel(k, out.dims), x.dims), x.dims)));
        }
        values_[i] = std::move(out);
    }

    void eager(uint32_t i) {
        const Node& n = g_.nodes[i];
        if (n.op == Op::extern_result) {
            values_[i] = returned_.at(n.operands[0].index).at(n.ints[0]);
            return;
        }
        DYNO_CHECK(call_, "a graph with eager calls needs an ExternCall");
        std::vector<HostArray> uses;
        for (size_t a = 0; a < n.operands.size(); ++a) uses.push_back(operand(n, a));
        if (returned_.size() < g_.nodes.size()) returned_.resize(g_.nodes.size());
        returned_[i] = call_(static_cast<uint32_t>(n.ints[0]), uses);
        values_[i] = returned_[i].at(0);
    }

    const Graph& g_;
    const ExternCall& call_;
    std::vector<HostArray> values_;
    std::vector<std::vector<HostArray>> returned_;
};

} // namespace

Result<std::vector<HostArray>> interpret(const Graph& graph, std::span<const HostArray> inputs, std::span<const Value> scalars,
                                         const ExternCall& call) {
    return Interpreter(graph, call).run(inputs, scalars);
}

Result<std::vector<HostArray>> interpret_outputs(const Graph& graph, std::span<const HostArray> inputs, std::span<const Value> scalars,
                                                 const ExternCall& call) {
    Result<std::vector<HostArray>> values = interpret(graph, inputs, scalars, call);
    if (!values) return values;
    std::vector<HostArray> out;
    for (const Output& output : graph.outputs) out.push_back((*values)[output.node.index]);
    return out;
}

} // namespace dyno::graph
