// Elementwise operations that are exact: bit-equal to torch's and NumPy's own loops. Special cases follow these loops
// (which of two zeros, which of two NaNs), not the IEEE functions of the same name.
#include "compiler/codegen/vector_emitter.h"
#include "compiler/support/check.h"
#include <bit>
#include <cmath>
#include <limits>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>

namespace dyno::codegen {
using llvm::Value;
using scalar::ScalarOp;
namespace Intrinsic = llvm::Intrinsic;

// --- types and constants

llvm::Type* VectorEmitter::memory_type(DType t) const {
    switch (t) {
    case DType::f16:
        return b.getHalfTy();
    case DType::bf16:
        return b.getInt16Ty();
    case DType::f32:
        return b.getFloatTy();
    case DType::f64:
        return b.getDoubleTy();
    default:
        return b.getIntNTy(static_cast<unsigned>(size_of(t) * 8));
    }
}
llvm::Type* VectorEmitter::register_scalar(DType t) const {
    if (t == DType::b8) return b.getInt1Ty();
    if (t == DType::f16 || t == DType::bf16) return b.getFloatTy();
    return memory_type(t);
}
llvm::Type* VectorEmitter::widen(llvm::Type* scalar) const {
    return lanes_ == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes_));
}
llvm::Type* VectorEmitter::register_type(DType t) const { return widen(register_scalar(t)); }
llvm::Type* VectorEmitter::with_element(llvm::Type* t, llvm::Type* element) const {
    if (auto* v = llvm::dyn_cast<llvm::FixedVectorType>(t)) return llvm::FixedVectorType::get(element, v->getNumElements());
    return element;
}
llvm::Type* VectorEmitter::integer_like(llvm::Type* t) const { return with_element(t, b.getIntNTy(t->getScalarSizeInBits())); }

Value* VectorEmitter::splat(Value* v) const {
    if (lanes_ == 1 || v->getType()->isVectorTy()) return v;
    return b.CreateVectorSplat(static_cast<unsigned>(lanes_), v);
}
Value* VectorEmitter::f(Value* like, double x) const { return llvm::ConstantFP::get(like->getType(), x); }
Value* VectorEmitter::i(Value* like, int64_t x) const { return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(x), true); }
Value* VectorEmitter::fma(Value* x, Value* y, Value* z) { return b.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, z}); }

static double half_to_double(uint64_t bits) {
    const int sign = bits >> 15 & 1, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double v = exponent == 0    ? std::ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : std::ldexp(1024 + mantissa, exponent - 25);
    return sign ? -v : v;
}
Value* VectorEmitter::constant(DType t, uint64_t bits) const {
    llvm::Type* type = register_scalar(t);
    switch (t) {
    case DType::f16:
        return llvm::ConstantFP::get(type, half_to_double(bits));
    case DType::bf16:
        return llvm::ConstantExpr::getBitCast(b.getInt32(static_cast<uint32_t>(bits << 16)), type);
    case DType::f32:
        return llvm::ConstantExpr::getBitCast(b.getInt32(static_cast<uint32_t>(bits)), type);
    case DType::f64:
        return llvm::ConstantExpr::getBitCast(b.getInt64(bits), type);
    default:
        return llvm::ConstantInt::get(type, bits);
    }
}

// --- memory and register forms

