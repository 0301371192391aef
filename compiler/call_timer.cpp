// Samples of whole calls and the decision between them.
#include "compiler/call_timer.h"
#include "compiler/driver.h"
#include <algorithm>

namespace dyno::compiler {
namespace {

constexpr size_t samples_wanted = 6;   // of each way
constexpr size_t samples_for_plain_loss = 3;
constexpr float plain_loss = 1.25F;    // so much slower that no more samples are wanted
constexpr uint32_t settled_after = 6;  // calls
constexpr uint32_t most_judgements = 3;

} // namespace

CallTimer::CallTimer(PyCodeObject* code, bool outermost) : code_(code), on_(outermost), recordings_(state().recorded), start_(std::chrono::steady_clock::now()) {}

float CallTimer::seconds() const { return std::chrono::duration<float>(std::chrono::steady_clock::now() - start_).count(); }

bool CallTimer::interpret() const {
    if (!on_) return false;
    const CodeFacts& f = facts_of(code_);
    return !f.on_gpu && f.calls > settled_after && f.interpreted_seconds.size() < samples_wanted && f.interpreted_seconds.size() < f.compiled_seconds.size();
}

void CallTimer::done(bool interpreted) {
    if (!on_) return;
    CodeFacts& f = facts_of(code_);
    if (f.slow || f.on_gpu || f.calls <= settled_after || (state().recorded != recordings_ && f.calls <= 2 * settled_after)) return;
    std::vector<float>& samples = interpreted ? f.interpreted_seconds : f.compiled_seconds;
    if (samples.size() >= samples_wanted) return;
    samples.push_back(seconds());
    const size_t fewest = std::min(f.interpreted_seconds.size(), f.compiled_seconds.size());
    if (fewest < samples_for_plain_loss) return;
    const float lost = fewest < samples_wanted ? plain_loss : 1.03F;
    if (cache::settled_time(f.compiled_seconds) <= cache::settled_time(f.interpreted_seconds) * lost + 1e-6F) return;
    f.give_up("compiled it was slower than interpreted, since what could be compiled of it is too little", !state().queue.improving());
    cache::counters().dropped++;
}

bool CallTimer::decided(PyCodeObject* code) {
    const CodeFacts& f = facts_of(code);
    return f.on_gpu || f.slow || (f.compiled_seconds.size() >= samples_wanted && f.interpreted_seconds.size() >= samples_wanted);
}

void CallTimer::watch() {
    if (!on_) return;
    CodeFacts& f = facts_of(code_);
    const bool larger_arguments = f.judged_slow < most_judgements && !f.interpreted_seconds.empty() && seconds() >= 4 * cache::settled_time(f.interpreted_seconds) + 1e-4F;
    const bool better_code = f.judged_early && !state().queue.improving();
    if (!larger_arguments && !better_code) return;
    f.slow = f.judged_early = false; // compiling may pay now
    f.compiled_seconds.clear();
    f.interpreted_seconds.clear();
}

} // namespace dyno::compiler
