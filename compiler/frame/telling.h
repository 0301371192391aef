// Inside frame/ only: how the evaluator's loop speaks to a recorder. Each call leaves a.recorder null once the recording ended.
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

/// What the recorder wants in place of the instruction's own: a call, whose result is what `after` makes of the callee's, or the next value
/// of a generator. `ended`: the generator returned, and the result is what it returned.
inline PyObject* redirected_call(Running& a, const bytecode::Instruction& i, const Redirect& redirect, ShadowId& callee, bool& ended) {
    Session& s = *a.session;
    CallToken token{a.thread, redirect.function, a.recorder, &redirect, &a, redirect.generator};
    CallToken* outer = std::exchange(s.token, &token);
    PyObject* result = nullptr;
    if (redirect.generator) ended = PyIter_Send(redirect.generator, Py_None, &result) == PYGEN_RETURN;
    else result = PyObject_Vectorcall(redirect.function, redirect.args, redirect.nargs, redirect.kwnames);
    s.token = outer;
    // Run natively after all (depth limit, a tracer): what happened in it is not recorded, so the segment ends before it.
    if (!token.taken) tell_failed(a, i);
    callee = token.result;
    if (redirect.generator) return result;
    return pass_through(redirect.after, result, redirect.made);
}

} // namespace dyno::frame
