// The builder's storage: leaves, interning, eager calls, outputs. What an operation means is in build_call.cpp.
#include "compiler/graph/build.h"
#include "compiler/graph/op_info.h"
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include "compiler/support/hash.h"
#include <bit>
#include <fmt/format.h>

namespace dyno::graph {

namespace {

bool never_shared(Op op) { return op == Op::input || op == Op::scalar || op == Op::extern_call; }

/// What duplicate() made: passes must not make one of two.
bool is_duplicate(const Graph& graph, const Node& node) { return node.op == Op::reshape && node.type == graph[node.operands[0]].type; }

uint64_t key_of(const Node& node) {
    Hasher hasher;
    hasher.add(static_cast<uint64_t>(node.op)).add(static_cast<uint64_t>(node.type.dtype));
    hasher.add(std::span<const int64_t>(node.type.dims)).add(std::span<const int64_t>(node.ints));
    for (NodeId operand : node.operands) hasher.add(operand.index);
    hasher.add(std::bit_cast<uint64_t>(node.number)).add(static_cast<uint64_t>(node.order.kind));
    return hasher.value();
}

/// Equal as values: everything but the twin and the span. Numbers by their bits: -0.0 is not 0.0, a NaN equals itself.
bool same_value(const Node& a, const Node& b) {
    return a.op == b.op && a.type == b.type && a.operands == b.operands && a.ints == b.ints &&
           std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number) && a.order == b.order;
}

} // namespace

Builder::Builder(Graph graph) : graph_(std::move(graph)) {
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) remember({i});
}

void Builder::remember(NodeId id) {
    const Node& node = graph_[id];
    if (!never_shared(node.op) && !is_duplicate(graph_, node)) interned_.emplace(key_of(node), id);
}

NodeId Builder::add_node(Node node) {
    for (NodeId operand : node.operands) DYNO_CHECK(operand.index < graph_.nodes.size(), "an operand made before its user");
    bool shared = !never_shared(node.op) && !is_duplicate(graph_, node);
    uint64_t key = shared ? key_of(node) : 0;
    if (shared)
        for (auto [at, end] = interned_.equal_range(key); at != end; ++at)
            if (same_value(graph_[at->second], node)) return at->second;
    graph_.nodes.push_back(std::move(node));
    NodeId id{static_cast<uint32_t>(graph_.nodes.size() - 1)};
    if (shared) interned_.emplace(key, id);
    return id;
}

NodeId Builder::duplicate(NodeId node) {
    Node again{Op::reshape, type(node), {node}};
    again.from = graph_[node].from;
    graph_.nodes.push_back(std::move(again));
    return NodeId{static_cast<uint32_t>(graph_.nodes.size() - 1)};
}

NodeId Builder::input(Type type, std::vector<int64_t> strides, SourceSpan from) {
    DYNO_CHECK(strides.size() == type.dims.size(), "one stride per dim");
    NodeId id = add_node({Op::input, std::move(type), {}, {}, 0.0, -1, from});
    graph_.inputs.push_back({id, std::move(strides)});
    return id;
}

NodeId Builder::scalar(DType dtype, Domain domain, SourceSpan from, int64_t after) {
    Node node{Op::scalar, Type{dtype, {}, DeviceKind::cpu, 0, domain}, {}, {}, 0.0, -1, from};
    if (after >= 0) node.ints = {after};
    NodeId id = add_node(std::move(node));
    graph_.scalars.push_back({id});
    return id;
}

NodeId Builder::constant(double number, DType dtype, Domain domain, SourceSpan from) {
    DYNO_CHECK(is_float(dtype), "a float dtype; integers have constant_integer");
    double rounded = domain == Domain::torch ? scalar::round_through_f32(dtype, number) : scalar::round_to(dtype, number);
    return add_node({Op::constant, Type{dtype, {}, DeviceKind::cpu, 0, domain}, {}, {}, rounded, -1, from});
}

