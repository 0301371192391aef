// Transcendental functions as polynomials on vectors. Every function has a fast path for ordinary arguments, free of
// spurious floating-point flags, and a rare path behind one branch for vectors with a special lane (NaN, infinity,
// overflow, huge argument), which calls the C library per lane or repeats the work with care. So special values and
// flags are right and cost nothing when absent. Accuracy: 1-2 ulp; polynomials.inc says what was fitted.
#include "compiler/codegen/vector_emitter.h"
#include "compiler/support/check.h"
#include <bit>
#include <cmath>
#include <limits>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>

namespace dyno::codegen {
using llvm::Value;
using scalar::ScalarOp;
namespace Intrinsic = llvm::Intrinsic;

namespace {
#include "compiler/codegen/polynomials.inc"

bool is_f64(Value* v) { return v->getType()->getScalarType()->isDoubleTy(); }
int64_t bits_of(Value* like, double x) { return is_f64(like) ? std::bit_cast<int64_t>(x) : std::bit_cast<int32_t>(static_cast<float>(x)); }
/// Bits of the magnitude, as integers: comparing them raises no flag, and NaN is larger than everything.
Value* magnitude_bits(VectorEmitter& e, Value* x) {
    Value* bits = e.b.CreateBitCast(x, e.integer_like(x->getType()));
    return e.b.CreateAnd(bits, e.i(bits, is_f64(x) ? 0x7fffffffffffffff : 0x7fffffff));
}
Value* magnitude_above(VectorEmitter& e, Value* x, double limit) {
    Value* bits = magnitude_bits(e, x);
    return e.b.CreateICmpSGT(bits, e.i(bits, bits_of(x, limit)));
}
/// fast, but slow() in the lanes of `special`; slow() is emitted behind a branch that ordinary vectors do not take.
template <class Slow>
Value* guarded(VectorEmitter& e, Value* special, Value* fast, Slow slow) {
    auto& b = e.b;
    Value* any = special->getType()->isVectorTy() ? b.CreateOrReduce(special) : special;
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::Function* function = before->getParent();
    auto* rare = llvm::BasicBlock::Create(b.getContext(), "special", function);
    auto* after = llvm::BasicBlock::Create(b.getContext(), "ordinary", function);
    b.CreateCondBr(any, rare, after, llvm::MDBuilder(b.getContext()).createBranchWeights(1, 1000));
    b.SetInsertPoint(rare);
    Value* merged = b.CreateSelect(special, slow(), fast);
    llvm::BasicBlock* rare_end = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    llvm::PHINode* phi = b.CreatePHI(fast->getType(), 2);
    phi->addIncoming(fast, before);
    phi->addIncoming(merged, rare_end);
    return phi;
}
} // namespace

Value* VectorEmitter::horner(Value* x, llvm::ArrayRef<double> coefficients) {
    Value* r = f(x, coefficients[0]);
    for (double c : coefficients.drop_front()) r = fma(r, x, f(x, c));
    return r;
}
Value* VectorEmitter::power_of_two(Value* n, llvm::Type* floats) {
    const bool wide = floats->getScalarType()->isDoubleTy();
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(n, i(n, wide ? 1023 : 127)), i(n, wide ? 52 : 23)), floats);
}

/// One call of the C library per lane, through memory, so that the code stays small.
Value* VectorEmitter::call_libm(const char* name, llvm::ArrayRef<Value*> args) {
    if (gpu) return without_libm(name, args);
    llvm::Type* element = args[0]->getType()->getScalarType();
    const std::string symbol = std::string(name) + (element->isFloatTy() ? "f" : "");
    std::vector<llvm::Type*> types(args.size(), element);
    llvm::FunctionCallee callee = m.getOrInsertFunction(symbol, llvm::FunctionType::get(element, types, false));
    llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
    if (!args[0]->getType()->isVectorTy()) return b.CreateCall(callee, args);
    llvm::Function* function = b.GetInsertBlock()->getParent();
    llvm::IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
    std::vector<Value*> memory;
    for (Value* a : args) {
        memory.push_back(entry.CreateAlloca(a->getType()));
        b.CreateStore(a, memory.back());
    }
    llvm::BasicBlock* before = b.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b.getContext(), "lanes", function);
    auto* done = llvm::BasicBlock::Create(b.getContext(), "lanes_done", function);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode* lane = b.CreatePHI(b.getInt64Ty(), 2);
    lane->addIncoming(b.getInt64(0), before);
    std::vector<Value*> one;
    for (Value* place : memory) one.push_back(b.CreateLoad(element, b.CreateInBoundsGEP(element, place, lane)));
    b.CreateStore(b.CreateCall(callee, one), b.CreateInBoundsGEP(element, memory[0], lane));
    Value* next = b.CreateAdd(lane, b.getInt64(1));
    lane->addIncoming(next, loop);
    const unsigned count = llvm::cast<llvm::FixedVectorType>(args[0]->getType())->getNumElements();
    b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(count)), loop, done);
    b.SetInsertPoint(done);
    return b.CreateLoad(args[0]->getType(), memory[0]);
}

