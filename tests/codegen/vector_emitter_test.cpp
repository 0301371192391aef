// Every exact scalar op on every dtype against scalar/evaluate.h, bit for bit, both levels, whole vectors and rests.
#include "compiler/graph/interpret.h"
#include "compiler/runtime/executable.h"
#include "compiler/scalar/evaluate.h"
#include "tests/codegen/nests.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace dyno {
namespace {
using namespace test;
using graph::HostArray;
using scalar::Value;

constexpr DType dtypes[] = {DType::b8,  DType::u8,  DType::i8,  DType::i16,  DType::i32, DType::i64, DType::u16,
                            DType::u32, DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr int64_t n = 75;

HostArray values(DType t, uint32_t seed) {
    HostArray a(t, {n});
    std::mt19937_64 random(seed);
    const double odd[] = {0.0,  -0.0, 1,     -1,    INFINITY, -INFINITY, NAN,   0.5,          2.5,
                          -2.5, 3.5,  1e-40, 65504, 70000,    -1e30,     127.9, 2147483648.0, 1e19};
    const int64_t ends[] = {0, 1, -1, 2, 63, 64, -64, 127, -128, 255, 32767, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    std::uniform_real_distribution<double> real(-300, 300);
    for (int64_t k = 0; k < n; k++) {
        if (is_float(t))
            a.set(k, scalar::convert(Value::of_float(DType::f64, random() % 2 ? odd[random() % std::size(odd)] : real(random)), t));
        else
            a.set(k,
                  scalar::convert(
                      Value::of_int(DType::i64, random() % 2 ? ends[random() % std::size(ends)] : static_cast<int64_t>(real(random))), t));
    }
    return a;
}

LoopNest nest_of(ScalarOp op, DType result, const std::vector<DType>& operands) {
    LoopNest nest;
    nest.axes = {{Axis::parallel, n}};
    Instruction i{.kind = Instruction::apply, .op = op, .dtype = result, .arity = static_cast<uint8_t>(operands.size())};
    for (uint32_t k = 0; k < operands.size(); k++) {
        nest.parameters.push_back({operands[k]});
        nest.loads.push_back({k, {0, {1}}});
        nest.body.push_back({.kind = Instruction::load, .dtype = operands[k], .which = k});
        i.operands[k] = k;
    }
    nest.body.push_back(i);
    const auto last = static_cast<uint32_t>(operands.size());
    nest.parameters.push_back({result, true});
    nest.stores = {{last, {last, {0, {1}}}}};
    return nest;
}

void compare(ScalarOp op, DType result, const std::vector<DType>& types) {
    std::vector<HostArray> inputs;
    std::vector<void*> buffers;
    for (size_t k = 0; k < types.size(); k++) inputs.push_back(values(types[k], static_cast<uint32_t>(k + 1)));
    HostArray out(result, {n});
    for (HostArray& a : inputs) buffers.push_back(a.bytes.data());
    buffers.push_back(out.bytes.data());
    for (int level : {0, 2}) {
        auto e = runtime::Executable::load(codegen::compile(nest_of(op, result, types), codegen::host_target(), level));
        ASSERT_TRUE(e) << e.reason();
        const uint32_t flags = (*e)->launch(buffers.data(), nullptr, 1);
        bool trapped = false;
        for (int64_t k = 0; k < n; k++) {
            std::vector<Value> args;
            for (const HostArray& a : inputs) args.push_back(a.at(k));
            const auto truth = scalar::apply(op, result, args);
            trapped |= !truth;
            if (!truth) continue;
            const Value mine = out.at(k);
            EXPECT_TRUE(mine.same_as(*truth)) << scalar::info(op).name << " " << name_of(types.back()) << " -> " << name_of(result)
                                              << " level " << level << ": " << args[0].number << "/" << args[0].integer << ", "
                                              << args.back().number << "/" << args.back().integer << " = " << mine.number << "/"
                                              << mine.integer << " not " << truth->number << "/" << truth->integer;
        }
        EXPECT_EQ(flags == runtime::integer_zero_division, trapped) << scalar::info(op).name << " " << name_of(types[0]);
    }
}

bool gated(ScalarOp op) {
    for (ScalarOp g :
         {ScalarOp::exp,  ScalarOp::exp2, ScalarOp::expm1, ScalarOp::log,     ScalarOp::log2,  ScalarOp::log10, ScalarOp::log1p,
          ScalarOp::sin,  ScalarOp::cos,  ScalarOp::tan,   ScalarOp::atan,    ScalarOp::asin,  ScalarOp::acos,  ScalarOp::sinh,
          ScalarOp::cosh, ScalarOp::tanh, ScalarOp::erf,   ScalarOp::sigmoid, ScalarOp::atan2, ScalarOp::hypot})
        if (op == g) return true;
    return false;
}

bool makes_sense(ScalarOp op, DType t) {
    const bool floats = is_float(t);
    switch (op) {
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
    case ScalarOp::reciprocal:
    case ScalarOp::div:
    case ScalarOp::copysign:
    case ScalarOp::fma:
        return floats;
    case ScalarOp::bitwise_not:
    case ScalarOp::bitwise_and:
    case ScalarOp::bitwise_or:
    case ScalarOp::bitwise_xor:
        return !floats;
    case ScalarOp::shift_left:
    case ScalarOp::shift_right:
        return is_int(t);
    case ScalarOp::pow:
        return is_int(t);
    case ScalarOp::floor_div:
    case ScalarOp::remainder:
    case ScalarOp::fmod:
    case ScalarOp::neg:
    case ScalarOp::sub:
        return t != DType::b8;
    default:
        return true;
    }
}

TEST(VectorEmitter, ExactOpsEqualTheEvaluator) {
    for (int k = 0; k < scalar::scalar_op_count; k++) {
        const auto op = static_cast<ScalarOp>(k);
        const scalar::ScalarOpInfo& row = scalar::info(op);
        if (row.arity == 0 || op == ScalarOp::select || op == ScalarOp::cast || gated(op)) continue;
        for (DType t : dtypes)
            if (makes_sense(op, t)) compare(op, row.result == scalar::ResultRule::b8 ? DType::b8 : t, std::vector<DType>(row.arity, t));
    }
}
TEST(VectorEmitter, CastsEqualTheEvaluator) {
    for (DType from : dtypes)
        for (DType to : dtypes)
            if (from != to) compare(ScalarOp::cast, to, {from});
}
TEST(VectorEmitter, SelectTakesOneOrTheOther) {
    for (DType t : dtypes) compare(ScalarOp::select, t, {DType::b8, t, t});
}

} // namespace
} // namespace dyno
