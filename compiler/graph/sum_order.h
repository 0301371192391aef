// In which order eager adds up the elements of a result, on the CPU: worked out from the layout it saw. Followed, a sum is eager's
// to the last bit. Input: dims, strides and axes of one call; output: a SumOrder, `any` where eager's is not known.
// Facts: torch's cascades (aten/src/ATen/native/cpu/SumKernel.cpp and TensorIterator's order of axes), NumPy's pairwise sums
// (numpy/_core/src/umath/loops_utils.h.src) and nditer's order of axes; tests/python/test_sum_orders.py holds them against both.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace dyno::graph {

struct SumOrder {
    enum Kind : uint8_t {
        any,      // ours: one tree per shape, more accurate than eager's
        cascade,  // torch along a row: `lanes` interleaved sums, added up one after the other behind what is left over; each is a ladder by fours
        columns,  // torch across rows: of every `width` results the first `plain` are ladders, the others ladders by fours
        pairwise, // NumPy along its fastest axis: halved down to 128 elements, which are eight interleaved sums
        in_turn,  // one element after the other
        welford,  // moments in torch's norms: `lanes` interleaved rows of running means, sixteen terms at a time, joined in pairs
    } kind = any;
    int64_t lanes = 1;
    int64_t plain = 0, width = 1;
    int64_t run = 0; // elements to which the kind applies; the sums of these runs are added in turn. 0: all elements are one run
    bool operator==(const SumOrder&) const = default;
};

// A ladder adds 16 elements (more if there are more than 2^19), then adds that sum to the next rung's, which is added to the one
// above after 16 of these. By fours: four ladders side by side, one element in four each; what is left over joins the first.

/// The elements of a rung's step: a power of two.
[[nodiscard]] int64_t ladder_step(int64_t count);

/// One dim of a call's operand. Strides in elements.
struct ReducedDim {
    int64_t extent, stride;
    bool reduced;
    int64_t which; // the dim's number
};

/// Both libraries walk reduced dims from large strides to small ones: exchanges these among their places accordingly.
void sort_reduced(std::span<ReducedDim> dims);
/// torch.sum over the reduced dims (sorted), vectors of `lanes` elements. `any` for what depends on the number of threads.
[[nodiscard]] SumOrder torch_sum_order(std::span<const ReducedDim> dims, int64_t lanes);
/// torch's layer_norm of rows of `count` elements. `any` for what is not kept on chip, and for rows of one element.
[[nodiscard]] SumOrder torch_moments_order(int64_t count, int64_t lanes);
/// numpy.add.reduce over the reduced dims (sorted). `any` where NumPy's buffer divides the rows.
[[nodiscard]] SumOrder numpy_sum_order(std::span<const ReducedDim> dims);

/// "cascade 8", "columns 32 45", "pairwise runs 33", ...; empty for any.
[[nodiscard]] std::string to_text(const SumOrder& order);

} // namespace dyno::graph
