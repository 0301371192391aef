// The extension module of tests/replay and tests/cache: plans built from descriptions, run on arguments given as a list, and the cache's functions.
#include "compiler/frame/evaluator.h"
#include "compiler/cache/cache.h"
#include "compiler/python/array.h"
#include "compiler/python/torch_door.h"
#include "compiler/replay/guard_program.h"
#include "compiler/replay/interrupt.h"
#include "compiler/replay/plan.h"
#include "tests/replay/replay_describe.h"
#include <ctime>

namespace {

using namespace dyno;

struct PlanObject {
    PyObject_HEAD std::shared_ptr<replay::LaunchPlan> plan;
};

/// Slots as a frame would hold them; None in the list is None, the probe's `empty` is an empty slot.
PyObject* empty_slot = nullptr;

struct Call {
    std::vector<PyObject*> slots;
    replay::Inputs inputs{};
};

bool read_call(PyObject* args, PyObject* kwargs, Call& call) {
    PyObject *slots, *function = nullptr, *globals = nullptr;
    static const char* names[] = {"slots", "function", "globals", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|OO", const_cast<char**>(names), &PyList_Type, &slots, &function, &globals)) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots); ++i) {
        PyObject* slot = PyList_GET_ITEM(slots, i);
        call.slots.push_back(slot == empty_slot ? nullptr : slot);
    }
    call.inputs = {call.slots.data(), static_cast<uint32_t>(call.slots.size()), function, globals, PyEval_GetBuiltins()};
    return true;
}

PyObject* list_of(std::vector<Owned<>>& values) {
    PyObject* list = PyList_New(0);
    for (Owned<>& value : values) PyList_Append(list, value ? value.get() : empty_slot);
    return list;
}

PyObject* outcome_tuple(replay::Outcome& outcome) {
    static const char* kinds[] = {"committed", "guard_failed", "compute_failed"};
    PyObject* result = outcome.result ? outcome.result : Py_NewRef(Py_None);
    if (outcome.state) {
        Py_SETREF(result, PyList_New(0));
        for (frame::DetachedFrame& frame : outcome.state->frames) {
            auto item = Owned<>::steal(Py_BuildValue("(OiNN)", frame.function ? frame.function.get() : Py_None, frame.unit, list_of(frame.locals), list_of(frame.stack)));
            PyList_Append(result, item.get());
        }
    }
    return Py_BuildValue("(sNLII)", kinds[outcome.kind], result, static_cast<long long>(outcome.guard), outcome.kernels, outcome.externs);
}

PyObject* plan_run(PyObject* self, PyObject* args, PyObject* kwargs) {
    Call call;
    if (!read_call(args, kwargs, call)) return nullptr;
    const auto plan = reinterpret_cast<PlanObject*>(self)->plan;
    try {
        replay::Outcome outcome = replay::run(*plan, call.inputs);
        if (PyErr_Occurred()) return nullptr; // a replay must not leave one: the test sees it
        return outcome_tuple(outcome);
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_SystemError, error.what());
        return nullptr;
    }
}

PyObject* plan_run_checked(PyObject* self, PyObject* args, PyObject* kwargs) {
    Call call;
    if (!read_call(args, kwargs, call)) return nullptr;
    replay::Checked checked = replay::run_checked(*reinterpret_cast<PlanObject*>(self)->plan, call.inputs);
    if (PyErr_Occurred()) return nullptr;
    return Py_BuildValue("(NsI)", outcome_tuple(checked.outcome), checked.mismatch.c_str(), checked.compared);
}

PyObject* plan_describe(PyObject* self, PyObject* args, PyObject* kwargs) {
    Call call;
    if (!read_call(args, kwargs, call)) return nullptr;
    auto& plan = *reinterpret_cast<PlanObject*>(self)->plan;
    replay::Outcome outcome = replay::run(*reinterpret_cast<PlanObject*>(self)->plan, call.inputs);
    if (outcome.kind != replay::Outcome::guard_failed) {
        Py_XDECREF(outcome.result);
        Py_RETURN_NONE;
    }
    const replay::GuardFailure failure = replay::describe_failure(plan, outcome.guard, call.inputs);
    return Py_BuildValue("(sss)", failure.guard.c_str(), failure.was.c_str(), failure.now.c_str());
}

