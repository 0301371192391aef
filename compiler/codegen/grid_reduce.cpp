// What threads gather of a row, and how the threads of a unit join it: in the warp by shuffles, between warps by shared memory, always
// in the same order. Pairs of reductions are gathered in one pass: exponentials by keeping their sum relative to the largest element so
// far, the spread by Welford's recurrence.
#include "compiler/codegen/grid_emitter.h"
#include <algorithm>
#include <cmath>
#include <llvm/IR/InlineAsm.h>

namespace dyno::codegen {
using llvm::Value;

llvm::SmallVector<llvm::Type*, 4> GridEmitter::types(const Accumulator& a) {
    llvm::Type* f = b_.getFloatTy();
    if (!a.pair) {
        const auto own = a.reducer.types();
        return {own.begin(), own.end()};
    }
    if (a.pair->kind == ReductionPair::exponentials) return {f, f}; // largest, sum
    return {f, f, f, f};                                            // count, sum, mean, squared distances
}

Reducer::State GridEmitter::identity(const Accumulator& a, int lanes) {
    if (!a.pair) return a.reducer.identity(lanes);
    Reducer::State state;
    for (llvm::Type* type : types(a)) {
        llvm::Constant* one = llvm::ConstantFP::get(type, state.empty() && a.pair->kind == ReductionPair::exponentials ? -INFINITY : 0.0);
        state.push_back(lanes == 1 ? static_cast<Value*>(one) : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), one));
    }
    return state;
}

namespace {
Value* larger(llvm::IRBuilder<>& b, Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, x, y); }
/// What exponents are taken relative to: 0 where nothing but -inf was seen, so that no infinity is subtracted from itself.
Value* base_of(VectorEmitter& e, Value* most) { return e.b.CreateSelect(e.b.CreateFCmpOEQ(most, e.f(most, -INFINITY)), e.f(most, 0), most); }
} // namespace

/// Neighbours are added first, then neighbouring sums, and so on.
Value* GridEmitter::total(std::vector<Value*> terms) {
    while (terms.size() > 1) {
        std::vector<Value*> half;
        for (size_t k = 0; k + 1 < terms.size(); k += 2) half.push_back(b_.CreateFAdd(terms[k], terms[k + 1]));
        if (terms.size() % 2) half.push_back(terms.back());
        terms = std::move(half);
    }
    return terms[0];
}

/// The lanes of a vector, added neighbours first.
Value* GridEmitter::lanes_added(Value* v) {
    std::vector<Value*> lanes;
    const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    for (unsigned k = 0; type && k < type->getNumElements(); k++) lanes.push_back(b_.CreateExtractElement(v, uint64_t{k}));
    return type ? total(std::move(lanes)) : v;
}

