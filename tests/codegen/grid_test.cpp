// GPU code without a GPU: every op's PTX assembles where ptxas is installed, and what the kernels promise is read off their text:
// accesses of 16 bytes, one read of a row, no local memory.
#include "compiler/codegen/coarse.h"
#include "compiler/codegen/grid_plan.h"
#include "tests/codegen/nests.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace dyno {
namespace {
using namespace test;


std::string ptx(const codegen::CompiledCode& code) { return {code.object.begin(), code.object.end()}; }

size_t count(const std::string& text, const std::string& what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) n++;
    return n;
}

std::string assembler() {
    if (const char* set = std::getenv("DYNO_PTXAS")) return set;
    return std::filesystem::exists("/usr/local/cuda/bin/ptxas") ? "/usr/local/cuda/bin/ptxas" : "";
}

/// What ptxas says of the text; fails the test where it refuses.
std::string assembled(const std::string& text, const std::string& model) {
    const std::string base = std::filesystem::temp_directory_path() / ("dyno_grid_test_" + std::to_string(getpid()));
    std::ofstream(base + ".ptx") << text;
    const std::string command = assembler() + " -v -arch=" + model + " -o " + base + ".cubin " + base + ".ptx > " + base + ".log 2>&1";
    const int failed = std::system(command.c_str());
    std::ifstream log(base + ".log");
    std::string said((std::istreambuf_iterator<char>(log)), {});
    for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(base + end);
    EXPECT_EQ(failed, 0) << said << text;
    return said;
}

/// `spilled`: bytes of registers that may wait in memory, around the call of a rare case.
void check_assembles(const LoopNest& nest, int spilled = 0) {
    fusion::verify(nest);
    for (const auto& [major, minor] : {std::pair{8, 0}, std::pair{9, 0}}) {
        const codegen::Target target = codegen::gpu_target(major, minor);
        const codegen::CompiledCode code = codegen::compile(nest, target, 0);
        ASSERT_FALSE(code.phases.empty());
        if (assembler().empty()) continue;
        const std::string said = assembled(ptx(code), target.cpu);
        const size_t stores = said.find(" bytes spill stores");
        ASSERT_NE(stores, std::string::npos) << said;
        EXPECT_LE(std::stoi(said.substr(said.rfind(' ', stores - 1) + 1)), spilled) << said;
        if (!code.unaligned) continue;
        const std::vector<uint8_t> same = code.unaligned();
        assembled({same.begin(), same.end()}, target.cpu);
    }
}

LoopNest chain(int64_t n) {
    LoopNest nest;
    nest.axes = {{Axis::parallel, n}};
    nest.parameters = {{DType::f32}, {DType::f32}, {DType::f32, true}};
    nest.loads = {{0, {0, {1}}}, {1, {0, {1}}}};
    nest.body = {load(DType::f32, 0), load(DType::f32, 1), apply(ScalarOp::add, DType::f32, 0, 1), apply(ScalarOp::relu, DType::f32, 2),
                 apply(ScalarOp::add, DType::f32, 3, 3)};
    nest.stores = {{4, {2, {0, {1}}}}};
    return nest;
}

TEST(Grid, ChainIsOneVectorAccessAnOperand) {
    const codegen::CompiledCode code = codegen::compile(chain(1 << 20), codegen::gpu_target(9, 0), 0);
    const std::string text = ptx(code);
    EXPECT_EQ(count(text, "ld.global.v4.f32"), 2u) << text;
    EXPECT_EQ(count(text, "st.global.v4.f32"), 1u);
    EXPECT_EQ(count(text, "ld.global"), 2u);
    EXPECT_EQ(count(text, ".local"), 0u);
    EXPECT_EQ(count(text, "fma."), 0u);
    ASSERT_EQ(code.phases.size(), 1u);
    EXPECT_EQ(code.phases[0].blocks * code.phases[0].threads * 4, 1 << 20);
    EXPECT_TRUE(static_cast<bool>(code.unaligned));
    check_assembles(chain(1 << 20));
}
TEST(Grid, LittleWorkIsShortCode) {
    const codegen::GridPlan flat = codegen::plan_grid(chain(16384), true, true), large = codegen::plan_grid(chain(16388), true, true);
    EXPECT_EQ(flat.lanes, 1);
    EXPECT_EQ(large.lanes, 4);
    check_assembles(chain(16));
}
TEST(Grid, OddLengthsHaveSingleElementsAtTheEnd) {
    for (int64_t n : {1, 3, 7, 1003}) check_assembles(chain(n));
}

