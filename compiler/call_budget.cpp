// Budgets of calls, one for each thread.
#include "compiler/call_budget.h"
#include "compiler/facts.h"
#include <algorithm>

namespace dyno::compiler {

CallBudget& call_budget() {
    static thread_local CallBudget budget;
    return budget;
}

bool CallBudget::allows_recording(PyCodeObject* here) {
    if (!code) { // the loop of a cell
        recordings = recordings_a_call;
        operations = instructions = unlimited;
        return true;
    }
    if (!begun) {
        begun = true;
        const bool first = !facts_of(code).wanted_whole;
        operations = first ? first_operations : unlimited;
        instructions = first ? first_instructions : unlimited;
    }
    return recordings > 0 && !spent && ((operations > 0 && instructions > 0) || goes_on(here));
}

bool CallBudget::goes_on(PyCodeObject* here) {
    if (operations == unlimited) return true;
    CodeFacts& facts = facts_of(code);
    const bool again = !facts.gave_up_in.insert(here).second;
    if (again) operations = instructions = unlimited;
    else facts.why = "it is long, so it is recorded when it is called again";
    spent = !again;
    return again;
}

void CallBudget::used(uint32_t ops, uint64_t steps) {
    if (operations == unlimited) return;
    operations -= std::min(ops, operations);
    instructions -= static_cast<uint32_t>(std::min<uint64_t>(steps + a_recording, instructions));
}

void CallBudget::turn() {
    recordings = recordings_a_call;
    if (spent) operations = instructions = unlimited, begun = true;
    spent = false;
}

CallExtent::CallExtent(PyCodeObject* code) : outermost_(!call_budget().code) {
    if (outermost_) call_budget() = {code, recordings_a_call};
}

CallExtent::~CallExtent() {
    if (outermost_) call_budget() = {};
}

} // namespace dyno::compiler