NodeId Builder::constant_integer(int64_t value, DType dtype, Domain domain, SourceSpan from) {
    Type type{dtype, {}, DeviceKind::cpu, 0, domain};
    if (is_float(dtype)) return constant(static_cast<double>(value), dtype, domain, from);
    return add_node({Op::constant, type, {}, {scalar::wrap_to(dtype, value)}, 0.0, -1, from});
}

NodeId Builder::full(double number, const Type& like, SourceSpan from) {
    const Type type = like; // may lie in a node, and nodes move when one is added
    NodeId value = is_float(type.dtype) ? constant(number, type.dtype, type.domain, from)
                                        : constant_integer(static_cast<int64_t>(number), type.dtype, type.domain, from);
    return add_node({Op::expand, type, {value}, {}, 0.0, -1, from});
}

NodeId Builder::cast(NodeId node, DType to, SourceSpan from) {
    const Type& type = this->type(node);
    if (type.dtype == to) return node;
    const Node& value = (*this)[node];
    if (value.op == Op::constant) {
        Domain domain = type.domain;
        if (is_float(type.dtype) && is_float(to)) return constant(value.number, to, domain, from);
        if (is_float(type.dtype) && to == DType::b8) return constant_integer(value.number != 0.0, to, domain, from);
        if (!is_float(type.dtype) && type.dtype != DType::u64) return constant_integer(value.ints[0], to, domain, from);
    }
    Type result = type;
    result.dtype = to;
    return add_node({Op::cast, std::move(result), {node}, {}, 0.0, -1, from});
}

NodeId Builder::expand(NodeId node, const std::vector<int64_t>& dims, SourceSpan from) {
    if (type(node).dims == dims) return node;
    Type result = type(node);
    result.dims = dims;
    return add_node({Op::expand, std::move(result), {node}, {}, 0.0, -1, from});
}

NodeId Builder::spread(NodeId node, const Type& like, SourceSpan from) {
    if (type(node).dims == like.dims) return node;
    Type result = like;
    result.dtype = type(node).dtype;
    return add_node({Op::expand, std::move(result), {node}, {}, 0.0, -1, from});
}

uint32_t Builder::add_extern(std::string name, std::vector<NodeId> uses, bool makes_view) {
    graph_.externs.push_back({std::move(name), std::move(uses), makes_view});
    return static_cast<uint32_t>(graph_.externs.size() - 1);
}

NodeId Builder::extern_call(uint32_t index, Type type, SourceSpan from) {
    DYNO_CHECK(index < graph_.externs.size(), "an extern that was added");
    return add_node({Op::extern_call, std::move(type), graph_.externs[index].uses, {static_cast<int64_t>(index)}, 0.0, -1, from});
}

NodeId Builder::extern_result(NodeId call, int64_t k, Type type, SourceSpan from) {
    DYNO_CHECK((*this)[call].op == Op::extern_call, "a result belongs to a call");
    return add_node({Op::extern_result, std::move(type), {call}, {k}, 0.0, -1, from});
}

void Builder::set_twin(NodeId node, uint32_t extern_index) {
    DYNO_CHECK(extern_index < graph_.externs.size(), "an extern that was added");
    graph_.nodes[node.index].twin = static_cast<int32_t>(extern_index);
}

void Builder::add_output(NodeId node, std::vector<int64_t> strides) { graph_.outputs.push_back({node, std::move(strides)}); }

Result<std::vector<int64_t>> broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    std::vector<int64_t> out(std::max(a.size(), b.size()));
    for (size_t i = 0; i < out.size(); ++i) {
        int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1, right = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (left != right && left != 1 && right != 1)
            return Refusal{fmt::format("shapes [{}] and [{}] do not broadcast", fmt::join(a, ", "), fmt::join(b, ", "))};
        out[out.size() - 1 - i] = left == 1 ? right : left;
    }
    return out;
}

} // namespace dyno::graph