/// x -> exp(x - max) / sum, rows of `length`.
LoopNest softmax(DType t, int64_t rows, int64_t length) {
    LoopNest nest;
    nest.axes = {{Axis::parallel, rows}, {Axis::row, length}};
    nest.parameters = {{t}, {t, true}};
    nest.loads = {{0, {0, {length, 1}}}};
    nest.body = {load(t, 0),
                 reduce(Reduction::amax, t, 0),
                 apply(ScalarOp::sub, t, 0, 1),
                 apply(ScalarOp::exp, t, 2),
                 reduce(Reduction::sum, t, 3),
                 apply(ScalarOp::div, t, 3, 4)};
    nest.stores = {{5, {1, {0, {length, 1}}}}};
    return nest;
}

TEST(Grid, RowsAreReadOnce) {
    for (DType t : {DType::f32, DType::bf16, DType::f16}) {
        for (int64_t length : {4, 64, 100, 1024, 4096, 8192}) {
            const LoopNest nest = softmax(t, 4096, length);
            const codegen::GridPlan plan = codegen::plan_grid(nest, true);
            ASSERT_TRUE(plan.resident) << length;
            const std::string text = ptx(codegen::compile(nest, codegen::gpu_target(9, 0), 0));
            const auto pieces = static_cast<size_t>(std::max<int64_t>(1, plan.lanes * size_of(t) / 16));
            EXPECT_EQ(count(text, "ld.global"), static_cast<size_t>(plan.steps) * pieces) << text;
            EXPECT_EQ(count(text, ".local"), 0u);
        }
        check_assembles(softmax(t, 4096, 4096), 16); // the rare case: of divisions
    }
    check_assembles(softmax(DType::f32, 33, 77));
    check_assembles(softmax(DType::f64, 33, 300), 16);
    check_assembles(softmax(DType::f32, 3, 200001));
}

TEST(Grid, LongRowsStayOnChipInClusters) {
    const LoopNest nest = softmax(DType::f32, 1024, 65536);
    const codegen::GridPlan plan = codegen::plan_grid(nest, true, true);
    ASSERT_TRUE(plan.cluster && plan.resident);
    EXPECT_EQ(plan.part_length * plan.parts, plan.positions);
    const codegen::CompiledCode code = codegen::compile(nest, codegen::gpu_target(9, 0), 0);
    ASSERT_EQ(code.phases.size(), 1u);
    EXPECT_EQ(code.phases[0].cluster, plan.parts);
    EXPECT_EQ(code.phases[0].blocks, 1024 * plan.parts);
    EXPECT_EQ(count(ptx(code), "ld.global"), static_cast<size_t>(plan.steps)); // once
    EXPECT_EQ(codegen::compile(nest, codegen::gpu_target(8, 0), 0).phases[0].cluster, 1);
    check_assembles(nest, 16);
    for (int64_t length : {65536 + 8, 50304}) EXPECT_FALSE(codegen::plan_grid(softmax(DType::f32, 1024, length), true, true).cluster) << length;
    EXPECT_FALSE(codegen::plan_grid(softmax(DType::f32, 2, 65536), true, true).cluster); // too few to fill the machine
}