/// e^x = 2^n * e^r. Scaled in two steps if `twice`, so that results may leave the
/// normal range with the flags they deserve.
static Value* exp_reduced(VectorEmitter& e, Value* x, bool twice) {
    auto& b = e.b;
    const bool wide = is_f64(x);
    // Adding 1.5 * 2^(mantissa bits) leaves the rounded integer in the low bits: no conversion that could raise a flag.
    Value* magic = e.f(x, wide ? 0x1.8p52 : 0x1.8p23);
    Value* shifted = e.fma(x, e.f(x, 1.44269504088896340736), magic);
    Value* n = b.CreateFSub(shifted, magic);
    Value* r = e.fma(n, e.f(x, wide ? -0x1.62e42fefa3800p-1 : -0x1.62e400p-1), x);
    r = e.fma(n, e.f(x, wide ? -0x1.ef35793c76730p-45 : -0x1.7f7d1cp-20), r);
    const auto coefficients = wide ? llvm::ArrayRef<double>(exp_f64) : llvm::ArrayRef<double>(exp_f32);
    Value* p = e.f(x, coefficients[0]);
    for (double c : coefficients.drop_front()) p = e.fma(p, r, e.f(x, c));
    Value* y = b.CreateFAdd(e.fma(p, b.CreateFMul(r, r), r), e.f(x, 1));
    Value* bits = b.CreateBitCast(shifted, e.integer_like(x->getType()));
    Value* integer = b.CreateSub(bits, e.i(bits, bits_of(x, wide ? 0x1.8p52 : 0x1.8p23)));
    const auto scale = [&](Value* k) {
        return b.CreateBitCast(b.CreateShl(b.CreateAdd(k, e.i(k, wide ? 1023 : 127)), e.i(k, wide ? 52 : 23)), x->getType());
    };
    if (!twice) return b.CreateFMul(y, scale(integer));
    Value* half = b.CreateAShr(integer, e.i(integer, 1));
    return b.CreateFMul(b.CreateFMul(y, scale(half)), scale(b.CreateSub(integer, half)));
}

Value* VectorEmitter::exp_core(Value* x) { return gpu && !is_f64(x) ? exp_by_hardware(x, true) : exp_reduced(*this, x, false); }

Value* VectorEmitter::exp(Value* x) {
    const bool wide = is_f64(x);
    if (gpu && !wide && coarse) return power_by_hardware(b.CreateFMul(x, f(x, 1.44269504088896340736)), false);
    if (gpu && !wide) {
        Value* y = exp_by_hardware(b.CreateBinaryIntrinsic(Intrinsic::maximum, x, f(x, -150)), false); // NaN stays
        return b.CreateSelect(b.CreateFCmpOGT(x, f(x, 0x1.62e42ep+6)), f(x, INFINITY), y);
    }
    const auto any_argument = [&]() -> Value* {
        Value* not_finite = magnitude_above(*this, x, wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max());
        Value* far = magnitude_above(*this, x, wide ? 750.0 : 106.0);
        Value* near = b.CreateSelect(far, copysign(f(x, wide ? 750.0 : 106.0), x), x);
        Value* y = exp_reduced(*this, b.CreateSelect(not_finite, f(x, 0), near), true);
        Value* bits = b.CreateBitCast(x, integer_like(x->getType()));
        Value* minus_infinity = b.CreateICmpEQ(bits, i(bits, bits_of(x, -INFINITY)));
        return b.CreateSelect(not_finite, b.CreateSelect(minus_infinity, f(x, 0), x), y);
    };
    if (gpu) return any_argument(); // a few operations more cost less there than a branch
    Value* special = magnitude_above(*this, x, wide ? 708.0 : 87.0);
    Value* ordinary = exp_core(b.CreateSelect(special, f(x, 0), x));
    return guarded(*this, special, ordinary, any_argument);
}

