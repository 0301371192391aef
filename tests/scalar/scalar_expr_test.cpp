// The op table, construction, printing.
#include "compiler/scalar/scalar_expr.h"
#include "compiler/support/check.h"
#include <gtest/gtest.h>
#include <set>

using namespace dyno;
using namespace dyno::scalar;

TEST(ScalarExpr, TableIsWellFormed) {
    std::set<std::string_view> names;
    for (int i = 0; i < scalar_op_count; ++i) {
        const ScalarOpInfo& row = info(static_cast<ScalarOp>(i));
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        EXPECT_EQ(scalar_op_named(row.name), static_cast<ScalarOp>(i));
        EXPECT_LE(row.arity, 3);
        EXPECT_TRUE(!row.commutes || row.arity == 2) << row.name;
        EXPECT_TRUE(row.arity > 0 || row.result == ResultRule::given) << row.name;
    }
    EXPECT_EQ(scalar_op_named("nothing"), ScalarOp::count_);
    EXPECT_THROW(info(ScalarOp::count_), InternalError);
}

TEST(ScalarExpr, DTypesFollowAndPrint) {
    ScalarExpr expr;
    ValueId x = expr.load(DType::f32, 1), half = expr.constant(DType::f32, 0.5);
    ValueId less = expr.apply(ScalarOp::lt, x, half);
    ValueId picked = expr.apply(ScalarOp::select, less, x, half);
    expr.results = {expr.cast(DType::i64, picked)};
    EXPECT_EQ(expr[less].dtype, DType::b8);
    EXPECT_EQ(expr[picked].dtype, DType::f32);
    EXPECT_EQ(to_text(expr),
              "%0: f32 = load 1\n%1: f32 = constant 0.5\n%2: b8 = lt %0 %1\n%3: f32 = select %2 %0 %1\n%4: i64 = cast %3\nreturn %4\n");
    EXPECT_THROW(expr.apply(ScalarOp::cast, x), InternalError);
}
