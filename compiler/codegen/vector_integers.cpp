// Operations on integers and truth values: exact, wrapping, and never trapping: a division by zero is a fault that the phase
// returns.
#include "compiler/codegen/vector_emitter.h"
#include "compiler/support/check.h"

namespace dyno::codegen {
using llvm::Value;
using scalar::ScalarOp;

void VectorEmitter::raise(Value* where, Value* fault, Fault what) {
    if (const auto* known = llvm::dyn_cast<llvm::Constant>(where); known && known->isNullValue()) return;
    // Lanes are all real elements (there are no masked ones), so any lane counts.
    Value* any = where->getType()->isVectorTy() ? b.CreateOrReduce(where) : where;
    if (gpu) { // nobody waits for the kernel: it stops, as torch's do by their assertions
        auto* stop = llvm::BasicBlock::Create(b.getContext(), "stop", b.GetInsertBlock()->getParent());
        auto* go_on = llvm::BasicBlock::Create(b.getContext(), "go_on", b.GetInsertBlock()->getParent());
        b.CreateCondBr(any, stop, go_on);
        b.SetInsertPoint(stop);
        b.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
        b.CreateBr(go_on);
        b.SetInsertPoint(go_on);
        return;
    }
    Value* bit = b.CreateSelect(any, b.getInt64(what), b.getInt64(0));
    b.CreateStore(b.CreateOr(b.CreateLoad(b.getInt64Ty(), fault), bit), fault);
}
Value* VectorEmitter::int_division(ScalarOp op, DType t, Value* x, Value* y, Value* fault) {
    const bool sign = is_signed_int(t);
    Value* zero = b.CreateICmpEQ(y, i(y, 0));
    raise(zero, fault, Fault::zero_division);
    if (!sign) {
        Value* safe = b.CreateSelect(zero, i(y, 1), y);
        return op == ScalarOp::floor_div || op == ScalarOp::div ? b.CreateUDiv(x, safe) : b.CreateURem(x, safe);
    }
    // Division by -1 is negation (and wraps): the hardware instruction would trap on the smallest integer.
    Value* minus = b.CreateICmpEQ(y, i(y, -1));
    Value* safe = b.CreateSelect(b.CreateOr(zero, minus), i(y, 1), y);
    Value* quotient = b.CreateSDiv(x, safe);
    Value* rest = b.CreateSub(x, b.CreateMul(quotient, safe));
    if (op == ScalarOp::fmod) return rest; // of -1: x - x*1 = 0
    Value* differ = b.CreateAnd(b.CreateICmpNE(rest, i(x, 0)), b.CreateICmpSLT(b.CreateXor(rest, safe), i(x, 0)));
    if (op == ScalarOp::remainder) return b.CreateSelect(differ, b.CreateAdd(rest, safe), rest);
    // The smallest integer divided by -1 wraps; NumPy tells of it.
    const auto bits = static_cast<unsigned>(size_of(t) * 8);
    Value* smallest = llvm::ConstantInt::get(x->getType(), llvm::APInt::getSignedMinValue(bits));
    raise(b.CreateAnd(minus, b.CreateICmpEQ(x, smallest)), fault, Fault::integer_overflow);
    quotient = b.CreateSelect(differ, b.CreateSub(quotient, i(x, 1)), quotient);
    return b.CreateSelect(minus, b.CreateNeg(x), quotient);
}
Value* VectorEmitter::shift(ScalarOp op, DType t, Value* x, Value* y) {
    const int bits = static_cast<int>(size_of(t) * 8);
    Value* inside = b.CreateICmpULT(y, i(y, bits));
    Value* amount = b.CreateSelect(inside, y, i(y, 0));
    if (op == ScalarOp::shift_left) return b.CreateSelect(inside, b.CreateShl(x, amount), i(x, 0));
    if (is_unsigned_int(t)) return b.CreateSelect(inside, b.CreateLShr(x, amount), i(x, 0));
    return b.CreateSelect(inside, b.CreateAShr(x, amount), b.CreateAShr(x, i(x, bits - 1)));
}
/// By squaring, as long as a lane has exponent bits left. Wraps around. A negative exponent is a fault.
Value* VectorEmitter::int_power(DType t, Value* x, Value* y, Value* fault) {
    if (is_signed_int(t)) {
        Value* negative = b.CreateICmpSLT(y, i(y, 0));
        raise(negative, fault, Fault::zero_division);
        y = b.CreateSelect(negative, i(y, 0), y);
    }
    llvm::BasicBlock* before = b.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b.getContext(), "power", before->getParent());
    auto* done = llvm::BasicBlock::Create(b.getContext(), "power_done", before->getParent());
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    const auto phi = [&](Value* first) {
        llvm::PHINode* p = b.CreatePHI(x->getType(), 2);
        p->addIncoming(first, before);
        return p;
    };
    llvm::PHINode *result = phi(i(x, 1)), *base = phi(x), *exponent = phi(y);
    Value* odd = b.CreateICmpNE(b.CreateAnd(exponent, i(y, 1)), i(y, 0));
    Value* next = b.CreateSelect(odd, b.CreateMul(result, base), result);
    Value* rest = b.CreateLShr(exponent, i(y, 1));
    result->addIncoming(next, loop);
    base->addIncoming(b.CreateMul(base, base), loop);
    exponent->addIncoming(rest, loop);
    Value* more = b.CreateICmpNE(rest, i(y, 0));
    b.CreateCondBr(more->getType()->isVectorTy() ? b.CreateOrReduce(more) : more, loop, done);
    b.SetInsertPoint(done);
    return next;
}
Value* VectorEmitter::int_op(ScalarOp op, DType t, llvm::ArrayRef<Value*> a, Value* fault) {
    Value *x = a[0], *zero = i(x, 0);
    const bool sign = is_signed_int(t);
    const auto pick = [&](llvm::CmpInst::Predicate p) { return b.CreateSelect(b.CreateICmp(p, x, a[1]), x, a[1]); };
    switch (op) {
    case ScalarOp::neg:
        return b.CreateNeg(x);
    case ScalarOp::abs:
        return sign ? b.CreateSelect(b.CreateICmpSLT(x, zero), b.CreateNeg(x), x) : x;
    case ScalarOp::relu:
        return sign ? b.CreateSelect(b.CreateICmpSLT(x, zero), zero, x) : x;
    case ScalarOp::sign: {
        Value* negative = b.CreateSelect(b.CreateICmpSLT(x, zero), i(x, sign ? -1 : 1), zero);
        return b.CreateSelect(sign ? b.CreateICmpSGT(x, zero) : b.CreateICmpNE(x, zero), i(x, 1), negative);
    }
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::round:
    case ScalarOp::trunc:
        return x;
    case ScalarOp::bitwise_not:
        return b.CreateNot(x);
    case ScalarOp::signbit:
        return sign ? b.CreateICmpSLT(x, zero) : b.CreateICmpNE(zero, zero);
    case ScalarOp::isnan:
    case ScalarOp::isinf:
        return b.CreateICmpNE(zero, zero);
    case ScalarOp::isfinite:
        return b.CreateICmpEQ(zero, zero);
    case ScalarOp::logical_not:
        return b.CreateICmpEQ(x, zero);
    case ScalarOp::logical_and:
        return b.CreateAnd(truth(x, t), truth(a[1], t));
    case ScalarOp::logical_or:
        return b.CreateOr(truth(x, t), truth(a[1], t));
    case ScalarOp::logical_xor:
        return b.CreateXor(truth(x, t), truth(a[1], t));
    case ScalarOp::add:
        return b.CreateAdd(x, a[1]);
    case ScalarOp::sub:
        return b.CreateSub(x, a[1]);
    case ScalarOp::mul:
        return b.CreateMul(x, a[1]);
    case ScalarOp::bitwise_and:
        return b.CreateAnd(x, a[1]);
    case ScalarOp::bitwise_or:
        return b.CreateOr(x, a[1]);
    case ScalarOp::bitwise_xor:
        return b.CreateXor(x, a[1]);
    case ScalarOp::shift_left:
    case ScalarOp::shift_right:
        return shift(op, t, x, a[1]);
    case ScalarOp::floor_div:
    case ScalarOp::remainder:
    case ScalarOp::fmod:
        return int_division(op, t, x, a[1], fault);
    case ScalarOp::pow:
        return int_power(t, x, a[1], fault);
    case ScalarOp::maximum:
    case ScalarOp::fmax:
        return pick(sign ? llvm::CmpInst::ICMP_SGT : llvm::CmpInst::ICMP_UGT);
    case ScalarOp::minimum:
    case ScalarOp::fmin:
        return pick(sign ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_ULT);
    default:
        DYNO_CHECK(false, std::string("an op on integers, not ") + std::string(scalar::info(op).name));
    }
}
Value* VectorEmitter::bool_op(ScalarOp op, llvm::ArrayRef<Value*> a) {
    Value *x = a[0], *no = i(x, 0);
    switch (op) {
    case ScalarOp::logical_not:
    case ScalarOp::bitwise_not:
        return b.CreateNot(x);
    case ScalarOp::logical_and:
    case ScalarOp::bitwise_and:
    case ScalarOp::mul:
    case ScalarOp::minimum:
    case ScalarOp::fmin:
        return b.CreateAnd(x, a[1]);
    case ScalarOp::logical_or:
    case ScalarOp::bitwise_or:
    case ScalarOp::add:
    case ScalarOp::maximum:
    case ScalarOp::fmax:
        return b.CreateOr(x, a[1]);
    case ScalarOp::logical_xor:
    case ScalarOp::bitwise_xor:
        return b.CreateXor(x, a[1]);
    case ScalarOp::abs:
    case ScalarOp::sign:
    case ScalarOp::relu:
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::round:
    case ScalarOp::trunc:
        return x;
    case ScalarOp::isnan:
    case ScalarOp::isinf:
    case ScalarOp::signbit:
        return no;
    case ScalarOp::isfinite:
        return b.CreateNot(no);
    default:
        DYNO_CHECK(false, std::string("an op on truth values, not ") + std::string(scalar::info(op).name));
    }
}

} // namespace dyno::codegen
