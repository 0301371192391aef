// What happens when a frame arrives, at a loop's body, after a break: look up and replay, or record, or let it run.
// Everything downstream is called from here and its neighbours (finished.cpp, lookup.cpp) only.
#include "compiler/driver.h"
#include "compiler/call_budget.h"
#include "compiler/call_timer.h"
#include "compiler/eligibility.h"
#include "compiler/frame/frame_state.h"
#include "compiler/python/torch_door.h"
#include "compiler/replay/plan.h"
#include <algorithm>
#include <cstdlib>

namespace dyno::compiler {
namespace {

using capture::Recording;
using capture::SegmentKey;
using frame::Activation;
using frame::AtPoint;

/// Of this thread: they live as long as the frame that is paced, and another thread must not end that.
std::vector<std::unique_ptr<frame::Recorder>>& pacers() {
    static thread_local std::vector<std::unique_ptr<frame::Recorder>> list;
    return list;
}

/// A frame object outlives the frame (a traceback holds it): locals that the code has overwritten or deleted by its return must
/// not live on in it, least of all the exception whose traceback it is.
void drop_old_locals(const Attempt& attempt, frame::InterpreterFrame* f, PyCodeObject* code) {
    if (!f->frame_obj || !attempt.plan) return;
    const std::vector<bool>& unchanged = replay::segment_of(*attempt.plan).exit.unchanged;
    for (int k = 0; k < code->co_nlocalsplus && k < static_cast<int>(unchanged.size()); k++)
        if (!unchanged[static_cast<size_t>(k)]) Py_CLEAR(f->localsplus[k]);
}

/// Compiled code is in place or on its way: short calls come round many times before it is there.
bool anything_made(PyCodeObject* code) {
    const auto slots = cache::slots_of_code(code);
    return std::any_of(slots.begin(), slots.end(), [](const auto& item) { return item.second->compiling || !item.second->entries.empty(); });
}

bool may_record(cache::Slot& slot, PyCodeObject* code) {
    return !slot.hopeless && !slot.compiling && !slot.nothing && slot.recordings < most_recordings && !state().forked && call_budget().allows_recording();
}

Recording* start_recording(cache::Slot& slot, const SegmentKey& key, bool inline_functions = true) {
    State& s = state();
    s.recorded++;
    if (call_budget().recordings) call_budget().recordings--;
    capture::Limits limits;
    limits.recordings_before = slot.recordings++;
    if (slot.recordings >= most_recordings) {
        slot.hopeless = true;
        slot.hopeless_reason = "it was recorded 8 times and still changes from call to call";
    }
    limits.break_everywhere = s.config.debug_break_everywhere;
    limits.twins = s.config.check > 0;
    limits.inline_functions = inline_functions;
    limits.effort = call_budget().left();
    limits.goes_on = [](uint64_t effort) { return call_budget().goes_on(effort); };
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
    bool stranger(PyCodeObject*, bool) override { return false; }

  private:
    int unit_;
    bool done_ = false;
    Activation* root_ = nullptr;
};

uint64_t shape_of(PyObject* const* locals, PyCodeObject* code, Py_ssize_t depth) {
    return cache::shape_of(locals, static_cast<uint32_t>(code->co_nlocalsplus), static_cast<uint32_t>(depth));
}

// ---- a frame arrives
/// What every way out of enter() does, the error of the frame kept aside.
PyObject* left(PyObject* result) {
    const python::KeepError keep;
    harvest_finished();
    if (!frame::top_activation()) pacers().clear();
    return result;
}

/// The call runs interpreted, and what it calls too.
PyObject* unhooked(PyThreadState* ts, frame::InterpreterFrame* f) {
    state().off++;
    PyObject* result = frame::hand_back_unhooked(ts, f);
    state().off--;
    return result;
}

PyObject* continue_at_exit(PyThreadState* ts, frame::InterpreterFrame* f, Attempt attempt) {
    auto inner = std::move(attempt.outcome.state);
    frame::write_frame(f, std::move(inner->frames[0]));
    frame::FrameState* rest = inner->frames.size() > 1 ? inner.release() : nullptr;
    return left(frame::evaluate(ts, f, nullptr, attempt.exit == capture::Exit::breaks, rest));
}

} // namespace

PyObject* enter(PyThreadState* ts, frame::InterpreterFrame* f) {
    PyCodeObject* code = frame::code_object(f);
    if (call_budget().rests()) { // but a loop that goes on for long is to be noticed
        const bool walks = has_users_loop(code, f) && frame::next_unit(f, code) == 0 && is_armed(code, f);
        return walks ? left(frame::evaluate(ts, f, nullptr)) : frame::hand_back(ts, f);
    }
    if (!is_armed(code, f)) return frame::hand_back(ts, f);
    CallTimer timer(code, !frame::top_activation() && !is_module_code(f, code));
    if (facts_of(code).slow) {
        const auto kept = Owned<>::borrow(reinterpret_cast<PyObject*>(code));
        PyObject* result = frame::hand_back_unhooked(ts, f);
        timer.watch();
        return result;
    }
    const auto keep = Owned<>::borrow(reinterpret_cast<PyObject*>(code)); // the function may be redefined while it runs
    install_finished();
    if (state().trace) std::fprintf(stderr, "dyno: enter %s\n", PyUnicode_AsUTF8(code->co_qualname));
    const bytecode::Code* decoded = bytecode::code_of(code);
    if (!decoded) return PyErr_Clear(), frame::hand_back(ts, f);
    const int unit = frame::next_unit(f, code);
    if (unit != 0) return frame::hand_back(ts, f); // a generator goes on
    const CallExtent extent(is_module_code(f, code) ? nullptr : code);
    SegmentKey key{code, unit, shape_of(f->localsplus, code, 0)};
    cache::Slot* slot = &cache::slot_of(key);
    const replay::Inputs inputs{f->localsplus, static_cast<uint32_t>(code->co_nlocalsplus), reinterpret_cast<PyObject*>(frame::function_of(f)), f->f_globals, f->f_builtins};
    if (timer.interpret() && is_in_doubt(*slot)) {
        PyObject* result = unhooked(ts, f);
        timer.done(true);
        return result;
    }
    Attempt attempt = try_entries(*slot, inputs, code);
    if (attempt.hit) {
        if (attempt.outcome.result) {
            drop_old_locals(attempt, f, code);
            PyObject* result = frame::leave_at_return(ts, f, attempt.outcome.result);
            if (is_in_doubt(cache::slot_of(key))) timer.done(false);
            return result;
        }
        PyObject* result = continue_at_exit(ts, f, std::move(attempt));
        timer.done(false);
        return result;
    }
    if (attempt.rests) {
        PyObject* result = unhooked(ts, f);
        timer.done(true);
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
    if (!attempt.failed && may_record(*slot, code)) {
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
    if (facts.calls > 4 && facts.hits == 0 && !facts.asked && !anything_made(code)) facts.cold = true;
    return result;
}

AtPoint at_point(Activation& a, frame::FrameState*& inner) {
    State& s = state();
    install_finished();
    harvest_finished();
    if (!s.config.enabled || s.off > 0 || python::torch_starting()) return AtPoint::go_on;
    PyCodeObject* code = a.code;
    if (call_budget().rests()) return a.decoded->has_loops() ? AtPoint::go_on : AtPoint::hand_back;
    CodeFacts& facts = facts_of(code);
    if (facts.refused || facts.slow) return AtPoint::go_on;
    if (facts.cold || (facts.visits++ > 24 && facts.hits == 0 && !a.decoded->has_loops() && !anything_made(code))) return a.decoded->has_loops() ? AtPoint::go_on : AtPoint::hand_back;
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
    if (attempt.failed || attempt.rests) return AtPoint::go_on;
    slot = &cache::slot_of(key);
    const bool module_code = is_module_code(a.frame, code);
    if (module_code && (!a.decoded->loop_around(a.at) || !libraries_ready())) return AtPoint::go_on;
    if (may_record(*slot, code)) {
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

} // namespace dyno::compiler
