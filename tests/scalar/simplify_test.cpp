// The simplifier on random expressions: the value of every result is kept bit for bit on special values, traps stay, a second
// run changes nothing; and the rules that must not exist do not.
#include "compiler/scalar/evaluate.h"
#include "compiler/scalar/round.h"
#include "compiler/scalar/simplify.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace dyno;
using namespace dyno::scalar;

namespace {

const DType dtypes[] = {DType::b8,  DType::u8,  DType::i8,   DType::i32, DType::i64,
                        DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};

struct Generator {
    std::mt19937 random;
    int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

    Value value(DType dtype) {
        static const double numbers[] = {0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 1e-40, 65504.0, INFINITY, -INFINITY, NAN, 0.1, -7.0};
        static const int64_t words[] = {0, 1, -1, 2, 7, -7, 127, -128, 255, 1000, INT64_MAX, INT64_MIN, INT32_MIN};
        if (is_float(dtype)) return Value::of_float(dtype, round_through_f32(dtype, numbers[below(13)]));
        return Value::of_int(dtype, wrap_to(dtype, words[below(13)]));
    }

    ValueId of_dtype(const ScalarExpr& expr, DType dtype) {
        std::vector<ValueId> found;
        for (ValueId i = 0; i < expr.code.size(); ++i)
            if (expr[i].dtype == dtype) found.push_back(i);
        return found.empty() ? no_value : found[below(static_cast<int>(found.size()))];
    }

    /// Ops that have a meaning for the dtype.
    static bool has_meaning(ScalarOp op, DType dtype) {
        bool floats = is_float(dtype), truth = dtype == DType::b8;
        switch (op) {
        case ScalarOp::bitwise_not:
        case ScalarOp::bitwise_and:
        case ScalarOp::bitwise_or:
        case ScalarOp::bitwise_xor:
            return !floats;
        case ScalarOp::shift_left:
        case ScalarOp::shift_right:
            return !floats && !truth;
        case ScalarOp::neg:
        case ScalarOp::sub:
        case ScalarOp::floor_div:
        case ScalarOp::remainder:
        case ScalarOp::fmod:
        case ScalarOp::fma:
            return !truth;
        case ScalarOp::sqrt:
        case ScalarOp::rsqrt:
        case ScalarOp::reciprocal:
        case ScalarOp::div:
        case ScalarOp::copysign:
            return floats;
        case ScalarOp::pow:
            return !truth;
        default:
            break;
        }
        if (op >= ScalarOp::exp && op <= ScalarOp::sigmoid) return floats;
        if (op == ScalarOp::atan2 || op == ScalarOp::hypot) return floats;
        return true;
    }

    ScalarExpr expression(std::vector<Value>& loads) {
        ScalarExpr expr;
        for (int i = 0; i < 3; ++i) {
            DType dtype = dtypes[below(10)];
            expr.load(dtype, static_cast<uint32_t>(i));
            loads.push_back(value(dtype));
            Value constant = value(dtype);
            expr.append({ScalarOp::constant, dtype, {no_value, no_value, no_value}, 0, constant.number, constant.integer});
            expr.constant_integer(DType::b8, below(2));
            if (is_float(dtype))
                expr.constant(dtype, below(2) ? 1.0 : -0.0);
            else
                expr.constant_integer(dtype, below(2));
        }
        for (int i = 0; i < 14; ++i) step(expr);
        // All values, or few, so that some instructions are needed for their trap alone.
        bool all = below(4) != 0;
        for (ValueId id = 0; id < expr.code.size(); ++id)
            if (all || below(8) == 0) expr.results.push_back(id);
        return expr;
    }

