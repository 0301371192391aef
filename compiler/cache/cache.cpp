// The cache in memory: entries by (code, unit, shape), hung on their code object so that they die with it. Everything under the GIL, but the
// counters.
#include "compiler/cache/cache.h"
#include "compiler/cache/code_extra.h"
#include "compiler/cache/events.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <vector>
#include <map>
#include <tuple>
#include <unordered_set>

namespace dyno::cache {

using capture::SegmentKey;

struct CodeRecord {
    PyCodeObject* code;
    std::map<std::pair<int, uint64_t>, Slot> slots; // addresses stay when slots are added
};

namespace {

/// Every code object with a record; a record takes itself out when its code object dies.
std::unordered_set<CodeRecord*>& records() {
    static std::unordered_set<CodeRecord*> all;
    return all;
}

std::string utf8(PyObject* text) {
    const char* bytes = PyUnicode_AsUTF8(text);
    if (!bytes) PyErr_Clear();
    return bytes ? bytes : "?";
}
Tally tally(const CodeRecord& record) {
    Tally sum{utf8(record.code->co_qualname), utf8(record.code->co_filename), record.code->co_firstlineno};
    for (const auto& [place, slot] : record.slots)
        for (const auto& entry : slot.entries) {
            sum.hits += entry->hits, sum.captures++, sum.dropped += entry->dropped;
            if (!entry->plan) continue;
            sum.kernels += replay::product_of(*entry->plan).schedule.nests.size();
            sum.breaks += replay::segment_of(*entry->plan).exit.kind == capture::Exit::breaks;
        }
    return sum;
}

using Place = std::tuple<std::string, std::string, int>;
std::map<Place, Tally>& gone_by_place() {
    static auto* all = new std::map<Place, Tally>; // code objects may die after everything else
    return *all;
}
constexpr size_t most_gone = 4096;

void remember(const CodeRecord& record) {
    const Tally sum = tally(record);
    if (!sum.captures) return;
    auto& all = gone_by_place();
    const Place place{sum.name, sum.file, sum.line};
    if (all.size() >= most_gone && !all.contains(place)) return;
    Tally& kept = all.try_emplace(place, Tally{sum.name, sum.file, sum.line}).first->second;
    kept.captures += sum.captures, kept.hits += sum.hits, kept.kernels += sum.kernels, kept.breaks += sum.breaks, kept.dropped += sum.dropped;
}

/// The code object is dying. Plans are dropped here: that may run user code, as any deallocation may.
void free_record(void* data) {
    if (!data) return;
    auto* record = static_cast<CodeRecord*>(data);
    remember(*record);
    records().erase(record);
    delete record;
}

CodeRecord* record_of(PyCodeObject* code) { return static_cast<CodeRecord*>(code_extra(code)); }

CodeRecord& record_made(PyCodeObject* code) {
    if (CodeRecord* known = record_of(code)) return *known;
    auto made = std::make_unique<CodeRecord>(CodeRecord{code, {}});
    DYNO_CHECK(set_code_extra(code, made.get(), free_record), "an extra slot on code objects");
    records().insert(made.get());
    return *made.release(); // the code object owns it
}

/// A new entry, as an event: what was compiled, and why again.
void tell_of_install(const Entry& entry, const std::vector<std::shared_ptr<Entry>>& older) {
    if (!entry.plan) return;
    const capture::Segment& segment = replay::segment_of(*entry.plan);
    const size_t kernels = replay::product_of(*entry.plan).schedule.nests.size();
    std::string text = older.empty() ? "compiled" : "compiled again";
    text += ": " + std::to_string(kernels) + (kernels == 1 ? " kernel" : " kernels");
    if (segment.exit.kind == capture::Exit::breaks) text += ", up to a break";
    const replay::GuardFailure* why = nullptr;
    for (const auto& other : older)
        if (other->plan)
            for (const replay::GuardFailure& failure : replay::failures_of(*other->plan))
                if (!why || failure.order > why->order) why = &failure;
    if (why) text += "; " + why->guard + ": was " + why->was + ", now " + why->now;
    const int line = segment.exit.kind == capture::Exit::breaks && segment.exit.at.code && segment.exit.at.code <= segment.codes.size() && segment.codes[segment.exit.at.code - 1] == entry.key.code ? segment.exit.at.line : 0;
    note_event(older.empty() ? "capture" : "recompile", entry.key.code, line, text);
}

/// Something became of it since it was made or reset.
bool was_met(const Slot& slot) { return !slot.entries.empty() || slot.compiling || slot.recordings || slot.nothing || slot.hopeless; }

} // namespace

Slot& slot_of(const SegmentKey& key) { return record_made(key.code).slots[{key.unit, key.shape}]; }

Slot* find(const SegmentKey& key) {
    CodeRecord* record = record_of(key.code);
    if (!record) return nullptr;
    const auto at = record->slots.find({key.unit, key.shape});
    return at == record->slots.end() ? nullptr : &at->second;
}

void move_first(Slot& slot, const Entry& entry) {
    const auto at = std::find_if(slot.entries.begin(), slot.entries.end(), [&](const auto& e) { return e.get() == &entry; });
    if (at != slot.entries.end()) std::rotate(slot.entries.begin(), at, at + 1);
}

void install(const std::shared_ptr<Entry>& entry) {
    auto& entries = slot_of(entry->key).entries;
    tell_of_install(*entry, entries);
    entries.insert(entries.begin(), entry);
    if (entries.size() <= most_entries) return;
    const auto oldest = std::move(entries.back()); // dies after the list is in order again
    entries.pop_back();
}

size_t sweep(Slot& slot) {
    std::vector<std::shared_ptr<Entry>> gone;
    auto& entries = slot.entries;
    for (size_t i = 0; i < entries.size();) {
        if (entries[i]->stale && entries[i]->stale->load(std::memory_order_acquire)) {
            gone.push_back(std::move(entries[i]));
            entries.erase(entries.begin() + static_cast<ptrdiff_t>(i));
        } else {
            ++i;
        }
    }
    return gone.size();
}

std::vector<std::pair<SegmentKey, Slot*>> slots_of_code(PyCodeObject* code) {
    std::vector<std::pair<SegmentKey, Slot*>> found;
    if (CodeRecord* record = record_of(code))
        for (auto& [place, slot] : record->slots) found.push_back({SegmentKey{code, place.first, place.second}, &slot});
    return found;
}

std::vector<PyCodeObject*> known_codes() {
    std::vector<PyCodeObject*> codes;
    for (const CodeRecord* record : records())
        if (std::any_of(record->slots.begin(), record->slots.end(), [](const auto& item) { return was_met(item.second); })) codes.push_back(record->code);
    return codes;
}

Tally tally_of(PyCodeObject* code) {
    const CodeRecord* record = record_of(code);
    return record ? tally(*record) : Tally{utf8(code->co_qualname), utf8(code->co_filename), code->co_firstlineno};
}
std::vector<Tally> past() {
    std::vector<Tally> all;
    for (const auto& [place, sum] : gone_by_place()) all.push_back(sum);
    return all;
}

size_t reset(PyCodeObject* code) {
    // Entries are taken out first and die last: dropping a plan may run user code, which may come here again.
    std::vector<std::shared_ptr<Entry>> gone;
    for (CodeRecord* record : records()) {
        if (code && record->code != code) continue;
        remember(*record);
        for (auto& [place, slot] : record->slots) {
            std::move(slot.entries.begin(), slot.entries.end(), std::back_inserter(gone));
            const bool compiling = slot.compiling;
            slot = Slot();
            slot.compiling = compiling; // the worker still has it
        }
    }
    size_t bytes = 0;
    for (const auto& entry : gone) {
        if (entry->stale) entry->stale->store(true, std::memory_order_release);
        if (!entry->plan) continue;
        const replay::PlanBytes kept = replay::bytes_of(*entry->plan);
        bytes += kept.code + kept.buffers;
    }
    return bytes;
}

uint64_t shape_of(PyObject* const* slots, uint32_t locals, uint32_t depth) {
    uint64_t hash = (0xcbf29ce484222325ULL + depth) * 0x9e3779b97f4a7c15ULL; // mixed, lest a depth look like a filled slot
    uint64_t filled = 0;
    const uint32_t count = locals + depth;
    for (uint32_t i = 0; i < count; ++i) {
        filled = filled << 1 | (slots[i] != nullptr);
        if (i % 64 != 63 && i + 1 != count) continue;
        hash = (hash ^ filled) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
        filled = 0;
    }
    return hash;
}

Counters& counters() {
    static Counters totals;
    return totals;
}

int traverse(PyCodeObject* code, visitproc visit, void* arg) {
    if (CodeRecord* record = record_of(code))
        for (const auto& [place, slot] : record->slots)
            for (const auto& entry : slot.entries)
                if (entry->plan)
                    if (const int stop = replay::traverse(*entry->plan, visit, arg)) return stop;
    return 0;
}

float settled_time(std::span<const float> times) {
    std::vector<float> sorted(times.begin(), times.end());
    const auto quarter = sorted.begin() + static_cast<long>(sorted.size() / 4);
    std::nth_element(sorted.begin(), quarter, sorted.end());
    return *quarter;
}

constexpr uint32_t first_look = 4;

static bool clearly_slower(float compiled_ns, float eager_ns) { return compiled_ns > eager_ns * 1.05F && compiled_ns - eager_ns > 2000.0F; }

static void note_early(Entry& entry, float nanoseconds) {
    if (entry.eager_ns <= 0 || entry.early_count >= entry.early_ns.size()) return;
    entry.early_ns[entry.early_count++] = nanoseconds;
    if (entry.early_count < entry.early_ns.size()) return;
    const float best = *std::min_element(entry.early_ns.begin(), entry.early_ns.end());
    entry.doubtful = best > entry.eager_ns * 0.5F;
    entry.resting = clearly_slower(best, entry.eager_ns);
}

bool note_hit(Entry& entry, float nanoseconds, bool best_code) {
    entry.hits++;
    counters().hits.fetch_add(1, std::memory_order_relaxed);
    if (entry.judged()) return false;
    if (!best_code) return note_early(entry, nanoseconds), false;
    entry.compiled_ns[entry.compiled_count++] = nanoseconds;
    if (entry.compiled_count == first_look && entry.eager_ns > 0) // whole calls are compared soon where nothing is won at first sight
        entry.doubtful = settled_time(std::span(entry.compiled_ns).first(first_look)) > entry.eager_ns * 0.5F;
    if (entry.compiled_count < entry.compiled_ns.size() || entry.eager_ns <= 0) return false;
    const float compiled = settled_time(entry.compiled_ns);
    entry.doubtful = compiled > entry.eager_ns * 0.5F;
    if (!clearly_slower(compiled, entry.eager_ns)) return false;
    entry.dropped = true;
    entry.drop_reason = "compiled code took " + std::to_string(static_cast<int>(compiled / 1000)) + " us against " +
                        std::to_string(static_cast<int>(entry.eager_ns / 1000)) + " us interpreted";
    note_event("dropped", entry.key.code, 0, "runs interpreted again: " + entry.drop_reason);
    counters().dropped.fetch_add(1, std::memory_order_relaxed);
    return true;
}

} // namespace dyno::cache
