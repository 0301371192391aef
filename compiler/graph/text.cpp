// Printing by the table's names; parsing by one cursor over one line at a time.
#include "compiler/graph/text.h"
#include "compiler/graph/op_info.h"
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dyno::graph {

namespace {

std::string ints_text(const std::vector<int64_t>& ints) { return fmt::format("[{}]", fmt::join(ints, ",")); }

/// What is left of a line. Every reader skips blanks first and says whether it found its thing.
struct Cursor {
    std::string_view rest;
    void blanks() {
        while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r')) rest.remove_prefix(1);
    }
    bool is(std::string_view token) {
        blanks();
        if (!rest.starts_with(token)) return false;
        rest.remove_prefix(token.size());
        return true;
    }
    bool done() { return blanks(), rest.empty() || rest[0] == '#'; }
    std::string_view word() {
        blanks();
        size_t n = 0;
        while (n < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[n])) || rest[n] == '_' || rest[n] == '.')) ++n;
        std::string_view out = rest.substr(0, n);
        rest.remove_prefix(n);
        return out;
    }
    bool integer(int64_t& out) {
        blanks();
        auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
        if (failed != std::errc()) return false;
        rest.remove_prefix(end - rest.data());
        return true;
    }
    bool number(double& out) {
        blanks();
        std::string copy(rest.substr(0, std::min<size_t>(rest.size(), 64)));
        char* end = nullptr;
        out = std::strtod(copy.c_str(), &end);
        rest.remove_prefix(end - copy.c_str());
        return end != copy.c_str();
    }
    bool ints(std::vector<int64_t>& out) {
        out.clear();
        if (!is("[")) return false;
        if (is("]")) return true;
        do {
            int64_t value = 0;
            if (!integer(value)) return false;
            out.push_back(value);
        } while (is(","));
        return is("]");
    }
    bool node(NodeId& out) {
        int64_t value = 0;
        if (!is("%") || !integer(value) || value < 0) return false;
        out = {static_cast<uint32_t>(value)};
        return true;
    }
};

DType dtype_named(std::string_view name) {
    for (int i = 1; i < dtype_count; ++i)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    return DType::none;
}

class Parser {
  public:
    Result<Graph> run(std::string_view text) {
        while (!text.empty()) {
            size_t end = std::min(text.find('\n'), text.size());
            c_.rest = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            ++line_;
            if (c_.done()) continue;
            const char* wrong = c_.is("extern ") ? call() : c_.is("output ") ? output() : node();
            if (!wrong && !c_.done()) wrong = "something left over";
            if (wrong) return Refusal{fmt::format("line {}: {} at '{}'", line_, wrong, c_.rest)};
        }
        return std::move(g_);
    }

  private:
    const char* type(Type& type) {
        type.dtype = dtype_named(c_.word());
        if (type.dtype == DType::none) return "no dtype";
        if (!c_.ints(type.dims)) return "no dims";
        if (c_.is("@cuda:")) {
            int64_t index = 0;
            if (!c_.integer(index)) return "no device number";
            type.device = DeviceKind::cuda, type.device_index = static_cast<int8_t>(index);
        }
        if (c_.is("numpy")) type.domain = Domain::numpy;
        return nullptr;
    }

    const char* attributes(Node& node, std::vector<int64_t>& strides) {
        if (!c_.is("{")) return nullptr;
        do {
            int64_t first = 0, second = 0;
            if (c_.is("ints=")) {
                if (!c_.ints(node.ints)) return "no list";
            } else if (c_.is("strides=")) {
                if (!c_.ints(strides)) return "no list";
            } else if (c_.is("number=")) {
                if (!c_.number(node.number)) return "no number";
            } else if (c_.is("twin=")) {
                if (!c_.integer(first)) return "no number";
                node.twin = static_cast<int32_t>(first);
            } else if (c_.is("order=")) {
                if (!order(node.order)) return "no order";
            } else if (c_.is("at=")) {
                if (!c_.integer(first) || !c_.is(":") || !c_.integer(second)) return "no code:line";
                node.from = {static_cast<uint32_t>(first), static_cast<int32_t>(second)};
            } else {
                return "an unknown attribute";
            }
        } while (c_.is(","));
        return c_.is("}") ? nullptr : "no }";
    }