    void step(ScalarExpr& expr) {
        auto op = static_cast<ScalarOp>(below(scalar_op_count));
        if (below(4) == 0) op = ScalarOp::cast;
        ValueId x = static_cast<ValueId>(below(static_cast<int>(expr.code.size())));
        DType dtype = expr[x].dtype;
        if (op == ScalarOp::cast) {
            bool back = expr[x].op == ScalarOp::cast && below(2);
            expr.cast(back ? expr[expr[x].operands[0]].dtype : dtypes[below(10)], x);
        } else if (op == ScalarOp::select) {
            expr.apply(op, of_dtype(expr, DType::b8), x, of_dtype(expr, dtype));
        } else if (info(op).arity > 0 && has_meaning(op, dtype)) {
            ValueId y = info(op).arity > 1 ? of_dtype(expr, dtype) : no_value, z = info(op).arity > 2 ? of_dtype(expr, dtype) : no_value;
            expr.apply(op, x, y, z);
        }
    }
};

void expect_kept(const ScalarExpr& expr, const ScalarExpr& simple, const std::vector<Value>& loads, int seed) {
    auto before = evaluate(expr, {loads, {}, {}}), after = evaluate(simple, {loads, {}, {}});
    ASSERT_EQ(before.has_value(), after.has_value()) << seed << "\n" << to_text(expr) << "\n" << to_text(simple);
    for (size_t i = 0; before && i < before->size(); ++i)
        ASSERT_TRUE((*before)[i].same_as((*after)[i])) << seed << ", result " << i << "\n" << to_text(expr) << "\n" << to_text(simple);
}

size_t size_after(const std::function<ValueId(ScalarExpr&, ValueId)>& make, DType dtype = DType::f32) {
    ScalarExpr expr;
    ValueId x = expr.load(dtype, 0);
    expr.results.push_back(make(expr, x));
    return simplify(expr).code.size();
}

} // namespace

TEST(Simplify, KeepsEveryBitOfRandomExpressions) {
    int shorter = 0, trapped = 0;
    for (int seed = 0; seed < 10000; ++seed) {
        Generator generator{std::mt19937(static_cast<unsigned>(seed))};
        std::vector<Value> loads;
        ScalarExpr expr = generator.expression(loads), simple = simplify(expr);
        ASSERT_EQ(to_text(simplify(simple)), to_text(simple)) << seed << ": not idempotent";
        ASSERT_LE(simple.code.size(), expr.code.size());
        for (int round = 0; round < 10; ++round) {
            expect_kept(expr, simple, loads, seed);
            if (testing::Test::HasFatalFailure()) return;
            trapped += !evaluate(expr, {loads, {}, {}});
            for (Value& load : loads) load = generator.value(load.dtype);
        }
        shorter += simple.code.size() + 6 < expr.code.size();
    }
    EXPECT_GT(shorter, 2000);
    EXPECT_GT(trapped, 1000);
}

TEST(Simplify, AppliesItsRules) {
    using E = ScalarExpr;
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::mul, x, e.constant(DType::f32, 1.0)); }), 1u);
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::mul, e.constant(DType::f32, 1.0), x); }), 1u);
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::add, x, e.constant(DType::f32, -0.0)); }), 1u);
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::neg, e.apply(ScalarOp::neg, x)); }), 1u);
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.cast(DType::f32, e.cast(DType::f64, x)); }), 1u);
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::add, e.apply(ScalarOp::exp, x), e.apply(ScalarOp::exp, x)); }), 3u);
    EXPECT_EQ(size_after([](E& e, ValueId) { return e.apply(ScalarOp::add, e.constant(DType::f32, 1.0), e.constant(DType::f32, 2.0)); }),
              1u);
}

TEST(Simplify, LeavesWhatWouldChangeABit) {
    using E = ScalarExpr;
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::add, x, e.constant(DType::f32, 0.0)); }), 3u) << "-0 + 0 is +0";
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::mul, x, e.constant(DType::f32, 0.0)); }), 3u) << "NaN * 0";
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.apply(ScalarOp::sub, x, x); }), 2u) << "inf - inf";
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.cast(DType::f32, e.cast(DType::bf16, x)); }), 3u) << "bf16 rounds";
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.cast(DType::f64, e.cast(DType::f32, x)); }, DType::f64), 3u) << "f32 rounds";
    EXPECT_EQ(size_after([](E& e, ValueId x) { return e.cast(DType::i64, e.cast(DType::f64, x)); }, DType::i64), 3u) << "f64 holds 53 bits";
    EXPECT_EQ(size_after([](E& e, ValueId) { return e.apply(ScalarOp::exp, e.constant(DType::f32, 1.0)); }), 2u)
        << "the host's exp is not ours";
    EXPECT_EQ(size_after(
                  [](E& e, ValueId x) {
                      e.apply(ScalarOp::floor_div, x, x);
                      return x;
                  },
                  DType::i32),
              2u)
        << "a trap is kept";
}
