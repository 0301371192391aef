// How much of a call may be recorded. Recording costs more than running, and code that is called once never earns that back: recording
// may take a fixed effort and a share of the call's time so far. A call that has used this up goes on natively; the next call of the
// same code is recorded whole.
#pragma once
#include <Python.h>
#include <cstdint>

namespace dyno::compiler {

/// What starting and ending a recording costs. Effort is counted in recorded instructions (capture::Recording::effort).
constexpr uint32_t effort_of_recording = 40;
/// What any call may record: more than the 40 operations whose code is to be in place right after the first call.
constexpr uint32_t free_effort = 900;
/// Code of many short segments is recorded over several calls.
constexpr uint32_t recordings_a_call = 24;

/// Of the outermost call under way in this thread.
struct CallBudget {
    PyCodeObject* code = nullptr; // of the outermost frame; null: no call of a function is under way
    uint32_t recordings = 0;
    uint32_t frames = 0; // that arrived or came to a loop's turn while it was spent
    uint64_t used = 0;   // effort
    int64_t start = 0;   // the thread's CPU time at the first recording, ns; 0: none yet
    bool whole = false;  // no limit
    bool spent = false;  // nothing is recorded until much more time has passed

    /// Whether a recording may start now.
    bool allows_recording();
    /// The effort that a recording may make before it asks again.
    uint64_t left() const;
    /// A recording has made `effort`: whether it may go on, as it does where the call's time pays for it, or where an earlier call of the
    /// same outermost code had to give up.
    bool goes_on(uint64_t effort);
    /// Asked of each frame and loop's turn: whether everything runs natively now.
    bool rests();

  private:
    uint64_t allowed(uint64_t effort) const;
};
CallBudget& call_budget();

/// The extent of an outermost call: frames that arrive inside it share its budget. `code` null: a cell, whose calls have budgets of their own.
class CallExtent {
  public:
    explicit CallExtent(PyCodeObject* code);
    ~CallExtent();
    CallExtent(const CallExtent&) = delete;

  private:
    bool outermost_;
};

} // namespace dyno::compiler