Value* VectorEmitter::from_memory(Value* v, DType t) {
    llvm::Type* floats = with_element(v->getType(), b.getFloatTy());
    if (t == DType::b8) return b.CreateICmpNE(v, i(v, 0));
    if (t == DType::f16) return b.CreateFPExt(v, floats);
    if (t == DType::bf16) {
        Value* wide = b.CreateZExt(v, with_element(v->getType(), b.getInt32Ty()));
        return b.CreateBitCast(b.CreateShl(wide, i(wide, 16)), floats);
    }
    return v;
}
Value* VectorEmitter::to_memory(Value* v, DType t) {
    if (t == DType::b8) return b.CreateZExt(v, with_element(v->getType(), b.getInt8Ty()));
    if (t == DType::f16) return b.CreateFPTrunc(v, with_element(v->getType(), b.getHalfTy()));
    if (t == DType::bf16) {
        Value* bits = b.CreateBitCast(v, integer_like(v->getType()));
        return b.CreateTrunc(b.CreateLShr(bits, i(bits, 16)), with_element(v->getType(), b.getInt16Ty()));
    }
    return v;
}
Value* VectorEmitter::round_to(Value* v, DType t) {
    if (gpu && (t == DType::f16 || t == DType::bf16)) return round_in_pairs(v, t);
    if (t == DType::f16) return b.CreateFPExt(b.CreateFPTrunc(v, with_element(v->getType(), b.getHalfTy())), v->getType());
    if (t != DType::bf16) return v;
    Value* bits = b.CreateBitCast(v, integer_like(v->getType()));
    Value* odd = b.CreateAnd(b.CreateLShr(bits, i(bits, 16)), i(bits, 1));
    Value* up = b.CreateAnd(b.CreateAdd(b.CreateAdd(bits, i(bits, 0x7fff)), odd), i(bits, 0xffff0000));
    Value* nan = b.CreateFCmpUNO(v, v);
    return b.CreateBitCast(b.CreateSelect(nan, i(bits, 0x7fc00000), up), v->getType());
}

// --- casts

Value* VectorEmitter::truth(Value* v, DType t) {
    if (t == DType::b8) return v;
    return is_float(t) ? b.CreateFCmpUNE(v, f(v, 0)) : b.CreateICmpNE(v, i(v, 0));
}
static Value* float_to_int(VectorEmitter& e, Value* v, DType to, llvm::Type* result) {
    // C compilers convert to the small integers by way of i32, to u32 by way of i64.
    auto& b = e.b;
    const auto by = [&](llvm::Type* wide) { return b.CreateFPToSI(v, e.with_element(v->getType(), wide)); };
    if (to == DType::i64) return by(b.getInt64Ty());
    if (to == DType::i32) return by(b.getInt32Ty());
    if (to == DType::u32) return b.CreateTrunc(by(b.getInt64Ty()), result);
    if (to == DType::u64) {
        Value* big = e.ordered(llvm::CmpInst::FCMP_OGE, v, e.f(v, 0x1p63));
        Value* small = b.CreateFPToSI(b.CreateSelect(big, b.CreateFSub(v, e.f(v, 0x1p63)), v), result);
        return b.CreateSelect(big, b.CreateXor(small, e.i(small, std::numeric_limits<int64_t>::min())), small);
    }
    return b.CreateTrunc(by(b.getInt32Ty()), result);
}
/// A choice between two floats by their bits: of a select of constants LLVM would work out what comes next while it compiles, and the
/// flags that it raises would be lost.
Value* VectorEmitter::chosen_by_bits(Value* condition, Value* x, Value* y) {
    llvm::Type* floats = x->getType();
    llvm::Type* bits = integer_like(floats);
    Value* mask = b.CreateSExt(condition, bits);
    Value* first = b.CreateAnd(b.CreateBitCast(x, bits), mask);
    return b.CreateBitCast(b.CreateOr(first, b.CreateAnd(b.CreateBitCast(y, bits), b.CreateNot(mask))), floats);
}

/// The same integer from a register that LLVM knows nothing of, if flags are reported and it could be one of two constants.
Value* VectorEmitter::unknown(Value* v) {
    if (!quiet || !v->getType()->isIntegerTy() || v->getType()->isIntegerTy(1) || !llvm::isa<llvm::SelectInst, llvm::CastInst>(v)) return v;
    auto* opaque = llvm::InlineAsm::get(llvm::FunctionType::get(v->getType(), {v->getType()}, false), "", "=r,0", false);
    return b.CreateCall(opaque, {v});
}

