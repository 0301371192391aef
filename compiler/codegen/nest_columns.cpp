// Sums down columns: a unit is a group of strips side by side. They take turns every few rows, their states wait in local memory:
// so each row's lines are used whole and few pages are open at a time. A column's own order of additions is not touched.
#include "compiler/codegen/nest_emitter.h"

namespace dyno::codegen {
using llvm::Value;

/// The last strip may begin early (NestPlan::overlapping): its first columns are computed twice, alike.
Value* NestEmitter::strip_start(Value* strip) {
    Value* start = b_.CreateMul(strip, i64(plan_.lanes));
    const int64_t extent = nest_.axes[plan_.vector_axis].extent;
    if (!plan_.overlapping || extent % plan_.lanes == 0) return start;
    Value* last = i64(extent - plan_.lanes);
    return b_.CreateSelect(b_.CreateICmpSGT(start, last), last, start);
}

/// Stands at each strip of the unit in turn; the body gets the strip's number within the group.
void NestEmitter::for_strips(VectorEmitter& e, Value* row, const std::function<void(Value*)>& body) {
    const Columns c = columns_of(nest_, plan_);
    Value* first = b_.CreateMul(b_.CreateURem(row, i64(c.groups)), i64(plan_.group));
    Value* left = b_.CreateSub(i64(c.strips), first);
    Value* count = b_.CreateSelect(b_.CreateICmpSLT(left, i64(plan_.group)), left, i64(plan_.group));
    loop(i64(0), count, i64(1), [&](Value* strip) {
        forget(Scope::unit);
        at_.index[plan_.vector_axis] = strip_start(b_.CreateAdd(first, strip));
        body(strip);
    });
    forget(Scope::unit);
}

Value* NestEmitter::local_state(Value* strip, size_t which, size_t part) {
    Value* offset = b_.CreateAdd(b_.CreateMul(strip, i64(state_bytes())),
                                 i64((2 * static_cast<int64_t>(which) + static_cast<int64_t>(part)) * 8 * plan_.lanes));
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), function_->getArg(local), offset);
}

void NestEmitter::group_pass(VectorEmitter& e, Value* row, Value* block) {
    const auto keep = [&](Value* strip, std::vector<Accumulator>& all) {
        for (size_t k = 0; k < all.size(); k++) {
            const Reducer::State state = read(all[k].vector);
            for (size_t j = 0; j < state.size(); j++) b_.CreateAlignedStore(state[j], local_state(strip, k, j), llvm::Align(1));
        }
    };
    for_strips(e, row, [&](Value* strip) {
        std::vector<Accumulator> all = accumulators(e, 0);
        keep(strip, all);
    });
    const auto [from, to] = range_of(plan_.turn_axis, block);
    Value* end = to;
    loop(from, end, i64(plan_.turn), [&](Value* begin_of_turn) {
        Value* full = b_.CreateAdd(begin_of_turn, i64(plan_.turn));
        Value* end_of_turn = b_.CreateSelect(b_.CreateICmpSGT(full, end), end, full);
        for_strips(e, row, [&](Value* strip) {
            std::vector<Accumulator> all = accumulators(e, 0);
            for (size_t k = 0; k < all.size(); k++)
                for (size_t j = 0; j < all[k].vector.size(); j++) {
                    llvm::Type* type = llvm::cast<llvm::AllocaInst>(all[k].vector[j])->getAllocatedType();
                    b_.CreateStore(b_.CreateAlignedLoad(type, local_state(strip, k, j), llvm::Align(1)), all[k].vector[j]);
                }
            prepare(e, 0);
            turn_from_ = begin_of_turn, turn_to_ = end_of_turn;
            row_loops(e, 0, block, 0, i64(0), all);
            turn_from_ = turn_to_ = nullptr;
            keep(strip, all);
        });
    });
}

void NestEmitter::finish_group(VectorEmitter& e, Value* row, Value* number) {
    for_strips(e, row, [&](Value* strip) {
        std::vector<Accumulator> all = accumulators(e, 0);
        for (size_t k = 0; k < all.size(); k++) {
            Reducer::State state;
            for (size_t j = 0; j < all[k].vector.size(); j++) {
                llvm::Type* type = llvm::cast<llvm::AllocaInst>(all[k].vector[j])->getAllocatedType();
                state.push_back(b_.CreateAlignedLoad(type, local_state(strip, k, j), llvm::Align(1)));
                if (plan_.split) b_.CreateAlignedStore(state.back(), partial(number, strip, k, j), llvm::Align(1));
            }
            if (!plan_.split) value_[all[k].id] = all[k].reducer.finish(state);
        }
        if (!plan_.split) row_stores(e);
    });
}

} // namespace dyno::codegen
