// The driver: what happens when a frame arrives, at a loop's body, after a break; and the installation of finished code.
// Everything downstream is called from here only.
#include "compiler/compiler.h"
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/compile_queue.h"
#include "compiler/frame/evaluator.h"
#include "compiler/frame/frame_state.h"
#include "compiler/frame/layout.h"
#include "compiler/python/array.h"
#include "compiler/python/torch_door.h"
#include "compiler/python/versions.h"
#include "compiler/replay/interrupt.h"
#include "compiler/replay/plan.h"
#include "compiler/support/fault.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <pthread.h>
#include <unordered_map>

namespace dyno::compiler {
namespace {

using capture::Recording;
using capture::SegmentKey;
using frame::Activation;
using frame::AtPoint;
using Clock = std::chrono::steady_clock;

constexpr uint32_t most_recordings = 8; // of one key
constexpr uint32_t most_cold_tries = 2;
// A first call runs at eager speed: code of many short segments is recorded over several calls.
constexpr uint32_t recordings_a_call = 24;

struct State {
    Config config;
    CompileQueue queue;
    std::unordered_map<PyCodeObject*, CodeFacts> facts; // freed with the code object by its weak reference
    std::unordered_map<PyCodeObject*, Owned<>> watch;
    std::vector<std::unique_ptr<Recording>> recordings; // under way or just ended
    int installed = 0, off = 0, extents = 0; // extents: calls of compiled functions under way
    uint64_t recorded = 0; // recordings ever started
    uint32_t budget = 0;   // recordings that the outermost call under way may still start
    bool started = false, forked = false;
    bool trace = std::getenv("DYNO_TRACE") != nullptr; // what happens, on stderr: for developers
    void (*post)(void*, const char*) = nullptr;
    void* post_context = nullptr;
};
/// One per process, made on first use, never destroyed: code objects may die after the interpreter's end.
State& state() {
    static auto* s = new State;
    return *s;
}

/// Of this thread: they live as long as the frame that is paced, and another thread must not end that.
std::vector<std::unique_ptr<frame::Recorder>>& pacers() {
    static thread_local std::vector<std::unique_ptr<frame::Recorder>> list;
    return list;
}

// ------------------------------------------------------------------------------------------------ finished code
void install_job(std::unique_ptr<CompileJob> job) {
    State& s = state();
    auto* code = reinterpret_cast<PyCodeObject*>(PyWeakref_GetObject(job->code.get()));
    if (reinterpret_cast<PyObject*>(code) == Py_None) return; // the function died meanwhile
    cache::Slot& slot = cache::slot_of(job->segment.key);
    slot.compiling = false;
    if (!job->bug.empty()) {
        facts_of(code).bugs.push_back(job->bug);
        slot.hopeless = true;
        slot.hopeless_reason = "a bug of dyno's: " + job->bug;
        if (std::getenv("DYNO_ABORT_ON_BUG")) std::fprintf(stderr, "dyno: %s\n", job->bug.c_str()), std::abort();
        return;
    }
    if (!job->product->refusal.empty()) {
        slot.hopeless = true;
        slot.hopeless_reason = job->product->refusal;
        return;
    }
    if (job->segment.stale->load()) return;
    const auto kind = job->segment.exit.kind;
    auto stale = job->segment.stale;
    auto entry = std::make_shared<cache::Entry>();
    entry->key = job->segment.key;
    entry->stale = stale;
    const bool on_gpu = job->product->cuda_device >= 0;
    if (on_gpu) facts_of(code).on_gpu = true;
    entry->eager_ns = on_gpu ? 0 : static_cast<float>(job->segment.eager_seconds * 1e9); // 0: not to be judged by the host's clock
    entry->compile_ms = static_cast<float>(job->product->seconds * 1e3);
    const size_t nests = job->product->schedule.nests.size();
    entry->plan = replay::build(std::move(job->segment), std::move(*job->product));
    cache::install(entry);
    cache::Counters& c = cache::counters();
    c.captures++;
    c.kernels += nests;
    if (kind == capture::Exit::breaks) c.graph_breaks++;
    s.queue.improve_later(entry->plan, &replay::mutable_product_of(*entry->plan));
}
void install_finished() {
    State& s = state();
    if (!s.queue.any_done()) return;
    while (auto job = s.queue.take_done()) {
        try {
            install_job(std::move(job));
        } catch (const std::exception& bug) {
            PyErr_Clear();
            if (std::getenv("DYNO_ABORT_ON_BUG")) std::fprintf(stderr, "dyno: %s\n", bug.what()), std::abort();
        }
    }
}

/// A recording ended: what it saw goes to the facts, its segment to the queue.
void harvest(Recording& r) {
    State& s = state();
    const SegmentKey key = r.key();
    CodeFacts& facts = facts_of(key.code);
    cache::Slot& slot = cache::slot_of(key);
    for (const capture::LineNote& n : r.lines()) {
        PyCodeObject* code = n.at.code ? r.code_at(n.at.code) : nullptr;
        if (!code) continue;
        capture::LineNote& known = facts_of(code).lines[{PyUnicode_AsUTF8(code->co_qualname), n.at.line}];
        if (known.status != "break" || n.status == "break") known = n;
    }
    auto segment = r.take();
    if (s.trace) std::fprintf(stderr, "dyno: recorded %s from %d: %s%s, stopped at %d\n", PyUnicode_AsUTF8(key.code->co_qualname), key.unit, segment ? "a segment, exit " : "nothing: ", segment ? segment->exit.reason.c_str() : r.why_not().c_str(), r.stopped_at());
    if (!segment) {
        slot.compiling = false;
        if (r.met_data()) facts.why = r.why_not();
        else facts.cold_tries += key.unit == 0, facts.why = r.why_not().empty() ? "it met no tensor or array" : r.why_not();
        slot.hopeless_reason = r.why_not();
        slot.nothing = true;
        slot.nothing_until = r.stopped_at();
        if (facts.cold_tries >= most_cold_tries && !facts.asked) facts.cold = true;
        return;
    }
    facts.why.clear();
    if (!slot.entries.empty()) cache::counters().recompiles++;
    auto job = std::make_unique<CompileJob>();
    job->graph = segment->graph;
    job->segment = std::move(*segment);
    job->code = Owned<>::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(key.code), nullptr));
    job->queued = Clock::now();
    slot.compiling = true;
    s.queue.push(std::move(job));
}
void harvest_finished() {
    State& s = state();
    for (size_t k = 0; k < s.recordings.size();) {
        if (!s.recordings[k]->finished()) {
            k++;
            continue;
        }
        auto done = std::move(s.recordings[k]);
        s.recordings.erase(s.recordings.begin() + static_cast<long>(k));
        try {
            harvest(*done);
        } catch (const std::exception& bug) {
            PyErr_Clear();
            facts_of(done->key().code).bugs.push_back(bug.what());
            if (std::getenv("DYNO_ABORT_ON_BUG")) std::fprintf(stderr, "dyno: %s\n", bug.what()), std::abort();
        }
    }
}

