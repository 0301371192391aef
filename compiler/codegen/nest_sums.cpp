// Sums whose order is eager's: after a pass, over what lies in memory (the operand itself, or the row's stash).
#include "compiler/codegen/nest_emitter.h"

namespace dyno::codegen {
using fusion::Axis;
using fusion::Instruction;
using fusion::ValueId;
using graph::SumOrder;
using llvm::Value;

/// Nothing of the pass is wanted: all that it adds up is in memory.
bool NestEmitter::idle(uint32_t stage) const {
    for (size_t k = 0; k < nest_.stores.size(); k++)
        if (plan_.element_store[k] && plan_.stage[nest_.stores[k].value] == stage) return false;
    return plan_.needed[stage].empty() && plan_.kept[stage].empty();
}

void NestEmitter::ordered_sums(VectorEmitter& e, uint32_t stage) {
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (plan_.stage[id] == stage + 1 && (plan_.ordered[id] == Ordered::in_place || plan_.ordered[id] == Ordered::stashed))
            value_[id] = ordered_sum(e, id);
}

Value* NestEmitter::ordered_sum(VectorEmitter& e, ValueId id) {
    const Elements all = elements_of(e, id);
    const Instruction& i = nest_.body[id];
    const SumOrder& order = fusion::order_of(nest_, i);
    const int64_t count = fusion::row_length(nest_), run = order.run ? order.run : count;
    if (fusion::is_moment(i.how)) return moment(id, all, count);
    if (run == count) return run_sum(e, id, all, count);
    Value* total = alloca_of(all.type);
    b_.CreateStore(llvm::Constant::getNullValue(all.type), total);
    loop(i64(0), i64(count), i64(run), [&](Value* start) {
        Elements part = all;
        part.first = b_.CreateInBoundsGEP(all.type->getScalarType(), all.first, b_.CreateMul(start, i64(all.stride)));
        b_.CreateStore(b_.CreateFAdd(b_.CreateLoad(all.type, total), run_sum(e, id, part, run)), total);
    });
    return b_.CreateLoad(all.type, total);
}

/// Where the row of an ordered reduction lies.
Elements NestEmitter::elements_of(VectorEmitter& e, ValueId id) {
    const Instruction &i = nest_.body[id], &source = nest_.body[i.operands[0]];
    const bool side_by_side = plan_.mode == NestPlan::columns && e.lanes() > 1;
    Elements all{nullptr, side_by_side ? e.register_type(i.dtype) : e.register_scalar(i.dtype), 1};
    if (plan_.ordered[id] == Ordered::in_place) {
        const std::vector<Value*> outside = at_.index;
        const fusion::Access& access = nest_.loads[source.which];
        for (size_t k = 0; k < nest_.axes.size(); k++)
            if (nest_.axes[k].kind == Axis::row) {
                at_.index[k] = i64(0);
                if (nest_.axes[k].extent > 1) all.stride = access.at.strides[k]; // ends as the innermost
            }
        all.first = pointer(access, i.dtype);
        at_.index = outside;
    } else {
        all.first = b_.CreateInBoundsGEP(b_.getInt8Ty(), function_->getArg(local), i64(plan_.stash_offset[i.operands[0]]));
        all.first = of_own_row(all.first);
        if (plan_.mode == NestPlan::columns) all.stride = plan_.lanes;
    }
    return all;
}

Value* NestEmitter::run_sum(VectorEmitter& e, ValueId id, const Elements& all, int64_t count) {
    SumEmitter sum(b_, module_, entry_);
    const SumOrder& order = fusion::order_of(nest_, nest_.body[id]);
    switch (order.kind) {
    case SumOrder::cascade:
        return sum.cascade(all, count, order.lanes);
    case SumOrder::pairwise:
        return sum.pairwise(all, count);
    case SumOrder::columns:
        return down_columns(e, id, all, count);
    default:
        return sum.in_turn(all, count, nest_.body[id].how == fusion::Reduction::prod);
    }
}

/// Which kind of ladder a result is depends on its column.
Value* NestEmitter::down_columns(VectorEmitter& e, ValueId id, const Elements& all, int64_t count) {
    SumEmitter sum(b_, module_, entry_);
    const fusion::RowOrder& row = nest_.orders[nest_.body[id].which - 1];
    if (row.order.plain == row.order.width) return sum.ladder(all, count);
    if (row.order.plain == 0 || count < 4) return sum.ladder_by_fours(all, count);
    Value* column = offset_of(row.result);
    if (all.type->isVectorTy()) column = consecutive(e, column, row.result.strides[plan_.vector_axis]);
    Value* plain = b_.CreateICmpULT(b_.CreateURem(column, e.i(column, row.order.width)), e.i(column, row.order.plain));
    return b_.CreateSelect(plain, sum.ladder(all, count), sum.ladder_by_fours(all, count));
}

} // namespace dyno::codegen
