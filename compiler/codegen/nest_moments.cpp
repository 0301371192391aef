// Means and variances in the steps of torch's norms: a function of the run-time library makes them, for several rows at a time.
#include "compiler/codegen/nest_emitter.h"

namespace dyno::codegen {
using fusion::Instruction;
using fusion::ValueId;
using llvm::Value;

/// Both moments of an operand are made at once, and known by the first of them in the body.
ValueId NestEmitter::first_moment(ValueId id) const {
    const auto same = [&](const Instruction& i) {
        return i.kind == Instruction::reduce && fusion::is_moment(i.how) && i.operands[0] == nest_.body[id].operands[0];
    };
    ValueId first = 0;
    while (!same(nest_.body[first])) first++;
    return first;
}

void NestEmitter::make_moments(ValueId first, const Elements& all, Value* rows, int64_t count) {
    llvm::Type *one = all.type->getScalarType(), *pointer = b_.getPtrTy(), *word = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, word, word, word, pointer, pointer}, false);
    const auto function = module_.getOrInsertFunction(one->isFloatTy() ? "dyno_row_moments_f32" : "dyno_row_moments_f64", type);
    const Moments& m = moments_.at(first);
    b_.CreateCall(function, {m.rows, rows, i64(all.stride), i64(count), m.mean, m.variance});
}

/// Of one row, or of rows side by side.
Value* NestEmitter::moment(ValueId id, const Elements& all, int64_t count) {
    const ValueId first = first_moment(id);
    if (id == first) {
        const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(all.type);
        const uint64_t rows = vector ? vector->getNumElements() : 1;
        moments_[first] = {alloca_of(llvm::ArrayType::get(b_.getPtrTy(), rows)), alloca_of(all.type), alloca_of(all.type)};
        for (uint64_t k = 0; k < rows; k++)
            b_.CreateStore(b_.CreateConstInBoundsGEP1_64(all.type->getScalarType(), all.first, k), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), moments_[first].rows, k));
        make_moments(first, all, i64(static_cast<int64_t>(rows)), count);
    }
    const Moments& m = moments_.at(first);
    return b_.CreateLoad(all.type, nest_.body[id].how == fusion::Reduction::welford_var ? m.variance : m.mean);
}

/// Runs `body` for each of the rows, with the moments of earlier stages at hand.
void NestEmitter::each_of(Value* number, Value* rows, uint32_t stage, const std::function<void(Value*)>& body) {
    loop(i64(0), rows, i64(1), [&](Value* which) {
        forget(Scope::unit);
        set_unit_position(wide_, b_.CreateAdd(number, which));
        at_.together = which;
        for (ValueId id = 0; id < nest_.body.size(); id++) {
            const Instruction& i = nest_.body[id];
            if (i.kind != Instruction::reduce || plan_.stage[id] > stage) continue;
            const Moments& m = moments_.at(first_moment(id));
            llvm::Type* type = wide_.register_scalar(i.dtype);
            value_[id] = b_.CreateLoad(type, b_.CreateInBoundsGEP(type, i.how == fusion::Reduction::welford_var ? m.variance : m.mean, which));
        }
        body(which);
    });
    at_.together = nullptr;
}

/// Short rows by fours: a pass over each of them, then their moments, then the next pass.
void NestEmitter::rows_together() {
    for (ValueId id = 0; id < nest_.body.size(); id++) {
        if (nest_.body[id].kind != Instruction::reduce || first_moment(id) != id) continue;
        const auto several = [&](llvm::Type* type) { return alloca_of(llvm::ArrayType::get(type, static_cast<uint64_t>(plan_.together))); };
        llvm::Type* scalar = wide_.register_scalar(nest_.body[id].dtype);
        moments_[id] = {several(b_.getPtrTy()), several(scalar), several(scalar)};
    }
    loop(function_->getArg(begin), function_->getArg(end), i64(plan_.together), [&](Value* number) {
        Value *left = b_.CreateSub(function_->getArg(end), number), *most = i64(plan_.together);
        Value* rows = b_.CreateSelect(b_.CreateICmpSLT(left, most), left, most);
        for (uint32_t s = 0; s < plan_.stages; s++) {
            std::map<ValueId, Elements> made;
            each_of(number, rows, s, [&](Value* which) {
                pass(wide_, s, nullptr);
                for (const auto& [first, m] : moments_) {
                    if (plan_.stage[first] != s + 1) continue;
                    const Elements all = elements_of(wide_, first);
                    b_.CreateStore(all.first, b_.CreateInBoundsGEP(b_.getPtrTy(), m.rows, which));
                    made.insert({first, all});
                }
            });
            for (const auto& [first, all] : made) make_moments(first, all, rows, fusion::row_length(nest_));
        }
        each_of(number, rows, plan_.stages, [&](Value*) { row_stores(wide_); });
    });
}

} // namespace dyno::codegen
