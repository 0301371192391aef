// Instructions of loop nests that tests write by hand.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include <cstring>

namespace dyno::test {
using fusion::Axis;
using fusion::Instruction;
using fusion::LoopNest;
using fusion::Reduction;
using scalar::ScalarOp;

inline Instruction load(DType t, uint32_t which) { return {Instruction::load, ScalarOp::load, Reduction::sum, t, {}, 0, which, 0}; }
inline Instruction apply(ScalarOp op, DType t, fusion::ValueId a, fusion::ValueId b = 0, fusion::ValueId c = 0) {
    return {Instruction::apply, op, Reduction::sum, t, {a, b, c}, scalar::info(op).arity, 0, 0};
}
inline Instruction constant(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return {Instruction::constant, ScalarOp::constant, Reduction::sum, DType::f32, {}, 0, 0, bits};
}
inline Instruction reduce(Reduction how, DType t, fusion::ValueId a) { return {Instruction::reduce, ScalarOp::count_, how, t, {a, 0, 0}, 1, 0, 0}; }

} // namespace dyno::test
