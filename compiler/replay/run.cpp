// run(): one replay. Guards and reads -> compute -> prepare -> commit -> exit (law 2). Until commit begins nothing outside this replay has
// changed, whatever went wrong; after it nothing can go wrong.
#include "compiler/python/ambient.h"
#include "compiler/replay/run_state.h"
#include "compiler/support/fault.h"
#include <optional>

namespace dyno::replay {

/// checked.cpp: compares outputs with eager twins; the text of the first difference, or empty.
std::string compare_with_twins(RunState& run, uint32_t& compared);

namespace {

/// Takes the plan's spare state, or makes one; puts it back when done. Replays of one plan may nest and overlap.
class Lease {
  public:
    Lease(LaunchPlan& plan, const Inputs& inputs) : state_(plan.spare ? std::move(plan.spare) : std::make_unique<RunState>(plan)) {
        state_->inputs = &inputs;
    }
    ~Lease() {
        state_->clear();
        if (!state_->plan.spare) state_->plan.spare = std::move(state_);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    RunState& operator*() const { return *state_; }

  private:
    std::unique_ptr<RunState> state_;
};

/// Up to CPython 3.11 any allocation may start a collection, and with it user code, between a check and the store that relies on it.
class NoCollection {
  public:
#if PY_VERSION_HEX < 0x030c0000
    NoCollection() : was_on_(PyGC_Disable()) {}
    ~NoCollection() {
        if (was_on_) PyGC_Enable();
    }

