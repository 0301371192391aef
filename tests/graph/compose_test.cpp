// Shapes and refusals of the composed calls; their values are walked by values_test.
#include "compiler/graph/compose.h"
#include "compiler/graph/interpret.h"
#include "compiler/graph/verify.h"
#include <gtest/gtest.h>
#include <numeric>

using namespace dyno;
using namespace dyno::graph;
namespace c = dyno::graph::compose;

namespace {

struct Compose : testing::Test {
    Builder b;
    NodeId x = b.input(Type{DType::i64, {2, 3, 4}}, {12, 4, 1});

    std::vector<int64_t> dims(const Result<NodeId>& result) {
        EXPECT_TRUE(result) << result.reason();
        EXPECT_TRUE(verify(b.graph()).empty());
        return result ? b.type(*result).dims : std::vector<int64_t>{-1};
    }
    /// The values when x counts from 0.
    std::vector<int64_t> values(const Result<NodeId>& result) {
        EXPECT_TRUE(result) << result.reason();
        HostArray counting(DType::i64, {2, 3, 4});
        for (int64_t i = 0; i < 24; ++i) counting.set(i, scalar::Value::of_int(DType::i64, i));
        HostArray inputs[] = {counting};
        auto all = interpret(b.graph(), inputs);
        EXPECT_TRUE(all);
        const HostArray& out = (*all)[result->index];
        std::vector<int64_t> flat;
        for (int64_t i = 0; i < out.numel(); ++i) flat.push_back(out.at(i).integer);
        return flat;
    }
    using Dims = std::vector<int64_t>;
};

} // namespace

TEST_F(Compose, Axes) {
    EXPECT_EQ(dims(c::unsqueeze(b, x, -1)), (Dims{2, 3, 4, 1}));
    EXPECT_EQ(dims(c::unsqueeze(b, x, 0)), (Dims{1, 2, 3, 4}));
    NodeId thin = *b.build(Op::reshape, {x}, {.dims = {1, 24, 1}});
    EXPECT_EQ(dims(c::squeeze(b, thin, {})), (Dims{24}));
    EXPECT_EQ(dims(c::squeeze(b, thin, {-1, 1})), (Dims{1, 24}));
    EXPECT_EQ(dims(c::transpose(b, x, 0, -1)), (Dims{4, 3, 2}));
    EXPECT_EQ(dims(c::flatten(b, x, 1, -1)), (Dims{2, 12}));
    EXPECT_EQ(dims(c::movedim(b, x, {0}, {-1})), (Dims{3, 4, 2}));
    EXPECT_FALSE(c::unsqueeze(b, x, 5));
    EXPECT_FALSE(c::flatten(b, x, 2, 1));
    EXPECT_FALSE(c::movedim(b, x, {0, 0}, {1, 2}));
}

TEST_F(Compose, Pieces) {
    EXPECT_EQ(values(c::select(b, *c::select(b, x, 0, -1), 0, 1)), (Dims{16, 17, 18, 19}));
    EXPECT_EQ(values(c::select(b, *c::narrow(b, x, 2, 3, 2, -2), 0, 0)), (Dims{3, 1, 7, 5, 11, 9}));
    EXPECT_EQ(dims(c::split_piece(b, x, 2, 3, 1)), (Dims{2, 3, 1}));
    EXPECT_EQ(dims(c::chunk_piece(b, x, 1, 2, 0)), (Dims{2, 2, 4}));
    EXPECT_EQ(dims(c::chunk_piece(b, x, 1, 2, 1)), (Dims{2, 1, 4}));
    EXPECT_FALSE(c::split_piece(b, x, 2, 3, 2));
    EXPECT_FALSE(c::select(b, x, 1, 3));
    Operand pair[] = {x, x};
    EXPECT_EQ(dims(c::stack(b, pair, -1)), (Dims{2, 3, 4, 2}));
    EXPECT_EQ(dims(c::stack(b, pair, 0)), (Dims{2, 2, 3, 4}));
}

TEST_F(Compose, Reductions) {
    EXPECT_EQ(dims(c::reduce(b, Op::sum, x, {-1}, false)), (Dims{2, 3}));
    EXPECT_EQ(dims(c::reduce(b, Op::sum, x, {0, 2}, true)), (Dims{1, 3, 1}));
    EXPECT_EQ(values(c::reduce(b, Op::sum, x, {}, false)), (Dims{276}));
    EXPECT_EQ(values(c::reduce(b, Op::argmax, x, {1}, false)), (Dims(8, 2)));
    EXPECT_EQ(values(c::reduce(b, Op::argmax, x, {}, false)), (Dims{23}));
}

TEST_F(Compose, Triangles) {
    NodeId square = *c::narrow(b, *c::select(b, x, 0, 0), 1, 0, 3);
    EXPECT_EQ(values(c::triangle(b, square, 0, true)), (Dims{0, 0, 0, 4, 5, 0, 8, 9, 10}));
    EXPECT_EQ(values(c::triangle(b, square, 1, false)), (Dims{0, 1, 2, 0, 0, 6, 0, 0, 0}));
}

TEST_F(Compose, Refusals) {
    NodeId f = b.input(Type{DType::f32, {4}}, {1}), h = b.input(Type{DType::f16, {4}}, {1});
    NodeId mask = b.input(Type{DType::b8, {4}}, {1}), classes = b.input(Type{DType::i32, {2}}, {1});
    Operand half{b.constant(0.5, DType::f64), true};
    EXPECT_EQ(c::addcmul(b, f, f, h, 1.0).reason(), "addcmul: needs one float element type");
    NodeId array = b.input(Type{DType::f32, {4}, DeviceKind::cpu, 0, Domain::numpy}, {1});
    EXPECT_EQ(c::lerp(b, array, array, half).reason(), "lerp: not a function of NumPy");
    EXPECT_EQ(c::masked_fill(b, x, mask, half).reason(), "masked_fill: a float into integers");
    EXPECT_EQ(c::masked_fill(b, f, f, half).reason(), "masked_fill: the mask is not bool");
    EXPECT_EQ(c::add(b, h, h, 0.3).reason(), "add with alpha of 16-bit floats");
    EXPECT_EQ(c::mse_loss(b, f, h, c::LossReduction::mean).reason(), "a loss of values unlike in shape or element type");
    EXPECT_EQ(c::cross_entropy(b, *c::unsqueeze(b, f, 0), classes, -100, c::LossReduction::mean).reason(),
              "nll_loss: needs floats and i64 class indices");
    EXPECT_EQ(c::elu(b, x, 1.0).reason(), "elu: not defined for this element type");
}

TEST_F(Compose, CudaFusesInItsOwnOrder) {
    Type type{DType::f32, {4}, DeviceKind::cuda};
    NodeId p = b.input(type, {1}), q = b.input(type, {1}), r = b.input(type, {1});
    NodeId product = *c::addcmul(b, p, q, r, 0.1);
    ASSERT_EQ(b[product].op, Op::fma);
    EXPECT_EQ(b[b[product].operands[1]].op, Op::mul) << "the number times the product of the tensors";
    EXPECT_EQ(b[*c::addcmul(b, p, q, r, 1.0)].operands, (std::vector<NodeId>{q, r, p}));
    EXPECT_EQ(b[*c::addcdiv(b, p, q, r, 0.1)].op, Op::fma);
    EXPECT_EQ(b[*c::addcdiv(b, p, q, r, 1.0)].op, Op::add);
    EXPECT_TRUE(verify(b.graph()).empty());
}
