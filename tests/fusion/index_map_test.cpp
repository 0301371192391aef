// Index maps through each movement: splits, opaque reshapes, coverage.
#include "compiler/fusion/index_map.h"
#include "compiler/graph/text.h"
#include <gtest/gtest.h>

namespace dyno::fusion {
namespace {

graph::Graph movement(const std::string& op) {
    return *graph::parse("%0: f32[4,6] = input {strides=[6,1]}\n%1: " + op + "\noutput %1 {strides=[1]}\n");
}
std::vector<Axis> parallel(std::initializer_list<int64_t> extents) {
    std::vector<Axis> axes;
    for (int64_t e : extents) axes.push_back({Axis::parallel, e});
    return axes;
}
IndexMap identity(size_t n) {
    IndexMap map(n, Affine{0, std::vector<int64_t>(n, 0)});
    for (size_t k = 0; k < n; k++) map[k].strides[k] = 1;
    return map;
}

TEST(IndexMap, ReshapeSplitsAnAxisThatDivides) {
    const graph::Graph g = movement("f32[24] = reshape %0");
    const Sent sent = through_movement(g, {1}, identity(1), parallel({24}));
    ASSERT_EQ(sent.kind, Sent::split);
    EXPECT_EQ(sent.axis, 0u);
    EXPECT_EQ(sent.inner, 6);
    IndexMap map = identity(1);
    split_axis(map[0], 0, 6);
    const Sent again = through_movement(g, {1}, map, parallel({4, 6}));
    ASSERT_EQ(again.kind, Sent::map);
    EXPECT_EQ(again.operand, identity(2));
}

TEST(IndexMap, ReshapeAcrossRowsIsOpaque) {
    const graph::Graph g = movement("f32[8,3] = reshape %0"); // 6 = 2 * 3 splits
    EXPECT_EQ(through_movement(g, {1}, identity(2), parallel({8, 3})).kind, Sent::split);
    const graph::Graph h = *graph::parse("%0: f32[4,6] = input {strides=[6,1]}\n%1: f32[3,8] = reshape %0\noutput %1 {strides=[8,1]}\n");
    EXPECT_EQ(through_movement(h, {1}, identity(2), parallel({3, 8})).kind, Sent::opaque);
}

TEST(IndexMap, SliceFlipPermuteExpand) {
    const graph::Graph s = movement("f32[2,3] = slice %0 {ints=[1,2,5,-2]}");
    EXPECT_EQ(through_movement(s, {1}, identity(2), parallel({2, 3})).operand, (IndexMap{{1, {2, 0}}, {5, {0, -2}}}));
    const graph::Graph f = movement("f32[4,6] = flip %0 {ints=[1]}");
    EXPECT_EQ(through_movement(f, {1}, identity(2), parallel({4, 6})).operand, (IndexMap{{0, {1, 0}}, {5, {0, -1}}}));
    const graph::Graph p = movement("f32[6,4] = permute %0 {ints=[1,0]}");
    EXPECT_EQ(through_movement(p, {1}, identity(2), parallel({6, 4})).operand, (IndexMap{{0, {0, 1}}, {0, {1, 0}}}));
    const graph::Graph e = movement("f32[2,4,6] = expand %0");
    EXPECT_EQ(through_movement(e, {1}, identity(3), parallel({2, 4, 6})).operand, (IndexMap{{0, {0, 1, 0}}, {0, {0, 0, 1}}}));
}

TEST(IndexMap, CoversKnowsHolesAndRepeats) {
    const auto axes = parallel({4, 6});
    EXPECT_TRUE(covers({4, 6}, identity(2), axes));
    EXPECT_TRUE(covers({24}, {{0, {6, 1}}}, axes));
    EXPECT_TRUE(covers({24}, {{23, {-6, -1}}}, axes));
    EXPECT_FALSE(covers({24}, {{0, {6, 2}}}, axes));
    EXPECT_FALSE(covers({4, 4}, {{0, {1, 0}}, {0, {1, 0}}}, axes)); // a diagonal
    EXPECT_FALSE(covers({8, 6}, identity(2), axes));
}

} // namespace
} // namespace dyno::fusion
