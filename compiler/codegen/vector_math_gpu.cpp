// What the C library does on the CPU, for targets without one: the rare arguments (NaN, infinities, zeros, subnormals, huge ones)
// of functions on f32, in f64 arithmetic. Branch-free, since it is one side of a branch already.
#include "compiler/codegen/vector_emitter.h"
#include "compiler/support/check.h"
#include <cmath>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <limits>

namespace dyno::codegen {
using llvm::Value;

namespace {

/// Clamps a wide value to [-limit, limit]; NaN becomes zero.
Value* clamped(VectorEmitter& e, Value* w, double limit) {
    auto& b = e.b;
    Value* size = e.unary(llvm::Intrinsic::fabs, w);
    Value* near = b.CreateSelect(b.CreateFCmpOLT(size, e.f(w, limit)), w, e.copysign(e.f(w, limit), w));
    return b.CreateSelect(b.CreateFCmpUNO(w, w), e.f(w, 0), near);
}

/// The bits of 2/pi after the point, in words.
constexpr uint32_t two_over_pi[] = {0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770, 0x36d8a566, 0x4f10e410, 0x7f9458ea, 0xf7aef158};

/// word[index] of the table, by selects: the rare path needs no memory.
Value* word_at(VectorEmitter& e, Value* index) {
    Value* word = e.i(index, 0);
    for (int k = 0; k < static_cast<int>(std::size(two_over_pi)); k++)
        word = e.b.CreateSelect(e.b.CreateICmpEQ(index, e.i(index, k)), e.i(index, two_over_pi[k]), word);
    return word;
}

struct Reduced {
    Value* angle;    // f64, within pi/4 of zero
    Value* quadrant; // i32, low two bits
};

/// x modulo pi/2 by the exact product of its mantissa with the 96 bits of 2/pi that matter (Payne and Hanek). Finite f32, |x| >= 2.
Reduced reduce_angle(VectorEmitter& e, Value* x) {
    auto& b = e.b;
    Value* bits = b.CreateBitCast(x, e.integer_like(x->getType()));
    const auto word = [&](int64_t v) { return e.i(bits, v); };
    llvm::Type* longs = e.with_element(x->getType(), b.getInt64Ty());
    Value* exponent = b.CreateSub(b.CreateAnd(b.CreateLShr(bits, word(23)), word(255)), word(126));
    Value* mantissa = b.CreateOr(b.CreateShl(bits, word(8)), word(0x80000000));
    Value *first = b.CreateLShr(exponent, word(5)), *shift = b.CreateAnd(exponent, word(31));
    Value* words[4];
    for (int k = 0; k < 4; k++) words[k] = word_at(e, b.CreateAdd(first, word(k - 1)));
    const auto joined = [&](Value* high, Value* low) {
        return b.CreateIntrinsic(llvm::Intrinsic::fshl, {high->getType()}, {high, low, shift});
    };
    Value *high = joined(words[0], words[1]), *middle = joined(words[1], words[2]), *low = joined(words[2], words[3]);
    const auto wide = [&](Value* v) { return b.CreateZExt(v, longs); };
    Value* m = wide(mantissa);
    Value* product = b.CreateMul(m, wide(low));
    product = b.CreateAdd(b.CreateMul(m, wide(middle)), b.CreateLShr(product, e.i(product, 32)));
    product = b.CreateAdd(b.CreateShl(b.CreateMul(m, wide(high)), e.i(product, 32)), product);
    Value* quadrant = b.CreateTrunc(b.CreateLShr(product, e.i(product, 62)), bits->getType());
    Value* fraction = b.CreateAnd(product, e.i(product, 0x3fffffffffffffff));
    Value* above = b.CreateICmpNE(b.CreateAnd(fraction, e.i(product, 0x2000000000000000)), e.i(product, 0));
    fraction = b.CreateSelect(above, b.CreateSub(fraction, e.i(product, 0x4000000000000000)), fraction);
    quadrant = b.CreateAdd(quadrant, b.CreateZExt(above, bits->getType()));
    llvm::Type* doubles = e.with_element(x->getType(), b.getDoubleTy());
    Value* angle = b.CreateFMul(b.CreateSIToFP(fraction, doubles), llvm::ConstantFP::get(doubles, 0x1.921fb54442d18p-62));
    Value* negative = b.CreateICmpSLT(bits, word(0));
    return {b.CreateSelect(negative, b.CreateFNeg(angle), angle), b.CreateSelect(negative, b.CreateNeg(quadrant), quadrant)};
}

} // namespace

Value* VectorEmitter::quotient(Value* x, Value* y) {
    llvm::Type* element = x->getType()->getScalarType();
    if (!gpu || !element->isFloatTy()) return b.CreateFDiv(x, y);
    auto* code = llvm::InlineAsm::get(llvm::FunctionType::get(element, {element, element}, false), "div.full.f32 $0, $1, $2;", "=f,f,f", false);
    if (!x->getType()->isVectorTy()) return b.CreateCall(code, {x, y});
    Value* result = llvm::PoisonValue::get(x->getType());
    for (unsigned k = 0; k < llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements(); k++)
        result = b.CreateInsertElement(result, b.CreateCall(code, {b.CreateExtractElement(x, uint64_t{k}), b.CreateExtractElement(y, uint64_t{k})}), uint64_t{k});
    return result;
}

Value* VectorEmitter::each_lane(Value* x, llvm::function_ref<Value*(Value*)> one) {
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
    if (!type) return one(x);
    Value* y = llvm::PoisonValue::get(type);
    for (uint64_t k = 0; k < type->getNumElements(); k++) y = b.CreateInsertElement(y, one(b.CreateExtractElement(x, k)), k);
    return y;
}

Value* VectorEmitter::round_in_pairs(Value* v, DType t) {
    const bool brain = t == DType::bf16;
    const auto pair = [&](Value* low, Value* high) {
        return b.CreateIntrinsic(brain ? llvm::Intrinsic::nvvm_ff2bf16x2_rn : llvm::Intrinsic::nvvm_ff2f16x2_rn, {}, {high, low});
    };
    const auto half = [&](Value* packed, int k) -> Value* {
        if (!brain) return b.CreateFPExt(b.CreateExtractElement(packed, static_cast<uint64_t>(k)), b.getFloatTy());
        Value* word = b.CreateBitCast(packed, b.getInt32Ty());
        return b.CreateBitCast(k == 0 ? b.CreateShl(word, uint64_t{16}) : b.CreateAnd(word, uint64_t{0xffff0000}), b.getFloatTy());
    };
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    if (!type) return half(pair(v, v), 0);
    Value* rounded = llvm::PoisonValue::get(type);
    for (uint64_t k = 0; k < type->getNumElements(); k += 2) { // lanes are 2, 4 or 8
        Value* packed = pair(b.CreateExtractElement(v, k), b.CreateExtractElement(v, k + 1));
        for (int j = 0; j < 2; j++) rounded = b.CreateInsertElement(rounded, half(packed, j), k + static_cast<uint64_t>(j));
    }
    return rounded;
}

Value* VectorEmitter::near_quotient(Value* x, Value* y) {
    if (!gpu || !x->getType()->getScalarType()->isFloatTy()) return b.CreateFDiv(x, y);
    Value* inverse = each_lane(y, [&](Value* v) { return b.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {v}); });
    auto* constant = llvm::dyn_cast<llvm::Constant>(x);
    auto* splat = constant && x->getType()->isVectorTy() ? constant->getSplatValue() : constant;
    if (auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(splat); number && number->isExactlyValue(1.0)) return inverse;
    return b.CreateFMul(x, inverse);
}

