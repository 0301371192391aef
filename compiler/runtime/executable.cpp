// Launching: phases in order, each alone or divided over threads by its estimated time.
#include "compiler/runtime/executable.h"
#include "compiler/runtime/load_object.h"
#include "compiler/runtime/threads.h"
#include <algorithm>
#include <cstdlib>
#include <immintrin.h>

namespace dyno::runtime {

using PhaseFunction = uint64_t (*)(void* const*, const uint64_t*, void*, void*, int64_t, int64_t);

struct LoadedPhase {
    PhaseFunction run;
    int64_t units, grain;
    double nanoseconds;
};
struct LoadedCode {
    CodeMemory memory;
    std::vector<LoadedPhase> phases;
    int64_t shared_bytes, local_bytes;
    bool reports_flags;
    int level;
};

namespace {

/// Below this much work a fork and join of threads costs more than it saves.
constexpr double parallel_nanoseconds = 20000;
constexpr unsigned raised_flags = _MM_EXCEPT_MASK;
constexpr unsigned reported_flags = invalid | divide_by_zero | overflow | underflow;

/// One thread's memory, kept from launch to launch.
struct Scratch {
    void* memory = nullptr;
    int64_t bytes = 0;
    ~Scratch() { std::free(memory); }
    /// Null if there is none.
    void* at_least(int64_t wanted) {
        if (wanted <= bytes) return memory;
        void* larger = std::aligned_alloc(64, static_cast<size_t>((wanted + 63) / 64 * 64));
        if (!larger) return nullptr;
        std::free(memory);
        memory = larger;
        bytes = wanted;
        return memory;
    }
};
thread_local Scratch local_scratch, shared_scratch;

struct Run {
    const LoadedCode& code;
    const LoadedPhase& phase;
    void* const* buffers;
    const uint64_t* scalars;
    void* shared;
    std::atomic<uint32_t> flags{0};
};

/// Of the word that a phase returns.
uint32_t flags_of_fault(uint64_t fault) {
    return (fault & codegen::Fault::zero_division ? uint32_t{integer_zero_division} : 0u) | (fault & codegen::Fault::integer_overflow ? uint32_t{overflow} : 0u);
}

uint32_t run_range(const Run& run, int64_t begin, int64_t end) {
    void* local = nullptr;
    if (run.code.local_bytes > 0 && !(local = local_scratch.at_least(run.code.local_bytes))) return out_of_memory;
    if (!run.code.reports_flags) return flags_of_fault(run.phase.run(run.buffers, run.scalars, run.shared, local, begin, end));
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before & ~raised_flags);
    uint32_t flags = flags_of_fault(run.phase.run(run.buffers, run.scalars, run.shared, local, begin, end));
    flags |= _mm_getcsr() & reported_flags;
    _mm_setcsr(before);
    return flags;
}

void run_part(void* data, int k, int n) {
    Run& run = *static_cast<Run*>(data);
    const int64_t grains = (run.phase.units + run.phase.grain - 1) / run.phase.grain;
    const int64_t begin = std::min(run.phase.units, grains * k / n * run.phase.grain);
    const int64_t end = std::min(run.phase.units, grains * (k + 1) / n * run.phase.grain);
    if (begin >= end) return;
    if (const uint32_t flags = run_range(run, begin, end)) run.flags.fetch_or(flags, std::memory_order_relaxed);
}

Result<std::unique_ptr<LoadedCode>> load_code(const codegen::CompiledCode& code) {
    auto memory = load_object(code.object);
    if (!memory) return Refusal{memory.reason()};
    auto loaded = std::make_unique<LoadedCode>();
    loaded->memory = std::move(*memory);
    for (const codegen::Phase& p : code.phases) {
        const auto found = loaded->memory.symbols.find(p.symbol);
        if (found == loaded->memory.symbols.end()) return Refusal{"the object lacks " + p.symbol};
        loaded->phases.push_back({reinterpret_cast<PhaseFunction>(found->second), p.units, std::max<int64_t>(1, p.grain),
                                  static_cast<double>(p.units) * p.unit_nanoseconds});
    }
    loaded->shared_bytes = code.shared_bytes;
    loaded->local_bytes = code.local_bytes;
    loaded->reports_flags = code.reports_flags;
    loaded->level = code.level;
    return loaded;
}

} // namespace

Executable::Executable(std::unique_ptr<LoadedCode> code) : current_(code.get()) { loaded_.push_back(std::move(code)); }
Executable::~Executable() = default;

Result<std::shared_ptr<Executable>> Executable::load(const codegen::CompiledCode& code) {
    auto loaded = load_code(code);
    if (!loaded) return Refusal{loaded.reason()};
    return std::shared_ptr<Executable>(new Executable(std::move(*loaded)));
}

uint32_t Executable::launch(void* const* buffers, const uint64_t* scalar_bits, int threads) const noexcept {
    const LoadedCode& code = *current_.load(std::memory_order_acquire);
    void* shared = nullptr;
    if (code.shared_bytes > 0 && !(shared = shared_scratch.at_least(code.shared_bytes))) return out_of_memory;
    uint32_t flags = 0;
    for (const LoadedPhase& phase : code.phases) {
        Run run{code, phase, buffers, scalar_bits, shared, {}};
        if (phase.units == 0) continue;
        if (threads <= 1 || phase.nanoseconds < parallel_nanoseconds || phase.units <= phase.grain) {
            flags |= run_range(run, 0, phase.units);
            continue;
        }
        run_parallel(threads, run_part, &run);
        flags |= run.flags.load(std::memory_order_relaxed);
    }
    return flags;
}

bool Executable::replace(const codegen::CompiledCode& code) {
    auto loaded = load_code(code);
    if (!loaded) return false;
    const std::lock_guard lock(mutex_);
    current_.store(loaded->get(), std::memory_order_release);
    loaded_.push_back(std::move(*loaded));
    return true;
}

int Executable::level() const { return current_.load(std::memory_order_acquire)->level; }

size_t Executable::code_bytes() {
    const std::lock_guard lock(mutex_);
    size_t bytes = 0;
    for (const auto& code : loaded_) bytes += code->memory.size;
    return bytes;
}

double Executable::estimated_nanoseconds() const {
    double total = 0;
    for (const LoadedPhase& phase : current_.load(std::memory_order_acquire)->phases) total += phase.nanoseconds;
    return total;
}

} // namespace dyno::runtime
