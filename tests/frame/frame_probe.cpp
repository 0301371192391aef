// The module `frame_probe`: drives the evaluator in ways that tests name. It is a driver of its own, so a process has either
// it or the compiler. All state is of the module; one test at a time.
#include "probe_recorder.h"

#include <memory>

namespace dyno::frame::probe {
namespace {

struct Probe {
    bool evaluates = false; // walk every frame that arrives
    bool asks = false;      // at every instruction boundary
    long boundaries = 0, hand_back_at = 0, points = 0, walked = 0, bugs = 0;
    long handed_back[256] = {};
    PyObject* record_in = nullptr; // the code whose first frame is recorded
    std::unique_ptr<ProbeRecorder> recorder;
    std::vector<std::unique_ptr<ProbeRecorder>> old; // may still be looked at by outer activations
    Wishes wishes;
    Counts counts;
    FrameState* state = nullptr; // taken at a stop, waiting for resume()
    FrameState* resuming = nullptr;
    FrameState* moving = nullptr;  // the same, at the first point of a frame that walks already
    PyObject* abandoned = nullptr; // the exception that gives a run up
    PyObject* abandon = nullptr;   // a function that raises it
    PyObject* point = nullptr;     // a callable asked at every point: returns None, or the new (offset, locals, stack)
    PyObject* result_at_point = nullptr;
    long result_after = 0;
} probe;

PyObject* enter(PyThreadState* ts, InterpreterFrame* f) {
    if (probe.moving) return evaluate(ts, f, nullptr, true);
    if (probe.resuming) {
        FrameState* state = std::exchange(probe.resuming, nullptr);
        write_frame(f, std::move(state->frames[0]));
        if (state->frames.size() > 1) return evaluate(ts, f, nullptr, false, state);
        delete state;
        return evaluate(ts, f, nullptr, true);
    }
    if (probe.record_in == reinterpret_cast<PyObject*>(code_object(f)) && !recording()) {
        probe.record_in = nullptr;
        probe.recorder->start();
        return evaluate(ts, f, probe.recorder.get());
    }
    if (!probe.evaluates) return hand_back(ts, f);
    probe.walked++;
    if (!probe.asks) return evaluate(ts, f, nullptr);
    if (++probe.boundaries == probe.hand_back_at) return hand_back(ts, f);
    return evaluate(ts, f, nullptr, true);
}

Owned<> slots_of(PyObject** from, PyObject** to) {
    auto list = Owned<>::steal(PyList_New(to - from));
    for (Py_ssize_t k = 0; k < to - from; k++) PyList_SET_ITEM(list.get(), k, Py_NewRef(from[k] ? from[k] : Py_Ellipsis));
    return list;
}

std::vector<Owned<>> slots_in(PyObject* list) {
    std::vector<Owned<>> slots;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list); k++) {
        PyObject* v = PyList_GET_ITEM(list, k);
        slots.push_back(Owned<>::borrow(v == Py_Ellipsis ? nullptr : v));
    }
    return slots;
}

/// Asks the test: None goes on, (offset, locals, stack) is what a replay would have made of the frame.
AtPoint ask_test(Activation& a) {
    const bool evaluates = std::exchange(probe.evaluates, false); // the test's own frames are not asked about
    const auto answer = Owned<>::steal(PyObject_CallFunction(probe.point, "OiNN", a.code, 2 * a.at, slots_of(a.locals, a.base).release(),
                                                             slots_of(a.base, a.sp).release()));
    probe.evaluates = evaluates;
    if (!answer) return AtPoint::raised;
    a.want_point = probe.asks;
    if (answer.get() == Py_None) return AtPoint::go_on;
    DetachedFrame d;
    PyObject *locals, *stack;
    int offset;
    if (!PyArg_ParseTuple(answer.get(), "iOO", &offset, &locals, &stack)) return AtPoint::raised;
    d.unit = offset / 2;
    d.locals = slots_in(locals);
    d.stack = slots_in(stack);
    write_activation(a, std::move(d));
    return AtPoint::moved;
}

/// A replay that ended in inlined frames.
AtPoint move(Activation& a, FrameState*& inner) {
    FrameState* state = std::exchange(probe.moving, nullptr);
    write_activation(a, std::move(state->frames[0]));
    if (state->frames.size() > 1) {
        inner = state;
    } else {
        a.want_point = true;
        delete state;
    }
    return AtPoint::moved;
}

