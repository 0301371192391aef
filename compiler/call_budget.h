// How much of a call may be recorded. Recording costs more than running, and code that is called once never earns that back:
// a long first call stops being recorded, goes on natively, and the next call is recorded whole.
#pragma once
#include <Python.h>
#include <cstdint>

namespace dyno::compiler {

/// What a first call may record: more than the 40 operations whose code is to be in place right after it, as layers too.
constexpr uint32_t first_operations = 48, first_instructions = 1200;
/// What starting and ending a recording costs, in instructions.
constexpr uint32_t a_recording = 40;
/// Code of many short segments is recorded over several calls.
constexpr uint32_t recordings_a_call = 24;
constexpr uint32_t unlimited = UINT32_MAX;

/// Of the outermost call under way in this thread.
struct CallBudget {
    PyCodeObject* code = nullptr; // of the outermost frame; null: no call of a function is under way
    uint32_t recordings = 0;
    uint32_t operations = 0, instructions = 0;
    bool begun = false; // those two are set: at the first recording
    bool spent = false; // nothing is recorded until the outermost frame returns, or comes to a loop's next turn

    /// Whether a recording of this code may start now.
    bool allows_recording(PyCodeObject* here);
    /// The budget is used up and the recording stands in `here`: whether it may go on, as it does where an earlier call of the
    /// same outermost code stood at this point too. If not, the rest of this call runs natively.
    bool goes_on(PyCodeObject* here);
    /// A recording ended.
    void used(uint32_t operations, uint64_t instructions);
    /// A loop of the outermost frame begins a turn: what comes round again is worth recording.
    void turn();
};
CallBudget& call_budget();

/// The extent of an outermost call: frames that arrive inside it share its budget.
class CallExtent {
  public:
    explicit CallExtent(PyCodeObject* code);
    ~CallExtent();
    CallExtent(const CallExtent&) = delete;

  private:
    bool outermost_;
};

} // namespace dyno::compiler
