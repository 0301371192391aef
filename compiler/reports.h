// Reports: what became of a function, as JSON text (docs/report.md is the contract). Input: code facts and cache entries.
// Reads only; runs no user code.
#pragma once
#include <Python.h>
#include <string>

namespace dyno {
struct CodeFacts;
}

namespace dyno::report {

/// explain, why, graph, guards: one object for all four. `options` is JSON text.
std::string function_report(const std::string& kind, PyCodeObject* code, const std::string& name, const CodeFacts* facts, const std::string& options);
/// The whole process: totals, functions, events.
std::string status_report(bool on, const std::string& reason);
/// The seven totals and by_function.
std::string stats_json();

} // namespace dyno::report
