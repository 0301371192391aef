// Sums in a given order, compiled at both levels and for one and two threads, against the order written down as plain loops.
#include "compiler/runtime/executable.h"
#include "tests/codegen/nests.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace dyno {
namespace {
using namespace test;
using graph::SumOrder;

template <class T> using Row = std::vector<T>;

template <class T> T ladder(const Row<T>& x, size_t start, size_t step, size_t count) {
    const size_t span = static_cast<size_t>(graph::ladder_step(static_cast<int64_t>(count)));
    T rungs[4] = {};
    for (size_t i = 0; i < count;) {
        const bool full = count - i >= span;
        const size_t end = full ? i + span : count;
        for (; i < end; i++) rungs[0] += x[start + i * step];
        if (!full) break;
        for (size_t rung = 1, size = span; rung < 4; rung++, size *= span) {
            rungs[rung] += rungs[rung - 1];
            rungs[rung - 1] = 0;
            if (i / size % span) break;
        }
    }
    return ((rungs[0] + rungs[1]) + rungs[2]) + rungs[3];
}
template <class T> T by_fours(const Row<T>& x, size_t start, size_t step, size_t count) {
    T sums[4];
    for (size_t k = 0; k < 4; k++) sums[k] = ladder(x, start + k * step, 4 * step, count / 4);
    for (size_t i = count / 4 * 4; i < count; i++) sums[0] += x[start + i * step];
    return ((sums[0] + sums[1]) + sums[2]) + sums[3];
}
template <class T> T cascade(const Row<T>& x, size_t lanes) {
    if (lanes == 1) return by_fours(x, 0, 1, x.size());
    T total = 0;
    for (size_t i = x.size() / lanes * lanes; i < x.size(); i++) total += x[i];
    for (size_t lane = 0; lane < lanes; lane++) total += by_fours(x, lane, lanes, x.size() / lanes);
    return total;
}
template <class T> T pairwise(const T* x, size_t count) {
    T sum = 0;
    if (count < 8) {
        for (size_t i = 0; i < count; i++) sum += x[i];
        return sum;
    }
    if (count > 128) {
        const size_t half = count / 2 / 8 * 8;
        return pairwise(x, half) + pairwise(x + half, count - half);
    }
    T r[8];
    std::copy(x, x + 8, r);
    size_t i = 8;
    for (; i < count / 8 * 8; i++) r[i % 8] += x[i];
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; i++) sum += x[i];
    return sum;
}
template <class T> T expected(const SumOrder& order, const Row<T>& row, size_t result) {
    if (order.run) {
        T total = 0;
        SumOrder inner = order;
        inner.run = 0;
        for (size_t i = 0; i < row.size(); i += static_cast<size_t>(order.run))
            total += expected(inner, Row<T>(row.begin() + static_cast<long>(i), row.begin() + static_cast<long>(i) + order.run), result);
        return total;
    }
    T total = 0;
    switch (order.kind) {
    case SumOrder::cascade:
        return cascade(row, static_cast<size_t>(order.lanes));
    case SumOrder::columns:
        return static_cast<int64_t>(result) % order.width < order.plain ? ladder(row, 0, 1, row.size()) : by_fours(row, 0, 1, row.size());
    case SumOrder::pairwise:
        return pairwise(row.data(), row.size());
    default:
        for (T x : row) total += x;
        return total;
    }
}

struct Shape {
    int64_t results, count;
    bool last; // the row is the last axis
    bool computed;
};

