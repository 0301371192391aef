// compile() from end to end: nests by hand, both levels, one and two threads, against plain loops.
#include "compiler/runtime/executable.h"
#include "tests/codegen/nests.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace dyno {
namespace {
using namespace test;


std::shared_ptr<runtime::Executable> make(const LoopNest& nest, int level) {
    auto e = runtime::Executable::load(codegen::compile(nest, codegen::host_target(), level));
    if (!e) throw std::runtime_error(e.reason());
    return *e;
}

TEST(Compile, ReluOfSumTimesTwo) {
    for (int64_t n : {0, 1, 7, 32, 100, 4096, 100003}) {
        LoopNest nest;
        nest.axes = {{Axis::parallel, n}};
        nest.parameters = {{DType::f32}, {DType::f32}, {DType::f32, true}};
        nest.loads = {{0, {0, {1}}}, {1, {0, {1}}}};
        nest.body = {load(DType::f32, 0),
                     load(DType::f32, 1),
                     apply(ScalarOp::add, DType::f32, 0, 1),
                     apply(ScalarOp::relu, DType::f32, 2),
                     constant(2),
                     apply(ScalarOp::mul, DType::f32, 3, 4)};
        nest.stores = {{5, {2, {0, {1}}}}};
        std::vector<float> a(n), b(n), c(n + 1, -7);
        for (int64_t k = 0; k < n; k++) a[k] = std::sin(k), b[k] = std::cos(3 * k);
        for (int level : {0, 2})
            for (int threads : {1, 2}) {
                std::fill(c.begin(), c.end(), -7.f);
                void* buffers[] = {a.data(), b.data(), c.data()};
                EXPECT_EQ(make(nest, level)->launch(buffers, nullptr, threads), 0u);
                for (int64_t k = 0; k < n; k++) ASSERT_EQ(c[k], std::max(a[k] + b[k], 0.f) * 2) << k;
                EXPECT_EQ(c[n], -7);
            }
    }
}

TEST(Compile, SoftmaxRows) {
    for (int64_t n : {1, 5, 64, 1000}) {
        const int64_t m = 37;
        LoopNest nest;
        nest.axes = {{Axis::parallel, m}, {Axis::row, n}};
        nest.parameters = {{DType::f32}, {DType::f32, true}};
        nest.loads = {{0, {0, {n, 1}}}};
        nest.body = {load(DType::f32, 0),
                     reduce(Reduction::amax, DType::f32, 0),
                     apply(ScalarOp::sub, DType::f32, 0, 1),
                     apply(ScalarOp::exp, DType::f32, 2),
                     reduce(Reduction::sum, DType::f32, 3),
                     apply(ScalarOp::div, DType::f32, 3, 4)};
        nest.stores = {{5, {1, {0, {n, 1}}}}};
        std::vector<float> x(m * n), y(m * n), first;
        for (int64_t k = 0; k < m * n; k++) x[k] = 10 * std::sin(k);
        for (int level : {0, 2}) {
            void* buffers[] = {x.data(), y.data()};
            EXPECT_EQ(make(nest, level)->launch(buffers, nullptr, 2), 0u);
            if (first.empty()) first = y;
            EXPECT_EQ(std::memcmp(first.data(), y.data(), 4 * y.size()), 0) << "levels differ";
            for (int64_t r = 0; r < m; r++) {
                double top = -INFINITY, sum = 0;
                for (int64_t k = 0; k < n; k++) top = std::max<double>(top, x[r * n + k]);
                for (int64_t k = 0; k < n; k++) sum += std::exp(x[r * n + k] - top);
                for (int64_t k = 0; k < n; k++)
                    ASSERT_NEAR(y[r * n + k], std::exp(x[r * n + k] - top) / sum, 2e-6 * std::exp(x[r * n + k] - top) / sum);
            }
        }
    }
}

TEST(Compile, SumsOfColumnsRowsAndAll) {
    for (int64_t m : {3, 50, 5000})
        for (int64_t n : {1, 9, 64, 200})
            for (int what : {0, 1, 2}) { // columns, rows, all
                LoopNest nest;
                nest.axes = {{what == 1 ? Axis::parallel : Axis::row, m}, {what == 0 ? Axis::parallel : Axis::row, n}};
                nest.parameters = {{DType::f32}, {DType::f32, true}, {DType::i64, true}};
                nest.loads = {{0, {0, {n, 1}}}};
                nest.body = {load(DType::f32, 0), reduce(Reduction::sum, DType::f32, 0), reduce(Reduction::argmax, DType::i64, 0)};
                const std::vector<int64_t> out = {what == 1 ? 1 : 0, what == 0 ? 1 : 0};
                nest.stores = {{1, {1, {0, out}}}, {2, {2, {0, out}}}};
                const int64_t rows = what == 0 ? n : what == 1 ? m : 1;
                std::vector<float> x(m * n), y(rows);
                std::vector<int64_t> at(rows);
                for (int64_t k = 0; k < m * n; k++) x[k] = std::sin(k * 1.1);
                for (int level : {0, 2})
                    for (int threads : {1, 2}) {
                        void* buffers[] = {x.data(), y.data(), at.data()};
                        EXPECT_EQ(make(nest, level)->launch(buffers, nullptr, threads), 0u);
                        std::vector<double> sum(rows, 0);
                        std::vector<float> top(rows, -INFINITY);
                        std::vector<int64_t> where(rows), seen(rows);
                        for (int64_t k = 0; k < m * n; k++) {
                            const int64_t r = what == 0 ? k % n : what == 1 ? k / n : 0;
                            sum[r] += x[k];
                            if (x[k] > top[r]) top[r] = x[k], where[r] = seen[r];
                            seen[r]++;
                        }
                        for (int64_t r = 0; r < rows; r++) {
                            ASSERT_NEAR(y[r], sum[r], 1e-5) << m << " " << n << " " << what;
                            ASSERT_EQ(at[r], where[r]) << m << " " << n << " " << what;
                        }
                    }
            }
}

/// Several groups of strips, the last one shorter and its last strip overlapping, below an outer axis; two row axes around the columns.
TEST(Compile, GroupsOfColumns) {
    for (int64_t columns : {33, 64, 1001, 2100})
        for (bool two : {false, true}) {
            const int64_t outer = 2, rows = 70, inner = two ? 3 : 1;
            LoopNest nest; // x[outer][rows][columns][inner]
            nest.axes = {{Axis::parallel, outer}, {Axis::row, rows}, {Axis::parallel, columns}};
            std::vector<int64_t> in = {rows * columns * inner, columns * inner, inner}, out = {columns, 0, 1};
            if (two) nest.axes.insert(nest.axes.begin() + 2, {Axis::row, inner}), in.insert(in.begin() + 2, 1), out.insert(out.begin() + 2, 0);
            nest.parameters = {{DType::f64}, {DType::f64, true}, {DType::i64, true}};
            nest.loads = {{0, {0, in}}};
            nest.body = {load(DType::f64, 0), reduce(Reduction::sum, DType::f64, 0), reduce(Reduction::argmax, DType::i64, 0)};
            nest.stores = {{1, {1, {0, out}}}, {2, {2, {0, out}}}};
            std::vector<double> x(static_cast<size_t>(outer * rows * columns * inner)), y(static_cast<size_t>(outer * columns)), first;
            std::vector<int64_t> at(y.size());
            for (size_t k = 0; k < x.size(); k++) x[k] = std::sin(static_cast<double>(k) * 1.1);
            for (int level : {0, 2})
                for (int threads : {1, 2}) {
                    void* buffers[] = {x.data(), y.data(), at.data()};
                    std::fill(y.begin(), y.end(), -1.0);
                    EXPECT_EQ(make(nest, level)->launch(buffers, nullptr, threads), 0u);
                    if (first.empty()) first = y;
                    EXPECT_EQ(std::memcmp(first.data(), y.data(), 8 * y.size()), 0) << "levels or threads differ";
                    for (int64_t o = 0; o < outer; o++)
                        for (int64_t c = 0; c < columns; c++) {
                            double sum = 0, top = -INFINITY;
                            int64_t where = 0;
                            for (int64_t r = 0; r < rows * inner; r++) {
                                const double v = x[static_cast<size_t>(((o * rows + r / inner) * columns + c) * inner + r % inner)];
                                sum += v;
                                if (v > top) top = v, where = r;
                            }
                            ASSERT_NEAR(y[static_cast<size_t>(o * columns + c)], sum, 1e-12) << columns << " " << two << " " << c;
                            ASSERT_EQ(at[static_cast<size_t>(o * columns + c)], where) << columns << " " << two << " " << c;
                        }
                }
        }
}

} // namespace
} // namespace dyno
