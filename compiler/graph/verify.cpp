// The law of verify.h, one function per family.
#include "compiler/graph/verify.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/text.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dyno::graph {

namespace {

bool gives_truth(Op op) {
    return op == Op::logical_not || (op >= Op::isnan && op <= Op::signbit) || (op >= Op::eq && op <= Op::logical_xor);
}

class Verifier {
  public:
    explicit Verifier(const Graph& graph) : g_(graph), host_(graph.nodes.size()) {}

    std::vector<std::string> run() {
        for (uint32_t i = 0; i < g_.nodes.size(); ++i) node({i});
        lists();
        return std::move(errors_);
    }

  private:
    template <class... Args>
    void error(NodeId id, fmt::format_string<Args...> text, Args&&... args) {
        errors_.push_back(fmt::format("%{} {}: {}", id.index, info(g_[id].op).name, fmt::format(text, std::forward<Args>(args)...)));
    }

    void node(NodeId id) {
        const Node& n = g_[id];
        const OpInfo& row = info(n.op);
        if (row.arity >= 0 && n.operands.size() != static_cast<size_t>(row.arity))
            return error(id, "{} operands, expected {}", n.operands.size(), row.arity);
        for (NodeId operand : n.operands)
            if (operand.index >= id.index) return error(id, "operand %{} does not come before it", operand.index);
        if (n.type.dtype == DType::none || is_complex(n.type.dtype)) error(id, "dtype {}", name_of(n.type.dtype));
        for (int64_t size : n.type.dims)
            if (size < 0) error(id, "dims [{}]", fmt::join(n.type.dims, ", "));
        bool computed = row.kind != OpKind::leaf && row.kind != OpKind::extern_ && n.type.dims.empty();
        host_[id.index] = n.op == Op::scalar || n.op == Op::constant ||
                          (computed && std::all_of(n.operands.begin(), n.operands.end(), [&](NodeId o) { return host_[o.index]; }));
        if (row.kind != OpKind::extern_) places(id);
        switch (row.kind) {
        case OpKind::leaf:
            leaf(id);
            break;
        case OpKind::unary:
        case OpKind::binary:
        case OpKind::ternary:
        case OpKind::cast:
            elementwise(id);
            break;
        case OpKind::reduction:
            reduction(id);
            break;
        case OpKind::movement:
            movement(id);
            break;
        case OpKind::composite:
            composite(id);
            break;
        case OpKind::extern_:
            eager(id);
            break;
        }
    }

    void places(NodeId id) {
        const Type& type = g_[id].type;
        for (NodeId operand : g_[id].operands) {
            const Type& other = g_[operand].type;
            if (host_[operand.index]) continue;
            if (other.device != type.device || other.device_index != type.device_index)
                error(id, "operand %{} is on another device", operand.index);
            if (other.domain != type.domain) error(id, "operand %{} is of the other library", operand.index);
        }
    }

    void leaf(NodeId id) {
        const Node& n = g_[id];
        if ((n.op == Op::scalar || n.op == Op::constant) && !n.type.dims.empty()) error(id, "has dims");
        if (n.op == Op::constant && !is_float(n.type.dtype) && n.ints.size() != 1) error(id, "an integer constant without its value");
        if (n.op == Op::iota && (n.type.dims.size() != 1 || !is_int(n.type.dtype))) error(id, "needs one dim and an integer dtype");
    }

    void elementwise(NodeId id) {
        const Node& n = g_[id];
        for (NodeId operand : n.operands)
            if (g_[operand].type.dims != n.type.dims)
                error(id, "operand %{} has dims [{}], expected [{}]", operand.index, fmt::join(g_[operand].type.dims, ", "),
                      fmt::join(n.type.dims, ", "));
        if (n.op == Op::cast) return;
        size_t first = n.op == Op::where ? 1 : 0;
        if (first == 1 && g_[n.operands[0]].type.dtype != DType::b8) error(id, "condition %{} is not b8", n.operands[0].index);
        DType dtype = g_[n.operands[first]].type.dtype;
        for (size_t i = first; i < n.operands.size(); ++i)
            if (g_[n.operands[i]].type.dtype != dtype)
                error(id, "operand %{} is {}, expected {}", n.operands[i].index, name_of(g_[n.operands[i]].type.dtype), name_of(dtype));
        DType expected = gives_truth(n.op) ? DType::b8 : dtype;
        if (n.type.dtype != expected) error(id, "is {}, expected {}", name_of(n.type.dtype), name_of(expected));
    }

    bool axes(NodeId id) {
        const Node& n = g_[id];
        const std::vector<int64_t>& dims = g_[n.operands[0]].type.dims;
        for (size_t i = 0; i < n.ints.size(); ++i) {
            bool good = n.ints[i] >= 0 && n.ints[i] < static_cast<int64_t>(dims.size()) && (i == 0 || n.ints[i - 1] < n.ints[i]);
            if (!good) {
                error(id, "axes [{}] of {} dims", fmt::join(n.ints, ", "), dims.size());
                return false;
            }
        }
        return true;
    }

