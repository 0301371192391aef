// CompiledCode: machine code of one LoopNest with its signature. Plain data, but for code that is made on demand: made by codegen, loaded by runtime, kept on
// disk by cache. No LLVM here.
//
// Code is a relocatable object whose phases are run in order, each over its own range of units, which threads may divide
// as they like: results do not depend on the division. A phase is
//     uint64_t phase(void* const* buffers, const uint64_t* scalars, void* shared, void* local, int64_t begin, int64_t end)
// and returns fault bits (see Fault). `shared` holds partial results between phases, `local` is one thread's own.
#pragma once
#include "compiler/fusion/loop_nest.h"
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dyno::codegen {

/// The machine that code is made for. Equal targets may exchange code.
struct Target {
    enum Kind : uint8_t { x86, nvptx } kind = x86;
    std::string cpu;      // LLVM's name
    std::string features; // LLVM's list, as given by host_target()
    int vector_bits = 256;
    bool operator==(const Target&) const = default;
};

/// The CPU this process runs on.
[[nodiscard]] Target host_target();
/// An NVIDIA GPU of that compute capability (8.0 and later), by the newest model that LLVM knows and that runs there.
[[nodiscard]] Target gpu_target(int major, int minor);

struct Phase {
    std::string symbol;
    int64_t units = 0;
    double unit_nanoseconds = 0; // estimate, one thread: the runtime decides by it how many threads pay
    int64_t grain = 1;           // threads divide at multiples of it (lines of memory are not shared)
    int64_t blocks = 0;          // nvptx: the grid, and the threads of a block
    int threads = 0;
    int cluster = 1;             // nvptx: blocks that run together
    bool starts_early = false;   // nvptx: may be launched while the phase before it runs, for which it waits itself
};

/// Bits that a phase returns.
enum Fault : uint64_t {
    none = 0,
    zero_division = 1,     // or a negative integer power: results are not to be used
    integer_overflow = 2,  // the smallest integer divided by -1: wrapped
};

struct CompiledCode {
    Target target;
    int level = 0;
    std::vector<uint8_t> object; // x86: ELF relocatable; nvptx: PTX text, whose kernels take the buffers, the scalars' words, `shared`
    std::function<std::vector<uint8_t>()> unaligned; // nvptx: makes the same for buffers that are not aligned to 16 bytes, which are rare; may be empty
    std::vector<Phase> phases;
    int64_t shared_bytes = 0;
    int64_t local_bytes = 0;
    uint32_t buffers = 0, scalars = 0; // how many of each
    bool reports_flags = false;
};

/// Makes code for a nest. level 0: quick to make; 2: quick to run; their results are bit-equal. Thread-safe.
[[nodiscard]] CompiledCode compile(const fusion::LoopNest& nest, const Target& target, int level);

/// Pays LLVM's start-up cost (some 20 ms) now, on this thread. Optional, idempotent.
void warm_up();

} // namespace dyno::codegen