// ------------------------------------------------------------------------------------------------ look-up and replay
struct Attempt {
    replay::Outcome outcome;
    bool hit = false, failed = false; // failed: a compute phase gave up, the segment is to run natively
    capture::Exit::Kind exit = capture::Exit::returns;
    std::shared_ptr<replay::LaunchPlan> plan; // that hit
};

/// A frame object outlives the frame (a traceback holds it): locals that the code has overwritten or deleted by its return must
/// not live on in it, least of all the exception whose traceback it is.
void drop_old_locals(const Attempt& attempt, frame::InterpreterFrame* f, PyCodeObject* code) {
    if (!f->frame_obj || !attempt.plan) return;
    const std::vector<bool>& unchanged = replay::segment_of(*attempt.plan).exit.unchanged;
    for (int k = 0; k < code->co_nlocalsplus && k < static_cast<int>(unchanged.size()); k++)
        if (!unchanged[static_cast<size_t>(k)]) Py_CLEAR(f->localsplus[k]);
}

Attempt try_entries(cache::Slot& slot, const replay::Inputs& inputs, PyCodeObject* code) {
    Attempt attempt;
    State& s = state();
    if (s.config.debug_force_miss) return attempt;
    const std::vector<std::shared_ptr<cache::Entry>> entries = slot.entries;
    uint32_t first_guard = 0;
    const cache::Entry* first = nullptr;
    for (const auto& entry : entries) {
        if (entry->dropped || (entry->stale->load(std::memory_order_relaxed) && !fault(7))) continue;
        const auto start = Clock::now();
        replay::Outcome o{};
        if (s.config.check > 0 && entry->hits < static_cast<uint64_t>(s.config.check)) {
            replay::Checked checked = replay::run_checked(*entry->plan, inputs);
            if (!checked.mismatch.empty()) {
                entry->dropped = true;
                entry->drop_reason = "check: " + checked.mismatch;
                cache::counters().dropped++;
                facts_of(code).bugs.push_back(checked.mismatch);
                std::fprintf(stderr, "dyno check: %s: %s\n", PyUnicode_AsUTF8(code->co_qualname), checked.mismatch.c_str());
            }
            o = std::move(checked.outcome);
        } else {
            o = replay::run(*entry->plan, inputs);
        }
        cache::counters().extern_calls += o.externs;
        if (s.trace && o.kind != replay::Outcome::committed) std::fprintf(stderr, "dyno: %s unit %d: outcome %d guard %x\n", PyUnicode_AsUTF8(code->co_qualname), entry->key.unit, o.kind, o.guard);
        if (s.trace && o.guard == replay::ambient_differs) {
            python::Ambient now;
            python::read_ambient(now);
            for (int k = 0; k < python::Ambient::count; k++)
                if (now.words[k] != replay::segment_of(*entry->plan).ambient.words[k])
                    std::fprintf(stderr, "dyno:   word %d was %lx is %lx\n", k, replay::segment_of(*entry->plan).ambient.words[k], now.words[k]);
        }
        if (o.kind == replay::Outcome::guard_failed) {
            if (!first) first = entry.get(), first_guard = o.guard;
            continue;
        }
        if (o.kind == replay::Outcome::compute_failed) {
            attempt.failed = true;
            return attempt;
        }
        const float ns = static_cast<float>(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
        attempt.exit = replay::segment_of(*entry->plan).exit.kind;
        cache::note_hit(*entry, ns);
        if (entries.size() > 1 && entry != slot.entries.front()) cache::move_first(slot, *entry);
        attempt.hit = true;
        facts_of(code).hits++;
        attempt.plan = entry->plan;
        attempt.outcome = std::move(o);
        return attempt;
    }
    if (first && first_guard < replay::missing_value && slot.recordings < most_recordings) {
        // Why it will be recorded again.
        replay::GuardFailure why = replay::describe_failure(*first->plan, first_guard, inputs);
        CodeFacts& facts = facts_of(code);
        if (facts.recompiles.size() < 50) {
            CodeFacts::Recompile r;
            r.guard = why.guard, r.was = why.was, r.now = why.now, r.line = why.from.line;
            facts.recompiles.push_back(std::move(r));
        }
    }
    return attempt;
}

bool may_record(cache::Slot& slot) {
    return state().budget > 0 && !slot.hopeless && !slot.compiling && !slot.nothing && slot.recordings < most_recordings && !state().forked;
}

Recording* start_recording(cache::Slot& slot, const SegmentKey& key, bool inline_functions = true) {
    State& s = state();
    s.recorded++;
    if (s.budget) s.budget--;
    slot.recordings++;
    if (slot.recordings >= most_recordings) {
        slot.hopeless = true;
        slot.hopeless_reason = "it was recorded 8 times and still changes from call to call";
    }
    capture::Limits limits;
    limits.break_everywhere = s.config.debug_break_everywhere;
    limits.twins = s.config.check > 0;
    limits.inline_functions = inline_functions;
    s.recordings.push_back(std::make_unique<Recording>(key, limits));
    return s.recordings.back().get();
}

/// Runs natively up to the place where the last recording without tensor work ended, then lets the driver be asked.
class Pacer final : public frame::Recorder {
  public:
    explicit Pacer(int unit) : unit_(unit) {}
    Before before(Activation& a, const bytecode::Instruction& i, frame::Redirect&) override {
        if (!root_) root_ = &a;
        if (done_) return Before::stop;
        if (&a == root_ && a.at - i.prefix >= unit_) {
            done_ = true;
            return Before::stop;
        }
        return Before::perform;
    }
    frame::ShadowId after(Activation&, const bytecode::Instruction&, PyObject*, frame::ShadowId) override { return 0; }
    void unpacked(Activation&, const bytecode::Instruction&, PyObject* const*, size_t n, frame::ShadowId* out) override { std::fill(out, out + n, 0u); }
    void jumped(Activation&, const bytecode::Instruction&, bool) override {}
    bool enter(Activation&, const frame::CallToken&) override { return false; }
    frame::ShadowId leave(Activation&, PyObject*, frame::ShadowId) override { return 0; }
    void failed(Activation&, const bytecode::Instruction&) override {}
    bool stranger(PyCodeObject*) override { return false; }

  private:
    int unit_;
    bool done_ = false;
    Activation* root_ = nullptr;
};

uint64_t shape_of(PyObject* const* locals, PyCodeObject* code, Py_ssize_t depth) {
    return cache::shape_of(locals, static_cast<uint32_t>(code->co_nlocalsplus), static_cast<uint32_t>(depth));
}

// ------------------------------------------------------------------------------------------------ eligibility
bool mentions_data(PyCodeObject* code, PyObject* globals, int depth);

bool is_data_object(PyObject* v, int depth) {
    if (PyModule_CheckExact(v)) {
        const char* name = PyModule_GetName(v);
        if (!name) PyErr_Clear();
        return name && (std::strncmp(name, "torch", 5) == 0 || std::strncmp(name, "numpy", 5) == 0);
    }
    PyTypeObject* t = Py_TYPE(v);
    if (std::strncmp(t->tp_name, "numpy.", 6) == 0) return true;
    if (python::is_tensor_class(t)) return true;
    if (PyFunction_Check(v)) return depth < 6 && mentions_data(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(v)), PyFunction_GET_GLOBALS(v), depth + 1);
    if (PyType_Check(v)) {
        auto* type = reinterpret_cast<PyTypeObject*>(v);
        PyObject* module = type->tp_dict ? PyDict_GetItemString(type->tp_dict, "__module__") : nullptr;
        if (module && PyUnicode_Check(module) && std::strncmp(PyUnicode_AsUTF8(module), "torch", 5) == 0) return true;
        PyObject *key, *value;
        Py_ssize_t pos = 0;
        while (depth < 4 && type->tp_dict && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyDict_Next(type->tp_dict, &pos, &key, &value))
            if (PyFunction_Check(value) && is_data_object(value, depth + 1)) return true;
        return false;
    }
    if ((t->tp_flags & Py_TPFLAGS_HEAPTYPE) && depth < 4) return is_data_object(reinterpret_cast<PyObject*>(t), depth + 1);
    if (PyCFunction_CheckExact(v)) {
        auto* f = reinterpret_cast<PyCFunctionObject*>(v);
        const char* m = f->m_module && PyUnicode_Check(f->m_module) ? PyUnicode_AsUTF8(f->m_module) : "";
        return std::strncmp(m, "torch", 5) == 0 || std::strncmp(m, "numpy", 5) == 0;
    }
    return std::strcmp(t->tp_name, "builtin_function_or_method") != 0 && std::strncmp(t->tp_name, "torch", 5) == 0;
}

