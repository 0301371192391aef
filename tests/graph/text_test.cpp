// Printing and parsing: what is printed reads back to the same graph, and bad text says where it is bad.
#include "compiler/graph/build.h"
#include "compiler/graph/text.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

using namespace dyno;
using namespace dyno::graph;

TEST(Text, ReadsBackWhatItPrints) {
    Builder b;
    NodeId x = b.input(Type{DType::bf16, {2, 3}, DeviceKind::cuda, 1, Domain::torch}, {3, 1}, {4, 7});
    NodeId y = b.input(Type{DType::f64, {}, DeviceKind::cpu, 0, Domain::numpy}, {});
    NodeId call = b.extern_call(b.add_extern("torch.matmul", {x, x}, true), b.type(x));
    NodeId second = b.extern_result(call, 1, b.type(x));
    b.set_twin(second, 0);
    b.scalar(DType::i64);
    b.add_output(second, {3, 1});
    b.add_output(y, {});
    std::string printed = to_text(b.graph());
    Result<Graph> read = parse(printed);
    ASSERT_TRUE(read) << read.reason();
    EXPECT_EQ(to_text(*read), printed);
    EXPECT_EQ(read->nodes[0].type, b.type(x));
    EXPECT_EQ(read->nodes[0].from, (SourceSpan{4, 7}));
    EXPECT_EQ(read->externs[0].uses, (std::vector<NodeId>{x, x}));
    EXPECT_TRUE(read->externs[0].makes_view);
    EXPECT_EQ(read->inputs.size(), 2u);
    EXPECT_EQ(read->scalars.size(), 1u);
    EXPECT_EQ(read->nodes[second.index].twin, 0);
}

TEST(Text, NumbersKeepTheirBits) {
    for (double number : {0.1, -0.0, 1e-310, 1.7976931348623157e308, HUGE_VAL, -HUGE_VAL, 3.0}) {
        Builder b;
        b.constant(number, DType::f64);
        Result<Graph> read = parse(to_text(b.graph()));
        ASSERT_TRUE(read) << read.reason();
        EXPECT_EQ(std::bit_cast<uint64_t>(read->nodes[0].number), std::bit_cast<uint64_t>(number)) << number;
    }
    Builder b;
    b.constant(std::nan(""), DType::f32);
    EXPECT_TRUE(std::isnan(parse(to_text(b.graph()))->nodes[0].number));
}

TEST(Text, CommentsAndBlankLinesAreSkipped) {
    Result<Graph> graph = parse("# a graph\n\n%0: f32[] = constant {number=1} # one\n");
    ASSERT_TRUE(graph) << graph.reason();
    EXPECT_EQ(graph->nodes.size(), 1u);
}

TEST(Text, SaysWhereItIsWrong) {
    EXPECT_EQ(parse("%1: f32[] = constant\n").reason(), "line 1: the next node's number expected at ': f32[] = constant'");
    EXPECT_EQ(parse("%0: f33[] = constant\n").reason(), "line 1: no dtype at '[] = constant'");
    EXPECT_EQ(parse("%0: f32[2 = input\n").reason(), "line 1: no dims at '= input'");
    EXPECT_EQ(parse("\n%0: f32[] = cosntant\n").reason(), "line 2: an unknown op at ''");
    EXPECT_EQ(parse("%0: f32[] = constant {colour=3}\n").reason(), "line 1: an unknown attribute at 'colour=3}'");
    EXPECT_EQ(parse("%0: f32[] = constant 5\n").reason(), "line 1: something left over at '5'");
    EXPECT_EQ(parse("extern 1 f ()\n").reason(), "line 1: the next extern's number expected at ' f ()'");
    EXPECT_EQ(parse("output\n").reason().substr(0, 7), "line 1:");
}
