// The report about one function: its lines, entries, recompiles and reasons, made from cache entries and from what recordings noted.
#include "compiler/reports.h"
#include "compiler/compiler.h"
#include "compiler/report/reasons.h"
#include "compiler/report_entries.h"
#include <algorithm>

namespace dyno::report {
namespace {

using json = nlohmann::json;

std::set<int> lines_with_code(PyCodeObject* code) {
    std::set<int> lines;
    for (const int line : bytecode::lines_of(code))
        if (line >= code->co_firstlineno) lines.insert(line);
    return lines;
}

/// The note of a break or of interpreted work at this line, or null.
const capture::LineNote* note_at(const CodeFacts* facts, const std::string& name, int line) {
    if (!facts) return nullptr;
    const auto found = facts->lines.find({name, line});
    return found != facts->lines.end() && found->second.status == "break" ? &found->second : nullptr;
}

void say(json& row, const char* status, const std::string& reason, const std::string& hint) {
    row["status"] = status, row["reason"] = reason;
    if (!hint.empty()) row["hint"] = hint;
}

/// One row for each source line. Lines of a cell outside of its loops run once, interpreted.
json lines_json(PyCodeObject* code, const CodeFacts* facts, const Lines& lines) {
    const std::string own_name = utf8(code->co_qualname);
    const std::set<int> coded = lines_with_code(code);
    const bool cell = !(code->co_flags & CO_NEWLOCALS), ran = facts || !cache::slots_of_code(code).empty();
    json rows = json::array();
    for (int line = code->co_firstlineno; line <= *coded.rbegin(); line++) {
        json row = {{"line", line}, {"text", nullptr}, {"status", nullptr}, {"kernels", json::array()}, {"reason", nullptr}, {"hint", nullptr}};
        if (auto k = lines.kernels.find(line); k != lines.kernels.end()) row["status"] = "fused", row["kernels"] = k->second;
        else if (lines.externs.contains(line)) row["status"] = "extern";
        else if (lines.captured.contains(line)) row["status"] = "compiled";
        if (auto b = lines.breaks.find(line); b != lines.breaks.end()) {
            say(row, "break", b->second.reason, b->second.hint);
        } else if (const capture::LineNote* note = note_at(facts, own_name, line); note && row["status"].is_null()) {
            const Reason reason = in_words(note->reason, note->hint);
            say(row, "interpreted", reason.text, reason.hint);
        }
        if (!cell && line == code->co_firstlineno && row["status"] == "compiled" && coded.size() > 1) row["status"] = nullptr; // the def itself
        if (cell && ran && row["status"].is_null() && coded.contains(line)) row["status"] = "interpreted";
        rows.push_back(std::move(row));
    }
    return rows;
}

/// Why nothing is in use: the sentence of the function as a whole, or where none says more, that of the first line that has one.
Reason why_not(PyCodeObject* code, const CodeFacts* facts, const json& lines) {
    std::string why = facts ? facts->why : "";
    if (why.empty())
        for (auto& [key, slot] : cache::slots_of_code(code))
            if (!slot->hopeless_reason.empty()) why = slot->hopeless_reason;
    const bool says_little = why.empty() || why.starts_with("no tensor or array work before") || why == "it met no tensor or array";
    if (says_little)
        for (const json& row : lines)
            if (row["status"] == "interpreted" && row["reason"].is_string()) return {row["reason"], row["hint"].is_null() ? "" : row["hint"]};
    return why.empty() ? Reason{} : in_words(why);
}

json function_json(PyCodeObject* code, const std::string& name, const CodeFacts* facts, const std::vector<std::shared_ptr<cache::Entry>>& entries, const json& lines) {
    bool compiling = false;
    for (auto& [key, slot] : cache::slots_of_code(code)) compiling |= slot->compiling;
    const bool refused = facts && facts->refused, slow = facts && facts->slow;
    const bool any = std::any_of(entries.begin(), entries.end(), [](const auto& e) { return in_use(*e); });
    const bool own = std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e->key.code == code; });
    json function = {{"name", name}, {"file", utf8(code->co_filename)}, {"first_line", code->co_firstlineno}, {"last_line", lines.back()["line"]}};
    const bool called = facts && (facts->calls || !facts->why.empty() || !facts->lines.empty());
    function["state"] = refused || slow ? "interpreted" : any ? "compiled" : compiling ? "compiling" : called ? "interpreted" : "not_called";
    if (refused) {
        function["reason"] = "it was switched off by %dyno off";
    } else if (function["state"] == "interpreted") {
        const Reason reason = why_not(code, facts, lines);
        if (!reason.text.empty()) function["reason"] = reason.text;
        if (!reason.hint.empty()) function["hint"] = reason.hint;
    }
    if (any && !own) function["note"] = "called and compiled as part of other functions";
    return function;
}

} // namespace

std::string function_report(const std::string& kind, PyCodeObject* code, const std::string& name, const CodeFacts* facts, const std::string& options_text) {
    const json options = json::parse(options_text, nullptr, false);
    const bool as_captured = options.is_object() && options.value("stage", json()) == json("capture");
    Lines lines;
    const auto entries = entries_about(code);
    json entry_list = json::array();
    int next_kernel = 0, id = 0;
    for (const auto& entry : entries) entry_list.push_back(entry_json(*entry, id++, code, as_captured, next_kernel, lines));
    const bool kept_away = facts && (facts->refused || facts->slow);
    const json line_list = lines_json(code, facts, kept_away ? Lines() : lines);
    json reasons = json::array();
    if (facts)
        for (const std::string& bug : facts->bugs) reasons.push_back({{"kind", "bug"}, {"line", nullptr}, {"text", "a bug of dyno's: " + bug}, {"hint", nullptr}});
    return json{{"schema", "dyno.report/1"}, {"kind", kind}, {"function", function_json(code, name, facts, entries, line_list)}, {"lines", line_list}, {"entries", entry_list},
                {"recompiles", recompiles_json(entries, code)}, {"reasons", reasons}, {"counters", json::parse(stats_json())}}
        .dump();
}

} // namespace dyno::report