/// The same floats from registers that LLVM knows nothing of; what they are is computed in any case.
Value* VectorEmitter::through_registers(Value* v) {
    const auto one = [&](Value* part) {
        auto* opaque = llvm::InlineAsm::get(llvm::FunctionType::get(part->getType(), {part->getType()}, false), "", "=x,0", true);
        llvm::CallInst* call = b.CreateCall(opaque, {part});
        call->setOnlyAccessesInaccessibleMemory();
        call->setDoesNotThrow();
        return static_cast<Value*>(call);
    };
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    if (!vector) return one(v);
    const int lanes = static_cast<int>(vector->getNumElements()), bits = static_cast<int>(vector->getScalarSizeInBits());
    if (lanes * bits < 128) return b.CreateBitCast(one(b.CreateBitCast(v, b.getDoubleTy())), vector); // two of f32
    const int each = std::min(lanes, register_bits / bits);
    llvm::SmallVector<Value*> parts;
    llvm::SmallVector<int> places;
    for (int first = 0; first < lanes; first += each) {
        places.clear();
        for (int k = 0; k < each; k++) places.push_back(first + k);
        parts.push_back(one(b.CreateShuffleVector(v, places)));
    }
    return llvm::concatenateVectors(b, parts);
}

/// An operand of a choice, if flags are reported: what the choice may not take LLVM would move into a branch, or leave out where it knows
/// the choice, or compute once for both sides; and the flags would be lost.
Value* VectorEmitter::surely_computed(Value* v) {
    if (!quiet || !v->getType()->isFPOrFPVectorTy() || !llvm::isa<llvm::BinaryOperator, llvm::CallInst, llvm::CastInst>(v)) return v;
    return through_registers(v);
}

Value* VectorEmitter::cast(Value* v, DType from, DType to) {
    if (from == to) return v;
    llvm::Type* result = with_element(v->getType(), register_scalar(to));
    if (to == DType::b8) return truth(v, from);
    if (is_float(to)) {
        Value* wide = v;
        if (quiet && from == DType::b8)
            wide = chosen_by_bits(v, llvm::ConstantFP::get(result, 1), llvm::ConstantFP::get(result, 0));
        else if (from == DType::b8 || is_unsigned_int(from))
            wide = b.CreateUIToFP(unknown(v), result);
        else if (is_int(from))
            wide = b.CreateSIToFP(unknown(v), result);
        else if (from == DType::f64)
            wide = b.CreateFPTrunc(v, result);
        else if (to == DType::f64)
            wide = b.CreateFPExt(v, result);
        return round_to(wide, to);
    }
    if (is_float(from)) return float_to_int(*this, v, to, result);
    return b.CreateIntCast(v, result, is_signed_int(from));
}

// --- operations