/// Takes in the elements of some points.
void GridEmitter::take(Accumulator& a, llvm::MutableArrayRef<Point> points) {
    if (a.pair && a.pair->kind == ReductionPair::exponentials) {
        std::vector<Value*> elements;
        for (Point& p : points) {
            Value* v = wide_.splat(value(wide_, &p, a.element));
            for (int l = 0; l < plan_.lanes; l++) {
                Value* one = v->getType()->isVectorTy() ? b_.CreateExtractElement(v, static_cast<uint64_t>(l)) : v;
                elements.push_back(p.active ? b_.CreateSelect(p.active, one, one_.f(one, -INFINITY)) : one);
            }
        }
        Value* most = a.state[0];
        for (Value* v : elements) most = larger(b_, most, v);
        Value* base = base_of(one_, most);
        const auto exponential = [&](Value* x) { return one_.math(scalar::ScalarOp::exp, {b_.CreateFSub(x, base)}); };
        Value* sum = b_.CreateFMul(a.state[1], exponential(a.state[0]));
        std::vector<Value*> terms;
        for (Value* v : elements) terms.push_back(exponential(v));
        a.state = {most, b_.CreateFAdd(sum, total(std::move(terms)))};
        return;
    }
    // Sums of floats: the points first, among themselves, so that chains of additions are short and few are as wide as f64.
    const fusion::Instruction& reduction = nest_.body[a.id];
    const bool adds = (a.pair || reduction.how == fusion::Reduction::sum) && is_float(reduction.dtype);
    if (adds && (a.widens || !plan_.resident)) { // rows in registers have short chains
        std::vector<Value*> terms;
        for (Point& p : points) {
            Value* v = wide_.splat(value(wide_, &p, a.element));
            terms.push_back(p.active ? b_.CreateSelect(p.active, v, wide_.f(v, 0)) : v);
        }
        Value* sum = total(std::move(terms));
        if (a.widens) {
            a.state = a.reducer.step(a.state, a.lanes == 1 ? lanes_added(sum) : sum, nullptr);
            return;
        }
        const size_t part = a.pair ? 1 : 0;
        a.state[part] = b_.CreateFAdd(a.state[part], sum);
        if (!a.pair) return;
    }
    for (Point& p : points) {
        Value* v = wide_.splat(value(wide_, &p, a.element));
        Reducer::State next;
        if (a.pair) {
            Value* count = b_.CreateFAdd(a.state[0], wide_.f(v, 1));
            Value* away = b_.CreateFSub(v, a.state[2]);
            // All lanes have seen as many: one division serves them.
            Value* seen = count->getType()->isVectorTy() ? b_.CreateExtractElement(count, uint64_t{0}) : count;
            Value* share = one_.near_quotient(one_.f(seen, 1), seen);
            Value* mean = wide_.fma(away, share->getType() == away->getType() ? share : wide_.splat(share), a.state[2]);
            next = {count, a.state[1], mean, wide_.fma(away, b_.CreateFSub(v, mean), a.state[3])};
        } else {
            Value* index = nullptr;
            if (a.reducer.positional()) index = plan_.nest.mode == NestPlan::rows ? consecutive(wide_, p.linear, 1) : wide_.splat(p.linear);
            next = a.reducer.step(a.state, v, index);
        }
        for (size_t j = 0; j < next.size(); j++) a.state[j] = p.active ? b_.CreateSelect(p.active, next[j], a.state[j]) : next[j];
    }
}

Reducer::State GridEmitter::merged(const Accumulator& a, const Reducer::State& x, const Reducer::State& y) {
    if (!a.pair) return a.reducer.merge(x, y);
    if (a.pair->kind == ReductionPair::exponentials) {
        Value* most = larger(b_, x[0], y[0]);
        Value* base = base_of(one_, most);
        const auto scaled = [&](const Reducer::State& s) { return b_.CreateFMul(s[1], one_.math(scalar::ScalarOp::exp, {b_.CreateFSub(s[0], base)})); };
        return {most, b_.CreateFAdd(scaled(x), scaled(y))};
    }
    Value* count = b_.CreateFAdd(x[0], y[0]);
    Value* nothing = b_.CreateFCmpOEQ(count, one_.f(count, 0));
    Value* share = b_.CreateSelect(nothing, one_.f(count, 0), wide_.quotient(y[0], b_.CreateSelect(nothing, one_.f(count, 1), count)));
    Value* away = b_.CreateFSub(y[2], x[2]);
    Value* mean = wide_.fma(away, share, x[2]);
    Value* between = b_.CreateFMul(b_.CreateFMul(away, away), b_.CreateFMul(x[0], share));
    return {count, b_.CreateFAdd(x[1], y[1]), mean, b_.CreateFAdd(b_.CreateFAdd(x[3], y[3]), between)};
}