PyObject* plan_guards(PyObject* self, PyObject*) {
    const capture::Segment& segment = replay::segment_of(*reinterpret_cast<PlanObject*>(self)->plan);
    PyObject* list = PyList_New(0);
    for (const capture::Guard& guard : segment.guards) {
        auto text = Owned<>::steal(PyUnicode_FromString(replay::guard_text(segment, guard).c_str()));
        PyList_Append(list, text.get());
    }
    return list;
}

PyObject* plan_stale(PyObject* self, PyObject*) { return PyBool_FromLong(replay::segment_of(*reinterpret_cast<PlanObject*>(self)->plan).stale->load()); }

/// This thread's own time: other programs on the machine do not count.
double now_ns() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

/// Nanoseconds of one hit, the best of twenty loops: (slots, times) -> float. Results are dropped.
PyObject* plan_time(PyObject* self, PyObject* args) {
    PyObject* slots;
    long times;
    if (!PyArg_ParseTuple(args, "O!l", &PyList_Type, &slots, &times)) return nullptr;
    auto tuple = Owned<>::steal(PyTuple_Pack(1, slots));
    Call call;
    if (!read_call(tuple.get(), nullptr, call)) return nullptr;
    auto& plan = *reinterpret_cast<PlanObject*>(self)->plan;
    double best = 1e18;
    for (int round = 0; round < 20; ++round) {
        const double start = now_ns();
        for (long i = 0; i < times; ++i) {
            replay::Outcome outcome = replay::run(plan, call.inputs);
            if (outcome.kind != replay::Outcome::committed) return PyErr_Format(PyExc_RuntimeError, "no hit");
            Py_XDECREF(outcome.result);
        }
        best = std::min(best, (now_ns() - start) / static_cast<double>(times));
    }
    return PyFloat_FromDouble(best);
}

