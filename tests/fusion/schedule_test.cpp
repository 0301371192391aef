// schedule() from end to end: graphs in text, scheduled, compiled, run, and compared with the interpreter.
#include "compiler/fusion/schedule.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "run_schedule.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace dyno {
namespace {
using graph::HostArray;

graph::Graph parse(std::string_view text) {
    auto g = graph::parse(text);
    if (!g) throw std::runtime_error(g.reason());
    graph::check(*g, "parse");
    return *g;
}

HostArray random_array(const graph::Type& type, std::mt19937& random) {
    HostArray a(type.dtype, type.dims);
    std::uniform_real_distribution<double> real(-2, 2);
    for (int64_t k = 0; k < a.numel(); k++) {
        const double x = real(random);
        a.set(k, is_float(type.dtype)
                     ? scalar::convert(scalar::Value::of_float(DType::f64, x), type.dtype)
                     : scalar::convert(scalar::Value::of_int(DType::i64, type.dtype == DType::b8 ? x > 0 : static_cast<int64_t>(x * 20)),
                                       type.dtype));
    }
    return a;
}

/// Largest difference in units of `tolerance` relative to the magnitude (at least `floor`); exact for other dtypes.
void expect_close(const HostArray& mine, const HostArray& oracle, double tolerance, const std::string& what) {
    ASSERT_EQ(mine.dims, oracle.dims) << what;
    for (int64_t k = 0; k < mine.numel(); k++) {
        const scalar::Value x = mine.at(k), y = oracle.at(k);
        if (x.same_as(y)) continue;
        ASSERT_TRUE(is_float(x.dtype)) << what << " [" << k << "] " << x.integer << " instead of " << y.integer;
        ASSERT_LE(std::abs(x.number - y.number), tolerance * (std::abs(y.number) + 1))
            << what << " [" << k << "] " << x.number << " instead of " << y.number;
    }
}

struct Ran {
    fusion::Schedule schedule;
    uint32_t flags = 0;
};

Ran check(std::string_view text, double tolerance = 0, uint32_t seed = 1, const graph::ExternCall& call = {}) {
    const graph::Graph g = parse(text);
    std::mt19937 random(seed);
    std::vector<HostArray> inputs;
    std::vector<scalar::Value> scalars;
    for (const graph::Input& i : g.inputs) inputs.push_back(random_array(g[i.node].type, random));
    for (const graph::ScalarInput& s : g.scalars) scalars.push_back(random_array(g[s.node].type, random).at(0));
    Ran ran{fusion::schedule(g)};
    auto oracle = graph::interpret_outputs(g, inputs, scalars, call);
    if (!oracle) throw std::runtime_error(oracle.reason());
    std::vector<HostArray> first;
    for (int level : {0, 2})
        for (int threads : {1, 2}) {
            const auto result = testing::run_schedule(g, ran.schedule, inputs, scalars, level, threads, call);
            ran.flags |= result.flags;
            if (first.empty()) first = result.outputs;
            for (size_t k = 0; k < oracle->size(); k++) {
                expect_close(result.outputs[k], (*oracle)[k], tolerance, "output " + std::to_string(k));
                EXPECT_EQ(result.outputs[k].bytes, first[k].bytes) << "levels or threads differ";
            }
        }
    return ran;
}

TEST(Schedule, ChainIsOneNest) {
    const auto ran = check(R"(
        %0: f32[100,33] = input {strides=[33,1]}
        %1: f32[100,33] = input {strides=[33,1]}
        %2: f32[100,33] = add %0 %1
        %3: f32[100,33] = relu %2
        %4: f32[] = constant {number=2}
        %5: f32[100,33] = expand %4
        %6: f32[100,33] = mul %3 %5
        output %6 {strides=[33,1]}
    )");
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
    EXPECT_EQ(ran.schedule.nests[0].axes.size(), 1u);
    EXPECT_EQ(ran.schedule.arena_bytes, 0);
}

TEST(Schedule, ViewsFoldIntoTheirUsers) {
    const auto ran = check(R"(
        %0: f32[6,8] = input {strides=[8,1]}
        %1: f32[8,6] = permute %0 {ints=[1,0]}
        %2: f32[8,6] = neg %1
        %3: f32[4,6] = slice %2 {ints=[0,2,0,1]}
        %4: f32[4,6] = flip %3 {ints=[1]}
        %5: f32[24] = reshape %4
        %6: f32[24] = input {strides=[1]}
        %7: f32[24] = add %5 %6
        output %7 {strides=[1]}
    )");
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
}

TEST(Schedule, BothValuesOfAChainAreStoredByOneNest) {
    const auto ran = check(R"(
        %0: f64[50,7] = input {strides=[7,1]}
        %1: f64[50,7] = abs %0
        %2: f64[50,7] = sqrt %1
        output %1 {strides=[7,1]}
        output %2 {strides=[1,50]}
    )");
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
}

TEST(Schedule, SoftmaxIsOneNest) {
    const auto ran = check(R"(
        %0: f32[40,300] = input {strides=[300,1]}
        %1: f32[40,1] = amax %0 {ints=[1]}
        %2: f32[40,300] = expand %1
        %3: f32[40,300] = sub %0 %2
        %4: f32[40,300] = exp %3
        %5: f32[40,1] = sum %4 {ints=[1]}
        %6: f32[40,300] = expand %5
        %7: f32[40,300] = div %4 %6
        output %7 {strides=[300,1]}
    )",
                           1e-6);
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
}

