// Values of a nest in a GPU kernel: memory in pieces of 16 bytes, indices, scalars, operations.
#include "compiler/codegen/grid_emitter.h"
#include "compiler/support/check.h"
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace dyno::codegen {
using fusion::Instruction;
using fusion::ValueId;
using llvm::Value;

/// Not of single elements: computed once for the unit (in flat kernels: for the kernel).
bool GridEmitter::of_unit(ValueId id) const {
    return plan_.nest.mode == NestPlan::flat ? plan_.nest.scope[id] == Scope::entry : plan_.nest.scope[id] < Scope::mid;
}

Value* GridEmitter::value(VectorEmitter& e, Point* point, ValueId id) {
    const bool unit = of_unit(id);
    DYNO_CHECK(unit || point, "an element's value belongs to a point");
    Value*& known = unit ? unit_value_[id] : point->value[id];
    if (!known) {
        Value* made = compute(unit ? unit_width() : e, unit ? nullptr : point, id);
        (unit ? unit_value_[id] : point->value[id]) = made;
        return made;
    }
    return known;
}

Value* GridEmitter::compute(VectorEmitter& e, Point* point, ValueId id) {
    const Instruction& i = nest_.body[id];
    switch (i.kind) {
    case Instruction::constant:
        return e.constant(i.dtype, i.bits);
    case Instruction::scalar: {
        Value* word = function_->getArg(static_cast<unsigned>(nest_.parameters.size()) + i.which);
        const DType t = nest_.scalars[i.which];
        if (t == DType::f64) return b_.CreateBitCast(word, b_.getDoubleTy());
        if (t == DType::b8) return b_.CreateICmpNE(word, i64(0));
        Value* bits = b_.CreateTrunc(word, b_.getIntNTy(static_cast<unsigned>(size_of(t) * 8)));
        return is_int(t) ? bits : one_.from_memory(b_.CreateBitCast(bits, one_.memory_type(t)), t);
    }
    case Instruction::index: {
        const fusion::Affine& at = nest_.indices[i.which];
        Value* first = offset_of(point, at);
        if (point && point->shift) first = b_.CreateAdd(first, i64(point->shift * at.strides[point->shifted_axis]));
        if (plan_.nest.vector[id]) first = consecutive(e, first, at.strides[plan_.nest.vector_axis]);
        return e.cast(first, DType::i64, i.dtype);
    }
    case Instruction::load:
        return load(e, point, nest_.loads[i.which], i.dtype);
    case Instruction::reduce:
        DYNO_CHECK(false, "a reduction is known before it is used");
    case Instruction::apply:
        break;
    }
    llvm::SmallVector<Value*, 3> args;
    for (int k = 0; k < i.arity; k++) {
        Value* v = value(e, point, i.operands[k]);
        args.push_back(plan_.nest.vector[id] ? e.splat(v) : v);
    }
    e.coarse = plan_.coarse[id];
    return e.apply(i.op, i.dtype, nest_.body[i.operands[i.arity - 1]].dtype, args, fault_);
}

Value* GridEmitter::index_of(Point* point, size_t axis) {
    Value* index = point && point->index[axis] ? point->index[axis] : unit_index_[axis];
    DYNO_CHECK(index, "a value is used where the axes it depends on have an index");
    return index;
}

Value* GridEmitter::offset_of(Point* point, const fusion::Affine& at) {
    return emit_offset(b_, at, [&](size_t axis) { return index_of(point, axis); });
}

/// The first lane's element.
Value* GridEmitter::address_of(Point* point, const fusion::Access& access, llvm::Type* type) {
    Value* address = b_.CreateInBoundsGEP(type, function_->getArg(access.parameter), offset_of(point, access.at));
    const int64_t apart = point && point->shift ? point->shift * access.at.strides[point->shifted_axis] : 0;
    return apart ? b_.CreateInBoundsGEP(type, address, i64(apart)) : address;
}

/// `lanes` consecutive elements in words of 32 bits, up to four words an access.
Value* GridEmitter::load_piece(VectorEmitter& e, Value* first, DType t) {
    const int64_t size = size_of(t), bytes = size * e.lanes();
    llvm::Type* element = e.memory_type(t);
    Value* result = llvm::PoisonValue::get(e.widen(element));
    if (bytes < 4) { // two elements of a byte
        Value* pair = b_.CreateAlignedLoad(b_.getInt16Ty(), first, llvm::Align(2));
        for (int k = 0; k < e.lanes(); k++)
            result = b_.CreateInsertElement(result, b_.CreateTrunc(b_.CreateLShr(pair, static_cast<uint64_t>(8 * k)), element), static_cast<uint64_t>(k));
        return e.from_memory(result, t);
    }
    const int64_t piece = std::min<int64_t>(16, bytes);
    if (size >= 4) {
        const auto in_piece = static_cast<unsigned>(piece / size);
        for (int64_t at = 0; at < bytes; at += piece) {
            Value* address = b_.CreateInBoundsGEP(b_.getInt8Ty(), first, i64(at));
            llvm::Type* type = in_piece == 1 ? element : llvm::FixedVectorType::get(element, in_piece);
            Value* v = b_.CreateAlignedLoad(type, address, llvm::Align(static_cast<uint64_t>(piece)));
            for (unsigned k = 0; k < in_piece; k++)
                result = b_.CreateInsertElement(result, in_piece == 1 ? v : b_.CreateExtractElement(v, uint64_t{k}), static_cast<uint64_t>(at / size) + k);
        }
        return e.from_memory(result, t);
    }
    const auto in_word = static_cast<unsigned>(4 / size);
    const bool floats = t == DType::bf16; // its register form is made of the word directly
    if (floats) result = llvm::PoisonValue::get(e.widen(b_.getFloatTy()));
    for (int64_t at = 0; at < bytes; at += piece) {
        Value* address = b_.CreateInBoundsGEP(b_.getInt8Ty(), first, i64(at));
        const auto words = static_cast<unsigned>(piece / 4);
        llvm::Type* type = words == 1 ? static_cast<llvm::Type*>(b_.getInt32Ty()) : llvm::FixedVectorType::get(b_.getInt32Ty(), words);
        Value* v = b_.CreateAlignedLoad(type, address, llvm::Align(static_cast<uint64_t>(piece)));
        for (unsigned w = 0; w < words; w++) {
            Value* word = words == 1 ? v : b_.CreateExtractElement(v, uint64_t{w});
            for (unsigned k = 0; k < in_word; k++) {
                const uint64_t lane = static_cast<uint64_t>(at / size) + w * in_word + k;
                Value* one;
                if (floats)
                    one = b_.CreateBitCast(k == 0 ? b_.CreateShl(word, i32(16)) : b_.CreateAnd(word, i32(0xffff0000)), b_.getFloatTy());
                else {
                    llvm::Type* integer = b_.getIntNTy(static_cast<unsigned>(size * 8));
                    one = b_.CreateBitCast(b_.CreateTrunc(b_.CreateLShr(word, i32(static_cast<int64_t>(k) * size * 8)), integer), element);
                }
                result = b_.CreateInsertElement(result, one, lane);
            }
        }
    }
    return floats ? result : e.from_memory(result, t);
}

void GridEmitter::store_piece(VectorEmitter& e, Value* first, Value* v, DType t) {
    const int64_t size = size_of(t), bytes = size * e.lanes();
    const int64_t piece = std::min<int64_t>(16, bytes);
    if (size >= 4) {
        v = e.to_memory(v, t);
        const auto in_piece = static_cast<unsigned>(piece / size);
        for (int64_t at = 0; at < bytes; at += piece) {
            Value* part = in_piece == 1 ? nullptr : llvm::PoisonValue::get(llvm::FixedVectorType::get(e.memory_type(t), in_piece));
            for (unsigned k = 0; k < in_piece; k++) {
                Value* one = b_.CreateExtractElement(v, static_cast<uint64_t>(at / size) + k);
                part = in_piece == 1 ? one : b_.CreateInsertElement(part, one, uint64_t{k});
            }
            b_.CreateAlignedStore(part, b_.CreateInBoundsGEP(b_.getInt8Ty(), first, i64(at)), llvm::Align(static_cast<uint64_t>(piece)));
        }
        return;
    }
    const bool floats = t == DType::bf16;
    if (!floats) v = e.to_memory(v, t);
    const auto lane = [&](uint64_t k) {
        Value* one = b_.CreateExtractElement(v, k);
        return b_.CreateZExt(b_.CreateBitCast(one, b_.getIntNTy(static_cast<unsigned>(size * 8))), b_.getInt32Ty());
    };
    if (bytes < 4) {
        Value* pair = b_.CreateOr(lane(0), b_.CreateShl(lane(1), i32(8)));
        b_.CreateAlignedStore(b_.CreateTrunc(pair, b_.getInt16Ty()), first, llvm::Align(2));
        return;
    }
    const auto in_word = static_cast<unsigned>(4 / size);
    for (int64_t at = 0; at < bytes; at += piece) {
        const auto words = static_cast<unsigned>(piece / 4);
        Value* part = words == 1 ? nullptr : llvm::PoisonValue::get(llvm::FixedVectorType::get(b_.getInt32Ty(), words));
        for (unsigned w = 0; w < words; w++) {
            const uint64_t k = static_cast<uint64_t>(at / size) + w * in_word;
            Value* word;
            if (floats) { // the high halves of two registers, by one permutation of bytes
                const auto bits = [&](uint64_t l) { return b_.CreateBitCast(b_.CreateExtractElement(v, l), b_.getInt32Ty()); };
                word = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {}, {bits(k), bits(k + 1), i32(0x7632)});
            } else {
                word = lane(k);
                for (unsigned j = 1; j < in_word; j++) word = b_.CreateOr(word, b_.CreateShl(lane(k + j), i32(static_cast<int64_t>(j) * size * 8)));
            }
            part = words == 1 ? word : b_.CreateInsertElement(part, word, uint64_t{w});
        }
        b_.CreateAlignedStore(part, b_.CreateInBoundsGEP(b_.getInt8Ty(), first, i64(at)), llvm::Align(static_cast<uint64_t>(piece)));
    }
}

