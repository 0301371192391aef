// See probe_recorder.h.
#include "probe_recorder.h"

#include "compiler/python/versions.h"

#include <algorithm>

namespace dyno::frame::probe {

using bytecode::Instruction;
using bytecode::Op;

ShadowId ProbeRecorder::shadow_for(PyObject* value) {
    if (!wishes_.checks || !value) return 0;
    values_.push_back(Owned<>::borrow(value));
    return static_cast<ShadowId>(values_.size());
}

void ProbeRecorder::problem(Activation& a, const Instruction& i, const char* what, int slot) {
    if (!counts_.first_problem.empty()) return;
    counts_.first_problem = std::string(what) + " in " + PyUnicode_AsUTF8(a.code->co_qualname) + " before unit " + std::to_string(a.at) +
                            " " + bytecode::name_of(i.raw) + ", slot " + std::to_string(slot) + " of " + std::to_string(a.decoded->locals);
}

void ProbeRecorder::check(Activation& a, const Instruction& i) {
    const int top = static_cast<int>(a.sp - a.locals);
    for (int slot = 0; slot < top; slot++) {
        const ShadowId id = a.shadows[slot];
        PyObject* value = a.locals[slot];
        if (id && values_[id - 1].get() != value) {
            counts_.mismatches++;
            problem(a, i, "another value", slot);
        }
        if (!id && value) {
            counts_.unknown++;
            problem(a, i, "a value without shadow", slot);
        }
    }
}

Recorder::Before ProbeRecorder::before(Activation& a, const Instruction& i, Redirect& redirect) {
    counts_.before++;
    if (!wishes_.checks) return Before::perform;
    if (fresh_) {
        counts_.records++;
        for (PyObject** slot = a.locals; slot < a.sp; slot++) a.shadow(slot) = shadow_for(*slot);
        fresh_ = false;
    }
    check(a, i);
    const bool here = !wishes_.only_in || wishes_.only_in == reinterpret_cast<PyObject*>(a.code);
    if (here && !std::exchange(skip_, false)) {
        asked_++;
        if (wishes_.everywhere || (wishes_.stop_at && asked_ == wishes_.stop_at)) {
            stopped_ = true;
            if (!wishes_.abandon) {
                calls_.clear();
                return Before::stop;
            }
            keep_state(a);
            redirect.function = wishes_.abandon;
            return Before::redirect;
        }
    }
    if (wishes_.inlines && wants_redirect(a, i, redirect)) {
        counts_.redirected++;
        return Before::redirect;
    }
    return Before::perform;
}

ShadowId ProbeRecorder::after(Activation& a, const Instruction& i, PyObject* result, ShadowId callee) {
    counts_.after++;
    if (!wishes_.checks) return 0;
    if (i.op == Op::store_deref || i.op == Op::store_fast) return 0;
    if (i.op == Op::with_start) a.shadow(a.sp - 1) = 0; // becomes __exit__, bound anew: nothing to compare with
    if (callee && values_[callee - 1].get() == result) return callee;
    return shadow_for(result);
}

ShadowId ProbeRecorder::cell(Activation& a, int slot, ShadowId) { return shadow_for(a.locals[slot]); }

void ProbeRecorder::unpacked(Activation&, const Instruction&, PyObject* const* items, size_t n, ShadowId* out) {
    for (size_t k = 0; k < n; k++) out[k] = shadow_for(items[k]);
}

void ProbeRecorder::jumped(Activation& a, const Instruction& i, bool taken) {
    // The decision can be seen on the stack for these.
    if (i.op != Op::jump_none && i.op != Op::jump_not_none) return;
    const bool none = a.sp[-1] == Py_None;
    if (taken != (none == (i.op == Op::jump_none))) {
        counts_.mismatches++;
        problem(a, i, "a jump that was not told right", 0);
    }
}

bool ProbeRecorder::enter(Activation& callee, const CallToken& token) {
    if (stopped_) return false; // the function that gives up
    counts_.entered++;
    const Redirect& call = *token.call;
    const int named = callee.code->co_argcount + callee.code->co_kwonlyargcount;
    auto bind = [&](int slot, size_t arg) {
        if (callee.locals[slot] != call.args[arg]) {
            counts_.mismatches++;
            if (counts_.first_problem.empty()) counts_.first_problem = "an argument that did not arrive";
        }
        callee.shadows[slot] = call.shadows[arg];
    };
    for (size_t k = 0; k < call.nargs && static_cast<int>(k) < callee.code->co_argcount; k++) bind(static_cast<int>(k), k);
    const Py_ssize_t keywords = call.kwnames ? PyTuple_GET_SIZE(call.kwnames) : 0;
    for (Py_ssize_t k = 0; k < keywords; k++)
        for (int slot = callee.code->co_posonlyargcount; slot < named; slot++)
            if (PyUnicode_Compare(PyTuple_GET_ITEM(call.kwnames, k), PyTuple_GET_ITEM(callee.code->co_localsplusnames, slot)) == 0)
                bind(slot, call.nargs + static_cast<size_t>(k));
    for (PyObject** slot = callee.locals; slot < callee.sp; slot++) // defaults, *args, **kwargs
        if (!callee.shadow(slot)) callee.shadow(slot) = shadow_for(*slot);
    PyObject* closure = function_of(callee.frame)->func_closure;
    const int free = callee.code->co_nfreevars;
    for (int k = 0; k < free; k++) callee.shadows[callee.decoded->locals - free + k] = shadow_for(PyTuple_GET_ITEM(closure, k));
    return true;
}

ShadowId ProbeRecorder::leave(Activation&, PyObject* result, ShadowId shadow) {
    counts_.left++;
    if (!calls_.empty()) calls_.pop_back();
    if (shadow && values_[shadow - 1].get() != result) counts_.mismatches++;
    return shadow ? shadow : shadow_for(result);
}

void ProbeRecorder::failed(Activation& a, const Instruction& i) {
    counts_.failed++;
    if (wishes_.checks && !fresh_) check(a, i);
    counts_.ended =
        std::string(PyUnicode_AsUTF8(a.code->co_qualname)) + " before unit " + std::to_string(a.at) + " " + bytecode::name_of(i.raw);
    stopped_ = true;
}

bool ProbeRecorder::stranger(PyCodeObject* code, bool) {
    counts_.ended = std::string("a frame of ") + PyUnicode_AsUTF8(code->co_qualname);
    counts_.strangers++;
    stopped_ = true;
    calls_.clear();
    PyRun_SimpleString("pass"); // a callback may run Python of its own: not a stranger
    return false;
}

// ---- inlining

bool ProbeRecorder::redirect_with(Activation& a, Redirect& redirect, PyObject* function, std::vector<PyObject*> args, Redirect::After after,
                                  Owned<> made) {
    const int flags = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_flags;
    if (flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) return false;
    calls_.push_back({after, made.share(), {}, std::move(args), Owned<>::borrow(function), {}});
    Call& call = calls_.back();
    for (PyObject* arg : call.args) {
        ShadowId known = 0;
        for (PyObject** slot = a.locals; slot < a.sp && !known; slot++)
            if (*slot == arg) known = a.shadow(slot);
        call.shadows.push_back(known ? known : shadow_for(arg));
    }
    redirect.function = function;
    redirect.args = call.args.data();
    redirect.shadows = call.shadows.data();
    redirect.nargs = call.args.size();
    redirect.after = after;
    redirect.made = made.release();
    return true;
}

bool ProbeRecorder::redirect_call(Activation& a, const Instruction& i, Redirect& redirect) {
    static PyObject* const init = PyUnicode_InternFromString("__init__");
    static PyObject* const call_name = PyUnicode_InternFromString("__call__");
    std::vector<PyObject*> args;
    Owned<> kwnames;
    PyObject* callable;
    size_t positional;
    if (i.op == Op::call_ex) {
        const CallExOperands o = call_ex_operands(a, i);
        callable = o.callable;
        if (!PyTuple_CheckExact(*o.arguments)) return false;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(*o.arguments); k++) args.push_back(PyTuple_GET_ITEM(*o.arguments, k));
        positional = args.size();
        if (o.keywords && PyDict_GET_SIZE(o.keywords)) {
            const auto keys = Owned<>::steal(PyDict_Keys(o.keywords));
            kwnames = Owned<>::steal(PyList_AsTuple(keys.get()));
            PyObject *key, *value;
            for (Py_ssize_t at = 0; PyDict_Next(o.keywords, &at, &key, &value);) args.push_back(value);
        }
    } else {
        const CallOperands o = call_operands(a, i);
        callable = o.callable;
        kwnames = Owned<>::borrow(o.kwnames);
        positional = o.positional;
        args.assign(o.args, o.args + positional + (o.kwnames ? PyTuple_GET_SIZE(o.kwnames) : 0));
    }
    PyObject* function = callable;
    Redirect::After after = Redirect::identity;
    Owned<> made;
    if (PyMethod_Check(callable)) {
        function = PyMethod_GET_FUNCTION(callable);
        args.insert(args.begin(), PyMethod_GET_SELF(callable));
        positional++;
    } else if (PyType_Check(callable)) {
        auto* type = reinterpret_cast<PyTypeObject*>(callable);
        if (Py_TYPE(callable) != &PyType_Type || type->tp_new != PyBaseObject_Type.tp_new) return false;
        function = _PyType_Lookup(type, init);
        if (!function || !PyFunction_Check(function)) return false;
        made = Owned<>::steal(type->tp_alloc(type, 0));
        args.insert(args.begin(), made.get());
        positional++;
        after = Redirect::instance;
    } else if (!PyFunction_Check(callable)) {
        function = _PyType_Lookup(Py_TYPE(callable), call_name);
        if (!function) return false;
        args.insert(args.begin(), callable);
        positional++;
    }
    if (!PyFunction_Check(function)) return false;
    if (!redirect_with(a, redirect, function, std::move(args), after, std::move(made))) return false;
    calls_.back().kwnames = std::move(kwnames);
    redirect.kwnames = calls_.back().kwnames.get();
    redirect.nargs = positional;
    return true;
}