/// Joins all lanes, halves first.
Reducer::State GridEmitter::across(const Accumulator& a, Reducer::State state) {
    while (auto* type = llvm::dyn_cast<llvm::FixedVectorType>(state[0]->getType())) {
        const int n = static_cast<int>(type->getNumElements()) / 2;
        Reducer::State low, high;
        for (Value* part : state) {
            const auto half = [&](int from) -> Value* {
                if (n == 1) return b_.CreateExtractElement(part, static_cast<uint64_t>(from));
                llvm::SmallVector<int> lanes;
                for (int k = 0; k < n; k++) lanes.push_back(from + k);
                return b_.CreateShuffleVector(part, lanes);
            };
            low.push_back(half(0)), high.push_back(half(n));
        }
        state = merged(a, low, high);
    }
    return state;
}

void GridEmitter::finish(const Accumulator& a) {
    if (!a.pair) {
        unit_value_[a.id] = a.reducer.finish(a.state);
        return;
    }
    const bool spread = a.pair->kind == ReductionPair::spread;
    unit_value_[a.pair->first] = a.state[spread ? 1 : 0];
    unit_value_[a.pair->second] = a.state[spread ? 3 : 1];
}

/// The states of a unit's threads become one, the same in all of them.
void GridEmitter::join(std::vector<Accumulator>& all) {
    if (all.empty()) return;
    plan_.nest.mode == NestPlan::columns ? join_columns(all) : join_rows(all);
}

/// Among so many neighbours in a warp; the first one's state counts.
void GridEmitter::join_by_shuffles(Accumulator& a, int threads) {
    for (int mask = threads / 2; mask > 0; mask /= 2) {
        Reducer::State other;
        for (Value* v : a.state) other.push_back(shuffled(v, mask));
        a.state = merged(a, a.state, other);
    }
}

void GridEmitter::join_rows(std::vector<Accumulator>& all) {
    for (Accumulator& a : all) {
        a.state = across(a, a.state);
        join_by_shuffles(a, std::min(plan_.sharers, 32));
    }
    const int warps = plan_.sharers / 32;
    if (warps <= 1) return;
    std::vector<llvm::SmallVector<Value*, 4>> memory;
    Value *warp = b_.CreateLShr(thread_, i32(5)), *lane = b_.CreateAnd(thread_, i32(31));
    const auto place = [&](size_t k, size_t j, Value* at) { return b_.CreateInBoundsGEP(all[k].state[j]->getType(), memory[k][j], at); };
    for (Accumulator& a : all) {
        memory.emplace_back();
        for (Value* v : a.state) memory.back().push_back(shared_memory(static_cast<int64_t>(v->getType()->getPrimitiveSizeInBits() / 8) * plan_.threads() / 32));
    }
    when(b_.CreateICmpEQ(lane, i32(0)), [&] {
        for (size_t k = 0; k < all.size(); k++)
            for (size_t j = 0; j < all[k].state.size(); j++) b_.CreateStore(all[k].state[j], place(k, j, warp));
    });
    barrier();
    Value* from = b_.CreateAdd(b_.CreateMul(unit_, i32(warps)), b_.CreateAnd(lane, i32(warps - 1)));
    for (size_t k = 0; k < all.size(); k++) {
        Accumulator& a = all[k];
        for (size_t j = 0; j < a.state.size(); j++) a.state[j] = b_.CreateLoad(a.state[j]->getType(), place(k, j, from));
        join_by_shuffles(a, warps);
    }
}

