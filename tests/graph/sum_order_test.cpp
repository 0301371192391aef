// Which order of additions a call's layout means: one case a rule of torch's and NumPy's.
#include "compiler/graph/build.h"
#include "compiler/graph/sum_order.h"
#include "compiler/graph/text.h"
#include <gtest/gtest.h>

using namespace dyno;
using namespace dyno::graph;

namespace {

using Dims = std::vector<ReducedDim>;

std::string torch_order(Dims dims, int64_t lanes = 8) {
    sort_reduced(dims);
    return to_text(torch_sum_order(dims, lanes));
}
std::string numpy_order(Dims dims) {
    sort_reduced(dims);
    return to_text(numpy_sum_order(dims));
}

} // namespace

TEST(SumOrder, TorchAlongRows) {
    EXPECT_EQ(torch_order({{100, 1, true}}), "cascade 8");
    EXPECT_EQ(torch_order({{100, 1, true}}, 16), "cascade 16");
    EXPECT_EQ(torch_order({{5, 20, true}, {20, 1, true}}), "cascade 8") << "one run of memory";
    EXPECT_EQ(torch_order({{20, 1, true}, {5, 20, true}}), "cascade 8") << "in whichever order the dims are";
    EXPECT_EQ(torch_order({{5, 40, true}, {20, 1, true}}), "cascade 8 runs 20") << "gaps";
    EXPECT_EQ(torch_order({{7, 9, false}, {9, 1, true}}), "cascade 8");
    EXPECT_EQ(torch_order({{9, 5, false}, {5, 1, true}}), "cascade 1") << "rows shorter than a vector";
    EXPECT_EQ(torch_order({{100, 2, true}}), "columns 0 1") << "single elements of a row with gaps";
    EXPECT_EQ(torch_order({{5, 48, true}, {3, 16, false}, {16, 1, true}}), "cascade 8 runs 16");
}

TEST(SumOrder, TorchAcrossRows) {
    EXPECT_EQ(torch_order({{7, 45, true}, {45, 1, false}}), "columns 32 45");
    EXPECT_EQ(torch_order({{7, 45, true}, {45, 1, false}}, 4), "columns 32 45");
    EXPECT_EQ(torch_order({{7, 15, true}, {15, 1, false}}, 4), "columns 0 15");
    EXPECT_EQ(torch_order({{7, 6, true}, {6, 1, false}}), "columns 4 6") << "fewer columns than a vector has lanes";
    EXPECT_EQ(torch_order({{2, 70, false}, {7, 10, true}, {10, 1, false}}), "columns 0 10") << "the last dim's columns";
}

TEST(SumOrder, TorchWhereThreadsDivide) {
    EXPECT_EQ(torch_order({{32767, 1, true}}), "cascade 8");
    EXPECT_EQ(torch_order({{32768, 1, true}}), "");
    EXPECT_EQ(torch_order({{2, 32768, false}, {32768, 1, true}}), "cascade 8") << "rows stay whole";
    EXPECT_EQ(torch_order({{32768, 16, true}, {16, 1, false}}), "");
    EXPECT_EQ(torch_order({{8, 0, true}}), "") << "a broadcast dim";
    EXPECT_EQ(torch_order({{8, -1, true}}), "");
}

TEST(SumOrder, Numpy) {
    EXPECT_EQ(numpy_order({{100, 1, true}}), "pairwise");
    EXPECT_EQ(numpy_order({{100, 3, true}}), "pairwise");
    EXPECT_EQ(numpy_order({{7, 9, false}, {9, 1, true}}), "pairwise");
    EXPECT_EQ(numpy_order({{7, 9, true}, {9, 1, false}}), "in_turn");
    EXPECT_EQ(numpy_order({{7, 1, true}, {9, 7, false}}), "pairwise") << "Fortran order";
    EXPECT_EQ(numpy_order({{7, 1, false}, {9, 7, true}}), "in_turn");
    EXPECT_EQ(numpy_order({{5, 27, true}, {3, 9, false}, {9, 1, true}}), "pairwise runs 9");
    EXPECT_EQ(numpy_order({{5, 18, true}, {9, 1, true}}), "pairwise") << "gathered in one buffer";
    EXPECT_EQ(numpy_order({{500, 36, true}, {18, 1, true}}), "") << "more than a buffer";
    EXPECT_EQ(numpy_order({{4, 100, false}, {5, 18, true}, {9, 1, true}}), "") << "rows that a buffer may divide";
    EXPECT_EQ(numpy_order({{9, -1, true}}), "");
}