void plan_dealloc(PyObject* self) {
    std::destroy_at(&reinterpret_cast<PlanObject*>(self)->plan);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* make_plan(PyObject*, PyObject* description);

template <class F>
PyCFunction method(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

PyMethodDef plan_methods[] = {{"run", method(plan_run), METH_VARARGS | METH_KEYWORDS, nullptr},
                              {"run_checked", method(plan_run_checked), METH_VARARGS | METH_KEYWORDS, nullptr},
                              {"failure", method(plan_describe), METH_VARARGS | METH_KEYWORDS, nullptr},
                              {"guards", plan_guards, METH_NOARGS, nullptr},
                              {"stale", plan_stale, METH_NOARGS, nullptr},
                              {"time", plan_time, METH_VARARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
PyType_Slot plan_slots[] = {{Py_tp_methods, plan_methods}, {Py_tp_dealloc, reinterpret_cast<void*>(plan_dealloc)}, {0, nullptr}};
PyType_Spec plan_spec = {"replay_probe.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, plan_slots};
PyTypeObject* plan_type = nullptr;

PyObject* make_plan(PyObject*, PyObject* description) {
    try {
        python::torch_ready();
        python::numpy_ready();
        probe::Described made = probe::describe(description);
        auto plan = replay::build(std::move(made.segment), std::move(made.product));
        auto* object = reinterpret_cast<PlanObject*>(plan_type->tp_alloc(plan_type, 0));
        std::construct_at(&object->plan, std::move(plan));
        return reinterpret_cast<PyObject*>(object);
    } catch (const std::exception& error) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, error.what());
        return nullptr;
    }
}

PyObject* interrupt(PyObject*, PyObject* on) {
    replay::interrupt_requested = PyObject_IsTrue(on);
    Py_RETURN_NONE;
}

// ---- the cache

capture::SegmentKey key_of(PyObject* args) {
    PyObject* code;
    int unit = 0;
    unsigned long long shape = 0;
    if (!PyArg_ParseTuple(args, "O!|iK", &PyCode_Type, &code, &unit, &shape)) return {};
    return {reinterpret_cast<PyCodeObject*>(code), unit, shape};
}

/// install(plan, code, unit, shape): an entry at that key.
PyObject* cache_install(PyObject*, PyObject* args) {
    PyObject *plan, *code;
    int unit = 0;
    unsigned long long shape = 0;
    if (!PyArg_ParseTuple(args, "O!O!|iK", plan_type, &plan, &PyCode_Type, &code, &unit, &shape)) return nullptr;
    auto entry = std::make_shared<cache::Entry>();
    entry->key = {reinterpret_cast<PyCodeObject*>(code), unit, shape};
    entry->plan = reinterpret_cast<PlanObject*>(plan)->plan;
    entry->stale = replay::segment_of(*entry->plan).stale;
    cache::install(entry);
    Py_RETURN_NONE;
}

/// entries(code, unit, shape): how many, or None where the key is unknown.
PyObject* cache_entries(PyObject*, PyObject* args) {
    const capture::SegmentKey key = key_of(args);
    if (!key.code) return nullptr;
    cache::Slot* slot = cache::find(key);
    if (!slot) Py_RETURN_NONE;
    PyObject* hits = PyList_New(0);
    for (const auto& entry : slot->entries) {
        auto number = Owned<>::steal(PyLong_FromUnsignedLongLong(entry->hits));
        PyList_Append(hits, number.get());
    }
    return hits;
}

/// hit(code, which, ns, eager_ns, best_code=True): notes a hit of the which-th entry at unit 0 and moves it first; whether it was
/// dropped, why, and whether it rests.
PyObject* cache_hit(PyObject*, PyObject* args) {
    PyObject* code;
    int which;
    float nanoseconds, eager;
    int best_code = 1;
    if (!PyArg_ParseTuple(args, "O!iff|p", &PyCode_Type, &code, &which, &nanoseconds, &eager, &best_code)) return nullptr;
    cache::Slot* slot = cache::find({reinterpret_cast<PyCodeObject*>(code), 0, 0});
    const auto entry = slot->entries.at(static_cast<size_t>(which));
    entry->eager_ns = eager;
    const bool dropped = cache::note_hit(*entry, nanoseconds, best_code != 0);
    cache::move_first(*slot, *entry);
    return Py_BuildValue("(OsO)", dropped ? Py_True : Py_False, entry->drop_reason.c_str(), entry->resting ? Py_True : Py_False);
}

PyObject* cache_sweep(PyObject*, PyObject* args) {
    const capture::SegmentKey key = key_of(args);
    if (!key.code) return nullptr;
    cache::Slot* slot = cache::find(key);
    return PyLong_FromSize_t(slot ? cache::sweep(*slot) : 0);
}

PyObject* cache_reset(PyObject*, PyObject* code) { return PyLong_FromSize_t(cache::reset(code == Py_None ? nullptr : reinterpret_cast<PyCodeObject*>(code))); }
PyObject* cache_codes(PyObject*, PyObject*) { return PyLong_FromSize_t(cache::known_codes().size()); }
PyObject* cache_counters(PyObject*, PyObject*) {
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(cache::counters().hits), static_cast<unsigned long long>(cache::counters().dropped));
}

PyObject* cache_shape(PyObject*, PyObject* args) {
    PyObject* slots;
    int depth;
    if (!PyArg_ParseTuple(args, "O!i", &PyList_Type, &slots, &depth)) return nullptr;
    std::vector<PyObject*> raw;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(slots); ++i) raw.push_back(PyList_GET_ITEM(slots, i) == empty_slot ? nullptr : PyList_GET_ITEM(slots, i));
    return PyLong_FromUnsignedLongLong(cache::shape_of(raw.data(), static_cast<uint32_t>(raw.size()) - static_cast<uint32_t>(depth), static_cast<uint32_t>(depth)));
}

PyMethodDef functions[] = {{"plan", make_plan, METH_O, nullptr},
                           {"interrupt", interrupt, METH_O, nullptr},
                           {"cache_install", cache_install, METH_VARARGS, nullptr},
                           {"cache_entries", cache_entries, METH_VARARGS, nullptr},
                           {"cache_hit", cache_hit, METH_VARARGS, nullptr},
                           {"cache_sweep", cache_sweep, METH_VARARGS, nullptr},
                           {"cache_reset", cache_reset, METH_O, nullptr},
                           {"cache_codes", cache_codes, METH_NOARGS, nullptr},
                           {"cache_counters", cache_counters, METH_NOARGS, nullptr},
                           {"cache_shape", cache_shape, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "replay_probe", nullptr, -1, functions};

} // namespace

PyMODINIT_FUNC PyInit_replay_probe() {
    PyObject* made = PyModule_Create(&module);
    plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&plan_spec));
    empty_slot = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    if (!made || !plan_type || !empty_slot || PyModule_AddObjectRef(made, "empty", empty_slot) < 0) return nullptr;
    return made;
}