Value* VectorEmitter::log(Value* x) {
    const bool wide = is_f64(x);
    if (gpu && !wide) { // free of branches: their f64 side would take the registers of all
        Value* tiny = b.CreateFCmpOLT(x, f(x, 0x1p-126));
        Value* y = log_core(b.CreateSelect(tiny, b.CreateFMul(x, f(x, 0x1p23)), x));
        y = b.CreateSelect(tiny, b.CreateFSub(y, f(x, 23 * 0.69314718055994530942)), y);
        // What is no positive number, the hardware's logarithm answers right.
        Value* rare = each_lane(x, [&](Value* v) { return b.CreateIntrinsic(Intrinsic::nvvm_lg2_approx_f, {}, {v}); });
        return b.CreateSelect(b.CreateAnd(b.CreateFCmpOGT(x, f(x, 0)), b.CreateFCmpOLT(x, f(x, INFINITY))), y, rare);
    }
    Value* bits = b.CreateBitCast(x, integer_like(x->getType()));
    // Special: negative, zero, subnormal, infinity, NaN: all that is outside the normal positive range, as one compare.
    const int64_t first = bits_of(x, wide ? 0x1p-1022 : 0x1p-126), end = bits_of(x, INFINITY);
    Value* special = b.CreateICmpUGE(b.CreateSub(bits, i(bits, first)), i(bits, end - first));
    Value* safe = b.CreateBitCast(b.CreateSelect(special, i(bits, bits_of(x, 1.0)), bits), x->getType());
    return guarded(*this, special, log_core(safe), [&] { return call_libm("log", {x}); });
}

Value* VectorEmitter::log_core(Value* x) {
    const bool wide = is_f64(x);
    Value* bits = b.CreateBitCast(x, integer_like(x->getType()));
    const int mantissa = wide ? 52 : 23;
    const int64_t root = bits_of(x, 0.70710678118654752440);
    Value* offset = b.CreateSub(bits, i(bits, root));
    Value* k = b.CreateAShr(offset, i(bits, mantissa));
    const int64_t low_mask = (int64_t{1} << mantissa) - 1;
    Value* m_bits = b.CreateAdd(b.CreateAnd(offset, i(bits, low_mask)), i(bits, root));
    Value* t = b.CreateFSub(b.CreateBitCast(m_bits, x->getType()), f(x, 1));
    // k as a float without a conversion of 64-bit integers, which AVX2 lacks.
    Value* n = wide ? b.CreateFSub(b.CreateBitCast(b.CreateAdd(k, i(k, bits_of(x, 0x1.8p52))), x->getType()), f(x, 0x1.8p52))
                    : b.CreateSIToFP(k, x->getType());
    Value* s = near_quotient(t, b.CreateFAdd(t, f(x, 2)));
    Value* z = b.CreateFMul(s, s);
    Value* r = b.CreateFMul(z, wide ? horner(z, log_f64) : horner(z, log_f32));
    Value* half_square = b.CreateFMul(b.CreateFMul(t, f(x, 0.5)), t);
    Value* low = b.CreateFMul(n, f(x, wide ? 0x1.ef35793c76730p-45 : 0x1.7f7d1cp-20));
    Value* inner = fma(s, b.CreateFAdd(half_square, r), low);
    return fma(n, f(x, wide ? 0x1.62e42fefa3800p-1 : 0x1.62e400p-1), b.CreateFSub(t, b.CreateFSub(half_square, inner)));
}

Value* VectorEmitter::tanh(Value* x) {
    const bool wide = is_f64(x);
    if (gpu && !wide) return tanh_by_hardware(x);
    Value* bits = magnitude_bits(*this, x);
    Value* far = b.CreateICmpSGT(bits, i(bits, bits_of(x, 20.0)));
    Value* size = b.CreateBitCast(b.CreateSelect(far, i(bits, bits_of(x, 20.0)), bits), x->getType());
    Value* e = exp_core(b.CreateFAdd(size, size));
    Value* large = b.CreateFSub(f(x, 1), near_quotient(f(x, 2), b.CreateFAdd(e, f(x, 1))));
    Value* z = b.CreateFMul(size, size);
    Value* small = fma(b.CreateFMul(size, z), wide ? horner(z, tanh_f64) : horner(z, tanh_f32), size);
    Value* is_small = b.CreateICmpSLT(bits, i(bits, bits_of(x, 0.56)));
    Value* y = copysign(b.CreateSelect(is_small, small, large), x);
    return b.CreateSelect(b.CreateFCmpUNO(x, x), x, y);
}

