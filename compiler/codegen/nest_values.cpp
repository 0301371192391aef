// Values of a nest at a point: leaves (memory, indices, scalars, constants) and operations.
#include "compiler/codegen/nest_emitter.h"
#include "compiler/support/check.h"
#include <llvm/IR/Constants.h>

namespace dyno::codegen {
using fusion::Instruction;
using fusion::ValueId;
using llvm::Value;

Value* NestEmitter::compute(VectorEmitter& e, ValueId id) {
    const Instruction& i = nest_.body[id];
    switch (i.kind) {
    case Instruction::constant:
        return e.constant(i.dtype, i.bits);
    case Instruction::scalar:
        return scalar_argument(i.which);
    case Instruction::index:
        return index_value(e, nest_.indices[i.which], i.dtype, plan_.vector[id]);
    case Instruction::load:
        return load(e, nest_.loads[i.which], i.dtype);
    case Instruction::reduce:
        DYNO_CHECK(false, "a reduction is known before it is used");
    case Instruction::apply:
        break;
    }
    llvm::SmallVector<Value*, 3> args;
    for (int k = 0; k < i.arity; k++) {
        Value* v = value(e, i.operands[k]);
        args.push_back(plan_.vector[id] ? e.splat(v) : v);
    }
    return e.apply(i.op, i.dtype, nest_.body[i.operands[i.arity - 1]].dtype, args, fault_);
}

Value* NestEmitter::scalar_argument(uint32_t which) {
    const DType t = nest_.scalars[which];
    Value* place = b_.CreateInBoundsGEP(b_.getInt64Ty(), function_->getArg(scalars), i64(which));
    if (t == DType::f64) return b_.CreateLoad(b_.getDoubleTy(), place);
    Value* word = b_.CreateLoad(b_.getInt64Ty(), place);
    if (t == DType::b8) return b_.CreateICmpNE(word, i64(0));
    Value* bits = b_.CreateTrunc(word, b_.getIntNTy(static_cast<unsigned>(size_of(t) * 8)));
    return is_int(t) ? bits : one_.from_memory(b_.CreateBitCast(bits, one_.memory_type(t)), t);
}

Value* NestEmitter::offset_of(const fusion::Affine& at) {
    return emit_offset(b_, at, [&](size_t axis) {
        DYNO_CHECK(at_.index[axis], "a value is used inside the loops it depends on");
        return at_.index[axis];
    });
}

Value* NestEmitter::index_value(VectorEmitter& e, const fusion::Affine& at, DType t, bool vector) {
    Value* first = offset_of(at);
    if (vector) first = consecutive(e, first, at.strides[plan_.vector_axis]);
    return e.cast(first, DType::i64, t);
}

Value* NestEmitter::pointer(const fusion::Access& access, DType t) {
    return b_.CreateInBoundsGEP(one_.memory_type(t), buffer_[access.parameter], offset_of(access.at));
}

static int64_t vector_stride(const fusion::Access& access, const NestPlan& plan) {
    return access.at.strides.empty() ? 0 : access.at.strides[plan.vector_axis];
}

Value* NestEmitter::load(VectorEmitter& e, const fusion::Access& access, DType t) {
    llvm::Type* type = e.memory_type(t);
    const llvm::Align align(static_cast<uint64_t>(size_of(t)));
    const int64_t stride = vector_stride(access, plan_);
    Value* first = pointer(access, t);
    // In rows mode a value above the loops may be computed by the wide emitter: it is one element all the same.
    if (e.lanes() == 1 || stride == 0) return e.from_memory(b_.CreateAlignedLoad(type, first, align), t);
    if (stride == 1) return e.from_memory(b_.CreateAlignedLoad(e.widen(type), first, align), t);
    if (stride == -1) {
        llvm::SmallVector<int> reversed;
        for (int k = e.lanes(); k-- > 0;) reversed.push_back(k);
        Value* v = b_.CreateAlignedLoad(e.widen(type), b_.CreateInBoundsGEP(type, first, i64(1 - e.lanes())), align);
        return e.from_memory(b_.CreateShuffleVector(v, reversed), t);
    }
    Value* v = llvm::PoisonValue::get(e.widen(type));
    for (int k = 0; k < e.lanes(); k++)
        v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(type, b_.CreateInBoundsGEP(type, first, i64(k * stride)), align),
                                   static_cast<uint64_t>(k));
    return e.from_memory(v, t);
}

void NestEmitter::store(VectorEmitter& e, const fusion::Access& access, Value* v) {
    const DType t = nest_.parameters[access.parameter].dtype;
    const llvm::Align align(static_cast<uint64_t>(size_of(t)));
    const int64_t stride = vector_stride(access, plan_);
    Value* first = pointer(access, t);
    if (e.lanes() == 1 || stride == 0) {
        b_.CreateAlignedStore(e.to_memory(v, t), first, align);
        return;
    }
    v = e.to_memory(e.splat(v), t);
    if (stride == 1) {
        b_.CreateAlignedStore(v, first, align);
        return;
    }
    for (int k = 0; k < e.lanes(); k++)
        b_.CreateAlignedStore(b_.CreateExtractElement(v, static_cast<uint64_t>(k)),
                              b_.CreateInBoundsGEP(e.memory_type(t), first, i64(k * stride)), align);
}

/// Where an element value is kept between passes: by row position, in columns mode `lanes` elements a position.
Value* NestEmitter::stash_pointer(VectorEmitter& e, ValueId id) {
    const DType t = nest_.body[id].dtype;
    const int64_t size = t == DType::f16 || t == DType::bf16 ? 4 : size_of(t);
    Value* element = plan_.mode == NestPlan::columns ? b_.CreateMul(at_.row_linear, i64(plan_.lanes))
                                                     : b_.CreateAdd(at_.row_linear, at_.index[plan_.vector_axis]);
    Value* offset = b_.CreateAdd(b_.CreateMul(element, i64(size)), i64(plan_.stash_offset[id]));
    return of_own_row(b_.CreateInBoundsGEP(b_.getInt8Ty(), function_->getArg(local), offset));
}

} // namespace dyno::codegen
