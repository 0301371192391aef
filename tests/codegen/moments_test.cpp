// Mean and variance in the steps of torch's norms, compiled at both levels, against these steps written down for one lane.
#include "compiler/runtime/executable.h"
#include "tests/codegen/nests.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace dyno {
namespace {
using namespace test;
using graph::SumOrder;

template <class T> struct Moments {
    int64_t count = 0;
    T mean = 0, squares = 0;
};

template <class T> void join(Moments<T>& into, const Moments<T>& more) {
    const int64_t count = into.count + more.count;
    const T share = count ? static_cast<T>(more.count) / static_cast<T>(count) : T(0), delta = more.mean - into.mean;
    volatile T moved = share * delta, scaled = delta * static_cast<T>(into.count), both = into.squares + more.squares;
    into.squares = std::fma(static_cast<T>(scaled), static_cast<T>(moved), static_cast<T>(both));
    into.mean = into.mean + moved;
    into.count = count;
}

/// Of every `lanes`-th element from `lane` on: chunks of 16, joined like the digits of a binary counter.
template <class T> Moments<T> of_lane(const std::vector<T>& x, size_t lane, size_t lanes) {
    const size_t count = x.size() / lanes, chunks = (count + 15) / 16;
    const size_t depth = std::max<size_t>(1, chunks < 2 ? 0 : static_cast<size_t>(std::bit_width(chunks - 1)));
    std::vector<Moments<T>> rungs(depth);
    for (size_t c = 0; c < chunks; c++) {
        Moments<T> m;
        for (size_t j = 0; j < std::min<size_t>(16, count - 16 * c); j++) {
            const T delta = x[lane + (16 * c + j) * lanes] - m.mean;
            m.count++;
            m.mean = std::fma(T(1) / static_cast<T>(m.count), delta, m.mean);
            m.squares = std::fma(delta, x[lane + (16 * c + j) * lanes] - m.mean, m.squares);
        }
        join(rungs[0], m);
        for (size_t k = 1; k < depth && (c + 1) % (size_t{1} << k) == 0; k++) join(rungs[k], rungs[k - 1]), rungs[k - 1] = {};
    }
    for (size_t k = 1; k < depth; k++) join(rungs[0], rungs[k]);
    return rungs[0];
}

template <class T> std::pair<T, T> expected(const std::vector<T>& x) {
    const size_t lanes = 32 / sizeof(T);
    Moments<T> all;
    for (size_t i = x.size() / lanes * lanes; i < x.size(); i++) {
        const T delta = x[i] - all.mean;
        all.mean += delta / static_cast<T>(++all.count);
        const volatile T square = delta * (x[i] - all.mean);
        all.squares += square;
    }
    for (size_t lane = 0; lane < lanes; lane++) {
        const Moments<T> one = of_lane(x, lane, lanes);
        const T share = static_cast<T>(one.count) / static_cast<T>(all.count + one.count), delta = one.mean - all.mean;
        const volatile T part = delta * delta * share;
        all.mean = std::fma(share, delta, all.mean);
        all.squares += std::fma(static_cast<T>(part), static_cast<T>(all.count), one.squares);
        all.count += one.count;
    }
    return {all.mean, all.squares / static_cast<T>(x.size())};
}

struct Shape {
    int64_t rows, count;
    bool last, computed; // the row is the last axis; its elements are not in memory
};

template <class T> void check(const Shape& s) {
    const DType t = sizeof(T) == 4 ? DType::f32 : DType::f64;
    LoopNest nest;
    const auto affine = [&](int64_t row, int64_t element) { return s.last ? fusion::Affine{0, {row, element}} : fusion::Affine{0, {element, row}}; };
    nest.axes = s.last ? std::vector<Axis>{{Axis::parallel, s.rows}, {Axis::row, s.count}} : std::vector<Axis>{{Axis::row, s.count}, {Axis::parallel, s.rows}};
    nest.loads = {{0, s.last ? affine(s.count, 1) : affine(1, s.rows)}};
    nest.parameters = {{t}, {t, true}, {t, true}};
    nest.orders = {{{.kind = SumOrder::welford, .lanes = 32 / static_cast<int64_t>(sizeof(T))}, affine(1, 0)}};
    nest.body = {load(t, 0)};
    if (s.computed) nest.body.push_back(apply(ScalarOp::mul, t, 0, 0));
    const auto element = static_cast<fusion::ValueId>(nest.body.size() - 1);
    for (Reduction how : {Reduction::welford_mean, Reduction::welford_var}) {
        nest.body.push_back(reduce(how, t, element));
        nest.body.back().which = 1;
    }
    nest.stores = {{element + 1, {1, affine(1, 0)}}, {element + 2, {2, affine(1, 0)}}};
    verify(nest);
    std::mt19937 random(static_cast<unsigned>(s.rows * 1000 + s.count));
    std::normal_distribution<double> numbers(3.0);
    const auto rows = static_cast<size_t>(s.rows), count = static_cast<size_t>(s.count);
    std::vector<T> x(rows * count), mean(rows), variance(rows);
    for (T& v : x) v = static_cast<T>(numbers(random));
    for (int level : {0, 2}) {
        auto code = runtime::Executable::load(codegen::compile(nest, codegen::host_target(), level));
        ASSERT_TRUE(code) << code.reason();
        void* buffers[] = {x.data(), mean.data(), variance.data()};
        ASSERT_EQ((*code)->launch(buffers, nullptr, 2), 0u);
        for (size_t r = 0; r < rows; r++) {
            std::vector<T> row;
            for (size_t i = 0; i < count; i++) {
                const T v = s.last ? x[r * count + i] : x[i * rows + r];
                row.push_back(s.computed ? v * v : v);
            }
            const auto [m, v] = expected(row);
            ASSERT_EQ(mean[r], m) << "row " << r << " of " << s.rows << ", " << s.count << " elements, level " << level;
            ASSERT_EQ(variance[r], v) << "row " << r << " of " << s.rows << ", " << s.count << " elements, level " << level;
        }
    }
}

TEST(Moments, EqualTorchsSteps) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "the processor fuses nothing";
    for (int64_t count : {2, 7, 8, 9, 31, 32, 127, 128, 129, 300, 640, 1023, 2500})
        for (bool last : {true, false})
            for (bool computed : {true, false}) {
                check<float>({5, count, last, computed});
                check<double>({19, count, last, computed});
            }
    check<float>({2, 8192, true, false});
    check<double>({40, 8192, false, true});
}

} // namespace
} // namespace dyno
