// simplify, drop_dead, and the text form on random graphs: the interpreter gives the same bits before and after, a second run
// changes nothing, the printed graph reads back.
#include "compiler/graph/build.h"
#include "compiler/graph/compose.h"
#include "compiler/graph/interpret.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/simplify.h"
#include "compiler/graph/sink_cats.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/graph/zero_signs.h"
#include "compiler/scalar/evaluate.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace dyno;
using namespace dyno::graph;

namespace {

struct RandomGraph {
    std::mt19937 random;
    Builder b;
    std::vector<NodeId> nodes;
    std::vector<HostArray> inputs;

    bool parted = false; // with concatenations and the first largest of rows

    int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
    NodeId any() { return nodes[below(static_cast<int>(nodes.size()))]; }

    void input(DType dtype, std::vector<int64_t> dims) {
        static const double special[] = {0.0, -0.0, 1.0, -2.5, NAN, INFINITY, 300.0, 0.1, -7.0, 1e-6};
        HostArray value(dtype, dims);
        for (int64_t i = 0; i < value.numel(); ++i)
            value.set(i, scalar::convert(scalar::Value::of_float(DType::f64, special[below(10)]), dtype));
        std::vector<int64_t> strides(dims.size(), 1);
        nodes.push_back(b.input(Type{dtype, std::move(dims)}, strides));
        inputs.push_back(std::move(value));
    }

    void add(Result<NodeId> result) {
        if (result) nodes.push_back(*result);
    }

    void movement(NodeId x) {
        const std::vector<int64_t> dims = b.type(x).dims;
        int64_t rank = static_cast<int64_t>(dims.size());
        switch (below(5)) {
        case 0: {
            std::vector<int64_t> order(dims.size());
            for (int64_t i = 0; i < rank; ++i) order[i] = i;
            std::shuffle(order.begin(), order.end(), random);
            return add(b.build(Op::permute, {x}, {.ints = order}));
        }
        case 1:
            return add(below(2) ? b.build(Op::reshape, {x}, {.dims = {-1}}) : b.build(Op::reshape, {x}, {.dims = {2, -1}}));
        case 2: {
            std::vector<int64_t> ints, sizes = dims;
            for (int64_t& size : sizes) {
                int64_t step = below(2) ? 1 : -1, count = size ? 1 + below(static_cast<int>(size)) : 0;
                ints.push_back(step > 0 ? size - count : count - 1);
                ints.push_back(step);
                size = count;
            }
            return add(b.build(Op::slice, {x}, {.ints = ints, .dims = sizes}));
        }
        case 3:
            return rank ? add(b.build(Op::flip, {x}, {.ints = {below(static_cast<int>(rank))}})) : add(b.build(Op::neg, {x}));
        default: {
            if (rank > 3) return;
            std::vector<int64_t> wide = dims;
            wide.insert(wide.begin(), 1 + below(2));
            return add(b.build(Op::expand, {x}, {.dims = wide}));
        }
        }
    }

    void parts(NodeId x) {
        const int64_t rank = static_cast<int64_t>(b.type(x).dims.size());
        if (rank == 0) return;
        const int64_t axis = below(static_cast<int>(rank));
        switch (below(4)) {
        case 0:
            return add(b.build(below(2) ? Op::first_max : Op::first_min, {x}, {.ints = {axis}}));
        case 1:
            return add(b.build(Op::cat, {x, x, any()}, {.ints = {axis}}));
        case 2: // of different sizes
            if (b.type(x).dims[static_cast<size_t>(axis)] < 2) return;
            return add(b.build(Op::cat, {x, *compose::narrow(b, x, axis, 1, b.type(x).dims[static_cast<size_t>(axis)] - 1)}, {.ints = {axis}}));
        default:
            return add(b.build(Op::cat, {x, x}, {.ints = {axis}}));
        }
    }