AtPoint at_point(Activation& a, FrameState*& inner) {
    probe.points++;
    if (probe.moving) return move(a, inner);
    if (probe.recorder && probe.recorder->stopped()) {
        probe.old.push_back(std::move(probe.recorder));
        if (probe.wishes.everywhere) {
            probe.recorder = std::make_unique<ProbeRecorder>(probe.wishes, probe.counts);
            probe.recorder->start();
            a.recorder = probe.recorder.get();
            return AtPoint::record;
        }
    } else if (probe.wishes.everywhere && probe.recorder && !recording()) {
        probe.old.push_back(std::move(probe.recorder));
        probe.recorder = std::make_unique<ProbeRecorder>(probe.wishes, probe.counts);
        probe.recorder->start();
        a.recorder = probe.recorder.get();
        return AtPoint::record;
    }
    if (probe.result_at_point && --probe.result_after == 0) {
        *a.sp++ = std::exchange(probe.result_at_point, nullptr);
        return AtPoint::returned;
    }
    if (probe.point) return ask_test(a);
    if (!probe.asks) return AtPoint::go_on;
    if (++probe.boundaries == probe.hand_back_at) return AtPoint::hand_back;
    a.want_point = true;
    return AtPoint::go_on;
}

void bug(Recorder*, const char* what) {
    probe.bugs++;
    fprintf(stderr, "bug: %s\n", what);
}

void count_handed_back(Activation&, const bytecode::Instruction& i) { probe.handed_back[i.raw]++; }

// ---- what tests call

PyObject* call_hooked(PyObject* f, PyObject* args, PyObject* kwargs) {
    hook_on();
    PyObject* result = PyObject_Call(f, args, kwargs);
    hook_off();
    return result;
}

/// walk(f, args=(), *, every_boundary=False, hand_back_at=0, point=None, result=None, result_after=0): every frame walked.
PyObject* walk(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* const names[] = {"f", "args", "every_boundary", "hand_back_at", "point", "result", "result_after", nullptr};
    PyObject *f, *a = nullptr, *point = Py_None, *result = nullptr;
    int every = 0;
    long at = 0, after = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O!plOOl", const_cast<char**>(names), &f, &PyTuple_Type, &a, &every, &at, &point,
                                     &result, &after))
        return nullptr;
    const auto arguments = a ? Owned<>::borrow(a) : Owned<>::steal(PyTuple_New(0));
    const bool evaluated = std::exchange(probe.evaluates, true);
    probe.asks = every;
    probe.hand_back_at = at;
    probe.boundaries = probe.points = 0;
    probe.point = point == Py_None ? nullptr : point;
    probe.result_at_point = Py_XNewRef(result);
    probe.result_after = after;
    PyObject* r = call_hooked(f, arguments.get(), nullptr);
    Py_CLEAR(probe.result_at_point);
    probe.asks = false;
    probe.point = nullptr;
    probe.evaluates = evaluated;
    return r;
}

/// record(f, args=(), kwargs=None, *, inline=False, stop_at=0, everywhere=False, take_state=False, checks=True, only_in=None)
PyObject* record(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* const names[] = {"f",          "args",   "kwargs",  "inline",      "stop_at", "everywhere",
                                        "take_state", "checks", "only_in", "walk_others", nullptr};
    PyObject *f, *a = nullptr, *k = Py_None, *only = Py_None;
    int inlines = 0, everywhere = 0, state = 0, checks = 1, others = 0;
    long stop_at = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O!OplpppOp", const_cast<char**>(names), &PyFunction_Type, &f, &PyTuple_Type, &a, &k,
                                     &inlines, &stop_at, &everywhere, &state, &checks, &only, &others))
        return nullptr;
    const auto arguments = a ? Owned<>::borrow(a) : Owned<>::steal(PyTuple_New(0));
    probe.wishes = {.inlines = inlines != 0,
                    .checks = checks != 0,
                    .stop_at = stop_at,
                    .everywhere = everywhere != 0,
                    .abandon = state ? probe.abandon : nullptr,
                    .only_in = only == Py_None ? nullptr : only};
    probe.counts = Counts{};
    probe.points = 0;
    delete std::exchange(probe.state, nullptr);
    probe.recorder = std::make_unique<ProbeRecorder>(probe.wishes, probe.counts);
    probe.record_in = PyFunction_GET_CODE(f);
    const bool evaluated = std::exchange(probe.evaluates, others != 0);
    PyObject* r = call_hooked(f, arguments.get(), k == Py_None ? nullptr : k);
    probe.evaluates = evaluated;
    probe.record_in = nullptr;
    if (probe.recorder) probe.old.push_back(std::move(probe.recorder));
    for (auto& recorder : probe.old) {
        if (state) recorder->restore_cells();
        if (FrameState* taken = recorder->take_state()) probe.state = taken;
    }
    probe.old.clear();
    probe.wishes = {};
    return r;
}