Value* VectorEmitter::power_by_hardware(Value* x, bool normal) {
    const auto id = normal ? llvm::Intrinsic::nvvm_ex2_approx_ftz_f : llvm::Intrinsic::nvvm_ex2_approx_f;
    return each_lane(x, [&](Value* v) { return b.CreateIntrinsic(id, {}, {v}); });
}

Value* VectorEmitter::inverse_by_hardware(Value* x) {
    llvm::Type* type = b.getFloatTy();
    auto* code = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "rcp.approx.f32 $0, $1;", "=f,f", false);
    return each_lane(x, [&](Value* v) { return b.CreateCall(code, {v}); });
}

/// 2^(x log2 e) by the hardware, within 2 ulp, times what rounding the product lost. `normal`: for tanh and erf.
Value* VectorEmitter::exp_by_hardware(Value* x, bool normal) {
    constexpr float log2_e = 1.44269504088896340736f;
    constexpr double ln_2 = 0.69314718055994530942, lost = (1.44269504088896340736 - log2_e) * ln_2;
    Value* product = b.CreateFMul(x, f(x, log2_e));
    Value* rest = fma(x, f(x, log2_e), b.CreateFNeg(product));
    // What is lost of log2 e itself matters for large arguments, whose callers with normal results need less than full accuracy.
    rest = normal ? b.CreateFMul(rest, f(x, ln_2)) : fma(rest, f(x, ln_2), b.CreateFMul(x, f(x, lost)));
    Value* y = power_by_hardware(product, normal);
    return fma(y, rest, y);
}