/// The states of a cluster's blocks become one: each puts its own where all can read it, all merge them in the same order.
void GridEmitter::join_cluster(std::vector<Accumulator>& all) {
    if (all.empty()) return;
    const auto assembly = [&](llvm::Type* result, llvm::ArrayRef<Value*> args, const char* text, const char* constraints) {
        llvm::SmallVector<llvm::Type*, 2> types;
        for (Value* a : args) types.push_back(a->getType());
        return b_.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false), text, constraints, true), args);
    };
    std::vector<llvm::SmallVector<Value*, 4>> memory;
    for (Accumulator& a : all) {
        memory.emplace_back();
        for (Value* v : a.state) memory.back().push_back(shared_memory(static_cast<int64_t>(v->getType()->getPrimitiveSizeInBits() / 8)));
    }
    when(b_.CreateICmpEQ(thread_, i32(0)), [&] {
        for (size_t k = 0; k < all.size(); k++)
            for (size_t j = 0; j < all[k].state.size(); j++) b_.CreateStore(all[k].state[j], memory[k][j]);
    });
    cluster_barrier();
    for (size_t k = 0; k < all.size(); k++) {
        Reducer::State total;
        for (int64_t part = 0; part < plan_.parts; part++) {
            Reducer::State other;
            for (size_t j = 0; j < all[k].state.size(); j++) {
                llvm::Type* type = all[k].state[j]->getType();
                const unsigned bits = static_cast<unsigned>(type->getPrimitiveSizeInBits());
                Value* mine = b_.CreatePtrToInt(memory[k][j], b_.getInt32Ty());
                Value* theirs = assembly(b_.getInt32Ty(), {mine, i32(part)}, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r");
                Value* word = bits == 64 ? assembly(b_.getInt64Ty(), {theirs}, "ld.shared::cluster.b64 $0, [$1];", "=l,r")
                              : bits == 32 ? assembly(b_.getInt32Ty(), {theirs}, "ld.shared::cluster.b32 $0, [$1];", "=r,r")
                              : bits == 16 ? assembly(b_.getInt16Ty(), {theirs}, "ld.shared::cluster.b16 $0, [$1];", "=h,r")
                                           : b_.CreateTrunc(assembly(b_.getInt16Ty(), {theirs}, "ld.shared::cluster.b8 $0, [$1];", "=h,r"), b_.getInt8Ty());
                other.push_back(b_.CreateBitCast(word, type));
            }
            total = part == 0 ? other : merged(all[k], total, other);
        }
        all[k].state = total;
    }
}

void GridEmitter::join_columns(std::vector<Accumulator>& all) {
    if (plan_.sharers == 1) return;
    const int lanes = plan_.lanes;
    // [lane][sharer][unit]: neighbours in a warp are neighbours in memory.
    const auto at = [&](Value* base, llvm::Type* type, Value* sharer, int lane) {
        Value* index = b_.CreateAdd(b_.CreateMul(b_.CreateAdd(sharer, i32(lane * plan_.sharers)), i32(plan_.units)), unit_);
        return b_.CreateInBoundsGEP(type, base, index);
    };
    std::vector<llvm::SmallVector<Value*, 4>> memory;
    for (Accumulator& a : all) {
        memory.emplace_back();
        for (Value* v : a.state) {
            llvm::Type* type = v->getType()->getScalarType();
            memory.back().push_back(shared_memory(static_cast<int64_t>(type->getPrimitiveSizeInBits() / 8) * plan_.threads() * lanes));
            for (int l = 0; l < lanes; l++)
                b_.CreateStore(lanes == 1 ? v : b_.CreateExtractElement(v, static_cast<uint64_t>(l)), at(memory.back().back(), type, sharer_, l));
        }
    }
    barrier();
    for (size_t k = 0; k < all.size(); k++) {
        Accumulator& a = all[k];
        Reducer::State total;
        for (int y = 0; y < plan_.sharers; y++) {
            Reducer::State other;
            for (size_t j = 0; j < a.state.size(); j++) {
                llvm::Type* type = a.state[j]->getType()->getScalarType();
                Value* v = lanes == 1 ? nullptr : llvm::PoisonValue::get(a.state[j]->getType());
                for (int l = 0; l < lanes; l++) {
                    Value* one = b_.CreateLoad(type, at(memory[k][j], type, i32(y), l));
                    v = lanes == 1 ? one : b_.CreateInsertElement(v, one, static_cast<uint64_t>(l));
                }
                other.push_back(v);
            }
            total = y == 0 ? other : merged(a, total, other);
        }
        a.state = total;
    }
}

} // namespace dyno::codegen