Value* VectorEmitter::erf(Value* x) {
    const bool wide = is_f64(x);
    if (gpu && !wide) return erf_by_hardware(x);
    const double limit = wide ? 6.0 : 4.0;
    Value* bits = magnitude_bits(*this, x);
    Value* far = b.CreateICmpSGT(bits, i(bits, bits_of(x, limit)));
    Value* size = b.CreateBitCast(b.CreateSelect(far, i(bits, bits_of(x, limit)), bits), x->getType());
    Value* z = b.CreateFMul(size, size);
    Value* small = fma(size, wide ? horner(z, erf_f64) : horner(z, erf_f32), size);
    Value* is_small = b.CreateICmpSLT(bits, i(bits, bits_of(x, 1.0)));
    Value* beyond = b.CreateSelect(is_small, f(x, 1), size); // keeps the tail's polynomial inside its interval
    Value* t = near_quotient(b.CreateFSub(beyond, f(x, 2)), b.CreateFAdd(beyond, f(x, 2)));
    Value* tail = b.CreateFMul(exp_core(b.CreateFNeg(b.CreateFMul(beyond, beyond))), wide ? horner(t, erfc_f64) : horner(t, erfc_f32));
    Value* y = copysign(b.CreateSelect(is_small, small, b.CreateFSub(f(x, 1), tail)), x);
    return b.CreateSelect(b.CreateFCmpUNO(x, x), x, y);
}

/// The same with fewer operations on integers, which GPUs do at half speed: magnitudes are free there, and NaN passes through.
Value* VectorEmitter::tanh_by_hardware(Value* x) {
    Value* size = unary(Intrinsic::fabs, x);
    Value* near = b.CreateBinaryIntrinsic(Intrinsic::minimum, size, f(x, 20));
    Value* e = exp_by_hardware(b.CreateFAdd(near, near), true);
    Value* large = fma(near_quotient(f(x, 1), b.CreateFAdd(e, f(x, 1))), f(x, -2), f(x, 1));
    Value* z = b.CreateFMul(size, size);
    Value* small = fma(b.CreateFMul(size, z), horner(z, tanh_f32), size);
    return copysign(b.CreateSelect(b.CreateFCmpOLT(size, f(x, 0.56)), small, large), x);
}

Value* VectorEmitter::erf_by_hardware(Value* x) {
    Value* size = unary(Intrinsic::fabs, x);
    Value* near = b.CreateBinaryIntrinsic(Intrinsic::minimum, size, f(x, 4));
    Value* small = fma(near, horner(b.CreateFMul(near, near), erf_f32), near);
    Value* tail = power_by_hardware(horner(near, log2_erfc_f32), true);
    return copysign(b.CreateSelect(b.CreateFCmpOLT(near, f(x, 1)), small, b.CreateFSub(f(x, 1), tail)), x);
}

Value* VectorEmitter::sigmoid(Value* x) {
    if (gpu && !is_f64(x) && coarse) { // the power may vanish beside 1; the quotient may be subnormal
        return inverse_by_hardware(b.CreateFAdd(power_by_hardware(b.CreateFMul(x, f(x, -1.44269504088896340736)), true), f(x, 1)));
    }
    Value* e = exp(b.CreateFNeg(x));
    return quotient(f(x, 1), b.CreateFAdd(f(x, 1), e));
}