Value* VectorEmitter::without_libm(std::string_view name, llvm::ArrayRef<Value*> args) {
    Value* x = args[0];
    llvm::Type* type = x->getType();
    llvm::Type* doubles = with_element(type, b.getDoubleTy());
    const bool wide = type->getScalarType()->isDoubleTy();
    const auto nan = [&](Value* like) { return f(like, std::numeric_limits<double>::quiet_NaN()); };
    const auto is_nan = [&](Value* v) { return b.CreateFCmpUNO(v, v); };
    // log of any f64
    const auto any_log = [&](Value* w) {
        Value* tiny = b.CreateFCmpOLT(w, f(w, 0x1p-1022));
        Value* scaled = b.CreateSelect(tiny, b.CreateFMul(w, f(w, 0x1p54)), w);
        Value* ordinary = b.CreateAnd(b.CreateFCmpOGT(w, f(w, 0)), b.CreateFCmpOLT(w, f(w, INFINITY)));
        Value* y = log_core(b.CreateSelect(ordinary, scaled, f(w, 1)));
        y = b.CreateSelect(tiny, b.CreateFSub(y, f(w, 54 * 0.69314718055994530942)), y);
        Value* special = b.CreateSelect(b.CreateFCmpOEQ(w, f(w, 0)), f(w, -INFINITY), b.CreateSelect(b.CreateFCmpOLT(w, f(w, 0)), nan(w), w));
        return b.CreateSelect(ordinary, y, special);
    };
    if (name == "log" && wide) return any_log(x);
    DYNO_CHECK(!wide, std::string("a function of f64 that this target computes: ") + std::string(name));
    Value* w = b.CreateFPExt(x, doubles);
    const auto narrow = [&](Value* v) { return b.CreateFPTrunc(v, type); };
    const auto kept = [&](Value* v) { return b.CreateSelect(is_nan(x), x, narrow(v)); };
    if (name == "log") return narrow(any_log(w));
    if (name == "log2") return narrow(b.CreateFMul(any_log(w), f(w, 1.44269504088896340736)));
    if (name == "log10") return narrow(b.CreateFMul(any_log(w), f(w, 0.43429448190325182765)));
    if (name == "log1p") return narrow(any_log(b.CreateFAdd(w, f(w, 1))));
    if (name == "exp2") return kept(exp_core(b.CreateFMul(clamped(*this, w, 300), f(w, 0.69314718055994530942))));
    if (name == "expm1") return kept(b.CreateFSub(exp_core(clamped(*this, w, 200)), f(w, 1)));
    if (name == "sinh" || name == "cosh") {
        Value* e = exp_core(clamped(*this, w, 200));
        Value* inverse = b.CreateFDiv(f(w, 1), e);
        Value* sum = name == "sinh" ? b.CreateFSub(e, inverse) : b.CreateFAdd(e, inverse);
        return kept(b.CreateFMul(sum, f(w, 0.5)));
    }
    if (name == "sin" || name == "cos" || name == "tan") {
        Value* finite = b.CreateFCmpOLT(unary(llvm::Intrinsic::fabs, x), f(x, INFINITY));
        const Reduced r = reduce_angle(*this, b.CreateSelect(finite, x, f(x, 2)));
        Value *sine = sin_or_cos(r.angle, false), *cosine = sin_or_cos(r.angle, true);
        const auto turned = [&](Value* quadrant, Value* even, Value* odd) {
            Value* y = b.CreateSelect(b.CreateICmpNE(b.CreateAnd(quadrant, i(quadrant, 1)), i(quadrant, 0)), odd, even);
            return b.CreateSelect(b.CreateICmpNE(b.CreateAnd(quadrant, i(quadrant, 2)), i(quadrant, 0)), b.CreateFNeg(y), y);
        };
        Value* s = turned(r.quadrant, sine, cosine);
        Value* c = turned(b.CreateAdd(r.quadrant, i(r.quadrant, 1)), sine, cosine);
        return b.CreateSelect(finite, narrow(name == "sin" ? s : name == "cos" ? c : b.CreateFDiv(s, c)), nan(x));
    }
    if (name == "hypot") {
        Value* v = b.CreateFPExt(args[1], doubles);
        Value* y = narrow(unary(llvm::Intrinsic::sqrt, b.CreateFAdd(b.CreateFMul(w, w), b.CreateFMul(v, v))));
        const auto infinite = [&](Value* a) { return b.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs, a), f(a, INFINITY)); };
        return b.CreateSelect(b.CreateOr(infinite(w), infinite(v)), f(x, INFINITY), y);
    }
    DYNO_CHECK(name == "pow", std::string("a function that this target computes: ") + std::string(name));
    Value* v = b.CreateFPExt(args[1], doubles);
    Value* size = unary(llvm::Intrinsic::fabs, w);
    // log is -inf at 0 and inf at inf, and the clamps turn these into powers that overflow or vanish as they should.
    Value* power = b.CreateFMul(v, any_log(size));
    Value* y = exp_core(clamped(*this, power, 700));
    y = b.CreateSelect(is_nan(power), power, y);
    Value* whole = b.CreateFCmpOEQ(unary(llvm::Intrinsic::trunc, v), v);
    Value* half = b.CreateFMul(v, f(v, 0.5));
    Value* odd = b.CreateAnd(whole, b.CreateFCmpUNE(unary(llvm::Intrinsic::trunc, half), half));
    Value* negative = b.CreateICmpSLT(b.CreateBitCast(w, integer_like(doubles)), i(b.CreateBitCast(w, integer_like(doubles)), 0));
    y = b.CreateSelect(b.CreateAnd(negative, odd), b.CreateFNeg(y), y);
    Value* below = b.CreateAnd(b.CreateFCmpOLT(w, f(w, 0)), b.CreateFCmpOGT(w, f(w, -INFINITY)));
    y = b.CreateSelect(b.CreateAnd(below, b.CreateNot(b.CreateOr(whole, is_nan(v)))), nan(w), y);
    // |x| = 1 with an infinite exponent, and any NaN with exponent 0 or base 1, are 1.
    Value* one = b.CreateOr(b.CreateFCmpOEQ(v, f(v, 0)), b.CreateFCmpOEQ(w, f(w, 1)));
    Value* unit = b.CreateAnd(b.CreateFCmpOEQ(size, f(w, 1)), b.CreateFCmpOEQ(unary(llvm::Intrinsic::fabs, v), f(v, INFINITY)));
    return narrow(b.CreateSelect(b.CreateOr(one, unit), f(w, 1), y));
}

} // namespace dyno::codegen