/// x -> cast(f32), the ops on the last value and on what `also` names, and a cast to `kept` at the end.
std::vector<bool> coarse(std::vector<Instruction> ops, DType kept) {
    LoopNest nest;
    nest.axes = {{Axis::parallel, 1024}};
    nest.parameters = {{DType::bf16}, {kept, true}};
    nest.loads = {{0, {0, {1}}}};
    nest.body = {load(DType::bf16, 0), apply(ScalarOp::cast, DType::f32, 0)};
    nest.body.insert(nest.body.end(), ops.begin(), ops.end());
    if (kept != DType::f32) nest.body.push_back(apply(ScalarOp::cast, kept, static_cast<fusion::ValueId>(nest.body.size() - 1)));
    nest.stores = {{static_cast<fusion::ValueId>(nest.body.size() - 1), {1, {0, {1}}}}};
    fusion::verify(nest);
    return codegen::coarse_values(nest);
}

TEST(Grid, OnlyWhatSixteenBitsHideIsCoarse) {
    const DType f = DType::f32;
    const auto exp = apply(ScalarOp::exp, f, 1);
    EXPECT_TRUE(coarse({exp, apply(ScalarOp::mul, f, 2, 1)}, DType::bf16)[2]);
    EXPECT_TRUE(coarse({exp, constant(1), apply(ScalarOp::add, f, 2, 3), apply(ScalarOp::div, f, 1, 4)}, DType::f16)[2]); // x / (1 + exp(x))
    EXPECT_FALSE(coarse({exp, apply(ScalarOp::mul, f, 2, 1)}, f)[2]);                                                   // kept in 32 bits
    EXPECT_FALSE(coarse({exp, constant(-1), apply(ScalarOp::add, f, 2, 3)}, DType::bf16)[2]);                           // cancels
    EXPECT_FALSE(coarse({exp, apply(ScalarOp::sub, f, 2, 1)}, DType::bf16)[2]);
    EXPECT_FALSE(coarse({exp, apply(ScalarOp::exp, f, 2)}, DType::bf16)[2]); // magnifies
    EXPECT_FALSE(coarse({exp, apply(ScalarOp::mul, f, 2, 2)}, DType::bf16)[2]);
    EXPECT_TRUE(coarse({exp, apply(ScalarOp::exp, f, 2)}, DType::bf16)[3]);
}

TEST(Grid, OneOrFewLongRowsUseEveryMultiprocessor) {
    LoopNest nest;
    nest.axes = {{Axis::row, 1 << 26}};
    nest.parameters = {{DType::f32}, {DType::f32, true}};
    nest.loads = {{0, {0, {1}}}};
    nest.body = {load(DType::f32, 0), reduce(Reduction::sum, DType::f32, 0)};
    nest.stores = {{1, {1, {0, {0}}}}};
    const codegen::CompiledCode code = codegen::compile(nest, codegen::gpu_target(9, 0), 0);
    ASSERT_EQ(code.phases.size(), 2u);
    EXPECT_EQ(code.phases[0].blocks, 132);
    EXPECT_TRUE(code.phases[1].starts_early);
    EXPECT_EQ(count(ptx(code), "griddepcontrol.wait"), 1u);
    EXPECT_FALSE(codegen::compile(nest, codegen::gpu_target(8, 0), 0).phases[1].starts_early);
    check_assembles(nest);
}

TEST(Grid, ColumnsAndSplitRows) {
    for (DType t : {DType::f32, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::b8}) {
        for (Reduction how : {Reduction::sum, Reduction::prod, Reduction::amax, Reduction::amin, Reduction::argmax, Reduction::any}) {
            if ((t == DType::b8) != (how == Reduction::any)) continue;
            const DType out = how == Reduction::argmax ? DType::i64 : t;
            for (bool columns : {true, false}) {
                for (int64_t length : {100, 1 << 18}) {
                    LoopNest nest;
                    nest.axes = columns ? std::vector<Axis>{{Axis::row, length}, {Axis::parallel, 64}} : std::vector<Axis>{{Axis::parallel, 3}, {Axis::row, length}};
                    nest.parameters = {{t}, {out, true}};
                    nest.loads = {{0, {0, {columns ? 64 : length, 1}}}};
                    nest.body = {load(t, 0), reduce(how, out, 0)};
                    nest.stores = {{1, {1, {0, columns ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0}}}}};
                    EXPECT_EQ(codegen::compile(nest, codegen::gpu_target(9, 0), 0).phases.size(), length == 100 ? 1u : 2u);
                    if (how == Reduction::sum || how == Reduction::argmax || t == DType::f32) check_assembles(nest);
                }
            }
        }
    }
}

