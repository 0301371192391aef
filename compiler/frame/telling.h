// Inside frame/ only: how the evaluator's loop speaks to a recorder and to the driver. Each call of a recorder leaves a.recorder null once
// the recording ended.
#pragma once
#include "compiler/frame/session.h"
#include "compiler/python/ref.h"
#include <utility>

namespace dyno::frame {

/// One callback of a's recorder.
template <class Callback>
[[gnu::always_inline]] inline void tell(Running& a, Callback callback) {
    call_recorder(*a.session, *a.recorder, callback);
}

/// What to do with the instruction at a.at. After a stop the recorder is gone and the answer is perform.
inline Recorder::Before ask_before(Running& a, const bytecode::Instruction& i, Redirect& redirect) {
    auto answer = Recorder::Before::perform;
    tell(a, [&](Recorder& r) { answer = r.before(a, i, redirect); });
    if (answer == Recorder::Before::stop && a.recorder) detach(a.recorder);
    if (!a.recorder) return Recorder::Before::perform;
    return answer;
}

/// The shadow of the result; 0 without a recorder.
inline ShadowId tell_after(Running& a, const bytecode::Instruction& i, PyObject* result, ShadowId callee) {
    ShadowId shadow = 0;
    if (a.recorder) tell(a, [&](Recorder& r) { shadow = r.after(a, i, result, callee); });
    return shadow;
}

/// The segment ends before the instruction at a.at.
inline void tell_failed(Running& a, const bytecode::Instruction& i) {
    if (!a.recorder) return;
    tell(a, [&](Recorder& r) { r.failed(a, i); });
    if (a.recorder) detach(a.recorder);
}

/// As tell_failed, unless the recorder expected the error.
inline void tell_raised(Running& a, const bytecode::Instruction& i) {
    if (!a.recorder) return;
    const python::KeepError keep;
    bool expected = false;
    tell(a, [&](Recorder& r) { expected = r.raised(a, i); });
    if (a.recorder && !expected) detach(a.recorder);
}

/// What came of a Redirect.
struct Redirected {
    enum How : uint8_t { completed, raised, exhausted, in_pythons_words } how; // exhausted: FOR_ITER's iterator is at its end
    PyObject* value = nullptr; // a new reference
    ShadowId callee = 0;       // the shadow it came back with
    PyObject* exit = nullptr;  // BEFORE_WITH: the bound __exit__, a new reference
    bool ended = false;        // SEND: the generator returned, and the value is what it returned
};
/// What the recorder wants in place of the instruction's own work: a call, or the next value of a generator.
Redirected redirected(Running& a, const bytecode::Instruction& i, const Redirect& redirect);

/// Asks the driver what to do at a.at.
Left ask_driver(Running& a);

} // namespace dyno::frame