/// Whether the code, or code it reaches by constant names, mentions a tensor or array source.
bool mentions_data(PyCodeObject* code, PyObject* globals, int depth) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(code->co_names); k++) {
        PyObject* name = PyTuple_GET_ITEM(code->co_names, k);
        PyObject* v = PyDict_GetItemWithError(globals, name);
        if (v && v != globals && is_data_object(v, depth)) return true;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(code->co_consts); k++) {
        PyObject* c = PyTuple_GET_ITEM(code->co_consts, k);
        if (PyCode_Check(c) && depth < 6 && mentions_data(reinterpret_cast<PyCodeObject*>(c), globals, depth + 1)) return true;
    }
    PyErr_Clear();
    return false;
}

/// Whether the cell imports torch or NumPy itself: the functions that it defines and calls may be compiled from then on.
bool imports_data(PyCodeObject* code) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(code->co_names); k++)
        for (const char* library : {"torch", "numpy"})
            if (PyUnicode_Tailmatch(PyTuple_GET_ITEM(code->co_names, k), capture::interned(library), 0, PY_SSIZE_T_MAX, -1) == 1) return true;
    return false;
}

/// Functions of cells and of files in the user's folder; library functions are inlined when called.
bool is_users(PyCodeObject* code) {
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    if (std::strstr(file, "site-packages") || std::strstr(file, "/lib/python") || std::strncmp(file, "<frozen", 7) == 0 || std::strncmp(file, "<dyno", 5) == 0) return false;
    return std::strstr(file, "dyno/magics") == nullptr && std::strstr(file, "dyno/_") == nullptr && std::strstr(file, "dyno/kernel") == nullptr;
}

