// Inside frame/ only: what the hook, the evaluator and resume share. One Session per thread; the hook itself is one per
// interpreter. Nothing here is for other folders.
#pragma once
#include "compiler/frame/evaluator.h"
#include "compiler/frame/frame_state.h"
#include "compiler/python/versions.h"
#include <exception>

namespace dyno::frame {

class ForcedHook;
/// Frames waiting to be made: the hook takes the next frame of `function` called by `caller` and overwrites it.
struct Rebuild {
    FrameState* state;
    size_t index;
    Activation* caller;
    ForcedHook* hook;
    bool taken = false;
};

/// The evaluator's state on one thread.
struct Session {
    Activation* top = nullptr;
    CallToken* token = nullptr;
    Rebuild* rebuild = nullptr;
    int depth = 0; // nested hooks
    int quiet = 0; // inside a recorder's callback: frames are ours and run natively
};
Session& session();

/// What evaluate() keeps beside the Activation that others see.
struct Running : Activation {
    Session* session = nullptr;
    CallToken* token = nullptr;  // the call that made this frame, null if nobody announced it
    FrameState* state = nullptr; // frames inside this one, not made yet
    size_t index = 0;            // which of them is this frame
    PyObject* pending = nullptr; // the result of a frame inside, to be completed by the instruction at `at`
    int names_at = -1;           // unit of KW_NAMES while kwnames is set
    ShadowId returned = 0;
    bool native_first = false;          // perform one instruction before the driver is asked
    bool raised = false;                // an error is set for the instruction at `at`
    const volatile int* poll = nullptr; // CPython's word for "stop at the next check" (up to 3.12)
};

/// Why the loop was left.
enum class Left : uint8_t {
    on,        // not left
    mode,      // recording starts or ended
    hand_over, // CPython's loop performs the instruction at `at` and goes on
    raised,    // an error no handler of the frame catches
    inner,     // frames inside this one are to be made first
    result,    // the driver left the frame's result on top of the stack
};

/// The evaluator's loop: runs a's frame from a.at until something else has to happen.
Left run_walking(Running& a);
Left run_recording(Running& a);

const Driver& driver();

/// Runs a recorder's callback. Frames that start meanwhile are ours; a bug of ours ends the recording and nothing else.
template <class Callback>
[[gnu::always_inline]] inline void call_recorder(Session& s, Recorder& recorder, Callback callback) {
    s.quiet++;
    try {
        callback(recorder);
    } catch (const std::exception& bug) {
        detach(&recorder);
        if (driver().bug) driver().bug(&recorder, bug.what());
    }
    s.quiet--;
}

/// How a frame was entered.
struct Entry {
    Recorder* recorder = nullptr;
    CallToken* token = nullptr;
    FrameState* inner = nullptr;
    size_t index = 0;
    bool first_native = false;
};
PyObject* evaluate_frame(PyThreadState* ts, InterpreterFrame* f, const Entry& entry);

/// Makes the frames inside `a` and runs them; the result of the outermost of them, passed through a's `after`.
PyObject* run_inner(Running& a);
/// The hook met the frame that run_inner() asked for.
PyObject* rebuild_frame(PyThreadState* ts, InterpreterFrame* f, Rebuild& rebuild);
/// What the result of a redirected call means for its instruction; takes over `result` and `instance`.
PyObject* pass_through(Redirect::After after, PyObject* result, PyObject* instance);

/// Hook on whatever the depth, until `taken` or the end of the scope: for the call that makes a frame from data.
class ForcedHook {
  public:
    ForcedHook();
    ~ForcedHook();
    /// The frame has arrived: the depth rule holds again.
    void taken();

  private:
    int unhooked_;
};

/// 3.13: leaves an unlinked frame with an empty stack and an error set.
void leave_by_error(PyThreadState* ts, InterpreterFrame* f);

/// sys.settrace, sys.setprofile or sys.monitoring want events: such frames are CPython's.
inline bool observed(PyThreadState* ts) {
#if DYNO_312
    return python::tracing_state(ts) != 0;
#else
    return ts->cframe->use_tracing != 0; // zero inside a trace function, as CPython's loop sees it
#endif
}
/// sys.monitoring.set_local_events on this code.
bool locally_observed(PyCodeObject* code);

/// The word that CPython's loop polls; 3.13 keeps it in the thread.
const volatile int* poll_word(PyThreadState* ts);
/// True when CPython's loop would stop at its next check: signal, GIL request, pending call, async exception, collection.
inline bool must_poll([[maybe_unused]] const Running& a) {
#if DYNO_313
    return (a.thread->eval_breaker & 0xff) != 0; // the higher bits are the monitoring version
#else
    return *a.poll != 0;
#endif
}
/// Does what CPython's loop does at that check. -1: an error is set.
int poll_now(PyThreadState* ts);
/// Makes what poll_now() needs; before the hook goes on.
void prepare_polling();
/// True for the frame by which poll_now() reaches CPython's check.
bool is_polling_frame(PyCodeObject* code);

} // namespace dyno::frame
