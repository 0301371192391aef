// The builder: sharing, broadcasting, constants, refusals. The dtype rules are walked by rules_test.
#include "compiler/graph/build.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/support/check.h"
#include <gtest/gtest.h>

using namespace dyno;
using namespace dyno::graph;

namespace {

struct Fixture : testing::Test {
    Builder b;
    NodeId tensor(DType dtype, std::vector<int64_t> dims, Domain domain = Domain::torch, DeviceKind device = DeviceKind::cpu) {
        std::vector<int64_t> strides(dims.size());
        int64_t step = 1;
        for (size_t i = dims.size(); i-- > 0; step *= dims[i]) strides[i] = step;
        return b.input(Type{dtype, std::move(dims), device, 0, domain}, strides);
    }
    NodeId must(Op op, std::initializer_list<Operand> operands, const Attributes& attributes = {}) {
        Result<NodeId> result = b.build(op, operands, attributes);
        EXPECT_TRUE(result) << result.reason();
        EXPECT_TRUE(verify(b.graph()).empty()) << to_text(b.graph());
        return result ? *result : NodeId{};
    }
    std::string why(Op op, std::initializer_list<Operand> operands, const Attributes& attributes = {}) {
        size_t before = b.size();
        Result<NodeId> result = b.build(op, operands, attributes);
        EXPECT_EQ(b.size(), before) << "a refusal leaves no nodes";
        return result ? "built" : result.reason();
    }
    std::string text(NodeId id) { return to_text(b.graph(), id); }
    Operand number(double value) { return {b.constant(value, DType::f64), true}; }
};

using Build = Fixture;

} // namespace

TEST_F(Build, SharesEqualNodesButNotEagerCalls) {
    NodeId x = tensor(DType::f32, {4});
    EXPECT_EQ(must(Op::exp, {x}), must(Op::exp, {x}));
    EXPECT_NE(must(Op::sum, {x}, {.ints = {0}}), must(Op::amax, {x}, {.ints = {0}}));
    EXPECT_NE(b.constant(0.0, DType::f32), b.constant(-0.0, DType::f32));
    uint32_t index = b.add_extern("f", {x});
    EXPECT_NE(b.extern_call(index, b.type(x)), b.extern_call(index, b.type(x)));
    EXPECT_NE(b.scalar(DType::f64), b.scalar(DType::f64));
}

TEST_F(Build, BroadcastsAndCastsExplicitly) {
    NodeId x = tensor(DType::f32, {4, 1}), y = tensor(DType::i64, {3});
    NodeId sum = must(Op::add, {x, y});
    EXPECT_EQ(b.type(sum).dims, (std::vector<int64_t>{4, 3}));
    EXPECT_EQ(b.type(sum).dtype, DType::f32);
    EXPECT_EQ(b[b[sum].operands[1]].op, Op::expand);
    EXPECT_EQ(b[b[b[sum].operands[1]].operands[0]].op, Op::cast);
    EXPECT_EQ(why(Op::add, {x, tensor(DType::f32, {2, 2})}), "add: shapes [4, 1] and [2, 2] do not broadcast");
}

TEST_F(Build, ZeroDimTensorsKeepTheOthersDtype) {
    NodeId x = tensor(DType::f32, {4}), zero = tensor(DType::f64, {});
    EXPECT_EQ(b.type(must(Op::add, {x, zero})).dtype, DType::f32);
    EXPECT_EQ(b.type(must(Op::add, {tensor(DType::i32, {4}), zero})).dtype, DType::f64);
    NodeId n = tensor(DType::f32, {4}, Domain::numpy), strong = tensor(DType::f64, {}, Domain::numpy);
    EXPECT_EQ(b.type(must(Op::add, {n, strong})).dtype, DType::f64);
    EXPECT_EQ(b.type(must(Op::add, {n, number(2.5)})).dtype, DType::f32);
}

