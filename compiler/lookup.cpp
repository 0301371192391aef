// Look-up: the entries of a slot are tried in turn, and what a failed guard says is kept for reports.
#include "compiler/driver.h"
#include "compiler/replay/plan.h"
#include "compiler/support/fault.h"
#include <algorithm>
#include <cstdio>

namespace dyno::compiler {

using Clock = std::chrono::steady_clock;

bool is_in_doubt(const cache::Slot& slot) {
    if (slot.entries.empty()) return true;
    return std::any_of(slot.entries.begin(), slot.entries.end(), [](const auto& e) { return e->doubtful || e->hits == 0 || !e->plan || replay::segment_of(*e->plan).exit.kind != capture::Exit::returns; });
}

Attempt try_entries(cache::Slot& slot, const replay::Inputs& inputs, PyCodeObject* code) {
    Attempt attempt;
    State& s = state();
    if (s.config.debug_force_miss) return attempt;
    const std::vector<std::shared_ptr<cache::Entry>> entries = slot.entries;
    uint32_t first_guard = 0;
    const cache::Entry* first = nullptr;
    for (const auto& entry : entries) {
        if (entry->stale->load(std::memory_order_relaxed) && !fault(7)) continue;
        if (entry->dropped) { // what was found slower stays so for such values: they are not recorded again
            if (!replay::guards_hold(*entry->plan, inputs)) continue;
            attempt.rests = true;
            if (++entry->rests == most_rests && entry->key.unit == 0 && entries.size() == 1) facts_of(code).give_up(entry->drop_reason, true); // not even looked at
            continue;
        }
        if (entry->resting) {
            entry->resting = !replay::runs_best_code(*entry->plan) && !s.forked;
            if (entry->resting) {
                attempt.rests = true;
                continue;
            }
        }
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
        cache::note_hit(*entry, ns, entry->judged() || replay::runs_best_code(*entry->plan));
        if (entries.size() > 1 && entry != slot.entries.front()) cache::move_first(slot, *entry);
        attempt.hit = true;
        facts_of(code).hits++;
        attempt.plan = entry->plan;
        attempt.outcome = std::move(o);
        return attempt;
    }
    if (first && first_guard < replay::missing_value && slot.recordings < most_recordings)
        replay::describe_failure(*first->plan, first_guard, inputs); // why it will be recorded again: the plan remembers it for reports
    return attempt;
}

} // namespace dyno::compiler