    void reduced(NodeId id) {
        const Node& n = g_[id];
        if (!axes(id)) return;
        std::vector<int64_t> dims = g_[n.operands[0]].type.dims;
        for (int64_t axis : n.ints) dims[axis] = 1;
        if (dims != n.type.dims) error(id, "dims [{}], expected [{}]", fmt::join(n.type.dims, ", "), fmt::join(dims, ", "));
    }

    void reduction(NodeId id) {
        const Node& n = g_[id];
        reduced(id);
        DType operand = g_[n.operands[0]].type.dtype;
        bool argument = n.op == Op::argmax || n.op == Op::argmin, truth = n.op == Op::any || n.op == Op::all;
        if (n.ints.empty()) error(id, "reduces no axis");
        const bool element = n.op == Op::first_max || n.op == Op::first_min;
        if ((argument || element) && n.ints.size() != 1) error(id, "needs one axis");
        if (element && !is_float(operand)) error(id, "operand is {}, expected a float", name_of(operand));
        const bool moment = n.op == Op::welford_mean || n.op == Op::welford_var;
        if (moment != (n.order.kind == SumOrder::welford)) error(id, "moments have the order of moments, and nothing else has");
        if (truth && operand != DType::b8) error(id, "operand is {}, expected b8", name_of(operand));
        DType expected = argument ? DType::i64 : operand;
        if (n.type.dtype != expected) error(id, "is {}, expected {}", name_of(n.type.dtype), name_of(expected));
    }

    void composite(NodeId id) {
        const Node& n = g_[id];
        if (n.operands.empty()) return error(id, "no operands");
        if (!is_float(n.type.dtype)) error(id, "is {}, expected a float", name_of(n.type.dtype));
        for (NodeId operand : n.operands)
            if (g_[operand].type.dtype != n.type.dtype)
                error(id, "operand %{} is {}, expected {}", operand.index, name_of(g_[operand].type.dtype), name_of(n.type.dtype));
        if (n.op == Op::mean || n.op == Op::var || n.op == Op::logsumexp) return reduced(id);
        if (n.type.dims != g_[n.operands[0]].type.dims) error(id, "dims differ from the operand's");
        if ((n.op == Op::softmax || n.op == Op::log_softmax) && (n.ints.size() != 1 || !axes(id))) error(id, "needs one axis");
        bool norm = n.op == Op::layer_norm || n.op == Op::rms_norm;
        if (!norm) return;
        int64_t rank = static_cast<int64_t>(n.type.dims.size());
        if (n.ints.size() != 1 || n.ints[0] < 1 || n.ints[0] > rank) return error(id, "needs a number of normalised axes");
        std::vector<int64_t> tail(n.type.dims.end() - n.ints[0], n.type.dims.end());
        for (size_t i = 1; i < n.operands.size(); ++i)
            if (g_[n.operands[i]].type.dims != tail)
                error(id, "operand %{} has dims [{}]", n.operands[i].index, fmt::join(g_[n.operands[i]].type.dims, ", "));
    }

    void movement(NodeId id) {
        const Node& n = g_[id];
        if (n.operands.empty()) return error(id, "no operands");
        for (NodeId operand : n.operands)
            if (g_[operand].type.dtype != n.type.dtype)
                error(id, "operand %{} is {}, expected {}", operand.index, name_of(g_[operand].type.dtype), name_of(n.type.dtype));
        const Type& x = g_[n.operands[0]].type;
        switch (n.op) {
        case Op::reshape:
            if (x.numel() != n.type.numel()) error(id, "{} elements into {}", x.numel(), n.type.numel());
            break;
        case Op::permute:
            permutation(id, x.dims);
            break;
        case Op::expand:
            expansion(id, x.dims);
            break;
        case Op::slice:
            slice(id, x.dims);
            break;
        case Op::flip:
            if (axes(id) && x.dims != n.type.dims) error(id, "dims differ from the operand's");
            break;
        default:
            cat(id);
            break;
        }
    }

    void permutation(NodeId id, const std::vector<int64_t>& dims) {
        const Node& n = g_[id];
        std::vector<int64_t> sorted = n.ints;
        std::sort(sorted.begin(), sorted.end());
        bool good = sorted.size() == dims.size() && n.type.dims.size() == dims.size();
        for (size_t i = 0; good && i < sorted.size(); ++i) good = sorted[i] == static_cast<int64_t>(i);
        for (size_t i = 0; good && i < dims.size(); ++i) good = n.type.dims[i] == dims[n.ints[i]];
        if (!good)
            error(id, "[{}] does not take [{}] to [{}]", fmt::join(n.ints, ", "), fmt::join(dims, ", "), fmt::join(n.type.dims, ", "));
    }

