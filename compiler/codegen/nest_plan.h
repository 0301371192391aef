// How a CPU runs a nest: which axis is the vector axis, how many lanes, whether rows are split, what is kept of a row between
// passes. Depends on the nest and the target's width only, never on level or thread count: so all code of a nest is bit-equal.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include "compiler/fusion/loop_nest.h"
#include <cstdint>
#include <vector>

namespace dyno::codegen {

/// Where a body value is computed. Later scopes run more often.
enum class Scope : uint8_t { entry, unit, mid, body };

/// Two reductions of a row that one pass can make, though the second is written in terms of the first.
struct ReductionPair {
    enum Kind : uint8_t {
        exponentials, // first: the largest of the elements; second: the sum of exp(element - first)
        spread,       // first: the sum of the elements; second: the sum of the squared distances from their mean
    } kind;
    fusion::ValueId first, second, element;
};

/// How a reduction of the body follows its order (LoopNest::orders).
enum class Ordered : uint8_t {
    no,       // has none, or its row is too long to be kept
    running,  // in turn while the loops run
    in_place, // its elements are in memory already
    stashed,  // they are put down there first
};

struct NestPlan {
    enum Mode : uint8_t {
        flat,    // no row axes: units are elements
        rows,    // the vector axis is the last row axis: units are rows
        columns, // the vector axis is a parallel axis: units are groups of strips of `lanes` rows, then single rows
    } mode = flat;
    int lanes = 8;
    int vector_bits = 128; // of a register
    size_t vector_axis = 0;                           // meaningless if the nest has no axis
    std::vector<Scope> scope;                         // by body value
    std::vector<bool> vector;                         // by body value: differs from lane to lane
    std::vector<uint32_t> stage;                      // by body value
    uint32_t stages = 1;                              // passes over a row
    std::vector<std::vector<fusion::ValueId>> needed; // by stage: the element values it computes, in order
    std::vector<std::vector<fusion::ValueId>> reused; // by stage: element values it takes from an earlier pass's stash
    std::vector<std::vector<fusion::ValueId>> kept;   // by stage: element values it puts into the stash
    std::vector<int64_t> stash_offset;                // by body value: bytes in local memory, -1 if not kept
    std::vector<Ordered> ordered;                     // by body value
    int64_t local_bytes = 0;
    int64_t together = 1; // short rows whose moments are made side by side, each with local memory of its own
    bool split = false; // rows are divided in blocks whose partial results a second phase combines
    size_t split_axis = 0;
    int64_t block = 0, blocks = 1;      // extent of a block along split_axis; how many
    // Columns: strips side by side take turns every few rows, so that lines and pages are used whole while they are at hand.
    int64_t group = 1;                  // strips of a unit
    int64_t turn = 0;                   // extent of a turn along the first row axis; 0: no turns
    size_t turn_axis = 0;
    bool overlapping = false;           // the last strip begins early instead of leaving single rows
    std::vector<bool> element_store;    // by store: done for every point of a row, not once a row
    std::vector<ReductionPair> pairs;   // GPUs: made in one pass
    /// What a reduction takes in: its operand, for the second of a pair the first one's.
    fusion::ValueId taken_by(const fusion::LoopNest& nest, fusion::ValueId reduction) const {
        for (const ReductionPair& pair : pairs)
            if (pair.second == reduction) return pair.element;
        return nest.body[reduction].operands[0];
    }
    double nanoseconds_per_element = 0; // of one pass over everything
};

/// How the vector axis of columns mode is dealt out to units.
struct Columns {
    int64_t strips, groups, singles;
};
[[nodiscard]] Columns columns_of(const fusion::LoopNest& nest, const NestPlan& plan);

[[nodiscard]] NestPlan plan_nest(const fusion::LoopNest& nest, const Target& target);

/// The same for threads of a GPU: the last axis is the vector axis, `lanes` elements belong to a thread, nothing is stashed or split.
[[nodiscard]] NestPlan plan_for_threads(const fusion::LoopNest& nest, int lanes, const std::vector<ReductionPair>& pairs = {});

/// The pairs of a nest, of f32 only.
[[nodiscard]] std::vector<ReductionPair> reduction_pairs(const fusion::LoopNest& nest);

} // namespace dyno::codegen