template <class T> void check(const Shape& s, const SumOrder& order) {
    const DType t = sizeof(T) == 4 ? DType::f32 : DType::f64;
    LoopNest nest;
    const std::vector<int64_t> strides = s.last ? std::vector<int64_t>{s.count, 1} : std::vector<int64_t>{1, s.results};
    nest.axes = {{Axis::parallel, s.results}, {Axis::row, s.count}};
    nest.loads = {{0, {0, strides}}};
    if (!s.last) std::swap(nest.axes[0], nest.axes[1]), std::swap(nest.loads[0].at.strides[0], nest.loads[0].at.strides[1]);
    const size_t results = s.last ? 0 : 1;
    fusion::Affine place{0, {0, 0}};
    place.strides[results] = 1;
    nest.parameters = {{t}, {t, true}};
    nest.orders = {{order, place}};
    nest.body = {load(t, 0)};
    if (s.computed) nest.body.push_back(apply(ScalarOp::mul, t, 0, 0));
    const auto summed = static_cast<fusion::ValueId>(nest.body.size() - 1);
    nest.body.push_back(reduce(Reduction::sum, t, summed));
    nest.body.back().which = 1;
    nest.stores = {{summed + 1, {1, place}}};
    verify(nest);
    std::mt19937 random(static_cast<unsigned>(s.results * 1000 + s.count));
    std::normal_distribution<double> numbers;
    Row<T> x(static_cast<size_t>(s.results * s.count)), y(static_cast<size_t>(s.results));
    for (T& v : x) v = static_cast<T>(numbers(random));
    for (int level : {0, 2}) {
        auto code = runtime::Executable::load(codegen::compile(nest, codegen::host_target(), level));
        ASSERT_TRUE(code) << code.reason();
        for (int threads : {1, 2}) {
            void* buffers[] = {x.data(), y.data()};
            ASSERT_EQ((*code)->launch(buffers, nullptr, threads), 0u);
            for (size_t r = 0; r < y.size(); r++) {
                Row<T> row;
                for (size_t i = 0; i < static_cast<size_t>(s.count); i++) {
                    const T v = s.last ? x[r * static_cast<size_t>(s.count) + i] : x[i * y.size() + r];
                    row.push_back(s.computed ? v * v : v);
                }
                ASSERT_EQ(y[r], expected(order, row, r)) << to_text(order) << ", result " << r << " of " << s.results << ", " << s.count << " elements, level " << level;
            }
        }
    }
}

void check_all(const SumOrder& order, std::initializer_list<int64_t> counts, std::initializer_list<int64_t> results) {
    for (int64_t count : counts)
        for (int64_t result : results)
            for (bool last : {true, false})
                for (bool computed : {false, true}) {
                    check<float>({result, count, last, computed}, order);
                    check<double>({result, count, last, computed}, order);
                }
}

TEST(SumEmitter, Cascades) {
    check_all({.kind = SumOrder::cascade, .lanes = 8}, {8, 33, 100, 999}, {1, 5, 19});
    check_all({.kind = SumOrder::cascade, .lanes = 4}, {70}, {9});
    check_all({.kind = SumOrder::cascade, .lanes = 1}, {1, 3, 4, 7, 63, 64, 300}, {1, 21});
}
TEST(SumEmitter, LongLadders) { check<float>({2, 40000, true, true}, {.kind = SumOrder::cascade, .lanes = 8}), check<float>({1, 70000, true, false}, {.kind = SumOrder::cascade}); }
TEST(SumEmitter, Columns) {
    check_all({.kind = SumOrder::columns, .plain = 32, .width = 45}, {3, 17, 260}, {45, 90});
    check_all({.kind = SumOrder::columns, .plain = 4, .width = 6}, {40}, {6});
    check_all({.kind = SumOrder::columns, .plain = 16, .width = 16}, {40, 4095}, {16});
    check_all({.kind = SumOrder::columns, .plain = 0, .width = 3}, {40}, {3});
}
TEST(SumEmitter, Halves) { check_all({.kind = SumOrder::pairwise}, {1, 7, 8, 15, 128, 129, 1000}, {1, 20}); }
TEST(SumEmitter, InTurn) { check_all({.kind = SumOrder::in_turn}, {1, 16, 100}, {1, 7, 40}); }
TEST(SumEmitter, Runs) {
    check_all({.kind = SumOrder::pairwise, .run = 20}, {60}, {3, 33});
    check_all({.kind = SumOrder::cascade, .lanes = 8, .run = 25}, {75}, {3, 33});
}
TEST(SumEmitter, TooLongToBeKept) {
    // Computed elements of a row that local memory does not hold are added in our own order: as accurate, but not the same.
    const int64_t n = 1 << 20;
    LoopNest nest;
    nest.axes = {{Axis::row, n}};
    nest.parameters = {{DType::f32}, {DType::f32, true}};
    nest.loads = {{0, {0, {1}}}};
    nest.orders = {{{.kind = SumOrder::pairwise}, {0, {0}}}};
    nest.body = {load(DType::f32, 0), apply(ScalarOp::mul, DType::f32, 0, 0), reduce(Reduction::sum, DType::f32, 1)};
    nest.body.back().which = 1;
    nest.stores = {{2, {1, {0, {0}}}}};
    Row<float> x(static_cast<size_t>(n), 0.1f), y(1);
    auto code = runtime::Executable::load(codegen::compile(nest, codegen::host_target(), 2));
    ASSERT_TRUE(code) << code.reason();
    void* buffers[] = {x.data(), y.data()};
    ASSERT_EQ((*code)->launch(buffers, nullptr, 1), 0u);
    EXPECT_EQ(y[0], static_cast<float>(static_cast<double>(0.1f * 0.1f) * static_cast<double>(n)));
}

} // namespace
} // namespace dyno
