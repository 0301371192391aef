// Mean and variance of a row to the bit as torch's CPU norms work them out (graph/sum_order.h: welford). Called by generated code.
// Facts: aten/src/ATen/native/cpu/moments_utils.h, in vectors of 32 bytes whatever the processor's, with fused multiplications
// where these are written out or where its compiler makes them.
#pragma once
#include <cstdint>

namespace dyno::runtime {

/// Writes a mean and a variance (divided by `count`) for each of the rows; row r is first[r][0], first[r][stride], ...
/// 1 <= count <= 8192. The processor must have AVX2 and FMA. Rows of stride 1 are fastest by fours.
void row_moments(const float* const* first, int64_t rows, int64_t stride, int64_t count, float* mean, float* variance);
void row_moments(const double* const* first, int64_t rows, int64_t stride, int64_t count, double* mean, double* variance);

} // namespace dyno::runtime