/// Inside a call of dyno.compile's, a library's models too: everything but the libraries that are called as a whole.
bool is_compilable(PyCodeObject* code) {
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    if (std::strncmp(file, "<frozen", 7) == 0) return false;
    if (std::strstr(file, "/torch/nn/modules/") || std::strstr(file, "/torch/nn/functional")) return true;
    for (const char* part : {"/lib/python3", "/torch/", "/numpy/", "dyno/magics", "dyno/_", "dyno/kernel"})
        if (std::strstr(file, part) && !(part[1] == 'l' && std::strstr(file, "-packages/"))) return false;
    return true;
}

bool holds_data(PyObject* const* locals, int n) {
    for (int k = 0; k < n; k++)
        if (locals[k] && is_data_object(locals[k], 5)) return true;
    return false;
}

/// A cell, a script: names live in a dict, code runs once.
bool is_module_code(frame::InterpreterFrame* f, PyCodeObject* code) { return f->f_locals && f->f_locals == f->f_globals && !(code->co_flags & CO_OPTIMIZED); }

/// forward() of a library's model called from a cell: what users mean by "my model".
bool is_forward(frame::InterpreterFrame* f, PyCodeObject* code) {
    if (PyUnicode_CompareWithASCIIString(code->co_name, "forward") != 0 || code->co_argcount < 1 || !f->localsplus[0]) return false;
    PyObject* module = capture::names().module;
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    return module && PyObject_IsInstance(f->localsplus[0], module) == 1 && file && !std::strstr(file, "/torch/nn/");
}

