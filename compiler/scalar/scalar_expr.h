// What happens per element: a flat SSA vector of scalar instructions, operands before users. The body of a loop nest.
// Made by fusion from graph nodes, read by codegen, the evaluator (evaluate.h), the simplifier (simplify.h).
// No loops, no memory: `load` names a parameter, where it lies in memory is the loop nest's business.
#pragma once
#include "compiler/scalar/dtype.h"
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace dyno::scalar {

enum class ScalarOp : uint8_t {
#define DYNO_SCALAR_OP(name, ...) name,
#include "compiler/scalar/scalar_ops.def"
#undef DYNO_SCALAR_OP
    count_
};
constexpr int scalar_op_count = static_cast<int>(ScalarOp::count_);

/// How the result's dtype follows from the operands', and whether the op can end a replay's compute phase.
enum class ResultRule : uint8_t { same, b8, given };
enum class TrapRule : uint8_t { never, zero, negative };

/// One row of scalar_ops.def.
struct ScalarOpInfo {
    std::string_view name;
    uint8_t arity;
    ResultRule result;
    TrapRule traps;
    bool commutes;
};
const ScalarOpInfo& info(ScalarOp op);
/// The op of that name, ScalarOp::count_ if there is none.
ScalarOp scalar_op_named(std::string_view name);

/// An instruction of the same expression.
using ValueId = uint32_t;
constexpr ValueId no_value = std::numeric_limits<ValueId>::max();

/// One instruction. `dtype` is the result's. After every op the result is rounded to dtype (bf16 and f16 compute in f32
/// inside the op, then round once). Operands have one dtype, but select's condition (b8) and cast's operand.
struct Instruction {
    ScalarOp op = ScalarOp::constant;
    DType dtype = DType::none;
    std::array<ValueId, 3> operands{no_value, no_value, no_value};
    uint32_t parameter = 0; // load: which buffer parameter; scalar: which scalar parameter; index: which loop axis
    double number = 0.0;    // constant of a float dtype (already rounded to it; NaN and infinities allowed)
    int64_t integer = 0;    // constant of an integer or b8 dtype (u64: its bits)
};

/// The whole expression; `results` are the instructions whose values leave it, in the nest's order.
struct ScalarExpr {
    std::vector<Instruction> code;
    std::vector<ValueId> results;

    const Instruction& operator[](ValueId id) const { return code[id]; }
    ValueId append(Instruction instruction) {
        code.push_back(instruction);
        return static_cast<ValueId>(code.size() - 1);
    }
    ValueId load(DType dtype, uint32_t parameter) { return append({ScalarOp::load, dtype, {no_value, no_value, no_value}, parameter}); }
    ValueId scalar(DType dtype, uint32_t parameter) { return append({ScalarOp::scalar, dtype, {no_value, no_value, no_value}, parameter}); }
    /// The position along a loop axis, as an integer of that dtype.
    ValueId index(DType dtype, uint32_t axis) { return append({ScalarOp::index, dtype, {no_value, no_value, no_value}, axis}); }
    ValueId constant(DType dtype, double number) {
        return append({ScalarOp::constant, dtype, {no_value, no_value, no_value}, 0, number, 0});
    }
    ValueId constant_integer(DType dtype, int64_t value) {
        return append({ScalarOp::constant, dtype, {no_value, no_value, no_value}, 0, 0.0, value});
    }
    /// An op whose dtype follows from its operands (rules same and b8; select's from its second).
    ValueId apply(ScalarOp op, ValueId a, ValueId b = no_value, ValueId c = no_value);
    ValueId cast(DType to, ValueId a) { return append({ScalarOp::cast, to, {a, no_value, no_value}}); }
};

/// The text form, one instruction a line: `%2: f32 = add %0 %1`, `%0: f32 = load 1`, `%3: f32 = constant 0.5`.
std::string to_text(const ScalarExpr& expr);

} // namespace dyno::scalar
