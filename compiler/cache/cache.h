// The cache: entries by segment key, their timing, lifetime and counters.
#pragma once
#include "compiler/replay/plan.h"
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dyno::cache {

/// The seven totals (interfaces.md says when each moves). They only grow.
struct Counters {
    std::atomic<uint64_t> captures{0}, hits{0}, graph_breaks{0}, kernels{0}, extern_calls{0}, recompiles{0}, dropped{0};
};

struct Entry {
    capture::SegmentKey key;
    std::shared_ptr<replay::LaunchPlan> plan;
    std::shared_ptr<std::atomic<bool>> stale;
    uint64_t hits = 0;
    bool dropped = false;           // slower than eager: kept as a tombstone with its reason
    std::string drop_reason;
    // Never slower: of the first calls each way, in nanoseconds.
    // Eager's time is one call's, which may have been its slowest: an entry that did not beat it clearly is compared in whole calls.
    bool doubtful = false;
    // Of hits while the plan still ran its first code. Where that lost to eager, the entry rests until the better code is in place.
    std::array<float, 3> early_ns{};
    uint32_t early_count = 0;
    bool resting = false;
    uint32_t rests = 0;             // calls that ran interpreted because it was dropped
    std::array<float, 16> compiled_ns{};
    uint32_t compiled_count = 0;
    float eager_ns = 0;
    float compile_ms = 0;
    /// No more times are wanted.
    bool judged() const { return dropped || compiled_count == compiled_ns.size(); }
};

/// Entries of one code object at one (unit, shape), newest hit first.
struct Slot {
    std::vector<std::shared_ptr<Entry>> entries;
    uint32_t recordings = 0;        // how often this key was recorded
    bool compiling = false;
    bool hopeless = false;          // recorded too often, or nothing to gain: do not record again
    std::string hopeless_reason;
    bool nothing = false;           // the last recording had no tensor work before it ended
    int nothing_until = -1;         // where it ended (a break), -1: the return
    std::vector<std::string> recompile_log;
};

/// Everything known of one code object. Freed by the code object's extra slot (entries die with their function's code).
struct CodeRecord;

/// The slot of a key, made when missing. GIL held.
Slot& slot_of(const capture::SegmentKey& key);
/// The slot of a key, or null.
Slot* find(const capture::SegmentKey& key);
/// Puts the entry that just hit before the others of its slot.
void move_first(Slot& slot, const Entry& entry);
/// Adds an entry as the newest of its slot; at most `most_entries` stay, the oldest leave. Counters are not touched.
void install(const std::shared_ptr<Entry>& entry);
constexpr size_t most_entries = 16;
/// Forgets entries of a slot whose stale flag is up. Returns the number.
size_t sweep(Slot& slot);
/// GC support: visits what the plans of a code object hold.
int traverse(PyCodeObject* code, visitproc visit, void* arg);
/// All slots of a code object, for reports and reset: (key, slot).
std::vector<std::pair<capture::SegmentKey, Slot*>> slots_of_code(PyCodeObject* code);
/// Every code object that was met, borrowed; after a reset, those met again.
std::vector<PyCodeObject*> known_codes();
/// Drops entries of one code object (null: all). Returns the bytes of code and buffers that they kept. Counters are not touched.
size_t reset(PyCodeObject* code);
/// What the entries of one code object came to.
struct Tally {
    std::string name, file;
    int line = 0;
    uint64_t captures = 0, hits = 0, kernels = 0, breaks = 0, dropped = 0;
};
/// Of the entries that the code object has now.
Tally tally_of(PyCodeObject* code);
/// Of entries that are gone with their code object or by a reset, added up by name and place: counters only grow. A few thousand at most.
std::vector<Tally> past();
/// Hash of the filled slots and the stack depth of a frame.
uint64_t shape_of(PyObject* const* slots, uint32_t locals, uint32_t depth);

Counters& counters();
/// What the calls take without what else the machine did meanwhile, which only adds: the lower quartile. Not for an empty list.
float settled_time(std::span<const float> times);
/// Registers a hit and its time: moves entry.hits and counters().hits. Returns true when the entry turned out slower than eager (its
/// settled time over the first 16 hits is above by more than 5 % and 2 us) and was dropped: counters().dropped moves; the plan stays for reports.
/// Hits that ran the first code (level 0) decide only whether the entry rests. entry.eager_ns 0 means unknown: then nothing is dropped.
bool note_hit(Entry& entry, float nanoseconds, bool best_code);

} // namespace dyno::cache
