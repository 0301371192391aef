// The evaluator's law, case by case where hardware and libraries differ. Against eager's bits: tests/graph/values_test.cpp.
#include "compiler/scalar/evaluate.h"
#include "compiler/support/check.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace dyno;
using namespace dyno::scalar;

namespace {

Value f(DType t, double x) { return Value::of_float(t, x); }
Value n(DType t, int64_t x) { return Value::of_int(t, x); }

Value of(ScalarOp op, std::vector<Value> operands) {
    DType result = info(op).result == ResultRule::b8 ? DType::b8 : operands.back().dtype;
    std::optional<Value> value = apply(op, result, operands);
    EXPECT_TRUE(value) << info(op).name;
    return value.value_or(Value{});
}

} // namespace

TEST(Evaluate, RoundsAfterEveryOp) {
    EXPECT_EQ(of(ScalarOp::add, {f(DType::f32, 16777216.0), f(DType::f32, 1.0)}).number, 16777216.0);
    EXPECT_EQ(of(ScalarOp::add, {f(DType::bf16, 256.0), f(DType::bf16, 1.0)}).number, 256.0);
    EXPECT_EQ(of(ScalarOp::add, {f(DType::f16, 2048.0), f(DType::f16, 1.0)}).number, 2048.0);
    EXPECT_EQ(of(ScalarOp::mul, {f(DType::f16, 300.0), f(DType::f16, 300.0)}).number, INFINITY);
    EXPECT_EQ(of(ScalarOp::fma, {f(DType::f32, 1 + 0x1p-23), f(DType::f32, 1 + 0x1p-23), f(DType::f32, -1 - 0x1p-22)}).number, 0x1p-46)
        << "rounded once";
}

TEST(Evaluate, ZerosAndNaN) {
    EXPECT_TRUE(std::signbit(of(ScalarOp::relu, {f(DType::f32, -0.0)}).number));
    EXPECT_TRUE(std::isnan(of(ScalarOp::relu, {f(DType::f32, NAN)}).number));
    EXPECT_FALSE(std::signbit(of(ScalarOp::sign, {f(DType::f32, -0.0)}).number));
    EXPECT_EQ(of(ScalarOp::sign, {f(DType::f32, NAN)}).number, 0.0);
    EXPECT_TRUE(std::isnan(of(ScalarOp::maximum, {f(DType::f32, 1.0), f(DType::f32, NAN)}).number));
    EXPECT_TRUE(std::isnan(of(ScalarOp::maximum, {f(DType::f32, NAN), f(DType::f32, 1.0)}).number));
    EXPECT_EQ(of(ScalarOp::fmax, {f(DType::f32, NAN), f(DType::f32, 1.0)}).number, 1.0);
    EXPECT_TRUE(std::signbit(of(ScalarOp::remainder, {f(DType::f64, -4.0), f(DType::f64, 2.0)}).number)) << "a zero keeps fmod's sign";
    EXPECT_EQ(of(ScalarOp::remainder, {f(DType::f64, -1.0), f(DType::f64, INFINITY)}).number, INFINITY);
    EXPECT_EQ(of(ScalarOp::floor_div, {f(DType::f64, 5.0), f(DType::f64, 0.0)}).number, INFINITY);
    EXPECT_EQ(of(ScalarOp::round, {f(DType::f32, 2.5)}).number, 2.0);
    EXPECT_EQ(of(ScalarOp::ne, {f(DType::f32, NAN), f(DType::f32, NAN)}).integer, 1);
}

TEST(Evaluate, IntegersWrapAndTrap) {
    EXPECT_EQ(of(ScalarOp::add, {n(DType::u8, 250), n(DType::u8, 10)}).integer, 4);
    EXPECT_EQ(of(ScalarOp::neg, {n(DType::i8, -128)}).integer, -128);
    EXPECT_EQ(of(ScalarOp::floor_div, {n(DType::i32, -7), n(DType::i32, 2)}).integer, -4);
    EXPECT_EQ(of(ScalarOp::remainder, {n(DType::i32, -7), n(DType::i32, 2)}).integer, 1);
    EXPECT_EQ(of(ScalarOp::fmod, {n(DType::i32, -7), n(DType::i32, 2)}).integer, -1);
    EXPECT_EQ(of(ScalarOp::lt, {n(DType::u64, 1), n(DType::u64, -1)}).integer, 1) << "u64 compares unsigned";
    EXPECT_EQ(of(ScalarOp::pow, {n(DType::i8, 3), n(DType::i8, 5)}).integer, static_cast<int8_t>(243));
    EXPECT_EQ(of(ScalarOp::shift_left, {n(DType::i32, 1), n(DType::i32, 32)}).integer, 0);
    EXPECT_EQ(of(ScalarOp::shift_right, {n(DType::i32, -8), n(DType::i32, -1)}).integer, -1);
    Value zero[] = {n(DType::i32, 1), n(DType::i32, 0)}, smallest[] = {n(DType::i8, -128), n(DType::i8, -1)},
          negative[] = {n(DType::i64, 2), n(DType::i64, -1)};
    EXPECT_FALSE(apply(ScalarOp::floor_div, DType::i32, zero));
    EXPECT_FALSE(apply(ScalarOp::remainder, DType::i8, smallest));
    EXPECT_FALSE(apply(ScalarOp::pow, DType::i64, negative));
}

TEST(Evaluate, Casts) {
    EXPECT_EQ(convert(f(DType::f32, 300.7), DType::u8).integer, 44);
    EXPECT_EQ(convert(f(DType::f32, -1.0), DType::u8).integer, 255);
    EXPECT_EQ(convert(f(DType::f32, NAN), DType::i32).integer, INT32_MIN);
    EXPECT_EQ(convert(f(DType::f32, 3e9), DType::i64).integer, 3000000000);
    EXPECT_EQ(convert(f(DType::f64, 1e19), DType::u64).integer, static_cast<int64_t>(10000000000000000000u));
    EXPECT_EQ(convert(f(DType::f32, NAN), DType::b8).integer, 1);
    EXPECT_EQ(convert(f(DType::f64, 1 + 0x1p-11 + 0x1p-40), DType::f16).number, 1.0) << "by way of f32";
    EXPECT_EQ(convert(n(DType::i64, (1 << 24) + 1), DType::f32).number, 16777216.0);
    EXPECT_EQ(convert(n(DType::u64, -1), DType::f64).number, 0x1p64);
    EXPECT_EQ(convert(n(DType::i64, 300), DType::i8).integer, 44);
}

TEST(Evaluate, WholeExpressions) {
    ScalarExpr expr;
    ValueId x = expr.load(DType::i32, 1), y = expr.scalar(DType::i32, 0), i = expr.index(DType::i32, 0);
    ValueId sum = expr.apply(ScalarOp::add, x, y);
    expr.results = {expr.apply(ScalarOp::select, expr.apply(ScalarOp::gt, i, sum), i, sum), i};
    Value loads[] = {n(DType::i32, 0), n(DType::i32, 5)}, scalars[] = {n(DType::i32, 2)};
    int64_t indices[] = {9};
    auto values = evaluate(expr, {loads, scalars, indices});
    ASSERT_TRUE(values);
    EXPECT_EQ((*values)[0].integer, 9);
    EXPECT_THROW((void)apply(ScalarOp::add, DType::f32, {}), InternalError);
}