Value* VectorEmitter::sin_or_cos(Value* x, bool cosine) {
    const bool wide = is_f64(x);
    Value* special = magnitude_above(*this, x, wide ? 0x1p20 : 0x1p15);
    Value* safe = b.CreateSelect(special, f(x, 0), x);
    Value* magic = f(x, wide ? 0x1.8p52 : 0x1.8p23);
    Value* shifted = fma(safe, f(x, 0.63661977236758134308), magic);
    Value* n = b.CreateFSub(shifted, magic);
    // pi/2 in three parts. The first product leaves no error; what rounding loses of the second goes into `rest`.
    const double parts64[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
    const double parts32[3] = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
    const double* part = wide ? parts64 : parts32;
    Value* first = fma(n, f(x, -part[0]), safe);
    Value* second = b.CreateFMul(n, f(x, part[1]));
    Value* second_lost = fma(n, f(x, part[1]), b.CreateFNeg(second));
    Value* r = b.CreateFSub(first, second);
    Value* taken = b.CreateFSub(r, first);
    Value* rest = b.CreateFSub(b.CreateFSub(first, b.CreateFSub(r, taken)), b.CreateFAdd(second, taken));
    rest = fma(n, f(x, -part[2]), b.CreateFSub(rest, second_lost));
    Value* z = b.CreateFMul(r, r);
    Value* sine = fma(b.CreateFMul(r, z), wide ? horner(z, sin_f64) : horner(z, sin_f32), rest);
    sine = b.CreateFAdd(r, sine);
    // 1 - z/2 loses bits: its error is added back, less r * rest, the change of the cosine by the lost part.
    Value* half = b.CreateFMul(z, f(x, 0.5));
    Value* big = b.CreateFSub(f(x, 1), half);
    Value* lost = b.CreateFSub(b.CreateFSub(f(x, 1), big), half);
    Value* tail = fma(b.CreateFMul(z, z), wide ? horner(z, cos_f64) : horner(z, cos_f32), fma(b.CreateFNeg(r), rest, lost));
    Value* cosine_value = b.CreateFAdd(big, tail);
    Value* quadrant = b.CreateBitCast(shifted, integer_like(x->getType()));
    if (cosine) quadrant = b.CreateAdd(quadrant, i(quadrant, 1));
    Value* odd = b.CreateICmpNE(b.CreateAnd(quadrant, i(quadrant, 1)), i(quadrant, 0));
    Value* y = b.CreateSelect(odd, cosine_value, sine);
    Value* sign = b.CreateShl(b.CreateAnd(quadrant, i(quadrant, 2)), i(quadrant, wide ? 62 : 30));
    y = b.CreateBitCast(b.CreateXor(b.CreateBitCast(y, quadrant->getType()), sign), x->getType());
    if (!cosine) y = b.CreateSelect(b.CreateICmpEQ(magnitude_bits(*this, x), i(quadrant, 0)), x, y); // sin(-0) = -0
    if (gpu && wide) return y; // of reduced arguments only: sin and cos of f64 are no loops of ours there
    return guarded(*this, special, y, [&] { return call_libm(cosine ? "cos" : "sin", {x}); });
}

/// f32 only: in f64 arithmetic, so that the product y * log x keeps its digits.
Value* VectorEmitter::pow(Value* x, Value* y) {
    if (is_f64(x)) return call_libm("pow", {x, y});
    llvm::Type* wide = with_element(x->getType(), b.getDoubleTy());
    Value* x_bits = b.CreateBitCast(x, integer_like(x->getType()));
    const int64_t first = bits_of(x, 0x1p-126), end = bits_of(x, INFINITY);
    Value* x_special = b.CreateICmpUGE(b.CreateSub(x_bits, i(x_bits, first)), i(x_bits, end - first));
    Value* y_special = magnitude_above(*this, y, std::numeric_limits<float>::max());
    Value* base = b.CreateFPExt(b.CreateSelect(x_special, f(x, 1), x), wide);
    Value* exponent = b.CreateFPExt(b.CreateSelect(y_special, f(y, 0), y), wide);
    Value* product = b.CreateFMul(exponent, log(base));
    Value* far = magnitude_above(*this, product, 87.0);
    Value* result = b.CreateFPTrunc(exp_core(b.CreateSelect(far, f(product, 0), product)), x->getType());
    return guarded(*this, b.CreateOr(b.CreateOr(x_special, y_special), far), result, [&] { return call_libm("pow", {x, y}); });
}

/// f32 functions that are simple combinations of exp, log, sin and cos, which f64 has digits enough for. Null: not one of them.
Value* VectorEmitter::by_way_of_f64(ScalarOp op, Value* x) {
    Value* bits = b.CreateBitCast(x, integer_like(x->getType()));
    const float largest = std::numeric_limits<float>::max();
    Value* special = nullptr;
    switch (op) {
    case ScalarOp::exp2:
        special = magnitude_above(*this, x, 125.0);
        break;
    case ScalarOp::expm1:
    case ScalarOp::sinh:
    case ScalarOp::cosh:
        special = magnitude_above(*this, x, 86.0);
        break;
    case ScalarOp::tan:
        special = magnitude_above(*this, x, 0x1p20);
        break;
    case ScalarOp::log2:
    case ScalarOp::log10:
        special = b.CreateICmpUGE(b.CreateSub(bits, i(bits, bits_of(x, 0x1p-126))), i(bits, bits_of(x, INFINITY) - bits_of(x, 0x1p-126)));
        break;
    case ScalarOp::log1p:
        special = b.CreateOr(b.CreateICmpUGE(bits, i(bits, bits_of(x, -1.0))), magnitude_above(*this, x, largest));
        break;
    default:
        return nullptr;
    }
    Value* w = b.CreateFPExt(b.CreateSelect(special, f(x, 0.5), x), with_element(x->getType(), b.getDoubleTy()));
    Value *one = f(w, 1), *half = f(w, 0.5), *y = nullptr;
    const auto if_tiny = [&](double limit, Value* small, Value* large) {
        return b.CreateSelect(magnitude_above(*this, w, limit), large, small);
    };
    switch (op) {
    case ScalarOp::exp2:
        y = exp_core(b.CreateFMul(w, f(w, 0.69314718055994530942)));
        break;
    case ScalarOp::expm1:
        y = if_tiny(1e-5, fma(b.CreateFMul(w, w), half, w), b.CreateFSub(exp_core(w), one));
        break;
    case ScalarOp::log2:
        y = b.CreateFMul(log(w), f(w, 1.44269504088896340736));
        break;
    case ScalarOp::log10:
        y = b.CreateFMul(log(w), f(w, 0.43429448190325182765));
        break;
    case ScalarOp::log1p:
        y = if_tiny(1e-7, fma(b.CreateFMul(w, w), f(w, -0.5), w), log(b.CreateFAdd(w, one)));
        break;
    case ScalarOp::tan:
        y = b.CreateFDiv(sin_or_cos(w, false), sin_or_cos(w, true));
        break;
    default: {
        Value* e = exp_core(w);
        Value* inverse = b.CreateFDiv(one, e);
        if (op == ScalarOp::cosh)
            y = b.CreateFMul(b.CreateFAdd(e, inverse), half);
        else
            y = if_tiny(1e-3, fma(b.CreateFMul(w, b.CreateFMul(w, w)), f(w, 1.0 / 6), w), b.CreateFMul(b.CreateFSub(e, inverse), half));
    }
    }
    y = b.CreateFPTrunc(y, x->getType());
    if (op == ScalarOp::expm1 || op == ScalarOp::log1p || op == ScalarOp::sinh) // -0 stays, and so do numbers too small to change
        y = b.CreateSelect(magnitude_above(*this, x, 0x1p-60), y, x);
    return guarded(*this, special, y, [&] { return call_libm(std::string(scalar::info(op).name).c_str(), {x}); });
}

Value* VectorEmitter::math(ScalarOp op, llvm::ArrayRef<Value*> a) {
    if (!is_f64(a[0]))
        if (Value* v = by_way_of_f64(op, a[0])) return v;
    switch (op) {
    case ScalarOp::exp:
        return exp(a[0]);
    case ScalarOp::log:
        return log(a[0]);
    case ScalarOp::tanh:
        return tanh(a[0]);
    case ScalarOp::erf:
        return erf(a[0]);
    case ScalarOp::sigmoid:
        return sigmoid(a[0]);
    case ScalarOp::sin:
        return sin_or_cos(a[0], false);
    case ScalarOp::cos:
        return sin_or_cos(a[0], true);
    case ScalarOp::pow:
        return pow(a[0], a[1]);
    // The C library's names are the ops' names.
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log2:
    case ScalarOp::log10:
    case ScalarOp::log1p:
    case ScalarOp::tan:
    case ScalarOp::atan:
    case ScalarOp::asin:
    case ScalarOp::acos:
    case ScalarOp::sinh:
    case ScalarOp::cosh:
    case ScalarOp::atan2:
    case ScalarOp::hypot:
        return call_libm(std::string(scalar::info(op).name).c_str(), a);
    default:
        DYNO_CHECK(false, std::string("an op on floats, not ") + std::string(scalar::info(op).name));
    }
}

} // namespace dyno::codegen
