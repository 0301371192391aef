// The whole process as JSON: totals, functions, memory, events.
#include "compiler/cache/events.h"
#include "compiler/compiler.h"
#include "compiler/python/make_tensor.h"
#include "compiler/python/torch_door.h"
#include "compiler/report_entries.h"
#include "compiler/reports.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace dyno::report {
namespace {

using json = nlohmann::json;

/// What the entries of one code object come to.
struct Sums {
    uint64_t hits = 0, captures = 0, kernels = 0, breaks = 0, dropped = 0;
    bool any = false, compiling = false;
};
Sums sums_of(PyCodeObject* code) {
    Sums sums;
    for (auto& [key, slot] : cache::slots_of_code(code)) {
        sums.compiling |= slot->compiling;
        for (const auto& entry : slot->entries) {
            sums.hits += entry->hits;
            sums.captures++;
            sums.dropped += entry->dropped;
            sums.any |= in_use(*entry);
            if (!entry->plan) continue;
            sums.kernels += replay::product_of(*entry->plan).schedule.nests.size();
            sums.breaks += replay::segment_of(*entry->plan).exit.kind == capture::Exit::breaks;
        }
    }
    return sums;
}

json memory_json() {
    replay::PlanBytes all;
    for (PyCodeObject* code : cache::known_codes())
        for (auto& [key, slot] : cache::slots_of_code(code))
            for (const auto& entry : slot->entries) {
                if (!entry->plan) continue;
                const replay::PlanBytes bytes = replay::bytes_of(*entry->plan);
                all.code += bytes.code, all.buffers += bytes.buffers;
            }
    return {{"code_bytes", all.code}, {"buffer_bytes", all.buffers + python::block_cache_bytes()}};
}

json events_json() {
    json events = json::array();
    for (const cache::Event& event : cache::last_events()) events.push_back({{"kind", event.kind}, {"text", event.text}, {"file", event.file}, {"line", event.line}});
    return events;
}

} // namespace

std::string stats_json() {
    const cache::Counters& c = cache::counters();
    json out = {{"captures", c.captures.load()}, {"hits", c.hits.load()}, {"graph_breaks", c.graph_breaks.load()}, {"kernels", c.kernels.load()},
                {"extern_calls", c.extern_calls.load()}, {"recompiles", c.recompiles.load()}, {"dropped", c.dropped.load()}};
    // By name; where several functions or cells share one, with their place.
    std::map<std::tuple<std::string, std::string, int>, cache::Tally> sums;
    std::map<std::string, int> of_name;
    auto add = [&](const cache::Tally& t) {
        auto [it, fresh] = sums.try_emplace({t.name, t.file, t.line}, t);
        if (fresh) of_name[t.name]++;
        else it->second.captures += t.captures, it->second.hits += t.hits, it->second.kernels += t.kernels, it->second.breaks += t.breaks, it->second.dropped += t.dropped;
    };
    for (PyCodeObject* code : cache::known_codes()) add(cache::tally_of(code));
    for (const cache::Tally& t : cache::past()) add(t);
    json by = json::object();
    for (const auto& [place, t] : sums) {
        const std::string key = of_name[t.name] == 1 ? t.name : t.name + " (" + t.file + ", line " + std::to_string(t.line) + ")";
        by[key] = {{"captures", t.captures}, {"hits", t.hits}, {"kernels", t.kernels}, {"graph_breaks", t.breaks}, {"dropped", t.dropped}};
    }
    out["by_function"] = by;
    return out.dump();
}

std::string status_report(bool on, const std::string& reason) {
    json totals = json::parse(stats_json());
    totals.erase("by_function");
    std::vector<PyCodeObject*> codes = cache::known_codes(); // in no fixed order
    std::sort(codes.begin(), codes.end(), [](PyCodeObject* a, PyCodeObject* b) {
        return std::tuple(utf8(a->co_qualname), utf8(a->co_filename), a->co_firstlineno) < std::tuple(utf8(b->co_qualname), utf8(b->co_filename), b->co_firstlineno);
    });
    json functions = json::array();
    for (PyCodeObject* code : codes) {
        const Sums sums = sums_of(code);
        const CodeFacts* facts = compiler::find_facts(code);
        const char* state = facts && facts->refused ? "interpreted" : sums.any ? "compiled" : sums.compiling ? "compiling" : "interpreted";
        functions.push_back({{"name", utf8(code->co_qualname)}, {"file", utf8(code->co_filename)}, {"first_line", code->co_firstlineno}, {"state", state},
                             {"hits", sums.hits}, {"kernels", sums.kernels}, {"breaks", sums.breaks}});
    }
    return json{{"schema", "dyno.report/1"}, {"kind", "status"}, {"state", on ? "on" : "off"}, {"reason", reason.empty() ? json(nullptr) : json(reason)},
                {"device", {{"cpu", "CPU"}, {"threads", std::max(1, python::torch_num_threads())}, {"cuda", nullptr}}}, {"totals", totals}, {"functions", functions},
                {"memory", memory_json()}, {"events", events_json()}}
        .dump();
}

} // namespace dyno::report