/// Whether torch or NumPy is there. The first question runs a library's proof, whose own Python frames come here too: they get a no.
bool libraries_ready() {
    static bool asking = false;
    if (asking) return false;
    asking = true;
    const bool ready = python::torch_ready() | python::numpy_ready();
    asking = false;
    return ready;
}

bool is_armed(PyCodeObject* code, frame::InterpreterFrame* f) {
    State& s = state();
    if (!s.config.enabled || s.off > 0) return false;
    CodeFacts& facts = facts_of(code);
    facts.calls++;
    if (facts.refused || facts.slow) return false;
    if (facts.asked) return true;
    if (facts.cold || (s.extents == 0 && (!s.installed || !(is_users(code) || is_forward(f, code))))) return false;
    if (s.extents > 0 && !is_compilable(code)) return false;
    if (!libraries_ready()) return false;
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) return false;
    if (is_module_code(f, code)) return true; // run_cell looked
    if (facts.mentions == 0 || facts.calls > facts.looked_at + 256) { // names may come to mean something else
        facts.looked_at = facts.calls;
        facts.mentions = PyDict_CheckExact(f->f_globals) && mentions_data(code, f->f_globals, 0) ? 2 : 1;
    }
    return facts.mentions == 2 || holds_data(f->localsplus, code->co_nlocalsplus);
}

// ------------------------------------------------------------------------------------------------ a frame arrives
constexpr size_t compiled_samples = 6, interpreted_samples = 3;
constexpr uint32_t settled_after = 6; // calls

/// Times whole calls of code that is not one single replay, and decides for good which way is faster (never slower).
class CallTimer {
  public:
    /// The frame is the outermost evaluated one and its calls have settled: nothing was recorded lately.
    CallTimer(PyCodeObject* code, bool outermost) : code_(code), on_(outermost), recordings_(recorded()), start_(Clock::now()) {}
    /// Whether this call is to run interpreted, as a sample.
    bool interpret() const {
        const CodeFacts& f = facts_of(code_);
        return on_ && !f.on_gpu && f.calls > settled_after && f.interpreted_seconds.size() < interpreted_samples && f.interpreted_seconds.size() * 2 < f.compiled_seconds.size();
    }
    void done(bool interpreted) {
        if (!on_) return;
        CodeFacts& f = facts_of(code_);
        if (f.on_gpu) return;
        if (f.calls <= settled_after || (recorded() != recordings_ && f.calls <= 2 * settled_after)) return;
        std::vector<float>& samples = interpreted ? f.interpreted_seconds : f.compiled_seconds;
        if (samples.size() < (interpreted ? interpreted_samples : compiled_samples)) samples.push_back(std::chrono::duration<float>(Clock::now() - start_).count());
        if (f.slow || f.interpreted_seconds.size() < interpreted_samples || f.compiled_seconds.size() < compiled_samples) return;
        auto median = [](std::vector<float> v) {
            std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
            return v[v.size() / 2];
        };
        const float compiled = median(f.compiled_seconds), plain = median(f.interpreted_seconds);
        if (compiled <= plain * 1.05f + 2e-6f) return;
        f.slow = true;
        f.why = "compiled it was slower than interpreted, since what could be compiled of it is too little";
        cache::counters().dropped++;
    }

  private:
    static uint64_t recorded();
    PyCodeObject* code_;
    bool on_;
    uint64_t recordings_;
    Clock::time_point start_;
};
uint64_t CallTimer::recorded() { return state().recorded; }

/// What every way out of enter() does, the error of the frame kept aside.
PyObject* left(PyObject* result) {
    const python::KeepError keep;
    harvest_finished();
    if (!frame::top_activation()) pacers().clear();
    return result;
}

