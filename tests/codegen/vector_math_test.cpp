// Accuracy, special values and floating-point flags of the generated functions. Truth: long double functions of the C library.
#include "compiler/runtime/executable.h"
#include "tests/codegen/nests.h"
#include <cfenv>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <iostream>
#include <random>

namespace dyno {
namespace {
using namespace test;

template <class T>
constexpr DType dtype_of = sizeof(T) == 4 ? DType::f32 : DType::f64;

LoopNest nest_of(ScalarOp op, DType t, int64_t n) {
    LoopNest nest;
    nest.axes = {{Axis::parallel, n}};
    nest.reports_flags = true;
    const int arity = scalar::info(op).arity;
    for (int k = 0; k < arity; k++) {
        nest.parameters.push_back({t});
        nest.loads.push_back({static_cast<uint32_t>(k), {0, {1}}});
        nest.body.push_back({Instruction::load, ScalarOp::load, Reduction::sum, t, {}, 0, static_cast<uint32_t>(k), 0});
    }
    nest.parameters.push_back({t, true});
    nest.body.push_back({Instruction::apply, op, Reduction::sum, t, {0, 1, 0}, static_cast<uint8_t>(arity), 0, 0});
    nest.stores = {{static_cast<uint32_t>(arity), {static_cast<uint32_t>(arity), {0, {1}}}}};
    return nest;
}

template <class T>
std::vector<T> run(ScalarOp op, const std::vector<T>& x, const std::vector<T>& y, int level, uint32_t* flags = nullptr) {
    std::vector<T> r(x.size());
    auto e = runtime::Executable::load(
        codegen::compile(nest_of(op, dtype_of<T>, static_cast<int64_t>(x.size())), codegen::host_target(), level));
    if (!e) throw std::runtime_error(e.reason());
    std::vector<const void*> buffers{x.data()};
    if (scalar::info(op).arity == 2) buffers.push_back(y.data());
    buffers.push_back(r.data());
    const uint32_t raised = (*e)->launch(const_cast<void* const*>(buffers.data()), nullptr, 1);
    if (flags) *flags = raised;
    return r;
}

template <class T>
double ulps(T mine, long double truth) {
    const T near = static_cast<T>(truth);
    if (std::isnan(mine) && std::isnan(near)) return 0;
    if (std::isinf(near)) return mine == near ? 0 : INFINITY;
    if (mine == near)
        return std::abs(
            static_cast<double>((mine - truth) / std::max<long double>(std::abs(std::nextafter(near, static_cast<T>(INFINITY)) - near),
                                                                       std::numeric_limits<T>::denorm_min())));
    const long double unit = std::max<long double>(std::abs(std::nextafter(std::abs(near), static_cast<T>(0)) - std::abs(near)),
                                                   std::numeric_limits<T>::denorm_min());
    return static_cast<double>(std::abs(mine - truth) / unit);
}

struct Case {
    ScalarOp op;
    std::function<long double(long double)> truth;
    double low, high;
    double limit; // ulp
};
const std::vector<Case> cases = {
    {ScalarOp::exp, [](long double x) { return expl(x); }, -87, 88, 1.1},
    {ScalarOp::log, [](long double x) { return logl(x); }, 1e-30, 1e30, 1.0},
    {ScalarOp::tanh, [](long double x) { return tanhl(x); }, -12, 12, 1.6},
    {ScalarOp::erf, [](long double x) { return erfl(x); }, -7, 7, 1.6},
    {ScalarOp::sin, [](long double x) { return sinl(x); }, -30000, 30000, 1.2},
    {ScalarOp::cos, [](long double x) { return cosl(x); }, -30000, 30000, 1.2},
    {ScalarOp::sigmoid, [](long double x) { return 1 / (1 + expl(-x)); }, -80, 80, 2.5},
    {ScalarOp::log1p, [](long double x) { return log1pl(x); }, -0.9, 1e6, 1.0},
    {ScalarOp::expm1, [](long double x) { return expm1l(x); }, -20, 80, 1.0},
    {ScalarOp::exp2, [](long double x) { return exp2l(x); }, -120, 120, 1.0},
    {ScalarOp::log2, [](long double x) { return log2l(x); }, 1e-30, 1e30, 1.5},
    {ScalarOp::log10, [](long double x) { return log10l(x); }, 1e-30, 1e30, 2.0},
    {ScalarOp::sinh, [](long double x) { return sinhl(x); }, -80, 80, 1.6},
    {ScalarOp::cosh, [](long double x) { return coshl(x); }, -80, 80, 1.6},
    {ScalarOp::tan, [](long double x) { return tanl(x); }, -1000, 1000, 1.5},
    {ScalarOp::atan, [](long double x) { return atanl(x); }, -100, 100, 1.5},
};

template <class T>
std::vector<T> arguments(const Case& c) {
    std::mt19937_64 random(7);
    std::vector<T> x;
    std::uniform_real_distribution<double> unit(0, 1);
    for (int k = 0; k < 30000; k++) { // evenly, and evenly in the exponent on both sides
        x.push_back(static_cast<T>(c.low + (c.high - c.low) * unit(random)));
        const double top = std::log2(std::max(std::abs(c.low), c.high)), bottom = c.low > 0 ? std::log2(c.low) : -40;
        const double size = std::exp2(bottom + (top - bottom) * unit(random));
        const double sign = c.low < 0 && (random() & 1) ? -1 : 1;
        if (size * sign >= c.low && size * sign <= c.high) x.push_back(static_cast<T>(size * sign));
    }
    return x;
}

template <class T>
void accuracy() {
    for (const Case& c : cases) {
        const std::vector<T> x = arguments<T>(c);
        uint32_t flags = 0;
        const std::vector<T> quick = run(c.op, x, x, 0), r = run(c.op, x, x, 2, &flags);
        double worst = 0;
        T at = 0;
        for (size_t k = 0; k < x.size(); k++) {
            const double u = ulps(r[k], c.truth(x[k]));
            if (!(u <= worst)) worst = u, at = x[k];
            ASSERT_EQ(std::memcmp(&r[k], &quick[k], sizeof(T)), 0) << scalar::info(c.op).name << " levels differ at " << x[k];
        }
        std::cout << scalar::info(c.op).name << (sizeof(T) == 4 ? " f32 " : " f64 ") << worst << " ulp at " << at << "\n";
        EXPECT_LE(worst, c.limit) << scalar::info(c.op).name << " at " << at;
        EXPECT_EQ(flags & ~uint32_t{runtime::underflow}, 0u) << scalar::info(c.op).name;
    }
}
TEST(VectorMath, AccuracyF32) { accuracy<float>(); }
TEST(VectorMath, AccuracyF64) { accuracy<double>(); }

template <class T>
void specials() {
    const T inf = INFINITY, nan = NAN, tiny = std::numeric_limits<T>::denorm_min(), least = std::numeric_limits<T>::min(),
            most = std::numeric_limits<T>::max();
    std::vector<T> x = {0,
                        static_cast<T>(-0.0),
                        1,
                        -1,
                        inf,
                        -inf,
                        nan,
                        tiny,
                        -tiny,
                        least,
                        -least,
                        most,
                        -most,
                        static_cast<T>(89),
                        static_cast<T>(-104),
                        710,
                        -746,
                        static_cast<T>(1e10),
                        0.5,
                        -0.5};
    while (x.size() < 64) x.push_back(static_cast<T>(0.25));
    for (const Case& c : cases) {
        const std::vector<T> r = run(c.op, x, x, 2);
        for (size_t k = 0; k < x.size(); k++) {
            const T truth = static_cast<T>(c.truth(x[k]));
            const bool same = std::isnan(truth)                 ? std::isnan(r[k])
                              : std::isinf(truth) || truth == 0 ? r[k] == truth
                                                                : ulps(r[k], c.truth(x[k])) <= 3;
            EXPECT_TRUE(same) << scalar::info(c.op).name << "(" << x[k] << ") = " << r[k] << " not " << truth;
            if (truth == 0 && c.op != ScalarOp::sigmoid) {
                EXPECT_EQ(std::signbit(r[k]), std::signbit(truth)) << scalar::info(c.op).name << "(" << x[k] << ")";
            }
        }
    }
}
TEST(VectorMath, SpecialValuesF32) { specials<float>(); }
TEST(VectorMath, SpecialValuesF64) { specials<double>(); }

template <class T>
void flags() {
    struct Row {
        ScalarOp op;
        T x;
        uint32_t expected;
    };
    const T inf = INFINITY, nan = NAN;
    const std::vector<Row> rows = {
        {ScalarOp::exp, 1000, runtime::overflow},
        {ScalarOp::exp, inf, 0},
        {ScalarOp::exp, nan, 0},
        {ScalarOp::exp, -inf, 0},
        {ScalarOp::exp, -1000, runtime::underflow},
        {ScalarOp::log, 0, runtime::divide_by_zero},
        {ScalarOp::log, -1, runtime::invalid},
        {ScalarOp::log, nan, 0},
        {ScalarOp::log, inf, 0},
        {ScalarOp::tanh, nan, 0},
        {ScalarOp::tanh, inf, 0},
        {ScalarOp::erf, nan, 0},
        {ScalarOp::erf, -inf, 0},
        {ScalarOp::sin, inf, runtime::invalid},
        {ScalarOp::sin, nan, 0},
        {ScalarOp::sqrt, -1, runtime::invalid},
        {ScalarOp::reciprocal, 0, runtime::divide_by_zero},
        {ScalarOp::maximum, nan, 0},
        {ScalarOp::relu, nan, 0},
        {ScalarOp::floor, nan, 0},
        {ScalarOp::round, static_cast<T>(0.3), 0},
    };
    for (const Row& row : rows)
        for (size_t n : {1u, 64u}) {
            std::vector<T> x(n, static_cast<T>(0.5));
            x[n / 2] = row.x;
            uint32_t raised = 0;
            for (int level : {0, 2}) {
                run(row.op, x, x, level, &raised);
                EXPECT_EQ(raised, row.expected) << scalar::info(row.op).name << "(" << row.x << ") of " << n;
            }
        }
}
TEST(VectorMath, FlagsF32) { flags<float>(); }
TEST(VectorMath, FlagsF64) { flags<double>(); }

TEST(VectorMath, PowerF32) {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<float> base(0, 20), exponent(-20, 20);
    std::vector<float> x, y;
    for (int k = 0; k < 20000; k++)
        x.push_back(k % 10 ? base(random) : -base(random)), y.push_back(k % 7 ? exponent(random) : std::round(exponent(random)));
    const std::vector<float> r = run(ScalarOp::pow, x, y, 2);
    for (size_t k = 0; k < x.size(); k++) ASSERT_LE(ulps(r[k], powl(x[k], y[k])), 1) << x[k] << " ** " << y[k];
}

} // namespace
} // namespace dyno
