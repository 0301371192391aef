// Entries as JSON: guards, graph, kernels, exit, costs, and the lines they cover.
#include "compiler/report_entries.h"
#include "compiler/fusion/schedule.h"
#include "compiler/graph/op_info.h"
#include "compiler/replay/plan.h"
#include "compiler/report/reasons.h"
#include <algorithm>

namespace dyno::report {
namespace {

using json = nlohmann::json;
using capture::Guard;

/// Whether a line of the segment's spans is a line of this code object.
bool is_here(const capture::Segment& segment, const SourceSpan& at, PyCodeObject* code) {
    return at.code && at.code <= segment.codes.size() && segment.codes[at.code - 1] == code;
}
json line_or_null(const capture::Segment& segment, const SourceSpan& at, PyCodeObject* code) {
    return is_here(segment, at, code) ? json(at.line) : json(nullptr);
}
/// A line of another function, as a place; null for lines of this one and for unknown ones.
json elsewhere(const capture::Segment& segment, const SourceSpan& at, PyCodeObject* code) {
    if (!at.code || at.code > segment.code_names.size() || is_here(segment, at, code)) return nullptr;
    const capture::CodeName& name = segment.code_names[at.code - 1];
    return {{"file", name.file}, {"function", name.name}, {"line", at.line}};
}

bool is_trivial(Guard::Kind kind) {
    return kind != Guard::tensor && kind != Guard::array && kind != Guard::equal && kind != Guard::truth && kind != Guard::length && kind != Guard::keys && kind != Guard::ordered_keys &&
           kind != Guard::numpy_scalar;
}
const char* kind_of(Guard::Kind kind) {
    switch (kind) {
    case Guard::tensor: return "tensor";
    case Guard::array: return "array";
    case Guard::numpy_scalar: case Guard::type: case Guard::number_type: return "type";
    case Guard::equal: return "value";
    case Guard::truth: return "condition";
    case Guard::length: return "length";
    case Guard::keys: case Guard::ordered_keys: case Guard::absent: return "keys";
    case Guard::no_attribute: case Guard::type_attribute: return "attribute";
    case Guard::is: return "name";
    case Guard::same: case Guard::distinct: return "identity";
    case Guard::memory: return "memory";
    case Guard::grad_mode: return "mode";
    }
    return "";
}
json guards_json(const capture::Segment& segment, PyCodeObject* code) {
    json guards = json::array();
    for (const Guard& g : segment.guards) {
        const std::string text = replay::guard_text(segment, g);
        if (text.empty()) continue;
        json row = {{"text", text}, {"kind", kind_of(g.kind)}, {"line", line_or_null(segment, g.from, code)}, {"trivial", is_trivial(g.kind)}};
        if (json at = elsewhere(segment, g.from, code); !at.is_null()) row["line"] = at["line"], row["at"] = std::move(at);
        guards.push_back(std::move(row));
    }
    return guards;
}

json node_json(const graph::Graph& g, uint32_t k, const capture::Segment& segment, PyCodeObject* code, const std::vector<int32_t>* nest_of, int first_kernel) {
    const graph::Node& node = g.nodes[k];
    json args = json::array();
    for (graph::NodeId operand : node.operands) {
        const graph::Node& o = g[operand];
        if (o.op == graph::Op::constant) args.push_back({{"value", is_float(o.type.dtype) ? json(o.number) : json(o.ints.empty() ? 0 : o.ints[0])}});
        else args.push_back(operand.index);
    }
    std::string name(graph::info(node.op).name);
    if (node.op == graph::Op::extern_call) name = g.externs[static_cast<size_t>(node.ints[0])].name;
    const int nest = nest_of && k < nest_of->size() ? (*nest_of)[k] : -1;
    json made = {{"id", k}, {"op", name}, {"args", args}, {"dtype", std::string(name_of(node.type.dtype))}, {"shape", node.type.dims},
                 {"line", line_or_null(segment, node.from, code)}, {"kernel", nest < 0 ? json(nullptr) : json(nest + first_kernel)}};
    if (json at = elsewhere(segment, node.from, code); !at.is_null()) made["at"] = std::move(at);
    return made;
}
json graph_json(const graph::Graph& g, const capture::Segment& segment, PyCodeObject* code, const std::vector<int32_t>* nest_of, int first_kernel) {
    json inputs = json::array(), nodes = json::array(), outputs = json::array();
    for (size_t k = 0; k < g.inputs.size(); k++) {
        const graph::Node& n = g[g.inputs[k].node];
        const std::string name = k < segment.input_sources.size() ? replay::source_text(segment, segment.input_sources[k]) : "";
        inputs.push_back({{"id", g.inputs[k].node.index}, {"name", name}, {"dtype", std::string(name_of(n.type.dtype))}, {"shape", n.type.dims}});
    }
    for (uint32_t k = 0; k < g.nodes.size(); k++) {
        const graph::Op op = g.nodes[k].op;
        if (op == graph::Op::input || op == graph::Op::constant) continue;
        nodes.push_back(node_json(g, k, segment, code, nest_of, first_kernel));
    }
    for (const graph::Output& o : g.outputs) outputs.push_back(o.node.index);
    return {{"inputs", inputs}, {"nodes", nodes}, {"outputs", outputs}};
}

int64_t bytes_moved(const fusion::Schedule& schedule, size_t nest) {
    int64_t bytes = 0;
    for (const auto& step : schedule.steps)
        if (auto* k = std::get_if<fusion::KernelStep>(&step); k && k->nest == nest)
            for (uint32_t b : k->buffers) bytes += schedule.buffers[b].bytes;
    return bytes;
}
json kernels_json(const capture::Segment& segment, const CompileProduct& product, PyCodeObject* code, int first_kernel, std::map<int, std::set<int>>& by_line) {
    json kernels = json::array();
    const auto& nest_of = product.schedule.nest_of;
    for (size_t k = 0; k < product.schedule.nests.size(); k++) {
        const int id = first_kernel + static_cast<int>(k);
        json nodes = json::array();
        for (uint32_t n = 0; n < nest_of.size(); n++) {
            if (nest_of[n] != static_cast<int>(k)) continue;
            nodes.push_back(n);
            const SourceSpan& from = product.graph.nodes[n].from;
            if (is_here(segment, from, code)) by_line[from.line].insert(id);
        }
        kernels.push_back({{"id", id}, {"nodes", nodes}, {"bytes", bytes_moved(product.schedule, k)}, {"not_fused", json::array()}});
    }
    for (const Note& n : product.schedule.notes)
        if (n.kind == "not_fused" && !kernels.empty())
            kernels.back()["not_fused"].push_back({{"line", line_or_null(segment, n.at, code)}, {"with", nullptr}, {"reason", n.text}, {"hint", nullptr}});
    return kernels;
}

/// Where the exit lies in this function: at the break itself, or at the call below which it lies.
void add_break(const capture::Segment& segment, PyCodeObject* code, Lines& lines) {
    const capture::Exit& exit = segment.exit;
    if (exit.kind != capture::Exit::breaks) return;
    const Reason reason = in_words(exit.reason, exit.hint);
    if (is_here(segment, exit.at, code)) lines.breaks[exit.at.line] = {reason.text, reason.hint};
    const std::string where = exit.at.code && exit.at.code <= segment.code_names.size() ? segment.code_names[exit.at.code - 1].name : "the function called";
    for (size_t k = 0; k + 1 < exit.frames.size(); k++) {
        const SourceSpan& at = exit.frames[k].at;
        if (is_here(segment, at, code)) lines.breaks.try_emplace(at.line, Lines::Break{"in " + where + ", line " + std::to_string(exit.at.line) + ": " + reason.text, reason.hint});
    }
}
void add_lines(const capture::Segment& segment, const CompileProduct& product, PyCodeObject* code, Lines& lines) {
    for (const graph::Node& node : product.graph.nodes) {
        if (!is_here(segment, node.from, code)) continue;
        lines.captured.insert(node.from.line);
        if (node.op == graph::Op::extern_call) lines.externs.insert(node.from.line);
    }
    for (const capture::LineNote& n : segment.lines)
        if (is_here(segment, n.at, code)) lines.captured.insert(n.at.line);
    add_break(segment, code, lines);
}

json exit_json(const capture::Segment& segment, PyCodeObject* code) {
    static const char* const kinds[] = {"returns", "breaks", "cut"};
    const capture::Exit& exit = segment.exit;
    json made = {{"kind", kinds[exit.kind]}, {"line", line_or_null(segment, exit.at, code)}, {"reason", nullptr}};
    if (exit.kind == capture::Exit::breaks) made["reason"] = in_words(exit.reason).text;
    if (json at = elsewhere(segment, exit.at, code); !at.is_null()) made["at"] = std::move(at);
    return made;
}

json compiled_us(const cache::Entry& entry) {
    const uint32_t timed = std::min<uint32_t>(entry.compiled_count, 16);
    if (!timed) return nullptr;
    std::vector<float> ns(entry.compiled_ns.begin(), entry.compiled_ns.begin() + timed);
    std::nth_element(ns.begin(), ns.begin() + timed / 2, ns.end());
    return ns[timed / 2] / 1e3;
}

} // namespace

std::string utf8(PyObject* text) {
    const char* bytes = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
    if (!bytes) PyErr_Clear();
    return bytes ? bytes : "";
}

bool in_use(const cache::Entry& entry) { return !entry.dropped && !entry.stale->load(); }

json entry_json(const cache::Entry& entry, int id, PyCodeObject* code, bool as_captured, int& next_kernel, Lines& lines) {
    const capture::Segment& segment = replay::segment_of(*entry.plan);
    const CompileProduct& product = replay::product_of(*entry.plan);
    const int first_kernel = next_kernel;
    std::map<int, std::set<int>> by_line;
    json made = {{"id", id}, {"state", entry.dropped ? "dropped" : entry.stale->load() ? "stale" : "installed"}, {"hits", entry.hits},
                 {"guards", guards_json(segment, code)}, {"kernels", kernels_json(segment, product, code, first_kernel, by_line)}, {"exit", exit_json(segment, code)},
                 {"eager_us", entry.eager_ns > 0 ? json(entry.eager_ns / 1e3) : json(nullptr)}, {"compiled_us", compiled_us(entry)}, {"compile_ms", entry.compile_ms}};
    next_kernel += static_cast<int>(product.schedule.nests.size());
    if (as_captured && !segment.graph.nodes.empty()) made["graph"] = graph_json(segment.graph, segment, code, nullptr, first_kernel);
    else made["graph"] = graph_json(product.graph, segment, code, &product.schedule.nest_of, first_kernel);
    if (!entry.drop_reason.empty()) made["drop_reason"] = entry.drop_reason;
    if (PyCodeObject* owner = entry.key.code; owner != code) made["of"] = {{"name", utf8(owner->co_qualname)}, {"file", utf8(owner->co_filename)}, {"first_line", owner->co_firstlineno}};
    if (in_use(entry)) {
        for (auto& [line, ids] : by_line) lines.kernels[line].insert(ids.begin(), ids.end());
        add_lines(segment, product, code, lines);
    }
    return made;
}

std::vector<std::shared_ptr<cache::Entry>> entries_about(PyCodeObject* code) {
    std::vector<std::shared_ptr<cache::Entry>> own, inlining;
    for (auto& [key, slot] : cache::slots_of_code(code))
        for (auto it = slot->entries.rbegin(); it != slot->entries.rend(); ++it)
            if ((*it)->plan) own.push_back(*it);
    std::stable_sort(own.begin(), own.end(), [](const auto& a, const auto& b) { return a->key.unit < b->key.unit; });
    for (PyCodeObject* other : cache::known_codes()) {
        if (other == code) continue;
        for (auto& [key, slot] : cache::slots_of_code(other))
            for (const auto& entry : slot->entries) {
                if (!entry->plan || !in_use(*entry)) continue; // of one that is not, the codes may have died
                const auto& codes = replay::segment_of(*entry->plan).codes;
                if (std::find(codes.begin(), codes.end(), code) != codes.end()) inlining.push_back(entry);
            }
    }
    // Code objects are known in no fixed order.
    std::stable_sort(inlining.begin(), inlining.end(), [](const auto& a, const auto& b) {
        return std::pair(utf8(a->key.code->co_qualname), a->key.unit) < std::pair(utf8(b->key.code->co_qualname), b->key.unit);
    });
    own.insert(own.end(), inlining.begin(), inlining.end());
    return own;
}

json recompiles_json(const std::vector<std::shared_ptr<cache::Entry>>& entries, PyCodeObject* code) {
    std::vector<std::pair<uint64_t, json>> found;
    for (const auto& entry : entries) {
        const capture::Segment& segment = replay::segment_of(*entry->plan);
        for (const replay::GuardFailure& failure : replay::failures_of(*entry->plan)) {
            if (entry->key.code != code && !is_here(segment, failure.from, code)) continue;
            json stack = json::array();
            for (const frame::UserPlace& place : failure.stack) stack.push_back({{"file", place.file}, {"line", place.line}, {"function", place.function}});
            json row = {{"line", line_or_null(segment, failure.from, code)}, {"guard", failure.guard}, {"was", failure.was}, {"now", failure.now}, {"stack", stack}};
            if (json at = elsewhere(segment, failure.from, code); !at.is_null()) row["at"] = std::move(at);
            found.emplace_back(failure.order, std::move(row));
        }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& entry : entries) {
        const std::string died = replay::died_of(*entry->plan);
        if (entry->key.code == code && !died.empty())
            found.emplace_back(0, json{{"line", nullptr}, {"guard", died + " is unchanged"}, {"was", "as compiled"}, {"now", "redefined or gone"}, {"stack", json::array()}});
    }
    json rows = json::array();
    for (auto& [order, row] : found) rows.push_back(std::move(row));
    return rows;
}

} // namespace dyno::report