bool lowered(ScalarOp op, DType t) {
    static const ScalarOp never[] = {ScalarOp::atan, ScalarOp::asin, ScalarOp::acos, ScalarOp::atan2};
    static const ScalarOp not_f64[] = {ScalarOp::exp2, ScalarOp::expm1, ScalarOp::log2, ScalarOp::log10, ScalarOp::log1p, ScalarOp::sin, ScalarOp::cos,
                                       ScalarOp::tan,  ScalarOp::sinh,  ScalarOp::cosh, ScalarOp::pow,   ScalarOp::hypot};
    const auto in = [&](auto& list) { return std::find(std::begin(list), std::end(list), op) != std::end(list); };
    return !in(never) && !(t == DType::f64 && in(not_f64));
}

/// All ops of a dtype in one kernel.
TEST(Grid, EveryOpAssembles) {
    const bool of_floats_only[] = {false};
    (void)of_floats_only;
    for (DType t : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8, DType::u8, DType::i16, DType::i32, DType::i64, DType::b8}) {
        LoopNest nest;
        nest.axes = {{Axis::parallel, 4096}};
        nest.parameters = {{t}, {t}, {DType::b8}};
        nest.loads = {{0, {0, {1}}}, {1, {0, {1}}}, {2, {0, {1}}}};
        nest.body = {load(t, 0), load(t, 1), load(DType::b8, 2)};
        for (int k = 0; k < scalar::scalar_op_count; k++) {
            const auto op = static_cast<ScalarOp>(k);
            const scalar::ScalarOpInfo& row = scalar::info(op);
            if (row.arity == 0 || op == ScalarOp::cast || (op == ScalarOp::fma && !is_float(t)) || !lowered(op, t)) continue;
            const bool bits = row.name.starts_with("bitwise") || row.name.starts_with("shift");
            const bool numbers = row.name == "neg" || row.name == "sub" || row.name == "div" || row.name == "copysign";
            const bool transcendental = fusion::cost_of(op) > 0.1 && op != ScalarOp::floor_div && op != ScalarOp::remainder && op != ScalarOp::fmod && op != ScalarOp::pow;
            if (is_float(t) ? bits : transcendental || (numbers && (t == DType::b8 || row.name == "div" || row.name == "copysign"))) continue;
            if (t == DType::b8 && (row.traps != scalar::TrapRule::never || row.name.starts_with("shift"))) continue;
            const DType out = row.result == scalar::ResultRule::b8 ? DType::b8 : t;
            nest.body.push_back(op == ScalarOp::select ? apply(op, t, 2, 0, 1) : op == ScalarOp::fma ? apply(op, t, 0, 1, 0) : apply(op, out, 0, 1));
            nest.parameters.push_back({out, true});
            nest.stores.push_back({static_cast<fusion::ValueId>(nest.body.size() - 1), {static_cast<uint32_t>(nest.parameters.size() - 1), {0, {1}}}});
        }
        for (DType to : {DType::f32, DType::bf16, DType::f16, DType::i64, DType::u8, DType::b8, DType::f64}) {
            if (to == t) continue;
            nest.body.push_back(apply(ScalarOp::cast, to, 0));
            nest.parameters.push_back({to, true});
            nest.stores.push_back({static_cast<fusion::ValueId>(nest.body.size() - 1), {static_cast<uint32_t>(nest.parameters.size() - 1), {0, {1}}}});
        }
        fusion::verify(nest);
        for (int major : {8, 9}) {
            const codegen::Target target = codegen::gpu_target(major, 0);
            const codegen::CompiledCode code = codegen::compile(nest, target, 0);
            EXPECT_EQ(count(ptx(code), ".extern .func"), 0u) << name_of(t);
            if (!assembler().empty()) assembled(ptx(code), target.cpu);
        }
    }
}

} // namespace
} // namespace dyno