/// Calls of this code are not one replay from start to end.
bool slot_is_partial(const cache::Slot& slot) {
    if (slot.entries.empty()) return true;
    return std::any_of(slot.entries.begin(), slot.entries.end(), [](const auto& e) { return !e->plan || replay::segment_of(*e->plan).exit.kind != capture::Exit::returns; });
}

PyObject* continue_at_exit(PyThreadState* ts, frame::InterpreterFrame* f, Attempt attempt) {
    auto inner = std::move(attempt.outcome.state);
    frame::write_frame(f, std::move(inner->frames[0]));
    frame::FrameState* rest = inner->frames.size() > 1 ? inner.release() : nullptr;
    return left(frame::evaluate(ts, f, nullptr, attempt.exit == capture::Exit::breaks, rest));
}

PyObject* enter(PyThreadState* ts, frame::InterpreterFrame* f) {
    PyCodeObject* code = frame::code_object(f);
    if (!is_armed(code, f)) return frame::hand_back(ts, f);
    const auto keep = Owned<>::borrow(reinterpret_cast<PyObject*>(code)); // the function may be redefined while it runs
    install_finished();
    if (state().trace) std::fprintf(stderr, "dyno: enter %s\n", PyUnicode_AsUTF8(code->co_qualname));
    const bytecode::Code* decoded = bytecode::code_of(code);
    if (!decoded) return PyErr_Clear(), frame::hand_back(ts, f);
    const int unit = frame::next_unit(f, code);
    if (unit != 0) return frame::hand_back(ts, f); // a generator goes on
    SegmentKey key{code, unit, shape_of(f->localsplus, code, 0)};
    cache::Slot* slot = &cache::slot_of(key);
    const replay::Inputs inputs{f->localsplus, static_cast<uint32_t>(code->co_nlocalsplus), reinterpret_cast<PyObject*>(frame::function_of(f)), f->f_globals, f->f_builtins};
    if (!frame::top_activation()) state().budget = recordings_a_call;
    CallTimer timer(code, !frame::top_activation() && !is_module_code(f, code));
    if (timer.interpret() && slot_is_partial(*slot)) {
        state().off++; // what it calls is to be interpreted too
        PyObject* result = frame::hand_back(ts, f);
        state().off--;
        timer.done(true);
        return result;
    }
    Attempt attempt = try_entries(*slot, inputs, code);
    if (attempt.hit) {
        if (attempt.outcome.result) {
            drop_old_locals(attempt, f, code);
            return frame::leave_at_return(ts, f, attempt.outcome.result);
        }
        PyObject* result = continue_at_exit(ts, f, std::move(attempt));
        timer.done(false);
        return result;
    }
    slot = &cache::slot_of(key); // a hit may have let user code run
    python::Ambient ambient;
    python::read_ambient(ambient);
    if (!python::ambient_is_plain(ambient)) {
        const char* why = python::ambient_reason(ambient);
        facts_of(code).why = why ? why : "a mode is active";
        return frame::hand_back(ts, f);
    }
    PyObject* result;
    if (is_module_code(f, code)) {
        // Straight lines of a cell run once: only its loops are worth code of their own.
        return decoded->has_loops() ? left(frame::evaluate(ts, f, nullptr)) : frame::hand_back(ts, f);
    }
    if (!attempt.failed && may_record(*slot)) {
        Recording* r = start_recording(*slot, key);
        result = frame::evaluate(ts, f, r);
    } else if (slot->nothing && slot->nothing_until >= 0 && !attempt.failed) {
        Pacer pacer(slot->nothing_until);
        result = frame::evaluate(ts, f, &pacer);
    } else {
        facts_of(code).interpreted_calls++;
        result = decoded->has_loops() && !facts_of(code).cold ? frame::evaluate(ts, f, nullptr) : frame::hand_back(ts, f);
    }
    result = left(result);
    timer.done(false);
    // Met again and again, walked and never once replayed: not worth walking.
    CodeFacts& facts = facts_of(code);
    if (facts.calls > 4 && facts.hits == 0 && !facts.asked) facts.cold = true;
    return result;
}

