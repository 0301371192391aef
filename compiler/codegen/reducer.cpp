// Reductions: the arithmetic only; loops and trees are nest_emitter's.
#include "compiler/codegen/reducer.h"
#include "compiler/support/check.h"
#include <cmath>
#include <limits>

namespace dyno::codegen {
using fusion::Reduction;
using llvm::Value;

llvm::SmallVector<llvm::Type*, 2> Reducer::types() const {
    if (compensated()) return {e_.b.getDoubleTy(), e_.b.getDoubleTy()};
    if (widened()) return {e_.b.getDoubleTy()};
    if (how_ == Reduction::any || how_ == Reduction::all || type_ == DType::b8) {
        llvm::SmallVector<llvm::Type*, 2> one{e_.b.getInt8Ty()};
        if (positional()) one.push_back(e_.b.getInt64Ty());
        return one;
    }
    if (positional()) return {e_.register_scalar(type_), e_.b.getInt64Ty()};
    return {e_.register_scalar(type_)};
}

static uint64_t extreme_integer(DType t, bool lowest) {
    const int bits = static_cast<int>(size_of(t) * 8);
    if (t == DType::b8) return lowest ? 0 : 1;
    if (is_unsigned_int(t)) return lowest ? 0 : ~uint64_t{0} >> (64 - bits);
    return lowest ? ~uint64_t{0} << (bits - 1) : ~uint64_t{0} >> (65 - bits);
}

Reducer::State Reducer::identity(int lanes) const {
    State state;
    for (llvm::Type* t : types()) {
        llvm::Constant* one = llvm::Constant::getNullValue(t);
        const bool lowest = how_ == Reduction::amax || (positional() && finds_largest());
        if (how_ == Reduction::prod) one = t->isFloatingPointTy() ? llvm::ConstantFP::get(t, 1) : llvm::ConstantInt::get(t, 1);
        if (how_ == Reduction::all) one = llvm::ConstantInt::get(t, 1);
        if (lowest || how_ == Reduction::amin || positional()) {
            if (positional() && !state.empty())
                one = llvm::ConstantInt::get(t, std::numeric_limits<int64_t>::max());
            else if (t->isFloatingPointTy())
                one = llvm::ConstantFP::get(t, lowest ? -INFINITY : INFINITY);
            else
                one = llvm::ConstantInt::get(t, extreme_integer(type_, lowest));
        }
        state.push_back(lanes == 1 ? static_cast<Value*>(one)
                                   : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), one));
    }
    return state;
}

Value* Reducer::best(Value* a, Value* b) const {
    const bool is_max = how_ == Reduction::amax;
    if (plain_ && is_float(type_) && type_ != DType::f64)
        return e_.b.CreateBinaryIntrinsic(is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b); // one instruction there
    if (is_float(type_)) return e_.maximum(a, b, is_max);
    auto& ir = e_.b;
    const bool sign = is_signed_int(type_);
    return ir.CreateSelect(
        is_max ? (sign ? ir.CreateICmpSGT(a, b) : ir.CreateICmpUGT(a, b)) : (sign ? ir.CreateICmpSLT(a, b) : ir.CreateICmpULT(a, b)), a, b);
}

static Reducer::State two_sum(VectorEmitter& e, const Reducer::State& x, const Reducer::State& y) {
    auto& b = e.b;
    Value* total = b.CreateFAdd(x[0], y[0]);
    Value* part = b.CreateFSub(total, x[0]);
    Value* lost = b.CreateFAdd(b.CreateFSub(x[0], b.CreateFSub(total, part)), b.CreateFSub(y[0], part));
    return {total, b.CreateFAdd(y.size() > 1 ? b.CreateFAdd(x[1], y[1]) : x[1], lost)};
}

Value* Reducer::halves_added(Value* v) const {
    const int n = static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements()) / 2;
    llvm::SmallVector<int> first, second;
    for (int k = 0; k < n; k++) first.push_back(k), second.push_back(n + k);
    return e_.b.CreateFAdd(e_.b.CreateShuffleVector(v, first), e_.b.CreateShuffleVector(v, second));
}

Reducer::State Reducer::step(const State& state, Value* value, Value* index) const {
    auto& b = e_.b;
    if (value->getType()->getScalarType()->isIntegerTy(1)) value = b.CreateZExt(value, e_.with_element(value->getType(), b.getInt8Ty()));
    if (widened()) value = type_ == DType::f64 ? value : b.CreateFPExt(value, e_.with_element(value->getType(), b.getDoubleTy()));
    if (compensated()) { // four terms are added plainly first: compensation is for long sums
        const auto lanes = [](Value* v) {
            return v->getType()->isVectorTy() ? llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements() : 1;
        };
        while (lanes(value) > lanes(state[0])) value = halves_added(value);
        return two_sum(e_, state, {value});
    }
    State other{value};
    if (positional()) other.push_back(index);
    return merge(state, other);
}