/// resume(moved): the frames that the last record() took as data run on; their outermost result. LookupError: none were
/// taken. `moved`: the outermost frame walks already and is moved at a point.
PyObject* resume(PyObject*, PyObject* moved) {
    if (!probe.state) {
        PyErr_SetString(PyExc_LookupError, "no state was taken");
        return nullptr;
    }
    FrameState* state = std::exchange(probe.state, nullptr);
    (PyObject_IsTrue(moved) ? probe.moving : probe.resuming) = state;
    const auto function = state->frames[0].function.share();
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get()));
    const auto args = Owned<>::steal(PyTuple_New(code->co_argcount));
    for (int k = 0; k < code->co_argcount; k++) PyTuple_SET_ITEM(args.get(), k, Py_NewRef(Py_None));
    const auto kwargs = Owned<>::steal(PyDict_New());
    for (int k = 0; k < code->co_kwonlyargcount; k++)
        PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(code->co_localsplusnames, code->co_argcount + k), Py_None);
    return call_hooked(function.get(), args.get(), kwargs.get());
}

/// state(): [(function, offset, locals, stack)] of the state that waits for resume(), outermost first; Ellipsis is empty.
PyObject* state(PyObject*, PyObject*) {
    auto list = Owned<>::steal(PyList_New(0));
    for (size_t n = 0; probe.state && n < probe.state->frames.size(); n++) {
        const DetachedFrame& d = probe.state->frames[n];
        auto values = [](const std::vector<Owned<>>& from) {
            PyObject* out = PyList_New(static_cast<Py_ssize_t>(from.size()));
            for (size_t k = 0; k < from.size(); k++)
                PyList_SET_ITEM(out, static_cast<Py_ssize_t>(k), Py_NewRef(from[k] ? from[k].get() : Py_Ellipsis));
            return out;
        };
        const auto row = Owned<>::steal(Py_BuildValue("OiNN", d.function.get(), 2 * d.unit, values(d.locals), values(d.stack)));
        PyList_Append(list.get(), row.get());
    }
    return list.release();
}

/// evaluate_all(on): walk every frame of the process, for test modules of CPython.
PyObject* evaluate_all(PyObject*, PyObject* args) {
    int on, every = 0;
    if (!PyArg_ParseTuple(args, "p|p", &on, &every)) return nullptr;
    if (probe.evaluates == (on != 0)) Py_RETURN_NONE;
    probe.evaluates = on;
    probe.asks = on && every;
    probe.hand_back_at = 0;
    on ? hook_on() : hook_off();
    Py_RETURN_NONE;
}

/// hook(on): a hook that declines every frame.
PyObject* hook(PyObject*, PyObject* on) {
    PyObject_IsTrue(on) ? hook_on() : hook_off();
    Py_RETURN_NONE;
}

PyObject* counts(PyObject*, PyObject*) {
    const Counts& c = probe.counts;
    auto back = Owned<>::steal(PyDict_New());
    for (int raw = 0; raw < 256; raw++) {
        if (!probe.handed_back[raw]) continue;
        const auto n = Owned<>::steal(PyLong_FromLong(probe.handed_back[raw]));
        PyDict_SetItemString(back.get(), bytecode::name_of(raw).c_str(), n.get());
    }
    return Py_BuildValue("{slslslslslslslslslslslslslslsssssN}", "before", c.before, "after", c.after, "redirected", c.redirected,
                         "entered", c.entered, "failed", c.failed, "strangers", c.strangers, "left", c.left, "records", c.records,
                         "mismatches", c.mismatches, "unknown", c.unknown, "boundaries", probe.boundaries, "points", probe.points, "walked",
                         probe.walked, "bugs", probe.bugs, "first_problem", c.first_problem.c_str(), "ended", c.ended.c_str(),
                         "handed_back", back.release());
}

/// rows(): [(name, number, caches, reason)] of the opcode table.
PyObject* rows(PyObject*, PyObject*) {
    PyObject* list = PyList_New(0);
    for (const bytecode::OpcodeRow& r : bytecode::opcode_table()) {
        const auto row = Owned<>::steal(Py_BuildValue("siiz", r.name, r.number, r.caches, r.reason));
        PyList_Append(list, row.get());
    }
    return list;
}

