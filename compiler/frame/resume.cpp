// Frame state as data, put into live frames: overwriting a frame, making the frames inside it, leaving at a return.
// A frame is made by calling its function with placeholders: the hook overwrites it before its first instruction.
#include "compiler/frame/perform.h"
#include "compiler/python/ref.h"
#include "compiler/support/check.h"

namespace dyno::frame {
namespace {

/// Moves the state's values into the slots; the old ones come back, to be released when the frame is whole again.
std::vector<Owned<>> exchange_slots(PyObject** locals, PyObject** old_top, DetachedFrame& state, int count) {
    DYNO_CHECK(state.locals.size() == static_cast<size_t>(count), "a frame state with one value per slot");
    std::vector<Owned<>> old;
    PyObject** base = locals + count;
    for (PyObject** slot = locals; slot < old_top; slot++) old.push_back(Owned<>::steal(*slot));
    for (int k = 0; k < count; k++) locals[k] = state.locals[static_cast<size_t>(k)].release();
    for (size_t k = 0; k < state.stack.size(); k++) base[k] = state.stack[k].release();
    return old;
}

/// Calls a plain function with None for every argument it needs.
PyObject* call_with_placeholders(PyObject* function) {
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    const int named = code->co_argcount + code->co_kwonlyargcount;
    const std::vector<PyObject*> args(static_cast<size_t>(named) + 1, Py_None);
    auto keywords = Owned<>::steal(PyTuple_New(code->co_kwonlyargcount));
    if (!keywords) return nullptr;
    for (int k = 0; k < code->co_kwonlyargcount; k++)
        PyTuple_SET_ITEM(keywords.get(), k, Py_NewRef(PyTuple_GET_ITEM(code->co_localsplusnames, code->co_argcount + k)));
    return PyObject_Vectorcall(function, args.data(), static_cast<size_t>(code->co_argcount), keywords.get());
}

/// Leaves a fresh frame with the error that is set.
PyObject* leave_unwritten(PyThreadState* ts, InterpreterFrame* f) {
#if DYNO_313
    leave_by_error(ts, f);
    return nullptr;
#else
    return _PyEval_EvalFrameDefault(ts, f, 1);
#endif
}

} // namespace

void write_frame(InterpreterFrame* f, DetachedFrame&& state) {
    PyCodeObject* code = code_object(f);
    const auto old = exchange_slots(f->localsplus, f->localsplus + f->stacktop, state, code->co_nlocalsplus);
    f->stacktop = code->co_nlocalsplus + static_cast<int>(state.stack.size());
    set_next(f, units_of(code) + state.unit);
}

void write_activation(Activation& a, DetachedFrame&& state) {
    const auto old = exchange_slots(a.locals, a.sp, state, a.decoded->locals);
    a.sp = a.base + state.stack.size();
    a.at = state.unit;
    a.next = a.at;
}

PyObject* pass_through(Redirect::After after, PyObject* result, PyObject* instance) {
    auto made = Owned<>::steal(instance);
    if (!result) {
        if ((after != Redirect::or_default && after != Redirect::exists) || !PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
        PyErr_Clear();
        return after == Redirect::exists ? Py_NewRef(Py_False) : made.release();
    }
    switch (after) {
    case Redirect::identity:
    case Redirect::or_default:
        return result;
    case Redirect::exists:
        Py_SETREF(result, Py_NewRef(Py_True));
        return result;
    case Redirect::nothing:
        Py_SETREF(result, Py_NewRef(Py_None));
        return result;
    case Redirect::length: { // as the slot of a class with a Python __len__ has it
        auto number = Owned<>::steal(PyNumber_Index(result));
        Py_DECREF(result);
        if (!number) return nullptr;
        if (_PyLong_Sign(number.get()) < 0) {
            PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
            return nullptr;
        }
        const Py_ssize_t n = PyNumber_AsSsize_t(number.get(), PyExc_OverflowError);
        return n == -1 && PyErr_Occurred() ? nullptr : PyLong_FromSsize_t(n);
    }
    case Redirect::truth: {
        const int truth = PyObject_IsTrue(result);
        Py_DECREF(result);
        return truth < 0 ? nullptr : PyBool_FromLong(truth);
    }
    case Redirect::instance:
        break;
    }
    const bool none = result == Py_None;
    if (!none) PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result)->tp_name);
    Py_DECREF(result);
    return none ? made.release() : nullptr;
}

PyObject* run_inner(Running& a) {
    DetachedFrame& own = a.state->frames[a.index];
    const Redirect::After after = own.after;
    PyObject* instance = own.instance.release();
    PyObject* result = nullptr;
    bool taken = false;
    {
        ForcedHook hook;
        Rebuild rebuild{a.state, a.index + 1, &a, &hook};
        Rebuild* outer = std::exchange(a.session->rebuild, &rebuild);
        const auto function = a.state->frames[a.index + 1].function.share();
        result = call_with_placeholders(function.get());
        a.session->rebuild = outer;
        taken = rebuild.taken;
    }
    if (!taken && result) {
        Py_CLEAR(result);
        PyErr_SetString(PyExc_SystemError, "a frame made from data did not reach the evaluator");
    }
    return pass_through(after, result, instance);
}

PyObject* rebuild_frame(PyThreadState* ts, InterpreterFrame* f, Rebuild& rebuild) {
    rebuild.taken = true;
    rebuild.hook->taken();
    const size_t index = rebuild.index;
    const bool innermost = index + 1 == rebuild.state->frames.size();
    try {
        write_frame(f, std::move(rebuild.state->frames[index]));
    } catch (const InternalError& bug) { // CPython's frames are between us and whoever catches
        PyErr_SetString(PyExc_SystemError, bug.what());
        return leave_unwritten(ts, f);
    }
    return evaluate_frame(ts, f, {.inner = innermost ? nullptr : rebuild.state, .index = index, .first_native = innermost});
}

PyObject* leave_at_return(PyThreadState* ts, InterpreterFrame* f, PyObject* result) {
    PyCodeObject* code = code_object(f);
    const bytecode::Code* decoded = bytecode::code_of(code);
    DYNO_CHECK(decoded && decoded->return_unit >= 0, "code that returns");
    PyObject** base = f->localsplus + decoded->locals;
    std::vector<Owned<>> old;
    for (PyObject** slot = base; slot < f->localsplus + f->stacktop; slot++) old.push_back(Owned<>::steal(*slot));
    f->stacktop = decoded->locals;
    set_next(f, units_of(code) + decoded->return_unit);
    old.clear();
    if (decoded->instructions[static_cast<size_t>(decoded->return_unit)].op == bytecode::Op::return_value) {
        f->localsplus[f->stacktop++] = result;
        return _PyEval_EvalFrameDefault(ts, f, 0);
    }
    // All returns of this code are of constants: one of them leaves the frame, the result is ours.
    auto owned = Owned<>::steal(result);
    const auto constant = Owned<>::steal(_PyEval_EvalFrameDefault(ts, f, 0));
    return constant ? owned.release() : nullptr;
}

} // namespace dyno::frame
