// The ambient word: everything outside the arguments that changes what torch, NumPy or CPython do on this thread, as words for memcmp.
// Torch's part is read as raw words proved at start-up by toggling each switch, or by exported functions, or by public calls; it is
// all zero while torch is not there. GIL needed.
#pragma once
#include <Python.h>
#include <cstdint>
#include <cstring>

namespace dyno::python {

/// Compared as a whole. What a word holds is this header's secret, but for the functions below.
struct Ambient {
    static constexpr int count = 12;
    uint64_t words[count] = {};
    friend bool operator==(const Ambient& a, const Ambient& b) noexcept { return std::memcmp(a.words, b.words, sizeof a.words) == 0; }
};

/// Reads the state of this thread, some 10 ns. Fills every word.
void read_ambient(Ambient& ambient);

/// Reads and compares in one go: the form for guards.
bool ambient_matches(const Ambient& expected);

/// Nothing active that sees or changes single operations: no function or dispatch mode, no functorch transform, no autocast, no anomaly
/// mode, no saved-tensor hooks, no tracer, profiler or monitoring tool, ordinary floating-point control. Grad and inference mode,
/// default dtype, deterministic switches and errstate may have any value.
bool ambient_is_plain(const Ambient& ambient);
/// Why not, in words for the user ("autocast is on"); null if plain.
const char* ambient_reason(const Ambient& ambient);

/// Of this thread now; false and false while torch is not there.
bool grad_enabled();
bool inference_mode();
/// torch.set_grad_enabled(on) for this thread; false, with no error set, where torch cannot be asked. GIL.
bool set_grad_enabled(bool on);
/// Holds the grad mode of this thread to a value while it lives. GIL.
class GradMode {
  public:
    explicit GradMode(bool on) : before_(grad_enabled()), changed_(before_ != on && set_grad_enabled(on)) {}
    ~GradMode() {
        if (changed_) set_grad_enabled(before_);
    }
    GradMode(const GradMode&) = delete;
    GradMode& operator=(const GradMode&) = delete;

  private:
    bool before_, changed_;
};
/// torch.are_deterministic_algorithms_enabled().
bool deterministic_algorithms();

/// How torch's part is read, for reports: "none", "raw words", "functions", "public calls".
const char* ambient_way();

} // namespace dyno::python
