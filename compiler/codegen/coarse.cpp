// Signs forwards, then uses backwards.
#include "compiler/codegen/coarse.h"
#include <bit>

namespace dyno::codegen {
using fusion::Instruction;
using fusion::LoopNest;

namespace {

bool is_narrow(DType t) { return t == DType::bf16 || t == DType::f16; }

bool is_constant_from_zero(const Instruction& i) {
    if (i.kind != Instruction::constant || i.dtype != DType::f32) return false;
    return std::bit_cast<float>(static_cast<uint32_t>(i.bits)) >= 0;
}

/// Values that are surely no less than zero, or NaN: sums of them lose no digits.
std::vector<bool> from_zero_up(const LoopNest& nest) {
    using scalar::ScalarOp;
    std::vector<bool> result;
    for (const Instruction& i : nest.body) {
        const auto operand = [&](int k) { return static_cast<bool>(result[i.operands[k]]); };
        bool up = is_constant_from_zero(i);
        if (i.kind == Instruction::reduce) up = i.how == fusion::Reduction::sum && operand(0);
        if (i.kind == Instruction::apply) {
            if (i.op == ScalarOp::exp || i.op == ScalarOp::sigmoid || i.op == ScalarOp::abs || i.op == ScalarOp::relu) up = true;
            if (i.op == ScalarOp::mul) up = i.operands[0] == i.operands[1];
            if (i.op == ScalarOp::mul || i.op == ScalarOp::add || i.op == ScalarOp::div) up = up || (operand(0) && operand(1));
        }
        result.push_back(up);
    }
    return result;
}

} // namespace

std::vector<bool> coarse_values(const LoopNest& nest) {
    using scalar::ScalarOp;
    const std::vector<bool> up = from_zero_up(nest);
    std::vector<bool> coarse(nest.body.size(), true);
    for (const fusion::Store& store : nest.stores) coarse[store.value] = false;
    for (size_t user = nest.body.size(); user-- > 0;) {
        const Instruction& i = nest.body[user];
        const bool sums = (i.kind == Instruction::reduce && i.how == fusion::Reduction::sum) || (i.kind == Instruction::apply && i.op == ScalarOp::add);
        const bool squares = i.kind == Instruction::apply && i.op == ScalarOp::mul && i.operands[0] == i.operands[1]; // errors double, and again in a power's powers
        const bool scales = i.kind == Instruction::apply && !squares && (i.op == ScalarOp::mul || i.op == ScalarOp::div || i.op == ScalarOp::neg || i.op == ScalarOp::abs);
        const bool rounds = i.kind == Instruction::apply && i.op == ScalarOp::cast && is_narrow(i.dtype);
        for (int k = 0; k < i.arity; k++) {
            bool fine = rounds || (scales && coarse[user] && !is_narrow(i.dtype));
            if (sums && !is_narrow(i.dtype)) {
                fine = coarse[user];
                for (int j = 0; j < i.arity; j++) fine = fine && up[i.operands[j]];
            }
            if (!fine) coarse[i.operands[k]] = false;
        }
    }
    for (size_t k = 0; k < nest.body.size(); k++) {
        const Instruction& i = nest.body[k];
        if (i.kind == Instruction::apply && is_narrow(i.dtype)) coarse[k] = true; // it is rounded itself
        if (i.dtype != DType::f32 && !is_narrow(i.dtype)) coarse[k] = false;
    }
    return coarse;
}

} // namespace dyno::codegen