AtPoint at_point(Activation& a, frame::FrameState*& inner) {
    State& s = state();
    install_finished();
    harvest_finished();
    if (!s.config.enabled || s.off > 0) return AtPoint::go_on;
    PyCodeObject* code = a.code;
    CodeFacts& facts = facts_of(code);
    if (facts.refused || facts.slow) return AtPoint::go_on;
    if (facts.cold || (facts.visits++ > 24 && facts.hits == 0 && !a.decoded->has_loops())) return a.decoded->has_loops() ? AtPoint::go_on : AtPoint::hand_back;
    const Py_ssize_t depth = a.sp - a.base;
    SegmentKey key{code, a.at, shape_of(a.locals, code, depth)};
    cache::Slot* slot = &cache::slot_of(key);
    const replay::Inputs inputs{a.locals, static_cast<uint32_t>(code->co_nlocalsplus + depth), reinterpret_cast<PyObject*>(frame::function_of(a.frame)), a.frame->f_globals, a.frame->f_builtins};
    if (s.trace) std::fprintf(stderr, "dyno: at point %s unit %d depth %zd: %zu entries, nothing %d until %d, compiling %d, recordings %u\n", PyUnicode_AsUTF8(code->co_qualname), a.at, depth, slot->entries.size(), slot->nothing, slot->nothing_until, slot->compiling, slot->recordings);
    Attempt attempt = try_entries(*slot, inputs, code);
    if (attempt.hit) {
        if (attempt.outcome.result) {
            drop_old_locals(attempt, a.frame, code);
            PyObject** old = a.sp;
            a.sp = a.base;
            while (old > a.base) Py_XDECREF(*--old);
            *a.sp++ = attempt.outcome.result;
            return AtPoint::returned;
        }
        auto st = std::move(attempt.outcome.state);
        frame::write_activation(a, std::move(st->frames[0]));
        a.want_point = attempt.exit == capture::Exit::breaks;
        if (st->frames.size() > 1) inner = st.release();
        return AtPoint::moved;
    }
    if (attempt.failed) return AtPoint::go_on;
    slot = &cache::slot_of(key);
    const bool module_code = is_module_code(a.frame, code);
    if (module_code && !a.decoded->loop_around(a.at)) return AtPoint::go_on;
    if (may_record(*slot)) {
        python::Ambient ambient;
        python::read_ambient(ambient);
        if (!python::ambient_is_plain(ambient)) return AtPoint::go_on;
        Recording* r = start_recording(*slot, key, !module_code);
        a.recorder = r;
        return AtPoint::record;
    }
    if (slot->nothing && slot->nothing_until < 0 && !a.decoded->has_loops()) return AtPoint::hand_back;
    if (slot->nothing && slot->nothing_until >= 0 && slot->nothing_until == a.at) {
        a.want_point = true; // the break's own instruction, then look again
        return AtPoint::go_on;
    }
    if (slot->nothing && slot->nothing_until > a.at) {
        pacers().push_back(std::make_unique<Pacer>(slot->nothing_until));
        a.recorder = pacers().back().get();
        return AtPoint::record;
    }
    return AtPoint::go_on;
}

void on_bug(frame::Recorder* recorder, const char* what) {
    State& s = state();
    for (auto& r : s.recordings)
        if (r.get() == recorder) {
            facts_of(r->key().code).bugs.push_back(what);
            r->abandon(what);
        }
    if (std::getenv("DYNO_ABORT_ON_BUG")) std::fprintf(stderr, "dyno: %s\n", what), std::abort();
}

void in_child() {
    State& s = state();
    s.forked = true;
    s.queue.forget_thread();
}

PyObject* forget_code(PyObject* key, PyObject*) {
    auto* code = static_cast<PyCodeObject*>(PyLong_AsVoidPtr(key));
    state().facts.erase(code);
    state().watch.erase(code);
    Py_RETURN_NONE;
}
PyMethodDef forget_method = {"forget", forget_code, METH_O, nullptr};

/// The function whose frame stands for the callable: forward of a module, the function of a method or of __call__.
PyObject* python_function_of(PyObject* callable) {
    if (PyFunction_Check(callable)) return callable;
    if (PyMethod_Check(callable)) return python_function_of(PyMethod_GET_FUNCTION(callable));
    for (const char* name : {"forward", "__call__"}) {
        PyObject* f = _PyType_Lookup(Py_TYPE(callable), capture::interned(name));
        if (f && PyFunction_Check(f)) return f;
    }
    return nullptr;
}

} // namespace

PyObject* graph_break_error = nullptr;

Config& config() { return state().config; }

CodeFacts& facts_of(PyCodeObject* code) {
    State& s = state();
    auto [it, fresh] = s.facts.try_emplace(code);
    if (fresh) {
        const python::KeepError keep;
        auto key = Owned<>::steal(PyLong_FromVoidPtr(code));
        auto forget = Owned<>::steal(PyCFunction_New(&forget_method, key.get()));
        PyObject* weak = PyWeakref_NewRef(reinterpret_cast<PyObject*>(code), forget.get());
        s.watch.insert_or_assign(code, Owned<>::steal(weak));
    }
    return it->second;
}
CodeFacts* find_facts(PyCodeObject* code) {
    auto it = state().facts.find(code);
    return it == state().facts.end() ? nullptr : &it->second;
}