TEST(Schedule, SoftmaxOverColumnsIsOneNest) {
    const auto ran = check(R"(
        %0: f32[30,45] = input {strides=[45,1]}
        %1: f32[1,45] = amax %0 {ints=[0]}
        %2: f32[30,45] = expand %1
        %3: f32[30,45] = sub %0 %2
        %4: f32[30,45] = exp %3
        %5: f32[1,45] = sum %4 {ints=[0]}
        %6: f32[30,45] = expand %5
        %7: f32[30,45] = div %4 %6
        output %7 {strides=[45,1]}
    )",
                           1e-6);
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
}

TEST(Schedule, LayerNormIsOneNest) {
    const auto ran = check(R"(
        %0: f32[20,64] = input {strides=[64,1]}
        %1: f32[64] = input {strides=[1]}
        %2: f32[64] = input {strides=[1]}
        %3: f32[20,1] = sum %0 {ints=[1]}
        %4: f32[] = constant {number=0.015625}
        %5: f32[20,1] = expand %4
        %6: f32[20,1] = mul %3 %5
        %7: f32[20,64] = expand %6
        %8: f32[20,64] = sub %0 %7
        %9: f32[20,64] = mul %8 %8
        %10: f32[20,1] = sum %9 {ints=[1]}
        %11: f32[20,1] = mul %10 %5
        %12: f32[] = constant {number=1e-5}
        %13: f32[20,1] = expand %12
        %14: f32[20,1] = add %11 %13
        %15: f32[20,1] = rsqrt %14
        %16: f32[20,64] = expand %15
        %17: f32[20,64] = mul %8 %16
        %18: f32[20,64] = expand %1
        %19: f32[20,64] = mul %17 %18
        %20: f32[20,64] = expand %2
        %21: f32[20,64] = add %19 %20
        output %21 {strides=[64,1]}
    )",
                           2e-6);
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
}

TEST(Schedule, MeanOfEverythingWithEpilogue) {
    const auto ran = check(R"(
        %0: f32[700,700] = input {strides=[700,1]}
        %1: f32[700,700] = input {strides=[1,700]}
        %2: f32[700,700] = sub %0 %1
        %3: f32[700,700] = mul %2 %2
        %4: f32[1,1] = sum %3 {ints=[0,1]}
        %5: f32[] = reshape %4
        %6: f64[] = scalar
        %7: f32[] = cast %6
        %8: f32[] = div %5 %7
        output %8 {strides=[]}
    )",
                           1e-6);
    EXPECT_EQ(ran.schedule.nests.size(), 1u);
}

TEST(Schedule, LargeNestsAreSharedByThreads) {
    const auto flat = check(R"(
        %0: f32[301,703] = input {strides=[1,301]}
        %1: f32[703] = input {strides=[1]}
        %2: f32[301,703] = expand %1
        %3: f32[301,703] = add %0 %2
        output %3 {strides=[703,1]}
    )");
    EXPECT_EQ(flat.schedule.nests[0].axes.size(), 2u);
    check(R"(
        %0: f32[300,703] = input {strides=[703,1]}
        %1: f32[1,703] = amax %0 {ints=[0]}
        %2: f32[300,703] = expand %1
        %3: f32[300,703] = sub %0 %2
        output %3 {strides=[703,1]}
    )");
    check(R"(
        %0: f64[300,703] = input {strides=[703,1]}
        %1: f64[300,1] = sum %0 {ints=[1]}
        output %1 {strides=[1,1]}
    )",
          1e-14); // of sums of 703 terms of size 1
    check(R"(
        %0: f32[3000,70] = input {strides=[70,1]}
        %1: f32[1,70] = sum %0 {ints=[0]}
        output %1 {strides=[70,1]}
    )",
          1e-6);
}

