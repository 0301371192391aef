// The oracle itself, on cases small enough to know the answer; eager calls, scalars and traps.
#include "compiler/graph/interpret.h"
#include "compiler/graph/text.h"
#include "compiler/support/check.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace dyno;
using namespace dyno::graph;
using scalar::Value;

namespace {

Graph graph_of(const char* text) {
    Result<Graph> graph = parse(text);
    EXPECT_TRUE(graph) << graph.reason();
    return *graph;
}

HostArray floats(std::vector<int64_t> dims, std::vector<double> numbers, DType dtype = DType::f32) {
    HostArray out(dtype, std::move(dims));
    for (size_t i = 0; i < numbers.size(); ++i) out.set(static_cast<int64_t>(i), Value::of_float(dtype, numbers[i]));
    return out;
}

std::vector<double> numbers(const HostArray& array) {
    std::vector<double> out;
    for (int64_t i = 0; i < array.numel(); ++i)
        out.push_back(is_float(array.dtype) ? array.at(i).number : static_cast<double>(array.at(i).integer));
    return out;
}

using Numbers = std::vector<double>;

} // namespace

TEST(Interpret, Reductions) {
    Graph graph = graph_of("%0: f32[2,3] = input {strides=[3,1]}\n"
                           "%1: f32[2,1] = sum %0 {ints=[1]}\n"
                           "%2: f32[1,3] = amax %0 {ints=[0]}\n"
                           "%3: i64[2,1] = argmin %0 {ints=[1]}\n"
                           "%4: f32[1,1] = prod %0 {ints=[0,1]}\n"
                           "%5: f32[2,1] = var %0 {ints=[1], number=1}\n");
    HostArray inputs[] = {floats({2, 3}, {1, 2, 4, -1, -1, NAN})};
    auto values = interpret(graph, inputs);
    ASSERT_TRUE(values);
    EXPECT_EQ((*values)[1].at(0).number, 7.0);
    EXPECT_TRUE(std::isnan((*values)[1].at(1).number));
    EXPECT_EQ((*values)[2].at(0).number, 1.0);
    EXPECT_TRUE(std::isnan((*values)[2].at(2).number));
    EXPECT_EQ(numbers((*values)[3]), (Numbers{0, 2})) << "NaN wins";
    EXPECT_TRUE(std::isnan((*values)[4].at(0).number));
    EXPECT_FLOAT_EQ(static_cast<float>((*values)[5].at(0).number), 7.0f / 3.0f);
}

TEST(Interpret, SumsDoNotLoseSmallTerms) {
    Graph graph = graph_of("%0: f64[4] = input {strides=[1]}\n%1: f64[1] = sum %0 {ints=[0]}\noutput %1 {strides=[1]}\n");
    HostArray inputs[] = {floats({4}, {1e100, 1.0, -1e100, 1.0}, DType::f64)};
    EXPECT_EQ(numbers((*interpret_outputs(graph, inputs))[0]), (Numbers{2.0}));
}

TEST(Interpret, Movement) {
    Graph graph = graph_of("%0: f32[2,2] = input {strides=[2,1]}\n"
                           "%1: f32[2,2] = permute %0 {ints=[1,0]}\n"
                           "%2: f32[2,1] = slice %0 {ints=[1,-1,1,1]}\n"
                           "%3: f32[2,3] = cat %0 %2 {ints=[1]}\n"
                           "%4: f32[2,2] = flip %0 {ints=[0]}\n"
                           "%5: f32[2,2,1] = reshape %0\n"
                           "%6: f32[2,2,2] = expand %5\n");
    HostArray inputs[] = {floats({2, 2}, {1, 2, 3, 4})};
    auto values = interpret(graph, inputs);
    ASSERT_TRUE(values);
    EXPECT_EQ(numbers((*values)[1]), (Numbers{1, 3, 2, 4}));
    EXPECT_EQ(numbers((*values)[2]), (Numbers{4, 2}));
    EXPECT_EQ(numbers((*values)[3]), (Numbers{1, 2, 4, 3, 4, 2}));
    EXPECT_EQ(numbers((*values)[4]), (Numbers{3, 4, 1, 2}));
    EXPECT_EQ(numbers((*values)[6]), (Numbers{1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST(Interpret, EagerCallsAndScalars) {
    Graph graph = graph_of("%0: f32[2] = input {strides=[1]}\n"
                           "%1: f64[] = scalar\n"
                           "%2: f32[] = cast %1\n"
                           "%3: f32[2] = expand %2\n"
                           "%4: f32[2] = mul %0 %3\n"
                           "%5: f32[2] = extern_call %4 {ints=[0]}\n"
                           "%6: f32[1] = extern_result %5 {ints=[1]}\n"
                           "extern 0 torch.sort (%4)\n"
                           "output %5 {strides=[1]}\n"
                           "output %6 {strides=[1]}\n");
    HostArray inputs[] = {floats({2}, {3, 4})};
    Value scalars[] = {Value::of_float(DType::f64, 0.5)};
    auto call = [](uint32_t index, std::span<const HostArray> uses) {
        EXPECT_EQ(index, 0u);
        return std::vector<HostArray>{uses[0], floats({1}, {9})};
    };
    auto outputs = interpret_outputs(graph, inputs, scalars, call);
    ASSERT_TRUE(outputs);
    EXPECT_EQ(numbers((*outputs)[0]), (Numbers{1.5, 2}));
    EXPECT_EQ(numbers((*outputs)[1]), (Numbers{9}));
    EXPECT_THROW((void)interpret(graph, inputs, scalars), InternalError);
}

TEST(Interpret, TrapsAreValues) {
    Graph graph = graph_of("%0: i32[2] = input {strides=[1]}\n%1: i32[2] = floor_div %0 %0\n");
    HostArray zero(DType::i32, {2});
    HostArray inputs[] = {zero};
    auto values = interpret(graph, inputs);
    ASSERT_FALSE(values);
    EXPECT_EQ(values.reason(), "%1 floor_div: trapped");
}

TEST(Interpret, EmptyGroups) {
    Graph graph = graph_of("%0: f32[2,0] = input {strides=[0,1]}\n%1: f32[2,1] = sum %0 {ints=[1]}\n%2: f32[2,1] = mean %0 {ints=[1]}\n");
    HostArray inputs[] = {HostArray(DType::f32, {2, 0})};
    auto values = interpret(graph, inputs);
    ASSERT_TRUE(values);
    EXPECT_EQ(numbers((*values)[1]), (Numbers{0, 0}));
    EXPECT_TRUE(std::isnan((*values)[2].at(0).number));
}
