// How the threads of a GPU run a nest: which elements belong to a thread, how many threads share a row, what a thread keeps of it.
// Depends on the nest only, so that all GPUs of a kind give the same bits.
#pragma once
#include "compiler/codegen/nest_plan.h"

namespace dyno::codegen {

struct GridPlan {
    NestPlan nest;
    int lanes = 1;             // consecutive elements of a thread: 16 bytes of the narrowest type where memory allows
    bool wide_memory = true;   // 16-byte accesses; false: buffers may be unaligned
    // flat: one thread has `lanes` elements. rows: `sharers` threads have one row; a block has `units` rows. columns: a block has
    // `units` strips of `lanes` columns, `sharers` threads each.
    int sharers = 1;
    int units = 1;
    int steps = 1;             // how often the sharers step to get through the part of a row that a block has
    bool resident = false;     // rows: all steps at once, in registers: memory is read once
    int unroll = 1;            // else: steps at a time
    int least_blocks = 0;      // that a multiprocessor is to hold at once: bounds the registers of a thread; 0: the assembler chooses
    int64_t parts = 1;         // blocks that share a row; a second kernel joins their results, unless they are a cluster
    bool cluster = false;      // they run at the same time and join by each other's shared memory: every stage, with the row on chip
    int64_t part_length = 0;   // elements of a row, a multiple of a step
    bool overlaps = false;     // the joining kernel may start while the first one runs (9.0 and later)
    int64_t positions = 1;     // elements of a row
    std::vector<bool> coarse;  // by body value: it only goes into results of 16 bits, which a relative error of 2^-17 does not show in
    int64_t unit_count = 1;    // rows, or strips of columns
    int threads() const { return sharers * units; }
    /// Neighbouring threads that join the parts of a row: as many as parts, a warp at most.
    int64_t joiners() const {
        int64_t n = 1;
        while (n < 32 && n * 2 <= parts) n *= 2;
        return n;
    }
    int64_t blocks() const { return (unit_count + units - 1) / units * parts; }
};

/// `clusters`: the GPU runs blocks in clusters (9.0 and later).
[[nodiscard]] GridPlan plan_grid(const fusion::LoopNest& nest, bool wide_memory, bool clusters = false);

/// Whether `lanes` consecutive elements of the access are one aligned piece of memory, if its buffer is aligned to 16 bytes.
[[nodiscard]] bool is_piece(const fusion::LoopNest& nest, const fusion::Access& access, int lanes);

} // namespace dyno::codegen
