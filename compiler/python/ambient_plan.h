// How the ambient word is read in this process: which words of torch's state are watched, as the proof found them. Internal to this folder.
#pragma once
#include <Python.h>
#include <cstdint>

#include "compiler/python/ambient.h"

namespace dyno::python {

/// A word of a region and the bits of it that some switch moves.
struct WatchedWord {
    int offset = 0;
    uint64_t mask = 0;
};

/// The places of Ambient::words.
enum AmbientWord : int {
    word_included, // torch's thread-local key sets
    word_excluded,
    word_autograd,                // grad mode, inference mode, view replay
    word_function,                // function modes (count << 8), disabled state (low byte), hooks on saved tensors (bit 63)
    word_context,                 // four words of the process-wide Context
    word_misc = word_context + 4, // default dtype (low byte), anomaly mode, profiler
    word_numpy,                   // errstate; floating-point control of the thread above bit 40
    word_python,                  // TracingBit
    word_way,                     // AmbientPlan::Way: words of different ways are not comparable
};
static_assert(word_way == Ambient::count - 1);

constexpr uint64_t misc_anomaly = 1 << 8, misc_profiler = 1 << 9, misc_deterministic = 1 << 10, misc_deterministic_warn = 1 << 11;
constexpr uint64_t function_hooks = uint64_t{1} << 63;

struct AmbientPlan {
    enum class Way : uint8_t { none, raw, functions, calls } way = Way::none;
    static constexpr int most_context = 4;
    WatchedWord autograd, context[most_context];
    int context_count = 0;
    uint64_t grad_mask = 0, grad_on = 0;           // within the masked autograd word
    uint64_t inference_mask = 0, inference_on = 0; // the same
    bool hooks = false;                            // the stack of hooks was proved
    // Key sets of a thread with nothing active, without and with inference mode, in the form each way reads them: torch stores them as
    // differences from its defaults, which the public calls add.
    struct KeySets {
        uint64_t included[2] = {}, excluded[2] = {};
    } idle, idle_by_calls;
    // Which bits each switch moves, in included and excluded; as differences, the same for all ways.
    uint64_t autocast_bits[2] = {}, dispatch_bits[2] = {}, transform_bits[2] = {};
    uint64_t function_enabled = 0; // the disabled state when not disabled
    const char* refused = nullptr; // why not raw
};

extern AmbientPlan ambient_plan;

/// The regions of this thread; addresses are found once a thread.
struct AmbientRegions {
    const uint64_t* keys; // included, excluded
    const char* autograd;
    const char* function;
    const char* context;
    const char* hooks;
};
const AmbientRegions& ambient_regions();

/// The function-mode stack is a vector at 8 (begin) and 16 (end), 16 bytes a mode; the disabled state an int at 0. Proved.
constexpr int modes_begin = 8, modes_end = 16, mode_bytes = 16;
/// The hooks lie in a deque whose cursors are at 16 (first) and 48 (behind the last). Proved.
constexpr int hooks_first = 16, hooks_last = 48;

/// Of torch.autograd.profiler._is_profiler_enabled.
bool profiler_enabled();

/// For tests: another way than the best proved one; answers false if it cannot be had.
bool use_ambient_way(AmbientPlan::Way way);

} // namespace dyno::python
