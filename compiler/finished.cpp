// From recording to entry: an ended recording's segment goes to the compile queue, and finished code is installed.
#include "compiler/driver.h"
#include "compiler/call_budget.h"
#include "compiler/replay/plan.h"
#include <cstdlib>

namespace dyno::compiler {
namespace {

using capture::Recording;
using capture::SegmentKey;
using Clock = std::chrono::steady_clock;

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
/// For DYNO_TRACE: where it ended, as ` in forward, line 7`.
std::string end_of(const Recording& r) {
    if (r.lines().empty()) return {};
    const capture::LineNote& last = r.lines().back();
    PyCodeObject* code = r.code_at(last.at.code);
    return std::string(" in ") + (code ? PyUnicode_AsUTF8(code->co_qualname) : "?") + ", line " + std::to_string(last.at.line);
}

/// A recording ended: what it saw goes to the facts, its segment to the queue.
void harvest(Recording& r) {
    State& s = state();
    const SegmentKey key = r.key();
    CodeFacts& facts = facts_of(key.code);
    cache::Slot& slot = cache::slot_of(key);
    call_budget().used += r.effort() + effort_of_recording;
    if (r.too_long()) {
        if (s.trace) std::fprintf(stderr, "dyno: gave up %s from %d after an effort of %llu\n", PyUnicode_AsUTF8(key.code->co_qualname), key.unit, static_cast<unsigned long long>(r.effort()));
        slot.recordings--; // what changed is not what it did
        return;
    }
    for (const capture::LineNote& n : r.lines()) {
        PyCodeObject* code = n.at.code ? r.code_at(n.at.code) : nullptr;
        if (!code) continue;
        capture::LineNote& known = facts_of(code).lines[{PyUnicode_AsUTF8(code->co_qualname), n.at.line}];
        if (known.status != "break" || n.status == "break") known = n;
    }
    auto segment = r.take();
    if (!segment && r.will_avoid()) {
        if (s.trace) std::fprintf(stderr, "dyno: recorded %s from %d: nothing, which the next one avoids: %s%s\n", PyUnicode_AsUTF8(key.code->co_qualname), key.unit, r.why_not().c_str(), end_of(r).c_str());
        facts.why = r.why_not();
        slot.recordings--;
        return;
    }
    if (s.trace) std::fprintf(stderr, "dyno: recorded %s from %d: %s%s%s, stopped at %d\n", PyUnicode_AsUTF8(key.code->co_qualname), key.unit, segment ? "a segment, exit " : "nothing: ", segment ? segment->exit.reason.c_str() : r.why_not().c_str(), end_of(r).c_str(), r.stopped_at());
    if (!segment) {
        slot.compiling = false;
        if (r.met_data()) facts.why = r.why_not();
        else if (key.unit == 0 || facts.why.empty()) { // a rest without work does not explain the whole
            facts.cold_tries += key.unit == 0;
            facts.why = r.why_not().empty() ? "it met no tensor or array" : r.why_not();
        }
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

} // namespace

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

} // namespace dyno::compiler
