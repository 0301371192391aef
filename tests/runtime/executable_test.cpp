// Loading (also of broken objects), replacing under way, scratch, and flags of all threads.
#include "compiler/runtime/executable.h"
#include <gtest/gtest.h>
#include <thread>

namespace dyno::runtime {
namespace {
using fusion::Axis;
using fusion::Instruction;
using fusion::LoopNest;
using scalar::ScalarOp;

LoopNest reciprocal(int64_t n) {
    LoopNest nest;
    nest.axes = {{Axis::parallel, n}};
    nest.parameters = {{DType::f32}, {DType::f32, true}};
    nest.loads = {{0, {0, {1}}}};
    nest.body = {{.kind = Instruction::load, .dtype = DType::f32},
                 {.kind = Instruction::apply, .op = ScalarOp::reciprocal, .dtype = DType::f32, .arity = 1}};
    nest.stores = {{1, {1, {0, {1}}}}};
    nest.reports_flags = true;
    return nest;
}

TEST(Executable, BrokenObjectsAreRefused) {
    codegen::CompiledCode code = codegen::compile(reciprocal(8), codegen::host_target(), 0);
    codegen::CompiledCode cut = code, other = code, nameless = code;
    cut.object.resize(cut.object.size() / 2);
    other.object[18] = 3; // another machine
    nameless.phases[0].symbol = "absent";
    EXPECT_FALSE(Executable::load(cut));
    EXPECT_FALSE(Executable::load(other));
    EXPECT_FALSE(Executable::load(nameless));
    cut.object.clear();
    EXPECT_FALSE(Executable::load(cut));
}

TEST(Executable, FlagsOfEveryThreadComeBackAndDoNotStick) {
    const int64_t n = 1 << 20;
    auto e = *Executable::load(codegen::compile(reciprocal(n), codegen::host_target(), 2));
    std::vector<float> x(n, 2.0f), y(n);
    void* buffers[] = {x.data(), y.data()};
    EXPECT_EQ(e->launch(buffers, nullptr, 2), 0u);
    for (int64_t at : {int64_t{5}, n - 5}) {
        x[at] = 0;
        EXPECT_EQ(e->launch(buffers, nullptr, 2), uint32_t{divide_by_zero});
        x[at] = 2;
    }
    EXPECT_EQ(e->launch(buffers, nullptr, 2), 0u);
}

TEST(Executable, BetterCodeReplacesWhileOthersLaunch) {
    const int64_t n = 1000;
    const auto quick = codegen::compile(reciprocal(n), codegen::host_target(), 0),
               better = codegen::compile(reciprocal(n), codegen::host_target(), 2);
    auto e = *Executable::load(quick);
    EXPECT_EQ(e->level(), 0);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::thread launcher([&] {
        std::vector<float> x(n, 4.0f), y(n);
        void* buffers[] = {x.data(), y.data()};
        while (!stop) {
            e->launch(buffers, nullptr, 1);
            wrong += y[0] != 0.25f || y[n - 1] != 0.25f;
        }
    });
    for (int k = 0; k < 20; k++) EXPECT_TRUE(e->replace(k % 2 ? quick : better));
    stop = true;
    launcher.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(e->level(), 0);
    EXPECT_GT(e->estimated_nanoseconds(), 0);
}

} // namespace
} // namespace dyno::runtime