/// effect(opcode, arg, jump): the stack effect of the canonical instruction, or None where it is handed back.
PyObject* effect(PyObject*, PyObject* args) {
    int raw, jump;
    unsigned arg;
    if (!PyArg_ParseTuple(args, "iIp", &raw, &arg, &jump)) return nullptr;
    const bytecode::Instruction i = bytecode::canonical(raw, arg, 1000);
    if (i.op == bytecode::Op::unknown) Py_RETURN_NONE;
    const bytecode::StackUse use = bytecode::stack_use(i, jump);
    return PyLong_FromLong(use.pushes - use.pops);
}

/// decode(code): {offset: (op number, size, prefix, arg)}, handlers, loops (header, body, end, counted), offsets in bytes.
PyObject* decode(PyObject*, PyObject* code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "code expected");
    const bytecode::Code* decoded = bytecode::code_of(reinterpret_cast<PyCodeObject*>(code));
    if (!decoded) return nullptr;
    auto instructions = Owned<>::steal(PyDict_New());
    for (size_t u = 0; u + 1 < decoded->instructions.size(); u += decoded->instructions[u].size) {
        const bytecode::Instruction& i = decoded->instructions[u];
        const auto key = Owned<>::steal(PyLong_FromSize_t(2 * u));
        const auto row = Owned<>::steal(Py_BuildValue("iiiiI", static_cast<int>(i.raw), static_cast<int>(i.op), static_cast<int>(i.size),
                                                      static_cast<int>(i.prefix), i.arg));
        PyDict_SetItem(instructions.get(), key.get(), row.get());
    }
    auto handlers = Owned<>::steal(PyList_New(0));
    for (const bytecode::Handler& h : decoded->handlers) {
        const auto row = Owned<>::steal(Py_BuildValue("iiiii", 2 * h.start, 2 * h.end, 2 * h.target, h.depth, static_cast<int>(h.lasti)));
        PyList_Append(handlers.get(), row.get());
    }
    auto loops = Owned<>::steal(PyList_New(0));
    for (const bytecode::Loop& l : decoded->loops) {
        const auto row = Owned<>::steal(Py_BuildValue("iiii", 2 * l.header, 2 * l.body, 2 * l.end, static_cast<int>(l.counted)));
        PyList_Append(loops.get(), row.get());
    }
    return Py_BuildValue("NNN", instructions.release(), handlers.release(), loops.release());
}

/// live(code, slot, offset)
PyObject* live(PyObject*, PyObject* args) {
    PyObject* code;
    int slot, offset;
    if (!PyArg_ParseTuple(args, "O!ii", &PyCode_Type, &code, &slot, &offset)) return nullptr;
    const bytecode::Code* decoded = bytecode::code_of(reinterpret_cast<PyCodeObject*>(code));
    return decoded ? PyBool_FromLong(decoded->live(slot, offset / 2)) : nullptr;
}

PyObject* lines(PyObject*, PyObject* code) {
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "a code object, not a %s", Py_TYPE(code)->tp_name);
    const std::vector<int> found = bytecode::lines_of(reinterpret_cast<PyCodeObject*>(code));
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(found.size()));
    for (size_t k = 0; list && k < found.size(); k++) PyList_SET_ITEM(list, static_cast<Py_ssize_t>(k), PyLong_FromLong(found[k]));
    return list;
}

PyMethodDef methods[] = {
    {"walk", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(walk)), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"record", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(record)), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"resume", resume, METH_O, nullptr},
    {"state", state, METH_NOARGS, nullptr},
    {"evaluate_all", evaluate_all, METH_VARARGS, nullptr},
    {"hook", hook, METH_O, nullptr},
    {"counts", counts, METH_NOARGS, nullptr},
    {"rows", rows, METH_NOARGS, nullptr},
    {"lines", lines, METH_O, nullptr},
    {"effect", effect, METH_VARARGS, nullptr},
    {"decode", decode, METH_O, nullptr},
    {"live", live, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "frame_probe", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace dyno::frame::probe

PyMODINIT_FUNC PyInit_frame_probe() {
    using namespace dyno::frame;
    PyObject* module = PyModule_Create(&probe::definition);
    if (!module) return nullptr;
    probe::probe.abandoned = PyErr_NewException("frame_probe.Abandoned", PyExc_BaseException, nullptr);
    PyModule_AddObjectRef(module, "Abandoned", probe::probe.abandoned);
    PyObject* scope = PyModule_GetDict(module);
    PyDict_SetItemString(scope, "__builtins__", PyEval_GetBuiltins());
    Py_XDECREF(PyRun_String("def abandon(): raise Abandoned", Py_file_input, scope, scope));
    probe::probe.abandon = PyDict_GetItemString(scope, "abandon");
    install({.enter = probe::enter, .at_point = probe::at_point, .bug = probe::bug, .handed_back = probe::count_handed_back});
    return module;
}
