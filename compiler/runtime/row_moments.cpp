// Vectors of 32 bytes take in the row side by side. Sixteen vectors are a chunk, with running moments of its own: the next term moves the
// mean by its distance over the number of terms. Chunks are joined in pairs, these again, ...; the lanes come last, behind what is left
// over. Neither chunks nor rows depend on each other, so several run at a time.
#include "compiler/runtime/row_moments.h"
#include <array>
#include <bit>
#include <immintrin.h>

#define DYNO_FUSED __attribute__((target("avx2,fma")))
#define DYNO_FUSED_INLINE __attribute__((target("avx2,fma"), always_inline)) inline

namespace dyno::runtime {
namespace {

constexpr int64_t chunk = 16;  // vectors
constexpr int side_by_side = 4; // chunks, or short rows
constexpr int64_t longest = 8192;
constexpr int rungs_at_most = 9; // 8192 elements in 128 chunks

struct F32 {
    using Scalar = float;
    using Vector = __m256;
    static constexpr int64_t lanes = 8;
    DYNO_FUSED_INLINE static Vector load(const float* p) { return _mm256_loadu_ps(p); }
    DYNO_FUSED_INLINE static void store(float* p, Vector v) { _mm256_storeu_ps(p, v); }
    DYNO_FUSED_INLINE static Vector all(float x) { return _mm256_set1_ps(x); }
    DYNO_FUSED_INLINE static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
    DYNO_FUSED_INLINE static float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
};

struct F64 {
    using Scalar = double;
    using Vector = __m256d;
    static constexpr int64_t lanes = 4;
    DYNO_FUSED_INLINE static Vector load(const double* p) { return _mm256_loadu_pd(p); }
    DYNO_FUSED_INLINE static void store(double* p, Vector v) { _mm256_storeu_pd(p, v); }
    DYNO_FUSED_INLINE static Vector all(double x) { return _mm256_set1_pd(x); }
    DYNO_FUSED_INLINE static Vector fma(Vector a, Vector b, Vector c) { return _mm256_fmadd_pd(a, b, c); }
    DYNO_FUSED_INLINE static double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

/// 1, 1/2, ...
template <class Scalar>
constexpr std::array<Scalar, chunk> shares = [] {
    std::array<Scalar, chunk> all{};
    for (size_t k = 0; k < all.size(); k++) all[k] = Scalar(1) / static_cast<Scalar>(k + 1);
    return all;
}();

template <class T>
struct Moments {
    int64_t count = 0;
    typename T::Vector mean, squares;
};

template <class T>
DYNO_FUSED_INLINE void join(Moments<T>& into, const Moments<T>& more) {
    using Scalar = typename T::Scalar;
    const int64_t count = into.count + more.count;
    const auto share = T::all(count == 0 ? Scalar(0) : static_cast<Scalar>(more.count) / static_cast<Scalar>(count));
    const auto delta = more.mean - into.mean, moved = share * delta;
    into.squares = T::fma(delta * T::all(static_cast<Scalar>(into.count)), moved, into.squares + more.squares);
    into.mean = into.mean + moved;
    into.count = count;
}

/// Chunks that run side by side: that hides the latency of their chains.
template <class T, int n>
struct Chunks {
    typename T::Vector mean[n], squares[n];
    DYNO_FUSED_INLINE Chunks() {
        for (int k = 0; k < n; k++) mean[k] = squares[k] = T::all(0);
    }
    /// Vectors `from` to `to` of the first `some` of them.
    template <int some>
    DYNO_FUSED_INLINE void take(const typename T::Scalar* const* first, int64_t from, int64_t to) {
        for (int64_t j = from; j < to; j++) {
            const auto share = T::all(shares<typename T::Scalar>[static_cast<size_t>(j)]);
#pragma GCC unroll 4
            for (int k = 0; k < some; k++) {
                const auto x = T::load(first[k] + j * T::lanes);
                const auto delta = x - mean[k];
                mean[k] = T::fma(share, delta, mean[k]);
                squares[k] = T::fma(delta, x - mean[k], squares[k]);
            }
        }
    }
};

/// The ladder of pairs: a chunk joins the lowest rung, a full rung the next one.
template <class T>
struct Ladder {
    std::array<Moments<T>, rungs_at_most> rungs;
    int depth;
    int64_t taken = 0;
    DYNO_FUSED_INLINE explicit Ladder(int64_t chunks) : depth(chunks < 2 ? 1 : std::bit_width(static_cast<uint64_t>(chunks - 1))) {
        for (int k = 0; k < depth; k++) rungs[static_cast<size_t>(k)] = {0, T::all(0), T::all(0)};
    }
    DYNO_FUSED_INLINE void take(const Moments<T>& more) {
        join(rungs[0], more);
        taken++;
        for (int k = 1; k < depth && taken % (int64_t{1} << k) == 0; k++) {
            join(rungs[static_cast<size_t>(k)], rungs[static_cast<size_t>(k - 1)]);
            rungs[static_cast<size_t>(k - 1)] = {0, T::all(0), T::all(0)};
        }
    }
    DYNO_FUSED_INLINE Moments<T> total() {
        for (int k = 1; k < depth; k++) join(rungs[0], rungs[static_cast<size_t>(k)]);
        return rungs[0];
    }
};

/// So many whole chunks and one of `part` vectors, one behind the other.
template <class T, int whole>
DYNO_FUSED_INLINE void take_chunks(Ladder<T>& ladder, const typename T::Scalar* first, int64_t part) {
    const typename T::Scalar* at[whole + 1];
    for (int k = 0; k <= whole; k++) at[k] = first + k * chunk * T::lanes;
    Chunks<T, whole + 1> next;
    next.template take<whole + 1>(at, 0, part);
    next.template take<whole>(at, part, chunk);
    for (int k = 0; k < whole; k++) ladder.take({chunk, next.mean[k], next.squares[k]});
    if (part) ladder.take({part, next.mean[whole], next.squares[whole]});
}

/// All whole vectors of a row of more than one chunk, by lanes.
template <class T>
DYNO_FUSED_INLINE Moments<T> of_vectors(const typename T::Scalar* first, int64_t vectors) {
    Ladder<T> ladder((vectors + chunk - 1) / chunk);
    int64_t whole = vectors / chunk;
    for (; whole >= side_by_side; whole -= side_by_side, first += side_by_side * chunk * T::lanes) take_chunks<T, side_by_side>(ladder, first, 0);
    if (whole == 3) take_chunks<T, 3>(ladder, first, vectors % chunk);
    if (whole == 2) take_chunks<T, 2>(ladder, first, vectors % chunk);
    if (whole == 1) take_chunks<T, 1>(ladder, first, vectors % chunk);
    if (whole == 0) take_chunks<T, 0>(ladder, first, vectors % chunk);
    return ladder.total();
}

/// Rows that lie dense in memory, side by side.
template <class T, int rows>
DYNO_FUSED_INLINE void of_dense_rows(const typename T::Scalar* const* first, int64_t count, typename T::Scalar* mean, typename T::Scalar* variance) {
    using Scalar = typename T::Scalar;
    const int64_t vectors = count / T::lanes, left = count % T::lanes;
    Scalar m[rows] = {}, s[rows] = {};
    for (int64_t k = 0; k < left; k++)
        for (int r = 0; r < rows; r++) {
            const Scalar x = first[r][vectors * T::lanes + k], delta = x - m[r];
            m[r] += delta / static_cast<Scalar>(k + 1);
            s[r] += delta * (x - m[r]);
        }
    if (vectors) {
        Scalar means[rows][T::lanes], squares[rows][T::lanes], before[T::lanes], share[T::lanes];
        Chunks<T, rows> only; // joining a single chunk with nothing changes nothing
        if (vectors <= chunk) only.template take<rows>(first, 0, vectors);
        for (int r = 0; r < rows; r++) {
            const Moments<T> sums = vectors <= chunk ? Moments<T>{vectors, only.mean[r], only.squares[r]} : of_vectors<T>(first[r], vectors);
            T::store(means[r], sums.mean);
            T::store(squares[r], sums.squares);
        }
        for (int64_t lane = 0; lane < T::lanes; lane++) before[lane] = static_cast<Scalar>(left + lane * vectors);
        const auto more = T::all(static_cast<Scalar>(vectors));
        T::store(share, more / (T::load(before) + more));
        for (int64_t lane = 0; lane < T::lanes; lane++)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                const Scalar delta = means[r][lane] - m[r];
                m[r] = T::fma(share[lane], delta, m[r]);
                s[r] += T::fma(delta * delta * share[lane], before[lane], squares[r][lane]);
            }
    }
    for (int r = 0; r < rows; r++) mean[r] = m[r], variance[r] = s[r] / static_cast<Scalar>(count);
}

template <class T>
DYNO_FUSED void of_rows(const typename T::Scalar* const* first, int64_t rows, int64_t stride, int64_t count, typename T::Scalar* mean, typename T::Scalar* variance) {
    int64_t r = 0;
    if (stride == 1) {
        for (; r + side_by_side <= rows; r += side_by_side) of_dense_rows<T, side_by_side>(first + r, count, mean + r, variance + r);
        for (; r < rows; r++) of_dense_rows<T, 1>(first + r, count, mean + r, variance + r);
        return;
    }
    typename T::Scalar gathered[longest];
    const typename T::Scalar* dense = gathered;
    for (; r < rows; r++) {
        for (int64_t k = 0; k < count; k++) gathered[k] = first[r][k * stride];
        of_dense_rows<T, 1>(&dense, count, mean + r, variance + r);
    }
}

} // namespace

void row_moments(const float* const* first, int64_t rows, int64_t stride, int64_t count, float* mean, float* variance) {
    of_rows<F32>(first, rows, stride, count, mean, variance);
}
void row_moments(const double* const* first, int64_t rows, int64_t stride, int64_t count, double* mean, double* variance) {
    of_rows<F64>(first, rows, stride, count, mean, variance);
}

} // namespace dyno::runtime