TEST_F(Build, HalfFloatsMultiplyByUnroundedNumbers) {
    NodeId x = tensor(DType::bf16, {4});
    NodeId product = must(Op::mul, {x, number(0.1)});
    EXPECT_EQ(b[product].op, Op::cast);
    EXPECT_EQ(b.type(b[product].operands[0]).dtype, DType::f32);
    NodeId sum = must(Op::add, {x, number(0.1)});
    EXPECT_EQ(b[sum].op, Op::add);
    EXPECT_EQ(b[b[b[sum].operands[1]].operands[0]].number, 0.10009765625);
}

TEST_F(Build, CudaDividesByNumbersThroughTheReciprocal) {
    NodeId x = tensor(DType::f32, {4}, Domain::torch, DeviceKind::cuda);
    NodeId quotient = must(Op::div, {x, number(3.0)});
    EXPECT_EQ(b[quotient].op, Op::mul);
    EXPECT_EQ(b[must(Op::div, {x, x})].op, Op::div);
    EXPECT_EQ(why(Op::add, {x, tensor(DType::f32, {4})}), "add: values of two devices");
}

TEST_F(Build, RunTimeNumbersTakePart) {
    NodeId x = tensor(DType::f32, {4});
    NodeId scalar = b.scalar(DType::f64);
    NodeId product = must(Op::mul, {x, {scalar, true}});
    EXPECT_EQ(b.type(product).dtype, DType::f32);
    NodeId small = tensor(DType::u8, {4}, Domain::numpy);
    NodeId integer = b.scalar(DType::i64, Domain::numpy);
    EXPECT_EQ(why(Op::add, {small, {integer, true}}), "add: a Python int that may not fit u8");
    EXPECT_EQ(why(Op::add, {small, {b.constant_integer(300, DType::i64), true}}), "add: 300 does not fit u8");
    EXPECT_EQ(b.type(must(Op::add, {small, {b.constant_integer(200, DType::i64), true}})).dtype, DType::u8);
}

TEST_F(Build, PowersByConstants) {
    NodeId x = tensor(DType::f32, {4});
    auto power = [&](double e) { return must(Op::pow, {x, number(e)}); };
    EXPECT_EQ(b[power(2.0)].op, Op::mul);
    EXPECT_EQ(b[power(3.0)].op, Op::mul);
    EXPECT_EQ(b[power(0.5)].op, Op::sqrt);
    EXPECT_EQ(b[power(-1.0)].op, Op::reciprocal);
    EXPECT_EQ(b[power(2.5)].op, Op::pow);
    EXPECT_EQ(b[power(1.0)].op, Op::cast) << "a copy, not the operand";
    EXPECT_EQ(b[power(0.0)].op, Op::expand);
    EXPECT_EQ(why(Op::pow, {tensor(DType::i64, {4}), {b.constant_integer(-2, DType::i64), true}}), "pow: integers to a negative power");
}