bool ProbeRecorder::redirect_special(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject** sp = a.sp;
    auto method = [](PyObject* object, const char* name) -> PyObject* {
        const auto key = Owned<>::steal(PyUnicode_InternFromString(name));
        PyObject* found = _PyType_Lookup(Py_TYPE(object), key.get());
        return found && PyFunction_Check(found) ? found : nullptr;
    };
    auto go = [&](PyObject* function, std::vector<PyObject*> args, Redirect::After after) {
        return function && redirect_with(a, redirect, function, std::move(args), after);
    };
    switch (i.op) {
    case Op::load_attr:
    case Op::load_method: {
        PyObject* name = PyTuple_GET_ITEM(a.code->co_names, i.arg);
        PyObject* found = _PyType_Lookup(Py_TYPE(sp[-1]), name);
        if (!found && !PyType_Check(sp[-1]) && !python::instance_attribute(sp[-1], name))
            return go(method(sp[-1], "__getattr__"), {sp[-1], name}, Redirect::identity);
        if (!found || Py_TYPE(found) != &PyProperty_Type) return false;
        const auto getter = Owned<>::steal(PyObject_GetAttrString(found, "fget"));
        return PyFunction_Check(getter.get()) && go(getter.get(), {sp[-1]}, Redirect::identity);
    }
    case Op::store_attr:
        return go(method(sp[-1], "__setattr__"), {sp[-1], PyTuple_GET_ITEM(a.code->co_names, i.arg), sp[-2]}, Redirect::nothing);
    case Op::subscript:
        return go(method(sp[-2], "__getitem__"), {sp[-2], sp[-1]}, Redirect::identity);
    case Op::store_subscript:
        return go(method(sp[-2], "__setitem__"), {sp[-2], sp[-1], sp[-3]}, Redirect::nothing);
    case Op::contains:
        return go(method(sp[-1], "__contains__"), {sp[-1], sp[-2]}, Redirect::truth);
    case Op::get_iter:
        return go(method(sp[-1], "__iter__"), {sp[-1]}, Redirect::identity);
    case Op::for_iter:
        return go(method(sp[-1], "__next__"), {sp[-1]}, Redirect::identity);
    case Op::with_start:
        return go(method(sp[-1], "__enter__"), {sp[-1]}, Redirect::identity);
    case Op::logical_not:
    case Op::to_bool:
    case Op::jump_false:
    case Op::jump_true:
    case Op::jump_false_or_pop:
    case Op::jump_true_or_pop:
        return go(method(sp[-1], "__bool__"), {sp[-1]}, Redirect::truth);
    default:
        return false;
    }
}

