// Where something came from in the user's program, and the notes that every stage's product carries.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dyno {

/// A line of a code object. `file` is an id of the owner's table of code objects (capture keeps it), 0 is unknown.
struct SourceSpan {
    uint32_t code = 0;
    int32_t line = 0;
    bool operator==(const SourceSpan&) const = default;
};

/// A reason in plain words, at a line. `kind` is a short stable word ("not_fused", "native", "break", "kernel").
struct Note {
    std::string kind;
    std::string text;
    SourceSpan at;
};

} // namespace dyno