Reducer::State Reducer::merge(const State& x, const State& y) const {
    auto& b = e_.b;
    if (compensated()) return two_sum(e_, x, y);
    if (positional()) {
        const bool is_max = finds_largest(), sign = is_signed_int(type_);
        Value *better, *equal;
        if (is_float(type_)) {
            Value *x_nan = b.CreateFCmpUNO(x[0], x[0]), *y_nan = b.CreateFCmpUNO(y[0], y[0]);
            better = b.CreateOr(is_max ? e_.ordered(llvm::CmpInst::FCMP_OGT, y[0], x[0]) : e_.ordered(llvm::CmpInst::FCMP_OLT, y[0], x[0]),
                                b.CreateAnd(y_nan, b.CreateNot(x_nan)));
            equal = b.CreateOr(b.CreateFCmpOEQ(x[0], y[0]), b.CreateAnd(x_nan, y_nan));
        } else {
            better = is_max ? (sign ? b.CreateICmpSGT(y[0], x[0]) : b.CreateICmpUGT(y[0], x[0]))
                            : (sign ? b.CreateICmpSLT(y[0], x[0]) : b.CreateICmpULT(y[0], x[0]));
            equal = b.CreateICmpEQ(x[0], y[0]);
        }
        Value* take = b.CreateOr(better, b.CreateAnd(equal, b.CreateICmpSLT(y[1], x[1])));
        return {b.CreateSelect(take, y[0], x[0]), b.CreateSelect(take, y[1], x[1])};
    }
    switch (how_) {
    case Reduction::sum:
        return {x[0]->getType()->isFPOrFPVectorTy() ? b.CreateFAdd(x[0], y[0]) : b.CreateAdd(x[0], y[0])};
    case Reduction::prod:
        return {x[0]->getType()->isFPOrFPVectorTy() ? b.CreateFMul(x[0], y[0]) : b.CreateMul(x[0], y[0])};
    case Reduction::any:
        return {b.CreateOr(x[0], y[0])};
    case Reduction::all:
        return {b.CreateAnd(x[0], y[0])};
    default:
        return {best(y[0], x[0])}; // of +0.0 and -0.0 the first, as eager in short rows
    }
}

Reducer::State Reducer::across(State state) const {
    auto& b = e_.b;
    while (auto* type = llvm::dyn_cast<llvm::FixedVectorType>(state[0]->getType())) {
        const int n = static_cast<int>(type->getNumElements()) / 2;
        State low, high;
        for (Value* part : state) {
            if (n == 1) {
                low.push_back(b.CreateExtractElement(part, uint64_t{0}));
                high.push_back(b.CreateExtractElement(part, uint64_t{1}));
                continue;
            }
            llvm::SmallVector<int> first, second;
            for (int k = 0; k < n; k++) first.push_back(k), second.push_back(n + k);
            low.push_back(b.CreateShuffleVector(part, first));
            high.push_back(b.CreateShuffleVector(part, second));
        }
        state = merge(low, high);
    }
    return state;
}

Value* Reducer::finish(const State& s) const {
    auto& b = e_.b;
    if (positional()) return how_ == Reduction::argmax || how_ == Reduction::argmin ? s[1] : s[0];
    if (compensated()) {
        // An infinite sum has a NaN as its error: the sum alone is right then.
        Value* finite = e_.ordered(llvm::CmpInst::FCMP_OLT, e_.unary(llvm::Intrinsic::fabs, s[0]), e_.f(s[0], INFINITY));
        return b.CreateSelect(finite, b.CreateFAdd(s[0], s[1]), s[0]);
    }
    if (widened() && type_ != DType::f64)
        return e_.round_to(b.CreateFPTrunc(s[0], e_.with_element(s[0]->getType(), b.getFloatTy())), type_);
    if (plain_ && is_float(type_)) return e_.round_to(s[0], type_);
    if (s[0]->getType()->getScalarType()->isIntegerTy(8) && (how_ == Reduction::any || how_ == Reduction::all || type_ == DType::b8))
        return b.CreateICmpNE(s[0], e_.i(s[0], 0));
    return s[0];
}

} // namespace dyno::codegen