bool start() {
    State& s = state();
    if (s.started) return true;
    python::have_dict_versions(); // proved by running Python: before the hook asks
    frame::Driver driver;
    driver.enter = enter;
    driver.at_point = at_point;
    driver.bug = on_bug;
    frame::install(driver);
    for (int nb = 0; nb < 13; nb++) capture::operator_function(nb); // while imports work: a cell's globals may lack __builtins__
    for (int op = 0; op < 6; op++) capture::compare_function(op);
    for (auto op : {bytecode::Op::negative, bytecode::Op::positive, bytecode::Op::invert}) capture::unary_function(static_cast<int>(op));
    pthread_atfork(nullptr, nullptr, in_child);
    s.queue.on_done([](void*) {
        State& st = state();
        if (st.post) st.post(st.post_context, "{\"event\": \"compiled\"}");
    }, nullptr);
    s.started = true;
    return true;
}

void install() { state().installed++; }
void uninstall() {
    if (state().installed > 0) state().installed--;
}
bool installed() { return state().installed > 0; }
void off_enter() { state().off++; }
void off_exit() {
    if (state().off > 0) state().off--;
}

PyObject* call_armed(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    State& s = state();
    if (!s.config.enabled || s.off > 0) return PyObject_Vectorcall(callable, args, nargsf, kwnames);
    install_finished();
    python::torch_ready();
    if (PyObject* f = python_function_of(callable)) facts_of(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f))).asked = true;
    s.extents++;
    frame::hook_on();
    PyObject* result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    frame::hook_off();
    s.extents--;
    return result;
}

PyObject* call_without_frame(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    State& s = state();
    if (!s.config.enabled || s.off > 0 || !PyFunction_Check(function) || (kwnames && PyTuple_GET_SIZE(kwnames))) return nullptr;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (code->co_argcount != n || code->co_kwonlyargcount || code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE)) return nullptr;
    if (s.queue.any_done()) install_finished();
    PyObject* slots[24] = {};
    if (code->co_nlocalsplus > 24) return nullptr;
    std::copy(args, args + n, slots);
    SegmentKey key{code, 0, cache::shape_of(slots, static_cast<uint32_t>(code->co_nlocalsplus), 0)};
    cache::Slot* slot = cache::find(key);
    if (!slot || slot->entries.empty()) return nullptr;
    // Only segments that reach the return: the others need the frame.
    for (const auto& entry : slot->entries)
        if (replay::segment_of(*entry->plan).exit.kind != capture::Exit::returns) return nullptr;
    const replay::Inputs inputs{slots, static_cast<uint32_t>(code->co_nlocalsplus), function, PyFunction_GET_GLOBALS(function), reinterpret_cast<PyFunctionObject*>(function)->func_builtins};
    Attempt attempt = try_entries(*slot, inputs, code);
    return attempt.hit ? attempt.outcome.result : nullptr;
}

PyObject* run_cell(PyObject* code, PyObject* globals, const char*) {
    State& s = state();
    auto* co = reinterpret_cast<PyCodeObject*>(code);
    // The hook costs every Python call: it goes on only for cells that can reach something to compile.
    const bool reaches = ((python::torch_ready() | python::numpy_ready()) && mentions_data(co, globals, 0)) || imports_data(co);
    const bool worth = s.config.enabled && s.installed > 0 && s.off == 0 && PyDict_CheckExact(globals) && reaches;
    if (!worth) return PyEval_EvalCode(code, globals, globals);
    install_finished();
    replay::interrupt_requested.store(false); // of an earlier cell
    frame::hook_on();
    PyObject* result = PyEval_EvalCode(code, globals, globals);
    frame::hook_off();
    return result;
}

void wait() {
    State& s = state();
    Py_BEGIN_ALLOW_THREADS;
    s.queue.wait_idle();
    Py_END_ALLOW_THREADS;
    install_finished();
}

size_t reset(PyCodeObject* code) {
    State& s = state();
    wait();
    if (code) {
        s.facts.erase(code);
        s.watch.erase(code);
    } else {
        s.facts.clear();
        s.watch.clear();
    }
    return cache::reset(code);
}

void interrupt() { replay::interrupt_requested.store(true); }
void quiesce() { state().queue.stop(); }
void set_event_listener(void (*post)(void*, const char*), void* context) {
    state().post = post;
    state().post_context = context;
}

} // namespace dyno::compiler