    void expansion(NodeId id, const std::vector<int64_t>& dims) {
        const Node& n = g_[id];
        bool good = n.type.dims.size() >= dims.size();
        size_t lead = good ? n.type.dims.size() - dims.size() : 0;
        for (size_t i = 0; good && i < dims.size(); ++i) good = dims[i] == n.type.dims[lead + i] || dims[i] == 1;
        if (!good) error(id, "[{}] does not broadcast to [{}]", fmt::join(dims, ", "), fmt::join(n.type.dims, ", "));
    }

    void slice(NodeId id, const std::vector<int64_t>& dims) {
        const Node& n = g_[id];
        if (n.type.dims.size() != dims.size() || n.ints.size() != 2 * dims.size())
            return error(id, "needs a start and a step for each axis");
        for (size_t i = 0; i < dims.size(); ++i) {
            int64_t start = n.ints[2 * i], step = n.ints[2 * i + 1], size = n.type.dims[i], last = start + (size - 1) * step;
            if (step == 0 || (size > 0 && (start < 0 || start >= dims[i] || last < 0 || last >= dims[i]))) error(id, "leaves axis {}", i);
        }
    }

    void cat(NodeId id) {
        const Node& n = g_[id];
        int64_t rank = static_cast<int64_t>(n.type.dims.size());
        if (n.ints.size() != 1 || n.ints[0] < 0 || n.ints[0] >= rank) return error(id, "needs one axis");
        int64_t total = 0;
        for (NodeId operand : n.operands) {
            std::vector<int64_t> dims = g_[operand].type.dims;
            if (static_cast<int64_t>(dims.size()) != rank) return error(id, "operand %{} has another rank", operand.index);
            total += dims[n.ints[0]];
            dims[n.ints[0]] = n.type.dims[n.ints[0]];
            if (dims != n.type.dims) error(id, "operand %{} differs outside the axis", operand.index);
        }
        if (total != n.type.dims[n.ints[0]]) error(id, "sizes add up to {}, not {}", total, n.type.dims[n.ints[0]]);
    }

    void eager(NodeId id) {
        const Node& n = g_[id];
        if (n.ints.size() != 1) return error(id, "needs one number");
        if (n.op == Op::extern_result) {
            if (g_[n.operands[0]].op != Op::extern_call) error(id, "operand %{} is not a call", n.operands[0].index);
            return;
        }
        if (n.ints[0] < 0 || n.ints[0] >= static_cast<int64_t>(g_.externs.size())) return error(id, "no extern {}", n.ints[0]);
        if (g_.externs[n.ints[0]].uses != n.operands) error(id, "operands are not the uses of extern {}", n.ints[0]);
    }

    void lists() {
        auto listed = [&](Op op, auto& list, const char* name) {
            std::vector<int> times(g_.nodes.size());
            for (const auto& entry : list)
                if (entry.node.index < times.size())
                    ++times[entry.node.index];
                else
                    errors_.push_back(fmt::format("{}: no node %{}", name, entry.node.index));
            for (uint32_t i = 0; i < times.size(); ++i)
                if (times[i] != (g_.nodes[i].op == op ? 1 : 0)) error({i}, "listed {} times among the {}", times[i], name);
        };
        listed(Op::input, g_.inputs, "inputs");
        listed(Op::scalar, g_.scalars, "scalars");
        auto strided = [&](const auto& list, const char* name) {
            for (const auto& entry : list) {
                if (entry.node.index >= g_.nodes.size())
                    errors_.push_back(fmt::format("{}: no node %{}", name, entry.node.index));
                else if (entry.strides.size() != g_[entry.node].type.dims.size())
                    error(entry.node, "{} strides among the {}", entry.strides.size(), name);
            }
        };
        strided(g_.inputs, "inputs");
        strided(g_.outputs, "outputs");
        for (uint32_t i = 0; i < g_.nodes.size(); ++i)
            if (g_.nodes[i].twin >= static_cast<int32_t>(g_.externs.size())) error({i}, "no twin {}", g_.nodes[i].twin);
        for (const Extern& call : g_.externs)
            for (NodeId use : call.uses)
                if (use.index >= g_.nodes.size()) errors_.push_back(fmt::format("extern {}: no node %{}", call.name, use.index));
    }

    const Graph& g_;
    std::vector<bool> host_;
    std::vector<std::string> errors_;
};

} // namespace

std::vector<std::string> verify(const Graph& graph) { return Verifier(graph).run(); }

void check(const Graph& graph, const char* after) {
    std::vector<std::string> errors = verify(graph);
    if (!errors.empty()) throw InternalError(fmt::format("after {}:\n{}\n{}", after, fmt::join(errors, "\n"), to_text(graph)));
}

} // namespace dyno::graph
