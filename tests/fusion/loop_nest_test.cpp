// Levels, stages, the verifier and the text form; axes of scheduled nests.
#include "compiler/fusion/loop_nest.h"
#include "compiler/fusion/lower.h"
#include "compiler/support/check.h"
#include <gtest/gtest.h>

namespace dyno::fusion {
namespace {
using scalar::ScalarOp;

LoopNest centre() { // x - sum(x), by rows
    LoopNest nest;
    nest.name = "sum_sub";
    nest.axes = {{Axis::parallel, 4}, {Axis::row, 8}};
    nest.parameters = {{DType::f32}, {DType::f32, true}};
    nest.loads = {{0, {0, {8, 1}}}};
    nest.body = {{.kind = Instruction::load, .dtype = DType::f32},
                 {.kind = Instruction::reduce, .how = Reduction::sum, .dtype = DType::f32, .operands = {0}, .arity = 1},
                 {.kind = Instruction::apply, .op = ScalarOp::sub, .dtype = DType::f32, .operands = {0, 1}, .arity = 2}};
    nest.stores = {{2, {1, {0, {8, 1}}}}};
    return nest;
}

TEST(LoopNest, LevelsAndStages) {
    const LoopNest nest = centre();
    EXPECT_EQ(levels(nest), (std::vector<Level>{Level::element, Level::row, Level::element}));
    EXPECT_EQ(stages(nest), (std::vector<uint32_t>{0, 1, 1}));
    EXPECT_EQ(row_count(nest), 4);
    EXPECT_EQ(row_length(nest), 8);
}

TEST(LoopNest, Text) {
    EXPECT_EQ(to_text(centre()),
              "nest sum_sub\naxis parallel 4\naxis row 8\nparameter f32\nparameter f32 written\n%0: f32 = load 0 [0 + 8 i0 + i1]\n"
              "%1: f32 = reduce sum %0\n%2: f32 = sub %0 %1\nstore %2 1 [0 + 8 i0 + i1]\n");
}

TEST(LoopNest, VerifierRefuses) {
    EXPECT_NO_THROW(verify(centre()));
    const auto broken = [](auto change) {
        LoopNest nest = centre();
        change(nest);
        EXPECT_THROW(verify(nest), InternalError);
    };
    broken([](LoopNest& n) { n.body[2].operands[1] = 2; });
    broken([](LoopNest& n) { n.parameters[1].written = false; });
    broken([](LoopNest& n) { n.parameters[0].dtype = DType::f64; });
    broken([](LoopNest& n) { n.loads[0].at.strides.pop_back(); });
    broken([](LoopNest& n) { n.body[1].dtype = DType::i64; });
    broken([](LoopNest& n) { n.body[2].arity = 1; });
}

TEST(SimplifyAxes, OrdersAndJoins) {
    LoopNest nest = centre();
    nest.axes = {{Axis::row, 8}, {Axis::parallel, 1}, {Axis::parallel, 2}, {Axis::parallel, 2}};
    nest.loads[0].at = {0, {1, 99, 16, 8}};
    nest.stores[0].to.at = {0, {1, 99, 16, 8}};
    nest = simplify_axes(nest);
    EXPECT_EQ(nest.axes, centre().axes);
    EXPECT_EQ(nest.loads, centre().loads);
}

TEST(SimplifyAxes, KeepsTheLastRowAxis) {
    LoopNest nest = centre();
    nest.axes[1].extent = 1;
    EXPECT_EQ(simplify_axes(nest).axes.size(), 2u);
}

} // namespace
} // namespace dyno::fusion