bool ProbeRecorder::wants_redirect(Activation& a, const Instruction& i, Redirect& redirect) {
    const bool call = i.op == Op::call || i.op == Op::call_kw || i.op == Op::call_ex;
    return call ? redirect_call(a, i, redirect) : redirect_special(a, i, redirect);
}

// ---- state as data

DetachedFrame ProbeRecorder::detached(Activation& a, bool innermost, const Call* call) {
    DetachedFrame d;
    d.function = Owned<>::borrow(reinterpret_cast<PyObject*>(function_of(a.frame)));
    for (PyObject** slot = a.locals; slot < a.base; slot++) d.locals.push_back(Owned<>::borrow(*slot));
    const Instruction& i = a.decoded->instructions[static_cast<size_t>(a.at)];
    PyObject** top = a.sp;
    d.unit = a.decoded->start_of(a.at);
    if (innermost) {
        if (a.kwnames)
            while (a.decoded->instructions[static_cast<size_t>(d.unit)].op != Op::kw_names) d.unit--;
        d.unit = a.decoded->start_of(d.unit);
    } else {
        const bool keeps = i.op == Op::for_iter || i.op == Op::jump_false_or_pop || i.op == Op::jump_true_or_pop;
        if (!keeps) top -= bytecode::stack_use(i, false).pops;
        d.after = call->after;
        d.instance = call->made.share();
    }
    for (PyObject** slot = a.base; slot < top; slot++) d.stack.push_back(Owned<>::borrow(*slot));
    if (!innermost && i.op == Op::with_start) d.stack.push_back(Owned<>::steal(PyObject_GetAttrString(a.sp[-1], "__exit__")));
    return d;
}

void ProbeRecorder::keep_state(Activation& top) {
    state_ = new FrameState;
    auto call = calls_.rbegin();
    bool innermost = true;
    for (Activation* a = &top; a && a->recorder == this; a = a->up) {
        state_->frames.push_back(detached(*a, innermost, innermost ? nullptr : &*call++));
        innermost = false;
    }
    std::reverse(state_->frames.begin(), state_->frames.end());
    for (const DetachedFrame& d : state_->frames)
        for (const Owned<>& v : d.locals)
            if (v && PyCell_Check(v.get())) cells_.emplace_back(v.share(), Owned<>::borrow(PyCell_GET(v.get())));
}

void ProbeRecorder::restore_cells() {
    for (auto& [cell, content] : cells_) PyCell_Set(cell.get(), content.get());
}

} // namespace dyno::frame::probe
