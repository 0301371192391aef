// What the loop does between instructions, out of its line: the driver's answer at a point, and a recorder's redirect.
#include "compiler/frame/telling.h"
#include "compiler/frame/operands.h"
#include "compiler/frame/perform.h"

namespace dyno::frame {
namespace {

using bytecode::Instruction;
using bytecode::Op;

/// The call, whose result is what `after` makes of the callee's, or the generator's next value.
PyObject* call_or_resume(Running& a, const Instruction& i, const Redirect& redirect, Redirected& r) {
    Session& s = *a.session;
    CallToken token{a.thread, redirect.function, a.recorder, &redirect, &a, redirect.generator};
    CallToken* outer = std::exchange(s.token, &token);
    PyObject* result = nullptr;
    if (redirect.generator) r.ended = PyIter_Send(redirect.generator, Py_None, &result) == PYGEN_RETURN;
    else result = PyObject_Vectorcall(redirect.function, redirect.args, redirect.nargs, redirect.kwnames);
    s.token = outer;
    // Run natively after all (depth limit, a tracer): what happened in it is not recorded, so the segment ends before it.
    if (!token.taken) tell_failed(a, i);
    r.callee = token.result;
    return redirect.generator ? result : pass_through(redirect.after, result, redirect.made);
}

} // namespace

Redirected redirected(Running& a, const Instruction& i, const Redirect& redirect) {
    Redirected r{Redirected::raised};
    PyObject** const sp = a.sp;
    if (i.op == Op::with_start) { // CPython finds __exit__ before it enters
        PyObject* enter = perform::with_hooks(sp[-1], &r.exit);
        if (enter == perform::in_pythons_words()) r.how = Redirected::in_pythons_words;
        if (!enter || r.how == Redirected::in_pythons_words) return r;
        Py_DECREF(enter);
    }
    // As CPython's own entering of a Python callee leaves the caller (up to 3.12).
    if (bytecode::python < 313 && i.op == Op::call && perform::entered_without_c(call_operands(a, i).callable)) set_running(a.frame, units_of(a.code) + a.next - 1);
    const bool reflected = i.op == Op::binary && redirect.nargs && redirect.args[0] != sp[-2]; // args are the recorder's: gone once it inlines another call
    r.value = call_or_resume(a, i, redirect, r);
    if (r.ended && i.op == Op::for_iter) {
        Py_CLEAR(r.value);
        r.how = Redirected::exhausted;
        return r;
    }
    if (redirect.generator && i.op != Op::send) r.value = perform::next_result(r.value, redirect.made, r.ended);
    if (!r.value) {
        Py_CLEAR(r.exit);
        if (i.op == Op::for_iter && PyErr_ExceptionMatches(PyExc_StopIteration)) { // an inlined __next__ has no more
            PyErr_Clear();
            r.how = Redirected::exhausted;
        }
        if (i.op == Op::load_attr || i.op == Op::load_method) perform::tell_attribute_error(sp[-1], PyTuple_GET_ITEM(a.code->co_names, i.arg));
        return r;
    }
    if (r.value == Py_NotImplemented && (i.op == Op::binary || i.op == Op::compare)) { // it was not the whole of the operator
        tell_failed(a, i);
        Py_SETREF(r.value, perform::after_not_implemented(i, sp[-2], sp[-1], reflected));
        if (!r.value) return r;
    }
    r.how = Redirected::completed;
    return r;
}

Left ask_driver(Running& a) {
    FrameState* inner = nullptr;
    a.want_point = false;
    set_running(a.frame, units_of(a.code) + a.at);
    AtPoint answer = AtPoint::go_on;
    try {
        answer = driver().at_point(a, inner);
    } catch (const std::exception& bug) { // nothing was changed: state is checked before it is written
        if (driver().bug) driver().bug(nullptr, bug.what());
    }
    switch (answer) {
    case AtPoint::go_on:
        break;
    case AtPoint::record:
        return Left::mode;
    case AtPoint::moved:
        a.state = inner;
        a.index = 0;
        if (inner) return Left::inner;
        break;
    case AtPoint::returned:
        return Left::result;
    case AtPoint::hand_back:
        return Left::hand_over;
    case AtPoint::raised:
        a.raised = true;
        break;
    }
    a.native_first = a.want_point;
    return Left::on;
}

} // namespace dyno::frame