Value* GridEmitter::load(VectorEmitter& e, Point* point, const fusion::Access& access, DType t) {
    llvm::Type* type = e.memory_type(t);
    const llvm::Align align(static_cast<uint64_t>(size_of(t)));
    const int64_t stride = access.at.strides.empty() ? 0 : access.at.strides[plan_.nest.vector_axis];
    Value* first = address_of(point, access, type);
    if (e.lanes() == 1 || stride == 0) return e.from_memory(b_.CreateAlignedLoad(type, first, align), t);
    if (plan_.wide_memory && is_piece(nest_, access, e.lanes())) return load_piece(e, first, t);
    Value* v = llvm::PoisonValue::get(e.widen(type));
    for (int k = 0; k < e.lanes(); k++)
        v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(type, b_.CreateInBoundsGEP(type, first, i64(k * stride)), align), static_cast<uint64_t>(k));
    return e.from_memory(v, t);
}

void GridEmitter::store(VectorEmitter& e, Point* point, const fusion::Access& access, Value* v) {
    const DType t = nest_.parameters[access.parameter].dtype;
    const llvm::Align align(static_cast<uint64_t>(size_of(t)));
    const int64_t stride = access.at.strides.empty() ? 0 : access.at.strides[plan_.nest.vector_axis];
    Value* first = address_of(point, access, e.memory_type(t));
    if (e.lanes() == 1 || stride == 0) {
        DYNO_CHECK(!v->getType()->isVectorTy(), "one element is stored where all lanes share a place");
        b_.CreateAlignedStore(e.to_memory(v, t), first, align);
        return;
    }
    v = e.splat(v);
    if (plan_.wide_memory && is_piece(nest_, access, e.lanes())) return store_piece(e, first, v, t);
    v = e.to_memory(v, t);
    for (int k = 0; k < e.lanes(); k++)
        b_.CreateAlignedStore(b_.CreateExtractElement(v, static_cast<uint64_t>(k)), b_.CreateInBoundsGEP(e.memory_type(t), first, i64(k * stride)), align);
}

} // namespace dyno::codegen