    void step() {
        static const DType dtypes[] = {DType::b8, DType::u8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
        NodeId x = any();
        if (parted && below(3) == 0) return parts(x);
        switch (below(5)) {
        case 0:
            return add(b.build(Op::cast, {x}, {.dtype = dtypes[below(8)]}));
        case 1:
        case 2:
            return movement(x);
        case 3:
            return add(b.build(below(2) ? Op::neg : Op::abs, {x}));
        default:
            return add(b.build(below(2) ? Op::add : Op::mul, {x, any()}));
        }
    }

    Graph make() {
        input(DType::f32, {2, 3});
        input(DType::bf16, {3});
        input(DType::i32, {4, 1, 3});
        for (int i = 0; i < 14; ++i) step();
        for (int i = 0; i < 3; ++i) {
            NodeId out = any();
            b.add_output(out, std::vector<int64_t>(b.type(out).dims.size(), 1));
        }
        return b.graph();
    }
};

bool same(const HostArray& a, const HostArray& b) {
    if (a.dtype != b.dtype || a.dims != b.dims) return false;
    for (int64_t i = 0; i < a.numel(); ++i)
        if (!a.at(i).same_as(b.at(i))) return false;
    return true;
}

} // namespace

TEST(GraphSimplify, KeepsEveryBitOfRandomGraphs) {
    int shorter = 0;
    for (unsigned seed = 0; seed < 3000; ++seed) {
        RandomGraph maker{std::mt19937(seed)};
        Graph graph = maker.make();
        check(graph, "build");
        Graph live = drop_dead(graph), simple = simplify(graph);
        check(simple, "simplify");
        auto before = interpret_outputs(graph, maker.inputs), dead = interpret_outputs(live, maker.inputs),
             after = interpret_outputs(simple, maker.inputs);
        ASSERT_TRUE(before && dead && after);
        for (size_t i = 0; i < before->size(); ++i) {
            ASSERT_TRUE(same((*before)[i], (*after)[i])) << seed << " output " << i << "\n" << to_text(graph) << "\n" << to_text(simple);
            ASSERT_TRUE(same((*before)[i], (*dead)[i])) << seed;
        }
        ASSERT_EQ(to_text(simplify(simple)), to_text(simple)) << seed << ": not idempotent\n" << to_text(graph);
        Result<Graph> read = parse(to_text(graph));
        ASSERT_TRUE(read) << read.reason();
        ASSERT_EQ(to_text(*read), to_text(graph));
        shorter += simple.nodes.size() < live.nodes.size();
    }
    EXPECT_GT(shorter, 500);
}

TEST(GraphPasses, KeepEveryBitOfCatsAndExtremes) {
    int sunk = 0, forgotten = 0;
    for (unsigned seed = 0; seed < 4000; ++seed) {
        RandomGraph maker{std::mt19937(seed)};
        maker.parted = true;
        Graph graph = drop_dead(maker.make());
        Graph in_parts = sink_cats(graph), unsigned_zeros = forget_zero_signs(graph);
        check(in_parts, "sink_cats");
        check(unsigned_zeros, "forget_zero_signs");
        auto before = interpret_outputs(graph, maker.inputs), parts = interpret_outputs(in_parts, maker.inputs), zeros = interpret_outputs(unsigned_zeros, maker.inputs);
        ASSERT_TRUE(before && parts && zeros);
        for (size_t i = 0; i < before->size(); ++i) {
            ASSERT_TRUE(same((*before)[i], (*parts)[i])) << seed << " output " << i << "\n" << to_text(graph) << "\n" << to_text(in_parts);
            ASSERT_TRUE(same((*before)[i], (*zeros)[i])) << seed << " output " << i << "\n" << to_text(graph) << "\n" << to_text(unsigned_zeros);
        }
        sunk += to_text(in_parts) != to_text(graph);
        forgotten += to_text(unsigned_zeros) != to_text(graph);
    }
    EXPECT_GT(sunk, 100);
    EXPECT_GT(forgotten, 20);
}

TEST(GraphSimplify, KnowsExactCasts) {
    EXPECT_TRUE(is_exact_cast(DType::bf16, DType::f32));
    EXPECT_TRUE(is_exact_cast(DType::i32, DType::f64));
    EXPECT_TRUE(is_exact_cast(DType::u8, DType::i16));
    EXPECT_TRUE(is_exact_cast(DType::u8, DType::bf16));
    EXPECT_FALSE(is_exact_cast(DType::i64, DType::f64));
    EXPECT_FALSE(is_exact_cast(DType::f16, DType::bf16));
    EXPECT_FALSE(is_exact_cast(DType::bf16, DType::f16));
    EXPECT_FALSE(is_exact_cast(DType::i8, DType::u8));
    EXPECT_FALSE(is_exact_cast(DType::u8, DType::b8));
    EXPECT_FALSE(is_exact_cast(DType::i16, DType::f16));
}

TEST(Simplify, KeepsTwoObjectsOfOneValueApart) {
    Builder b;
    NodeId x = b.input(Type{DType::i64, {4}}, {1});
    NodeId first = b.cast(x, DType::f32);
    NodeId second = b.duplicate(first); // the same call made again, whose result is another object
    NodeId one = *b.build(Op::neg, {first}), two = *b.build(Op::neg, {second});
    ASSERT_FALSE(one == two);
    b.add_output(one, {1});
    b.add_output(two, {1});
    Graph simple = simplify(std::move(b).take());
    EXPECT_FALSE(simple.outputs[0].node == simple.outputs[1].node);
    EXPECT_TRUE(verify(simple).empty());
}
