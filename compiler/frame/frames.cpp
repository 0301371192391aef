// Evaluated frames: entering, linking, leaving. The loop between is evaluator.cpp's; leaving is always CPython's: its own
// loop performs the return, the yield or the unwinding, so nothing private is needed to clear a frame.
#include "compiler/frame/session.h"

#include <memory>
#include <opcode.h>

namespace dyno::frame {
namespace {

void drop_stack(Running& a) {
    while (a.sp > a.base) {
        PyObject* v = *--a.sp;
        Py_XDECREF(v);
    }
}

void link(Running& a) {
    InterpreterFrame*& current = current_frame(a.thread);
    a.frame->previous = current;
    current = a.frame;
#if !DYNO_312
    a.frame->is_entry = true;
#endif
    a.frame->stacktop = -1; // as in CPython's loop: the collector must not look at a moving stack
    python_recursion(a.thread)--;
#if DYNO_312
    a.thread->c_recursion_remaining--;
#endif
    a.up = a.session->top;
    a.session->top = &a;
}

void unlink(Running& a) {
    a.session->top = a.up;
    current_frame(a.thread) = a.frame->previous;
    python_recursion(a.thread)++;
#if DYNO_312
    a.thread->c_recursion_remaining++;
#endif
    a.frame->stacktop = static_cast<int>(a.sp - a.locals);
}

PyObject* leave_raising(Running& a) {
#if DYNO_313
    drop_stack(a);
    unlink(a);
    leave_by_error(a.thread, a.frame);
    return nullptr;
#else
    unlink(a);
    return _PyEval_EvalFrameDefault(a.thread, a.frame, 1); // adds the traceback entry, unwinds, leaves
#endif
}

PyObject* hand_over(Running& a) {
    unlink(a);
    set_next(a.frame, units_of(a.code) + a.at);
    return _PyEval_EvalFrameDefault(a.thread, a.frame, 0);
}

PyObject* leave_with_result(Running& a) {
    PyObject* result = *--a.sp;
    drop_stack(a);
    unlink(a);
    return leave_at_return(a.thread, a.frame, result);
}

/// The frames inside a's running call are made and run; what they come to is left for run() to complete or to unwind.
void finish_inner(Running& a) {
    while (a.decoded->instructions[static_cast<size_t>(a.at)].raw == EXTENDED_ARG) a.at++;
    const bytecode::Instruction& i = a.decoded->instructions[static_cast<size_t>(a.at)];
    a.next = a.at + i.size;
    const bool entered = bytecode::python < 313 && i.op == bytecode::Op::call && a.state->frames[a.index].after == Redirect::identity;
    set_running(a.frame, units_of(a.code) + (entered ? a.next - 1 : a.at));
    a.pending = run_inner(a);
    if (a.index == 0) delete a.state;
    a.state = nullptr;
    a.raised = !a.pending;
    a.want_point = true;
}

/// The hook is on as long as an activation records: it brings announced frames, and strangers.
class HookExtent {
  public:
    void need(bool on) {
        if (on == on_) return;
        on ? hook_on() : hook_off();
        on_ = on;
    }
    ~HookExtent() { need(false); }

  private:
    bool on_ = false;
};

PyObject* run_to_end(Running& a) {
    HookExtent hook;
    std::unique_ptr<ShadowId[]> shadows;
    if (a.state) finish_inner(a);
    for (;;) {
        hook.need(a.recorder != nullptr);
        if (a.recorder && !a.shadows) {
            shadows = std::make_unique<ShadowId[]>(static_cast<size_t>(a.decoded->slots));
            a.shadows = shadows.get();
            call_recorder(*a.session, *a.recorder, [&](Recorder& r) { r.begin(a); });
            if (!a.recorder) continue;
        }
        switch (a.recorder ? run_recording(a) : run_walking(a)) {
        case Left::on:
        case Left::mode:
            a.shadows = nullptr;
            continue;
        case Left::inner:
            finish_inner(a);
            continue;
        case Left::hand_over:
            hook.need(false);
            return hand_over(a);
        case Left::raised:
            hook.need(false);
            return leave_raising(a);
        case Left::result:
            hook.need(false);
            return leave_with_result(a);
        }
    }
}

} // namespace

PyObject* evaluate_frame(PyThreadState* ts, InterpreterFrame* f, const Entry& entry) {
    PyCodeObject* code = code_object(f);
    const bytecode::Code* decoded = bytecode::code_of(code);
    if (!decoded) { // no memory for the decoded form: CPython needs none
        PyErr_Clear();
        if (entry.recorder) detach(entry.recorder);
        return hand_back(ts, f);
    }
    Running a{};
    a.thread = ts;
    a.frame = f;
    a.code = code;
    a.decoded = decoded;
    a.locals = locals_of(f);
    a.base = a.locals + decoded->locals;
    a.sp = a.locals + f->stacktop;
    a.at = next_unit(f, code);
    a.next = a.at;
    a.recorder = entry.recorder;
    a.session = &session();
    a.token = entry.token;
    a.state = entry.inner;
    a.index = entry.index;
    a.native_first = a.want_point = entry.first_native;
    a.poll = poll_word(ts);
    link(a);
    std::unique_ptr<ShadowId[]> shadows;
    if (entry.token) {
        entry.token->taken = true;
        shadows = std::make_unique<ShadowId[]>(static_cast<size_t>(decoded->slots));
        a.shadows = shadows.get();
        bool inlined = false;
        call_recorder(*a.session, *a.recorder, [&](Recorder& r) { inlined = r.enter(a, *entry.token); });
        if (!inlined || !a.recorder) {
            detach(entry.recorder);
            return hand_over(a);
        }
    }
    PyObject* result = run_to_end(a);
    if (result && entry.token) entry.token->result = a.returned;
    return result;
}

PyObject* evaluate(PyThreadState* ts, InterpreterFrame* f, Recorder* recorder, bool first_native, FrameState* inner) {
    return evaluate_frame(ts, f, {.recorder = recorder, .inner = inner, .first_native = first_native});
}

PyObject* hand_back(PyThreadState* ts, InterpreterFrame* f) { return _PyEval_EvalFrameDefault(ts, f, 0); }

} // namespace dyno::frame
