// The driver's parts: its state, the installation of finished code, and what happens when a frame arrives or stops in the middle.
// For compiler/*.cpp only; compiler.h is what others may ask.
#pragma once
#include "compiler/cache/cache.h"
#include "compiler/capture/recording.h"
#include "compiler/compile_queue.h"
#include "compiler/compiler.h"
#include "compiler/frame/evaluator.h"

namespace dyno::compiler {

constexpr uint32_t most_recordings = 8; // of one key
constexpr uint32_t most_cold_tries = 2;
constexpr uint32_t most_rests = 64;     // calls that a dropped entry would have served, until its code is given up

struct State {
    Config config;
    CompileQueue queue;
    std::vector<std::unique_ptr<capture::Recording>> recordings; // under way or just ended
    int installed = 0, off = 0, extents = 0; // extents: calls of compiled functions under way
    uint64_t recorded = 0; // recordings ever started
    bool started = false, forked = false;
    bool trace = std::getenv("DYNO_TRACE") != nullptr; // what happens, on stderr: for developers
    void (*post)(void*, const char*) = nullptr;
    void* post_context = nullptr;
};
/// One per process, made on first use, never destroyed: code objects may die after the interpreter's end.
State& state();

/// Finished code becomes entries. Under the GIL.
void install_finished();
/// Ended recordings go to the queue, what they saw to the facts.
void harvest_finished();

/// The evaluator's driver (frame::Driver).
PyObject* enter(PyThreadState* ts, frame::InterpreterFrame* f);
frame::AtPoint at_point(frame::Activation& a, frame::FrameState*& inner);
void on_bug(frame::Recorder* recorder, const char* what);

/// One look through the entries of a slot.
struct Attempt {
    replay::Outcome outcome;
    bool hit = false, failed = false; // failed: a compute phase gave up, the segment is to run natively
    bool rests = false;               // an entry waits for better code: the segment is to run natively, nothing is to be recorded
    capture::Exit::Kind exit = capture::Exit::returns;
    std::shared_ptr<replay::LaunchPlan> plan; // that hit
};
/// Whether whole calls must tell if compiling this code pays: they are not one replay from start to end, or not a clearly faster one.
bool is_in_doubt(const cache::Slot& slot);
Attempt try_entries(cache::Slot& slot, const replay::Inputs& inputs, PyCodeObject* code);

} // namespace dyno::compiler
