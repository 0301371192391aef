// Builder::build's frame: where the result lives, which family the row belongs to, and the helpers all families share.
#include "compiler/graph/build_call.h"
#include "compiler/graph/op_info.h"
#include "compiler/support/check.h"
#include <fmt/format.h>

namespace dyno::graph {

Result<NodeId> Builder::build(Op op, std::span<const Operand> operands, const Attributes& attributes, SourceSpan from) {
    return BuildCall{*this, op, operands, attributes, from}.run();
}

Refusal BuildCall::refuse(const std::string& why) const { return {fmt::format("{}: {}", info(op).name, why)}; }

/// Numbers of the host (scalars, constants and what is computed from them alone) follow the tensors they meet.
static bool is_host_number(const Builder& b, NodeId id) {
    const Node& node = b[id];
    if (node.op == Op::scalar || node.op == Op::constant) return true;
    return (node.op == Op::cast || (node.op == Op::reshape && node.type.dims.empty())) && is_host_number(b, node.operands[0]);
}

Result<bool> BuildCall::settle_place() {
    const Type* leading = nullptr; // the first tensor or array; else the first 0-d number that is not Python's
    bool leads_host = true;
    for (const Operand& operand : operands) {
        const Type& type = b.type(operand.node);
        if (is_complex(type.dtype)) return refuse("complex numbers are not modelled");
        bool host = operand.wrapped || is_host_number(b, operand.node);
        if (operand.wrapped && leading) continue;
        if (!leading || (leads_host && !host)) leading = &type, leads_host = host;
        if (host || leads_host) continue;
        if (type.domain != leading->domain) return refuse("torch and NumPy values mixed");
        if (type.device != leading->device || type.device_index != leading->device_index) return refuse("values of two devices");
    }
    if (leading) placed.device = leading->device, placed.device_index = leading->device_index, placed.domain = leading->domain;
    return true;
}

Result<NodeId> BuildCall::run() {
    const OpInfo& row = info(op);
    if (row.arity >= 0 && operands.size() != static_cast<size_t>(row.arity))
        return refuse(fmt::format("{} operands given", operands.size()));
    if (operands.empty() && row.arity < 0) return refuse("no operands");
    if (Result<bool> placed_well = settle_place(); !placed_well) return Refusal{placed_well.reason()};
    switch (row.kind) {
    case OpKind::unary:
    case OpKind::binary:
        return elementwise();
    case OpKind::ternary:
        return ternary();
    case OpKind::cast:
        return cast();
    case OpKind::reduction:
        return reduction();
    case OpKind::composite:
        return normalisation();
    case OpKind::movement:
        return movement();
    case OpKind::leaf:
        if (op == Op::iota && attributes.dims.size() == 1 && is_int(attributes.dtype))
            return make(op, attributes.dtype, attributes.dims, {});
        break;
    case OpKind::extern_:
        break;
    }
    DYNO_CHECK(false, "leaves and externs have their own functions");
    return refuse("");
}

NodeId BuildCall::make(Op node_op, DType dtype, std::vector<int64_t> dims, std::vector<NodeId> uses, std::vector<int64_t> ints,
                       double number, SumOrder order) {
    Type type = placed;
    type.dtype = dtype;
    type.dims = std::move(dims);
    return b.add_node({node_op, std::move(type), std::move(uses), std::move(ints), number, -1, from, order});
}

std::vector<PromotionOperand> BuildCall::promotion() const {
    std::vector<PromotionOperand> out;
    for (const Operand& operand : operands) out.push_back({b.type(operand.node).dtype, b.type(operand.node).dims.empty(), operand.wrapped});
    return out;
}

NodeId BuildCall::fitted(NodeId node, DType dtype, const std::vector<int64_t>& dims) {
    NodeId converted = b.cast(node, dtype, from);
    if (b.type(converted).dims == dims) return converted;
    return make(Op::expand, dtype, dims, {converted});
}

Result<std::vector<int64_t>> BuildCall::common_dims() const {
    std::vector<int64_t> dims;
    for (const Operand& operand : operands) {
        Result<std::vector<int64_t>> both = broadcast_dims(dims, b.type(operand.node).dims);
        if (!both) return refuse(both.reason());
        dims = *both;
    }
    return dims;
}

bool BuildCall::constant_value(size_t i, double& value) const {
    const Node& node = b[operand(i)];
    if (node.op != Op::constant) return false;
    value = is_float(node.type.dtype) ? node.number : static_cast<double>(node.ints[0]);
    return true;
}

Result<bool> BuildCall::check_weak_numbers(DType compute) const {
    if (placed.domain != Domain::numpy) return true;
    for (const Operand& operand : operands) {
        const Node& node = b[operand.node];
        if (compute == DType::f16 && node.type.dtype == DType::f64 && node.op != Op::constant)
            return refuse("NumPy rounds f64 to f16 once, casts here go by way of f32");
        if (!is_int(compute)) continue;
        if (!operand.wrapped || node.type.dtype != DType::i64 || compute == DType::i64) continue;
        if (node.op != Op::constant) return refuse(fmt::format("a Python int that may not fit {}", name_of(compute)));
        int64_t value = node.ints[0];
        bool fits = compute == DType::u64 ? value >= 0 : size_of(compute) == 8 || [&] {
            int64_t span = int64_t{1} << (8 * size_of(compute) - (is_signed_int(compute) ? 1 : 0));
            return value < span && value >= (is_signed_int(compute) ? -span : 0);
        }();
        if (!fits) return refuse(fmt::format("{} does not fit {}", value, name_of(compute)));
    }
    return true;
}

} // namespace dyno::graph
