// One cache entry as JSON, and what it says of the lines of one function. Input: entries, the code object asked about. Reads only.
#pragma once
#include "compiler/cache/cache.h"
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace dyno::report {

/// What became of the lines of one code object, over all entries that are in use.
struct Lines {
    struct Break {
        std::string reason, hint;
    };
    std::map<int, std::set<int>> kernels; // line -> ids
    std::set<int> externs, captured;
    std::map<int, Break> breaks;
};

/// An entry that may still be used.
bool in_use(const cache::Entry& entry);
/// The entry as docs/report.md has it. Kernels are numbered from `next_kernel` on; lines of `code` are added to `lines`.
nlohmann::json entry_json(const cache::Entry& entry, int id, PyCodeObject* code, bool as_captured, int& next_kernel, Lines& lines);
/// Entries whose segments carry lines of the code, in the order of their start: its own first, then those that inlined it.
std::vector<std::shared_ptr<cache::Entry>> entries_about(PyCodeObject* code);
/// Why entries were not used and others had to be made, oldest first: those about lines of the code.
nlohmann::json recompiles_json(const std::vector<std::shared_ptr<cache::Entry>>& entries, PyCodeObject* code);
std::string utf8(PyObject* text);

} // namespace dyno::report