TEST(SumOrder, MomentsOfShortRowsOnly) {
    EXPECT_EQ(to_text(torch_moments_order(768, 8)), "welford 8");
    EXPECT_EQ(to_text(torch_moments_order(8192, 4)), "welford 4");
    for (int64_t count : {0, 1, 8193}) EXPECT_EQ(torch_moments_order(count, 8), SumOrder{});
}
TEST(SumOrder, SortsReducedDimsAmongTheirPlaces) {
    Dims dims{{2, 1, true, 0}, {3, 50, false, 1}, {5, 2, true, 2}, {1, 77, true, 3}};
    sort_reduced(dims);
    EXPECT_EQ((std::vector<int64_t>{dims[0].which, dims[1].which, dims[2].which, dims[3].which}), (std::vector<int64_t>{2, 1, 0, 3}));
}

TEST(SumOrder, LaddersGrowWithTheRow) {
    for (int64_t n : {0, 1, 2, 16, 1000, 1 << 19}) EXPECT_EQ(ladder_step(n), 16) << n;
    EXPECT_EQ(ladder_step((1 << 19) + 1), 32);
}

TEST(SumOrder, KeepsApartWhatIsAddedDifferently) {
    Builder b;
    const NodeId x = b.input(Type{DType::f32, {9}}, {1});
    const SumOrder cascade{.kind = SumOrder::cascade, .lanes = 8}, runs{.kind = SumOrder::pairwise, .run = 3};
    const NodeId any = *b.build(Op::sum, {x}), first = *b.build(Op::sum, {x}, {.order = cascade});
    EXPECT_NE(any, first);
    EXPECT_EQ(first, *b.build(Op::sum, {x}, {.order = cascade}));
    EXPECT_NE(first, *b.build(Op::sum, {x}, {.order = runs}));
    (void)b.build(Op::sum, {x}, {.order = {.kind = SumOrder::columns, .plain = 4, .width = 6}});
    (void)b.build(Op::prod, {x}, {.order = {.kind = SumOrder::in_turn}});
    const std::string text = to_text(b.graph());
    EXPECT_NE(text.find("order=columns 4 6"), std::string::npos) << text;
    const auto again = parse(text);
    ASSERT_TRUE(again) << again.reason();
    EXPECT_EQ(to_text(*again), text);
    EXPECT_EQ(again->nodes[first.index].order, cascade);
    EXPECT_FALSE(parse("%0: f32[9] = input {strides=[1]}\n%1: f32[1] = sum %0 {ints=[0], order=cascade}\n"));
}

TEST(SumOrder, IsNotTakenWhereTheOperandIsConverted) {
    Builder b;
    const SumOrder order{.kind = SumOrder::pairwise};
    const auto order_of = [&](DType from, DType to, DeviceKind device = DeviceKind::cpu) {
        const NodeId x = b.input(Type{from, {9}, device}, {1});
        return b[*b.build(Op::sum, {x}, {.dtype = to, .order = order})].order.kind;
    };
    EXPECT_EQ(order_of(DType::f64, DType::none), SumOrder::pairwise);
    EXPECT_EQ(order_of(DType::f32, DType::none), SumOrder::pairwise);
    EXPECT_EQ(order_of(DType::bf16, DType::none), SumOrder::any);
    EXPECT_EQ(order_of(DType::f32, DType::none, DeviceKind::cuda), SumOrder::any);
}
