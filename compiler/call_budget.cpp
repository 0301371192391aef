// Budgets of calls, one for each thread.
#include "compiler/call_budget.h"
#include "compiler/facts.h"
#include <algorithm>
#include <ctime>

namespace dyno::compiler {
namespace {

constexpr int64_t ns_of_effort = 900;              // measured on models, cold
constexpr int64_t share = 10;                      // of the time that is not recording's own, one in
constexpr uint64_t much_effort = 20 * free_effort; // a call that rested for so long has a loop worth compiling, or heavy work
constexpr uint32_t look_every = 64;               // the clock of a thread is a system call

/// Of this thread: what other programs do meanwhile must not count.
int64_t cpu_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

} // namespace

CallBudget& call_budget() {
    static thread_local CallBudget budget;
    return budget;
}

uint64_t CallBudget::allowed(uint64_t effort) const {
    const int64_t rest = cpu_time() - start - static_cast<int64_t>(effort) * ns_of_effort;
    return free_effort + static_cast<uint64_t>(std::max<int64_t>(rest, 0) / share / ns_of_effort);
}

uint64_t CallBudget::left() const {
    if (whole || !code) return UINT64_MAX;
    return used < free_effort ? free_effort - used : 0;
}

bool CallBudget::allows_recording() {
    if (!code) { // the loop of a cell
        recordings = recordings_a_call;
        return true;
    }
    if (!start) {
        start = cpu_time();
        whole = facts_of(code).wanted_whole || facts_of(code).gave_up;
    }
    return recordings > 0 && !spent && (left() > 0 || goes_on(0));
}

bool CallBudget::goes_on(uint64_t effort) {
    if (whole || !code || used + effort <= allowed(used + effort)) return true;
    CodeFacts& facts = facts_of(code);
    facts.gave_up = spent = true;
    facts.why = "it is long, so it is recorded when it is called again";
    return false;
}

bool CallBudget::rests() {
    if (!spent) return false;
    if (++frames % look_every == 0 && allowed(used) >= used + much_effort) {
        spent = false;
        recordings = recordings_a_call;
    }
    return spent;
}

CallExtent::CallExtent(PyCodeObject* code) : outermost_(code && !call_budget().code) {
    if (outermost_) call_budget() = {code, recordings_a_call};
}

CallExtent::~CallExtent() {
    if (outermost_) call_budget() = {};
}

} // namespace dyno::compiler