  private:
    int was_on_;
#else
    NoCollection() {}
    ~NoCollection() {}
#endif
};

bool is_retired(const LaunchPlan& plan) { return plan.segment.stale->load(std::memory_order_acquire) && !fault(7); }

/// Reads and guards; all_hold, or the guard that failed.
uint32_t enter(RunState& run) {
    LaunchPlan& plan = run.plan;
    const uint32_t failed = plan.guards.check(*run.inputs, run.sources.data());
    if (failed != all_hold) return failed;
    if (!run.read_memories()) return missing_value;
    for (const DisjointGuard& guard : plan.disjoint) {
        const InputMemory &a = plan.memories[guard.a], &b = plan.memories[guard.b];
        const auto first = reinterpret_cast<intptr_t>(run.data[guard.a]), second = reinterpret_cast<intptr_t>(run.data[guard.b]);
        if (first + a.low < second + b.high && second + b.low < first + a.high && !fault(3)) return guard.guard;
    }
    for (uint32_t source : plan.held) Py_INCREF(run.sources[source]);
    run.holding = true;
    for (const TruthGuard& guard : plan.truths) {
        int truth = -1;
        try {
            truth = truth_of_number(run.value(guard.value));
        } catch (const ComputeFailed&) {
            PyErr_Clear(); // a number that cannot be computed has no truth: another entry may do
        }
        if (truth != static_cast<int>(guard.expected)) return guard.guard;
    }
    return all_hold;
}

/// Truths that the segment supposes of computed values; all_hold, or the guard that failed.
uint32_t check_supposed(RunState& run) {
    for (const TruthGuard& guard : run.plan.supposed) {
        PyObject* value = run.value(guard.value);
        const int truth = truth_of_number(value);
        const int known = truth >= 0 ? truth : PyObject_IsTrue(value);
        if (known < 0) throw ComputeFailed();
        if (known != static_cast<int>(guard.expected)) return guard.guard;
    }
    return all_hold;
}

/// User code or another thread may have run: what was read at entry must still be so.
void check_again(RunState& run) {
    std::vector<PyObject*> now(run.sources.size());
    const std::vector<void*> data = run.data;
    if (run.plan.guards.check(*run.inputs, now.data()) != all_hold) throw ComputeFailed();
    for (uint32_t source : run.plan.held)
        if (now[source] != run.sources[source]) throw ComputeFailed();
    if (!run.read_memories() || data != run.data) throw ComputeFailed();
}

Owned<> owned(RunState& run, const ValueRef& ref) { return Owned<>::borrow(run.value_or_null(ref)); }

std::unique_ptr<frame::FrameState> frames_at_exit(RunState& run) {
    auto state = std::make_unique<frame::FrameState>();
    for (const capture::FrameRecipe& recipe : run.plan.segment.exit.frames) {
        frame::DetachedFrame& made = state->frames.emplace_back();
        made.function = owned(run, recipe.function);
        made.unit = recipe.unit;
        made.locals.reserve(recipe.locals.size());
        for (const ValueRef& slot : recipe.locals) made.locals.push_back(owned(run, slot));
        made.stack.reserve(recipe.stack.size());
        for (const ValueRef& slot : recipe.stack) made.stack.push_back(owned(run, slot));
        made.after = recipe.after;
        made.instance = owned(run, recipe.instance);
    }
    return state;
}

/// The half that changes the world. `outcome` gets the result only if it did.
bool finish(RunState& run, Outcome& outcome) {
    const Segment& segment = run.plan.segment;
    std::optional<NoCollection> quiet;
    if (!segment.effects.empty()) quiet.emplace();
    if (is_retired(run.plan)) throw ComputeFailed();
    if (run.released || (run.externs && !segment.effects.empty())) check_again(run);
    std::optional<Commit> commit;
    if (!segment.effects.empty()) commit.emplace(run).prepare();
    Owned<> result;
    std::unique_ptr<frame::FrameState> state;
    if (segment.exit.kind == capture::Exit::returns) result = Owned<>::borrow(run.value(segment.exit.result));
    else state = frames_at_exit(run);
    if (commit && !commit->store()) return false;
    if (segment.exit.grad_mode >= 0) python::set_grad_enabled(segment.exit.grad_mode != 0);
    outcome.result = result.release();
    outcome.state = std::move(state);
    return true;
}

/// A commit that failed leaves context variables as they were.
void take_tokens_back(RunState& run) {
    for (const uint32_t index : run.plan.segment.exit.tokens) {
        PyObject* token = run.fresh_objects[index];
        const auto variable = token ? Owned<>::steal(PyObject_GetAttrString(token, "var")) : Owned<>{};
        if (variable) PyContextVar_Reset(variable.get(), token);
        PyErr_Clear(); // a token that was used already
    }
}

/// Law 2 broken on purpose: what a failed compute phase would have stored is stored.
void leave_a_trace(RunState& run) {
    try {
        Commit commit(run);
        commit.prepare();
        commit.store();
    } catch (const ComputeFailed&) {
    }
    PyErr_Clear();
}

Outcome run_with(LaunchPlan& plan, const Inputs& inputs, Checked* checked) {
    if (is_retired(plan)) return {Outcome::guard_failed, nullptr, nullptr, retired};
    if (!python::ambient_matches(plan.segment.ambient) && !fault(4)) return {Outcome::guard_failed, nullptr, nullptr, ambient_differs};
    const Lease lease(plan, inputs);
    RunState& run = *lease;
    Outcome outcome{Outcome::compute_failed};
    outcome.guard = enter(run);
    if (outcome.guard != all_hold) {
        outcome.kind = Outcome::guard_failed;
        return outcome;
    }
    try {
        {
            std::optional<NoCollection> quiet;
            if (!plan.segment.effects.empty() && !plan.extern_count && !plan.releases) quiet.emplace();
            compute(run);
        }
        if (!plan.supposed.empty()) {
            outcome.guard = check_supposed(run);
            if (outcome.guard != all_hold) {
                outcome.kind = Outcome::guard_failed;
                return outcome;
            }
        }
        if (checked) checked->mismatch = compare_with_twins(run, checked->compared);
        if ((!checked || checked->mismatch.empty()) && finish(run, outcome)) outcome.kind = Outcome::committed;
    } catch (const ComputeFailed&) {
        PyErr_Clear();
        if (fault(2)) leave_a_trace(run);
    } catch (const std::bad_alloc&) {
        PyErr_Clear();
    }
    if (outcome.kind == Outcome::committed) run.random.forget();
    else {
        run.random.put_back();
        take_tokens_back(run);
    }
    outcome.kernels = run.kernels;
    outcome.externs = run.externs;
    return outcome;
}

} // namespace

bool guards_hold(LaunchPlan& plan, const Inputs& inputs) {
    if (is_retired(plan) || !python::ambient_matches(plan.segment.ambient)) return false;
    const Lease lease(plan, inputs);
    return enter(*lease) == all_hold;
}

Outcome run(LaunchPlan& plan, const Inputs& inputs) { return run_with(plan, inputs, nullptr); }

Checked run_checked(LaunchPlan& plan, const Inputs& inputs) {
    Checked checked;
    checked.outcome = run_with(plan, inputs, &checked);
    return checked;
}

} // namespace dyno::replay
