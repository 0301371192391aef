// Row lengths are known, so every ladder is a nest of counted loops. NumPy's halves are a function that calls itself.
#include "compiler/codegen/sum_emitter.h"
#include <fmt/format.h>

namespace dyno::codegen {
using llvm::Value;

namespace {
constexpr int rungs_at_most = 4;
constexpr int64_t block = 128; // of NumPy's halves
} // namespace

Value* SumEmitter::slot(llvm::Type* type, double start) {
    Value* place = emit_alloca(entry_, type);
    b_.CreateStore(llvm::ConstantFP::get(type, start), place);
    return place;
}

void SumEmitter::loop(int64_t count, const std::function<void(Value*)>& body) {
    if (count > 4) return emit_loop(b_, i64(0), i64(count), i64(1), body);
    for (int64_t k = 0; k < count; k++) body(i64(k));
}

Elements SumEmitter::from(const Elements& all, Value* index) const {
    Value* offset = b_.CreateMul(index, b_.getInt64(static_cast<uint64_t>(all.stride)));
    return {b_.CreateInBoundsGEP(all.type->getScalarType(), all.first, offset), all.type, all.stride};
}

Value* SumEmitter::element(const Elements& all, Value* index) {
    return b_.CreateAlignedLoad(all.type, from(all, index).first, llvm::Align(all.type->getScalarSizeInBits() / 8));
}

llvm::SmallVector<Value*, 4> SumEmitter::ladders(llvm::Type* type, int ladders, int64_t count, const Load& load) {
    const int64_t step = graph::ladder_step(count);
    llvm::SmallVector<int64_t, rungs_at_most> spans{1}; // elements of which a rung takes in the sum
    while (spans.size() < rungs_at_most && spans.back() <= count / step) spans.push_back(spans.back() * step);
    std::vector<llvm::SmallVector<Value*, 4>> rungs(spans.size());
    for (auto& rung : rungs)
        for (int k = 0; k < ladders; k++) rung.push_back(slot(type, 0.0));
    const std::function<void(size_t, Value*)> climb = [&](size_t rung, Value* begin) {
        if (rung == 0) {
            for (int k = 0; k < ladders; k++) add(rungs[0][static_cast<size_t>(k)], load(begin, k));
            return;
        }
        loop(step, [&](Value* turn) { climb(rung - 1, b_.CreateAdd(begin, b_.CreateMul(turn, i64(spans[rung - 1])))); });
        for (size_t k = 0; k < rungs[rung].size(); k++) {
            add(rungs[rung][k], read(rungs[rung - 1][k]));
            b_.CreateStore(llvm::ConstantFP::get(type, 0.0), rungs[rung - 1][k]);
        }
    };
    int64_t done = 0;
    for (size_t rung = spans.size(); rung-- > 0;) {
        const int64_t turns = (count - done) / spans[rung];
        loop(turns, [&](Value* turn) { climb(rung, b_.CreateAdd(i64(done), b_.CreateMul(turn, i64(spans[rung])))); });
        done += turns * spans[rung];
    }
    llvm::SmallVector<Value*, 4> sums;
    for (Value* first : rungs[0]) sums.push_back(read(first));
    for (size_t rung = 1; rung < rungs.size(); rung++)
        for (size_t k = 0; k < sums.size(); k++) sums[k] = b_.CreateFAdd(sums[k], read(rungs[rung][k]));
    return sums;
}

Value* SumEmitter::ladder(const Elements& all, int64_t count) {
    return ladders(all.type, 1, count, [&](Value* index, int) { return element(all, index); })[0];
}

Value* SumEmitter::ladder_by_fours(const Elements& all, int64_t count) {
    const int64_t fours = count / 4;
    auto sums = ladders(all.type, 4, fours, [&](Value* index, int k) { return element(all, b_.CreateAdd(b_.CreateMul(index, i64(4)), i64(k))); });
    for (int64_t k = 4 * fours; k < count; k++) sums[0] = b_.CreateFAdd(sums[0], element(all, i64(k)));
    for (size_t k = 1; k < 4; k++) sums[0] = b_.CreateFAdd(sums[0], sums[k]);
    return sums[0];
}

Value* SumEmitter::cascade(const Elements& all, int64_t count, int64_t lanes) {
    if (lanes == 1) return ladder_by_fours(all, count);
    const int64_t each = count / lanes;
    Value* total = slot(all.type, 0.0);
    if (all.stride == 1 && !all.type->isVectorTy()) {
        auto* wide = llvm::FixedVectorType::get(all.type, static_cast<unsigned>(lanes));
        Value* sums = ladder_by_fours({all.first, wide, lanes}, each);
        for (int64_t k = lanes * each; k < count; k++) add(total, element(all, i64(k)));
        for (int64_t k = 0; k < lanes; k++) add(total, b_.CreateExtractElement(sums, static_cast<uint64_t>(k)));
        return read(total);
    }
    for (int64_t k = lanes * each; k < count; k++) add(total, element(all, i64(k)));
    loop(lanes, [&](Value* lane) {
        Elements part = from(all, lane);
        part.stride *= lanes;
        add(total, ladder_by_fours(part, each));
    });
    return read(total);
}

Value* SumEmitter::in_turn(const Elements& all, int64_t count, bool product) {
    Value* total = slot(all.type, product ? 1.0 : 0.0);
    loop(count, [&](Value* index) {
        Value* term = element(all, index);
        b_.CreateStore(product ? b_.CreateFMul(read(total), term) : b_.CreateFAdd(read(total), term), total);
    });
    return read(total);
}

/// At least eight elements: eight sums side by side, joined in pairs, then what is left over.
Value* SumEmitter::eight_sums(const Elements& all, Value* count) {
    Value* whole = b_.CreateAnd(count, i64(-8));
    llvm::SmallVector<Value*, 8> sums;
    if (all.stride == 1 && !all.type->isVectorTy()) {
        const Elements wide{all.first, llvm::FixedVectorType::get(all.type, 8), 1};
        Value* eight = emit_alloca(entry_, wide.type);
        b_.CreateStore(element(wide, i64(0)), eight);
        emit_loop(b_, i64(8), whole, i64(8), [&](Value* index) { add(eight, element(wide, index)); });
        Value* vector = read(eight);
        for (uint64_t k = 0; k < 8; k++) sums.push_back(b_.CreateExtractElement(vector, k));
    } else {
        for (int64_t k = 0; k < 8; k++) {
            sums.push_back(emit_alloca(entry_, all.type));
            b_.CreateStore(element(all, i64(k)), sums.back());
        }
        emit_loop(b_, i64(8), whole, i64(8), [&](Value* index) {
            for (int64_t k = 0; k < 8; k++) add(sums[static_cast<size_t>(k)], element(all, b_.CreateAdd(index, i64(k))));
        });
        for (Value*& sum : sums) sum = read(sum);
    }
    for (size_t n = 8; n > 1; n /= 2)
        for (size_t k = 0; k < n / 2; k++) sums[k] = b_.CreateFAdd(sums[2 * k], sums[2 * k + 1]);
    Value* total = emit_alloca(entry_, all.type);
    b_.CreateStore(sums[0], total);
    emit_loop(b_, whole, count, i64(1), [&](Value* index) { add(total, element(all, index)); });
    return read(total);
}

/// The function (first, count) -> sum of this type and stride.
llvm::Function* SumEmitter::halves(const Elements& all) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(all.type);
    const std::string name = fmt::format("halves_{}x{}_{}", all.type->getScalarSizeInBits(), vector ? vector->getNumElements() : 1, all.stride);
    if (llvm::Function* known = module_.getFunction(name)) return known;
    auto* type = llvm::FunctionType::get(all.type, {b_.getPtrTy(), b_.getInt64Ty()}, false);
    auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module_);
    function->setDoesNotThrow();
    const llvm::IRBuilder<>::InsertPointGuard back(b_);
    auto* entry = llvm::BasicBlock::Create(b_.getContext(), "entry", function);
    auto* start = llvm::BasicBlock::Create(b_.getContext(), "start", function);
    auto* few = llvm::BasicBlock::Create(b_.getContext(), "few", function);
    auto* many = llvm::BasicBlock::Create(b_.getContext(), "many", function);
    b_.SetInsertPoint(entry);
    b_.CreateBr(start);
    b_.SetInsertPoint(start);
    const Elements mine{function->getArg(0), all.type, all.stride};
    Value* count = function->getArg(1);
    b_.CreateCondBr(b_.CreateICmpSLE(count, i64(block)), few, many);
    b_.SetInsertPoint(few);
    b_.CreateRet(SumEmitter(b_, module_, entry).eight_sums(mine, count));
    b_.SetInsertPoint(many);
    Value* half = b_.CreateAnd(b_.CreateLShr(count, i64(1)), i64(-8));
    Value* low = b_.CreateCall(function, {mine.first, half});
    Value* high = b_.CreateCall(function, {from(mine, half).first, b_.CreateSub(count, half)});
    b_.CreateRet(b_.CreateFAdd(low, high));
    return function;
}

Value* SumEmitter::pairwise(const Elements& all, int64_t count) {
    Value* start = llvm::ConstantFP::get(all.type, 0.0);
    if (count < 8) return in_turn(all, count, false);
    Value* sum = count <= block ? eight_sums(all, i64(count)) : b_.CreateCall(halves(all), {all.first, i64(count)});
    return b_.CreateFAdd(start, sum);
}

} // namespace dyno::codegen