    bool order(SumOrder& order) {
        const std::string_view kind = c_.word();
        bool good = true;
        if (kind == "cascade")
            order.kind = SumOrder::cascade, good = c_.integer(order.lanes) && order.lanes > 0;
        else if (kind == "welford")
            order.kind = SumOrder::welford, good = c_.integer(order.lanes) && order.lanes > 0;
        else if (kind == "columns")
            order.kind = SumOrder::columns, good = c_.integer(order.plain) && c_.integer(order.width) && order.width > 0;
        else if (kind == "pairwise" || kind == "in_turn")
            order.kind = kind == "pairwise" ? SumOrder::pairwise : SumOrder::in_turn;
        else
            return false;
        return good && (!c_.is("runs") || (c_.integer(order.run) && order.run > 0));
    }

    const char* node() {
        NodeId id;
        Node node{};
        std::vector<int64_t> strides;
        if (!c_.node(id) || id.index != g_.nodes.size()) return "the next node's number expected";
        if (!c_.is(":")) return "no :";
        if (const char* wrong = type(node.type)) return wrong;
        if (!c_.is("=")) return "no =";
        node.op = op_named(c_.word());
        if (node.op == Op::count_) return "an unknown op";
        for (NodeId operand; c_.node(operand);) node.operands.push_back(operand);
        if (const char* wrong = attributes(node, strides)) return wrong;
        if (node.op == Op::input) g_.inputs.push_back({id, strides});
        if (node.op == Op::scalar) g_.scalars.push_back({id});
        g_.nodes.push_back(std::move(node));
        return nullptr;
    }

    const char* call() {
        int64_t index = 0;
        if (!c_.integer(index) || index != static_cast<int64_t>(g_.externs.size())) return "the next extern's number expected";
        Extern call{std::string(c_.word()), {}, false};
        if (!c_.is("(")) return "no (";
        for (NodeId use; c_.node(use);) {
            call.uses.push_back(use);
            if (!c_.is(",")) break;
        }
        if (!c_.is(")")) return "no )";
        call.makes_view = c_.is("view");
        g_.externs.push_back(std::move(call));
        return nullptr;
    }

    const char* output() {
        Output out;
        Node unused{};
        if (!c_.node(out.node)) return "no node";
        if (const char* wrong = attributes(unused, out.strides)) return wrong;
        g_.outputs.push_back(std::move(out));
        return nullptr;
    }

    Cursor c_{};
    int line_ = 0;
    Graph g_;
};

const std::vector<int64_t>* strides_of(const Graph& graph, NodeId id) {
    for (const Input& input : graph.inputs)
        if (input.node == id) return &input.strides;
    return nullptr;
}

} // namespace

std::string to_text(const Type& type) {
    std::string out = fmt::format("{}{}", name_of(type.dtype), ints_text(type.dims));
    if (type.device == DeviceKind::cuda) out += fmt::format("@cuda:{}", static_cast<int>(type.device_index));
    if (type.domain == Domain::numpy) out += " numpy";
    return out;
}

std::string to_text(const Graph& graph, NodeId id) {
    const Node& node = graph[id];
    std::string out = fmt::format("%{}: {} = {}", id.index, to_text(node.type), info(node.op).name);
    for (NodeId operand : node.operands) out += fmt::format(" %{}", operand.index);
    std::vector<std::string> attributes;
    if (!node.ints.empty()) attributes.push_back("ints=" + ints_text(node.ints));
    bool constant = node.op == Op::constant && is_float(node.type.dtype);
    if (constant || node.number != 0.0) attributes.push_back(fmt::format("number={}", node.number));
    if (node.op == Op::input)
        if (const std::vector<int64_t>* strides = strides_of(graph, id)) attributes.push_back("strides=" + ints_text(*strides));
    if (node.order.kind != SumOrder::any) attributes.push_back("order=" + to_text(node.order));
    if (node.twin >= 0) attributes.push_back(fmt::format("twin={}", node.twin));
    if (node.from.code || node.from.line) attributes.push_back(fmt::format("at={}:{}", node.from.code, node.from.line));
    if (!attributes.empty()) out += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
    return out;
}

std::string to_text(const Graph& graph) {
    std::string out;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) out += to_text(graph, NodeId{i}) + "\n";
    for (size_t k = 0; k < graph.externs.size(); ++k) {
        std::vector<std::string> uses;
        for (NodeId use : graph.externs[k].uses) uses.push_back(fmt::format("%{}", use.index));
        out += fmt::format("extern {} {} ({}){}\n", k, graph.externs[k].name, fmt::join(uses, ", "),
                           graph.externs[k].makes_view ? " view" : "");
    }
    for (const Output& output : graph.outputs)
        out += fmt::format("output %{} {{strides={}}}\n", output.node.index, ints_text(output.strides));
    return out;
}

Result<Graph> parse(std::string_view text) { return Parser{}.run(text); }

} // namespace dyno::graph
