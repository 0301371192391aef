// What is remembered of a code object beside its entries: why it is not compiled, which lines were seen, how long its calls took.
#pragma once
#include "compiler/capture/segment.h"
#include <Python.h>
#include <map>
#include <string>
#include <vector>

namespace dyno {

/// What is remembered of a code object beside its entries: why it is not compiled, which lines were seen.
struct CodeFacts {
    bool asked = false;      // dyno.compile or %dyno on
    bool refused = false;    // %dyno off
    bool cold = false;       // met no tensor or array
    uint32_t cold_tries = 0;
    uint8_t users_loop = 0;  // the user's code with a loop in it: 0 not looked, 1 no, 2 yes
    uint8_t mentions = 0;    // of a tensor or array source, by constant names: 0 not looked, 1 no, 2 yes
    uint32_t looked_at = 0;  // the call in which that was found out
    uint32_t visits = 0;     // times the driver was asked in the middle of a frame
    uint64_t hits = 0;       // replays in frames of this code
    bool on_gpu = false;     // part of it runs on a GPU, whose work the host's clock does not see
    bool wanted_whole = false; // strict: a first call is recorded to its end, however long
    bool gave_up = false;    // a call of this code used its budget up: the next is recorded whole
    bool slow = false;       // whole calls, breaks and walking included, turned out slower than interpreted ones
    // Whole calls of this code as the outermost evaluated frame, seconds (call_timer.h).
    std::vector<float> compiled_seconds, interpreted_seconds;
    uint32_t judged_slow = 0;
    bool judged_early = false; // so far by code of level 0
    uint32_t calls = 0, interpreted_calls = 0;
    std::string why;         // the last reason for not compiling
    std::map<std::pair<std::string, int>, capture::LineNote> lines; // by (name of code, line)
    std::vector<std::string> bugs;

    /// Calls run interpreted from now on, until call_timer.h finds a reason to try again. `settled`: judged by the best code there will be.
    void give_up(const std::string& reason, bool settled) {
        slow = true;
        judged_early = !settled;
        judged_slow += settled;
        why = reason;
    }
};

namespace compiler {

CodeFacts& facts_of(PyCodeObject* code);
/// Null if nothing is known of the code.
CodeFacts* find_facts(PyCodeObject* code);
/// Of all code, or of one.
void forget_facts(PyCodeObject* code);

} // namespace compiler
} // namespace dyno
