// Reports as JSON, made from cache entries and from what recordings noted line by line.
#include "compiler/reports.h"
#include "compiler/cache/cache.h"
#include "compiler/compiler.h"
#include "compiler/fusion/schedule.h"
#include "compiler/graph/op_info.h"
#include "compiler/python/ref.h"
#include "compiler/python/torch_door.h"
#include "compiler/replay/plan.h"
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace dyno::report {
namespace {

using json = nlohmann::json;

int last_line_of(PyCodeObject* code) {
    int last = code->co_firstlineno;
    const auto units = static_cast<int>(Py_SIZE(code));
    for (int k = 0; k < units; k++) last = std::max(last, PyCode_Addr2Line(code, 2 * k));
    return last;
}
std::string text_of(PyObject* s) {
    const char* t = s && PyUnicode_Check(s) ? PyUnicode_AsUTF8(s) : nullptr;
    if (!t) PyErr_Clear();
    return t ? t : "";
}

/// Whether a line of the segment's spans is a line of this code object.
bool is_here(const capture::Segment& segment, const SourceSpan& at, PyCodeObject* code) {
    return at.code && at.code <= segment.codes.size() && segment.codes[at.code - 1] == code;
}
json line_or_null(const capture::Segment& segment, const SourceSpan& at, PyCodeObject* code) {
    return is_here(segment, at, code) ? json(at.line) : json(nullptr);
}

bool is_trivial(capture::Guard::Kind kind) {
    using G = capture::Guard;
    return kind != G::tensor && kind != G::array && kind != G::equal && kind != G::truth && kind != G::length && kind != G::keys && kind != G::numpy_scalar;
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
    return {{"id", k}, {"op", name}, {"args", args}, {"dtype", std::string(name_of(node.type.dtype))}, {"shape", node.type.dims}, {"line", line_or_null(segment, node.from, code)}, {"kernel", nest < 0 ? json(nullptr) : json(nest + first_kernel)}};
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

int64_t bytes_of(const fusion::Schedule& schedule, size_t nest) {
    int64_t bytes = 0;
    for (const auto& step : schedule.steps)
        if (auto* k = std::get_if<fusion::KernelStep>(&step); k && k->nest == nest)
            for (uint32_t b : k->buffers) bytes += schedule.buffers[b].bytes;
    return bytes;
}

struct Lines {
    std::map<int, std::set<int>> kernels;
    std::set<int> externs, captured;
    std::map<int, std::pair<std::string, std::string>> breaks;
};

json entry_json(const cache::Entry& entry, int id, PyCodeObject* code, bool as_captured, int& next_kernel, Lines& lines) {
    const capture::Segment& segment = replay::segment_of(*entry.plan);
    const CompileProduct& product = replay::product_of(*entry.plan);
    json guards = json::array();
    for (const capture::Guard& g : segment.guards) {
        const std::string text = replay::guard_text(segment, g);
        if (text.empty()) continue;
        guards.push_back({{"text", text}, {"kind", ""}, {"line", line_or_null(segment, g.from, code)}, {"trivial", is_trivial(g.kind)}});
    }
    const int first_kernel = next_kernel;
    json kernels = json::array();
    const auto& nest_of = product.schedule.nest_of;
    for (size_t k = 0; k < product.schedule.nests.size(); k++) {
        json nodes = json::array();
        for (uint32_t n = 0; n < nest_of.size(); n++) {
            if (nest_of[n] != static_cast<int>(k)) continue;
            nodes.push_back(n);
            const SourceSpan& from = product.graph.nodes[n].from;
            if (is_here(segment, from, code)) lines.kernels[from.line].insert(first_kernel + static_cast<int>(k));
        }
        kernels.push_back({{"id", first_kernel + static_cast<int>(k)}, {"nodes", nodes}, {"bytes", bytes_of(product.schedule, k)}, {"not_fused", json::array()}});
    }
    for (const Note& n : product.schedule.notes)
        if (n.kind == "not_fused" && !kernels.empty()) kernels.back()["not_fused"].push_back({{"line", line_or_null(segment, n.at, code)}, {"with", nullptr}, {"reason", n.text}, {"hint", nullptr}});
    next_kernel += static_cast<int>(product.schedule.nests.size());
    for (uint32_t n = 0; n < product.graph.nodes.size(); n++) {
        const graph::Node& node = product.graph.nodes[n];
        if (!is_here(segment, node.from, code)) continue;
        lines.captured.insert(node.from.line);
        if (node.op == graph::Op::extern_call) lines.externs.insert(node.from.line);
    }
    for (const capture::LineNote& n : segment.lines)
        if (is_here(segment, n.at, code)) lines.captured.insert(n.at.line);
    const capture::Exit& exit = segment.exit;
    if (exit.kind == capture::Exit::breaks && is_here(segment, exit.at, code)) lines.breaks[exit.at.line] = {exit.reason, exit.hint};
    static const char* const kinds[] = {"returns", "breaks", "cut"};
    json e = {{"id", id}, {"state", entry.dropped ? "dropped" : entry.stale->load() ? "stale" : "installed"}, {"hits", entry.hits}, {"guards", guards}, {"kernels", kernels},
              {"exit", {{"kind", kinds[exit.kind]}, {"line", line_or_null(segment, exit.at, code)}, {"reason", exit.kind == capture::Exit::breaks ? json(exit.reason) : json(nullptr)}}},
              {"eager_us", entry.eager_ns > 0 ? json(entry.eager_ns / 1e3) : json(nullptr)}, {"compile_ms", entry.compile_ms}};
    if (as_captured && !segment.graph.nodes.empty()) e["graph"] = graph_json(segment.graph, segment, code, nullptr, first_kernel);
    else e["graph"] = graph_json(product.graph, segment, code, &nest_of, first_kernel);
    const uint32_t timed = std::min<uint32_t>(entry.compiled_count, 16);
    if (timed) {
        std::vector<float> ns(entry.compiled_ns.begin(), entry.compiled_ns.begin() + timed);
        std::nth_element(ns.begin(), ns.begin() + timed / 2, ns.end());
        e["compiled_us"] = ns[timed / 2] / 1e3;
    } else e["compiled_us"] = nullptr;
    if (!entry.drop_reason.empty()) e["drop_reason"] = entry.drop_reason;
    return e;
}

/// Entries whose segments carry lines of the code, first made first: its own, and those that inlined it.
std::vector<std::shared_ptr<cache::Entry>> entries_about(PyCodeObject* code, bool& compiling) {
    std::vector<std::shared_ptr<cache::Entry>> own;
    for (auto& [key, slot] : cache::slots_of_code(code)) {
        compiling |= slot->compiling;
        for (auto it = slot->entries.rbegin(); it != slot->entries.rend(); ++it)
            if ((*it)->plan) own.push_back(*it);
    }
    std::stable_sort(own.begin(), own.end(), [](const auto& a, const auto& b) { return a->key.unit < b->key.unit; });
    return own;
}
std::vector<std::shared_ptr<cache::Entry>> entries_inlining(PyCodeObject* code) {
    std::vector<std::shared_ptr<cache::Entry>> found;
    for (PyCodeObject* other : cache::known_codes()) {
        if (other == code) continue;
        for (auto& [key, slot] : cache::slots_of_code(other))
            for (const auto& entry : slot->entries) {
                if (!entry->plan) continue;
                const auto& codes = replay::segment_of(*entry->plan).codes;
                if (std::find(codes.begin(), codes.end(), code) != codes.end()) found.push_back(entry);
            }
    }
    return found;
}

} // namespace

std::string function_report(const std::string& kind, PyCodeObject* code, const std::string& name, const CodeFacts* facts, const std::string& options_text) {
    const json options = json::parse(options_text, nullptr, false);
    const bool as_captured = options.is_object() && options.value("stage", json()) == json("capture");
    Lines lines;
    bool compiling = false, inlined = false;
    auto entries = entries_about(code, compiling);
    if (entries.empty()) {
        entries = entries_inlining(code);
        inlined = !entries.empty();
    }
    json entry_list = json::array();
    int next_kernel = 0, id = 0;
    for (const auto& entry : entries) entry_list.push_back(entry_json(*entry, id++, code, as_captured, next_kernel, lines));
    const bool any = std::any_of(entries.begin(), entries.end(), [](const auto& e) { return !e->dropped && !e->stale->load(); });

    const int first = code->co_firstlineno, last = last_line_of(code);
    const std::string own_name = text_of(code->co_qualname);
    json line_list = json::array();
    for (int line = first; line <= last; line++) {
        json l = {{"line", line}, {"text", nullptr}, {"status", nullptr}, {"kernels", json::array()}, {"reason", nullptr}, {"hint", nullptr}};
        const capture::LineNote* note = nullptr;
        if (facts)
            if (auto it = facts->lines.find({own_name, line}); it != facts->lines.end()) note = &it->second;
        if (auto k = lines.kernels.find(line); k != lines.kernels.end()) l["status"] = "fused", l["kernels"] = k->second;
        else if (lines.externs.contains(line)) l["status"] = "extern";
        else if (lines.captured.contains(line)) l["status"] = "compiled";
        if (auto b = lines.breaks.find(line); b != lines.breaks.end()) {
            l["status"] = "break", l["reason"] = b->second.first;
            if (!b->second.second.empty()) l["hint"] = b->second.second;
        } else if (note && note->status == "break" && l["status"].is_null()) {
            l["status"] = "interpreted", l["reason"] = note->reason;
            if (!note->hint.empty()) l["hint"] = note->hint;
        }
        line_list.push_back(std::move(l));
    }

    json function = {{"name", name}, {"file", text_of(code->co_filename)}, {"first_line", first}, {"last_line", last}};
    function["state"] = any ? "compiled" : compiling ? "compiling" : facts && (facts->calls || !facts->why.empty()) ? "interpreted" : "not_called";
    if (!any && facts && !facts->why.empty()) function["reason"] = facts->why;
    if (!any && facts && facts->refused) function["reason"] = "it was switched off by %dyno off";
    if (!any)
        for (auto& [key, slot] : cache::slots_of_code(code))
            if (!slot->hopeless_reason.empty() && !function.contains("reason")) function["reason"] = slot->hopeless_reason;
    if (inlined) function["note"] = "called and compiled as part of other functions";

    json recompiles = json::array();
    if (facts)
        for (const CodeFacts::Recompile& r : facts->recompiles) recompiles.push_back({{"line", r.line ? json(r.line) : json(nullptr)}, {"guard", r.guard}, {"was", r.was}, {"now", r.now}, {"stack", r.stack}});
    json reasons = json::array();
    if (facts)
        for (const std::string& bug : facts->bugs) reasons.push_back({{"kind", "bug"}, {"line", nullptr}, {"text", "a bug of dyno's: " + bug}, {"hint", nullptr}});
    return json{{"schema", "dyno.report/1"}, {"kind", kind}, {"function", function}, {"lines", line_list}, {"entries", entry_list}, {"recompiles", recompiles}, {"reasons", reasons}, {"counters", json::parse(stats_json())}}.dump();
}

std::string stats_json() {
    const cache::Counters& c = cache::counters();
    json out = {{"captures", c.captures.load()}, {"hits", c.hits.load()}, {"graph_breaks", c.graph_breaks.load()}, {"kernels", c.kernels.load()},
                {"extern_calls", c.extern_calls.load()}, {"recompiles", c.recompiles.load()}, {"dropped", c.dropped.load()}};
    json by = json::object();
    for (PyCodeObject* code : cache::known_codes()) {
        uint64_t hits = 0, captures = 0, kernels = 0, breaks = 0, dropped = 0;
        for (auto& [key, slot] : cache::slots_of_code(code))
            for (const auto& e : slot->entries) {
                hits += e->hits;
                captures++;
                dropped += e->dropped;
                if (!e->plan) continue;
                kernels += replay::product_of(*e->plan).schedule.nests.size();
                breaks += replay::segment_of(*e->plan).exit.kind == capture::Exit::breaks;
            }
        by[text_of(code->co_qualname)] = {{"captures", captures}, {"hits", hits}, {"kernels", kernels}, {"graph_breaks", breaks}, {"dropped", dropped}};
    }
    out["by_function"] = by;
    return out.dump();
}

std::string status_report(bool on, const std::string& reason) {
    json totals = json::parse(stats_json());
    totals.erase("by_function");
    json functions = json::array();
    for (PyCodeObject* code : cache::known_codes()) {
        uint64_t hits = 0, kernels = 0, breaks = 0;
        bool any = false, compiling = false;
        for (auto& [key, slot] : cache::slots_of_code(code)) {
            compiling |= slot->compiling;
            for (const auto& e : slot->entries) {
                hits += e->hits;
                any |= !e->dropped;
                if (!e->plan) continue;
                kernels += replay::product_of(*e->plan).schedule.nests.size();
                breaks += replay::segment_of(*e->plan).exit.kind == capture::Exit::breaks;
            }
        }
        functions.push_back({{"name", text_of(code->co_qualname)}, {"file", text_of(code->co_filename)}, {"first_line", code->co_firstlineno}, {"state", any ? "compiled" : compiling ? "compiling" : "interpreted"},
                             {"hits", hits}, {"kernels", kernels}, {"breaks", breaks}});
    }
    return json{{"schema", "dyno.report/1"}, {"kind", "status"}, {"state", on ? "on" : "off"}, {"reason", reason.empty() ? json(nullptr) : json(reason)},
                {"device", {{"cpu", "CPU"}, {"threads", std::max(1, python::torch_num_threads())}, {"cuda", nullptr}}}, {"totals", totals}, {"functions", functions},
                {"memory", {{"code_bytes", nullptr}, {"buffer_bytes", nullptr}}}, {"events", json::array()}}.dump();
}

} // namespace dyno::report