TEST(Schedule, CatIsWrittenInPlace) {
    const auto ran = check(R"(
        %0: f32[5,3] = input {strides=[3,1]}
        %1: f32[5,4] = input {strides=[4,1]}
        %2: f32[5,3] = exp %0
        %3: f32[5,7] = cat %2 %1 {ints=[1]}
        %4: f32[5,7] = neg %3
        output %4 {strides=[7,1]}
    )",
                           1e-6);
    EXPECT_EQ(ran.schedule.nests.size(), 3u);
}

TEST(Schedule, ExternCallsAreOrderedBetweenNests) {
    const auto twice = [](uint32_t, std::span<const HostArray> uses) {
        HostArray r = uses[0];
        for (int64_t k = 0; k < r.numel(); k++) r.set(k, scalar::Value::of_float(DType::f32, 2 * r.at(k).number));
        return std::vector<HostArray>{r};
    };
    const auto ran = check(R"(
        %0: f32[9,8] = input {strides=[8,1]}
        %1: f32[9,8] = neg %0
        %2: f32[9,8] = abs %1
        extern 0 twice (%1)
        %3: f32[9,8] = extern_call %1 {ints=[0]}
        %4: f32[9,8] = add %3 %2
        output %4 {strides=[8,1]}
        output %2 {strides=[8,1]}
    )",
                           0, 1, twice);
    EXPECT_EQ(ran.schedule.steps.size(), 3u);
    EXPECT_TRUE(std::holds_alternative<fusion::ExternStep>(ran.schedule.steps[1]));
}

TEST(Schedule, NumbersAndEmptyTensors) {
    check(R"(
        %0: f64[] = scalar
        %1: f32[] = input {strides=[]}
        %2: f32[] = cast %0
        %3: f32[] = add %1 %2
        %4: f64[] = exp %0
        output %3 {strides=[]}
        output %4 {strides=[]}
    )",
          1e-6);
    check(R"(
        %0: f32[0,5] = input {strides=[5,1]}
        %1: f32[0,5] = neg %0
        %2: f32[1,5] = sum %1 {ints=[0]}
        %3: f32[0,1] = amax %1 {ints=[1]}
        output %1 {strides=[5,1]}
        output %2 {strides=[5,1]}
        output %3 {strides=[1,1]}
    )");
}

TEST(Schedule, OtherReductions) {
    check(R"(
        %0: f32[23,41] = input {strides=[41,1]}
        %1: i64[1,41] = argmax %0 {ints=[0]}
        %2: i64[23,1] = argmin %0 {ints=[1]}
        %3: f32[] = constant {number=1.9}
        %4: f32[23,41] = expand %3
        %5: b8[23,41] = gt %0 %4
        %6: b8[23,1] = any %5 {ints=[1]}
        %7: b8[1,41] = all %5 {ints=[0]}
        %8: f32[23,1] = prod %0 {ints=[1]}
        output %1 {strides=[41,1]}
        output %2 {strides=[1,1]}
        output %6 {strides=[1,1]}
        output %7 {strides=[41,1]}
        output %8 {strides=[1,1]}
    )",
          1e-4);
}

TEST(Schedule, IotaCopiesAndRepeatedCatOperands) {
    check(R"(
        %0: i64[12] = iota
        %1: i64[3,4] = reshape %0
        %2: i64[3,4] = mul %1 %1
        %3: i64[3,8] = cat %2 %2 {ints=[1]}
        %4: i64[4] = input {strides=[1]}
        %5: i64[3,4] = expand %4
        %6: i64[6,4] = cat %5 %1 {ints=[0]}
        output %3 {strides=[8,1]}
        output %5 {strides=[4,1]}
        output %6 {strides=[4,1]}
    )");
}

TEST(Schedule, ReshapeThatIsNotAffineReadsACopy) {
    const auto ran = check(R"(
        %0: f32[4,6] = input {strides=[1,4]}
        %1: f32[3,8] = reshape %0
        %2: f32[3,8] = neg %1
        output %2 {strides=[8,1]}
    )");
    EXPECT_EQ(ran.schedule.nests.size(), 2u);
}

TEST(Schedule, OnlyTheTwinOfAViewIsCalled) {
    // sum() without its axis is a reshape; checked replays keep the whole call as its twin, which must not take its place.
    const Ran ran = check("%0: f32[4] = input {strides=[1]}\n"
                          "%1: f32[1] = sum %0 {ints=[0]}\n"
                          "%2: f32[] = reshape %1 {twin=0}\n"
                          "extern 0 torch.sum (%0)\n"
                          "output %2 {strides=[]}\n", 1e-6);
    ASSERT_EQ(ran.schedule.steps.size(), 1u);
    EXPECT_TRUE(std::holds_alternative<fusion::KernelStep>(ran.schedule.steps[0]));
}

} // namespace
} // namespace dyno