TEST_F(Build, ReductionsKeepAxes) {
    NodeId x = tensor(DType::i32, {2, 3, 4});
    NodeId sum = must(Op::sum, {x}, {.ints = {-1, 0}});
    EXPECT_EQ(b.type(sum).dims, (std::vector<int64_t>{1, 3, 1}));
    EXPECT_EQ(b.type(sum).dtype, DType::i64);
    EXPECT_EQ(b[sum].ints, (std::vector<int64_t>{0, 2}));
    EXPECT_EQ(b[must(Op::sum, {x})].ints, (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(why(Op::sum, {x}, {.ints = {3}}), "sum: axis 3 of 3 dims");
    EXPECT_EQ(why(Op::sum, {x}, {.ints = {0, -3}}), "sum: an axis named twice");
    EXPECT_EQ(why(Op::amax, {tensor(DType::f32, {2, 0})}, {.ints = {1}}), "amax: no elements along a reduced axis");
    EXPECT_EQ(b.type(must(Op::argmax, {x})).dims, (std::vector<int64_t>{1, 1, 1}));
}

TEST_F(Build, MovementChecksShapes) {
    NodeId x = tensor(DType::f32, {2, 3, 4});
    EXPECT_EQ(b.type(must(Op::reshape, {x}, {.dims = {4, -1}})).dims, (std::vector<int64_t>{4, 6}));
    EXPECT_EQ(why(Op::reshape, {x}, {.dims = {5, -1}}), "reshape: an impossible shape");
    EXPECT_EQ(why(Op::reshape, {x}, {.dims = {5}}), "reshape: 24 elements into 5");
    EXPECT_EQ(b.type(must(Op::permute, {x}, {.ints = {-1, 0, 1}})).dims, (std::vector<int64_t>{4, 2, 3}));
    EXPECT_EQ(why(Op::permute, {x}, {.ints = {0, 0, 1}}), "permute: not a permutation of the axes");
    EXPECT_EQ(b.type(must(Op::expand, {tensor(DType::f32, {3, 1})}, {.dims = {2, -1, 5}})).dims, (std::vector<int64_t>{2, 3, 5}));
    EXPECT_EQ(why(Op::expand, {x}, {.dims = {3, 3, 4}}), "expand: size 2 does not broadcast to 3");
    EXPECT_EQ(b.type(must(Op::slice, {x}, {.ints = {0, 1, 2, -1, 1, 2}, .dims = {2, 3, 2}})).dims, (std::vector<int64_t>{2, 3, 2}));
    EXPECT_EQ(why(Op::slice, {x}, {.ints = {0, 1, 2, 1, 0, 1}, .dims = {2, 2, 4}}), "slice: a slice that leaves the axis");
    EXPECT_EQ(b.type(must(Op::cat, {x, tensor(DType::f64, {2, 1, 4})}, {.ints = {1}})).dims, (std::vector<int64_t>{2, 4, 4}));
    EXPECT_EQ(why(Op::cat, {x, tensor(DType::f32, {3, 1, 4})}, {.ints = {1}}), "cat: sizes differ outside the axis");
}

TEST_F(Build, RefusesWhatItDoesNotModel) {
    NodeId x = tensor(DType::f32, {4});
    EXPECT_EQ(why(Op::add, {x, tensor(DType::c64, {4})}), "add: complex numbers are not modelled");
    EXPECT_EQ(why(Op::add, {x, tensor(DType::f32, {4}, Domain::numpy)}), "add: torch and NumPy values mixed");
    EXPECT_EQ(why(Op::where, {x, x, x}), "where: the condition is not bool");
    EXPECT_EQ(why(Op::mean, {tensor(DType::i64, {4})}), "mean of i64: not defined for this element type");
    EXPECT_EQ(why(Op::add, {x}), "add: 1 operands given");
    EXPECT_EQ(why(Op::layer_norm, {x, tensor(DType::f32, {3})}, {.ints = {1}}),
              "layer_norm: weight or bias of another shape or element type");
}

TEST_F(Build, ConstantsAreConvertedOnTheSpot) {
    NodeId tenth = b.constant(0.1, DType::f64);
    EXPECT_EQ(b[b.cast(tenth, DType::f32)].number, static_cast<double>(0.1f));
    EXPECT_EQ(b[b.cast(b.constant_integer(300, DType::i64), DType::u8)].ints[0], 44);
    EXPECT_EQ(b[b.cast(b.constant_integer(3, DType::i64), DType::f32)].number, 3.0);
    // Through f32 for torch, at once for NumPy.
    double between = 1 + 0x1p-11 + 0x1p-40;
    EXPECT_EQ(b[b.constant(between, DType::f16)].number, 1.0);
    EXPECT_EQ(b[b.constant(between, DType::f16, Domain::numpy)].number, 1.0009765625);
}

TEST_F(Build, MisuseIsABug) {
    EXPECT_THROW(b.constant(1.0, DType::i32), InternalError);
    EXPECT_THROW(b.extern_call(0, Type{}), InternalError);
    EXPECT_THROW((void)b.build(Op::input, {}), InternalError);
}