Value* VectorEmitter::ordered(llvm::CmpInst::Predicate predicate, Value* x, Value* y) {
    // The plain instruction signals on quiet NaNs (and may become min or max, which do too).
    if (!quiet) return b.CreateFCmp(predicate, x, y);
    return b.CreateConstrainedFPCmp(llvm::Intrinsic::experimental_constrained_fcmp, predicate, x, y);
}
Value* VectorEmitter::maximum(Value* x, Value* y, bool is_max) {
    Value* one = b.CreateSelect(is_max ? ordered(llvm::CmpInst::FCMP_OGT, x, y) : ordered(llvm::CmpInst::FCMP_OLT, x, y), x, y);
    return b.CreateSelect(b.CreateFCmpUNO(x, x), x, one); // y's own NaN has been taken by the first select
}
Value* VectorEmitter::compare(ScalarOp op, DType t, Value* x, Value* y) {
    const bool floats = is_float(t), sign = is_signed_int(t);
    using P = llvm::CmpInst;
    switch (op) {
    case ScalarOp::eq:
        return floats ? b.CreateFCmpOEQ(x, y) : b.CreateICmpEQ(x, y);
    case ScalarOp::ne:
        return floats ? b.CreateFCmpUNE(x, y) : b.CreateICmpNE(x, y);
    case ScalarOp::lt:
        return floats ? ordered(llvm::CmpInst::FCMP_OLT, x, y) : b.CreateICmp(sign ? P::ICMP_SLT : P::ICMP_ULT, x, y);
    case ScalarOp::le:
        return floats ? ordered(llvm::CmpInst::FCMP_OLE, x, y) : b.CreateICmp(sign ? P::ICMP_SLE : P::ICMP_ULE, x, y);
    case ScalarOp::gt:
        return floats ? ordered(llvm::CmpInst::FCMP_OGT, x, y) : b.CreateICmp(sign ? P::ICMP_SGT : P::ICMP_UGT, x, y);
    case ScalarOp::ge:
        return floats ? ordered(llvm::CmpInst::FCMP_OGE, x, y) : b.CreateICmp(sign ? P::ICMP_SGE : P::ICMP_UGE, x, y);
    default:
        return nullptr;
    }
}
Value* VectorEmitter::float_remainder(Value* x, Value* y) {
    Value* mod = b.CreateFRem(x, y);
    Value* fix = b.CreateAnd(b.CreateFCmpUNE(mod, f(mod, 0)),
                             b.CreateXor(ordered(llvm::CmpInst::FCMP_OLT, y, f(y, 0)), ordered(llvm::CmpInst::FCMP_OLT, mod, f(mod, 0))));
    return b.CreateSelect(fix, b.CreateFAdd(mod, y), mod);
}
Value* VectorEmitter::float_floor_div(Value* x, Value* y) {
    Value* zero = f(x, 0);
    Value* mod = b.CreateFRem(x, y);
    Value* quotient = b.CreateFDiv(b.CreateFSub(x, mod), y);
    Value* fix = b.CreateAnd(b.CreateFCmpUNE(mod, zero),
                             b.CreateXor(ordered(llvm::CmpInst::FCMP_OLT, y, zero), ordered(llvm::CmpInst::FCMP_OLT, mod, zero)));
    quotient = b.CreateSelect(fix, b.CreateFSub(quotient, f(x, 1)), quotient);
    Value* down = unary(Intrinsic::floor, quotient);
    down = b.CreateSelect(ordered(llvm::CmpInst::FCMP_OGT, b.CreateFSub(quotient, down), f(x, 0.5)), b.CreateFAdd(down, f(x, 1)), down);
    Value* plain = b.CreateFDiv(x, y);
    Value* result = b.CreateSelect(b.CreateFCmpUNE(quotient, zero), down, copysign(zero, plain));
    return b.CreateSelect(b.CreateFCmpOEQ(y, zero), plain, result);
}
Value* VectorEmitter::float_op(ScalarOp op, llvm::ArrayRef<Value*> a) {
    Value *x = a[0], *zero = f(x, 0), *one = f(x, 1);
    switch (op) {
    case ScalarOp::neg:
        return b.CreateFNeg(x);
    case ScalarOp::abs:
        return unary(Intrinsic::fabs, x);
    case ScalarOp::sign: {
        Value* negative = b.CreateSelect(ordered(llvm::CmpInst::FCMP_OLT, x, zero), f(x, -1), zero);
        return b.CreateSelect(ordered(llvm::CmpInst::FCMP_OGT, x, zero), one, negative);
    }
    case ScalarOp::sqrt:
        return unary(Intrinsic::sqrt, x);
    case ScalarOp::rsqrt:
        return b.CreateFDiv(one, unary(Intrinsic::sqrt, x));
    case ScalarOp::reciprocal:
        return b.CreateFDiv(one, x);
    case ScalarOp::floor:
        return unary(Intrinsic::floor, x);
    case ScalarOp::ceil:
        return unary(Intrinsic::ceil, x);
    case ScalarOp::round:
        return unary(Intrinsic::roundeven, x);
    case ScalarOp::trunc:
        return unary(Intrinsic::trunc, x);
    case ScalarOp::relu:
        if (gpu) return b.CreateSelect(b.CreateFCmpOLE(x, zero), zero, x); // +0 for -0, as in torch's kernel there
        return b.CreateSelect(ordered(llvm::CmpInst::FCMP_OLT, x, zero), zero, x); // -0 and NaN stay, as in torch
    case ScalarOp::isnan:
        return b.CreateFCmpUNO(x, x);
    case ScalarOp::isinf:
        return b.CreateFCmpOEQ(unary(Intrinsic::fabs, x), f(x, INFINITY));
    case ScalarOp::isfinite: {
        Value* bits = b.CreateBitCast(unary(Intrinsic::fabs, x), integer_like(x->getType()));
        return b.CreateICmpSLT(bits, i(bits, x->getType()->getScalarSizeInBits() == 32 ? 0x7f800000 : 0x7ff0000000000000));
    }
    case ScalarOp::signbit: {
        Value* bits = b.CreateBitCast(x, integer_like(x->getType()));
        return b.CreateICmpSLT(bits, i(bits, 0));
    }
    case ScalarOp::add:
        return b.CreateFAdd(x, a[1]);
    case ScalarOp::sub:
        return b.CreateFSub(x, a[1]);
    case ScalarOp::mul:
        return b.CreateFMul(x, a[1]);
    case ScalarOp::div:
        return b.CreateFDiv(x, a[1]);
    case ScalarOp::floor_div:
        return float_floor_div(x, a[1]);
    case ScalarOp::remainder:
        return float_remainder(x, a[1]);
    case ScalarOp::fmod:
        return b.CreateFRem(x, a[1]);
    case ScalarOp::maximum:
        return maximum(x, a[1], true);
    case ScalarOp::minimum:
        return maximum(x, a[1], false);
    case ScalarOp::fmax:
        return b.CreateSelect(b.CreateFCmpUNO(x, x), a[1], b.CreateSelect(ordered(llvm::CmpInst::FCMP_OLT, x, a[1]), a[1], x));
    case ScalarOp::fmin:
        return b.CreateSelect(b.CreateFCmpUNO(x, x), a[1], b.CreateSelect(ordered(llvm::CmpInst::FCMP_OGT, x, a[1]), a[1], x));
    case ScalarOp::fma:
        return fma(x, a[1], a[2]);
    case ScalarOp::copysign:
        return copysign(x, a[1]);
    case ScalarOp::logical_not:
        return b.CreateFCmpOEQ(x, zero);
    case ScalarOp::logical_and:
        return b.CreateAnd(b.CreateFCmpUNE(x, zero), b.CreateFCmpUNE(a[1], zero));
    case ScalarOp::logical_or:
        return b.CreateOr(b.CreateFCmpUNE(x, zero), b.CreateFCmpUNE(a[1], zero));
    case ScalarOp::logical_xor:
        return b.CreateXor(b.CreateFCmpUNE(x, zero), b.CreateFCmpUNE(a[1], zero));
    default:
        return math(op, a);
    }
}
Value* VectorEmitter::apply(ScalarOp op, DType result, DType operand_type, llvm::ArrayRef<Value*> args, Value* fault) {
    if (op == ScalarOp::cast) return cast(args[0], operand_type, result);
    if (op == ScalarOp::select && quiet && llvm::isa<llvm::Constant>(args[1]) && llvm::isa<llvm::Constant>(args[2]) && args[1]->getType()->isFPOrFPVectorTy() &&
        args[0]->getType()->isVectorTy() == args[1]->getType()->isVectorTy())
        return chosen_by_bits(args[0], args[1], args[2]);
    if (op == ScalarOp::select) return b.CreateSelect(args[0], surely_computed(args[1]), surely_computed(args[2]));
    if (Value* truth_value = compare(op, operand_type, args[0], args.size() > 1 ? args[1] : args[0])) return truth_value;
    if (is_float(operand_type)) {
        llvm::SmallVector<Value*, 3> known(args);
        // LLVM computes with constants while it compiles, and no flag is raised when the code runs.
        if (quiet && llvm::all_of(args, [](Value* v) { return llvm::isa<llvm::Constant>(v); })) known[0] = through_registers(known[0]);
        Value* v = float_op(op, known);
        return result == DType::b8 ? v : round_to(v, result);
    }
    return operand_type == DType::b8 ? bool_op(op, args) : int_op(op, operand_type, args, fault);
}

} // namespace dyno::codegen
