// Loops of a nest: units, rows, passes, the vector loop and its rest. The rest of a vector loop runs element by element
// with the same operations, so that no lane is ever a made-up element: nothing traps or raises a flag for padding.
#include "compiler/codegen/nest_emitter.h"
#include "compiler/support/check.h"
#include <algorithm>

namespace dyno::codegen {
using fusion::Axis;
using fusion::Instruction;
using fusion::ValueId;
using llvm::Value;

NestEmitter::NestEmitter(llvm::Module& module, const fusion::LoopNest& nest, const NestPlan& plan)
    : nest_(nest), plan_(plan), module_(module), b_(module.getContext()), wide_(b_, module, plan.lanes), one_(b_, module, 1) {
    wide_.quiet = one_.quiet = nest.reports_flags;
    wide_.register_bits = plan.vector_bits;
}

// --- phases

void NestEmitter::begin_phase(const std::string& symbol) {
    llvm::Type *pointer = b_.getPtrTy(), *word = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(word, {pointer, pointer, pointer, pointer, word, word}, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module_);
    function_->setDoesNotThrow();
    entry_ = llvm::BasicBlock::Create(b_.getContext(), "entry", function_);
    auto* start = llvm::BasicBlock::Create(b_.getContext(), "start", function_);
    b_.SetInsertPoint(entry_);
    b_.CreateBr(start);
    b_.SetInsertPoint(start);
    fault_ = alloca_of(b_.getInt64Ty());
    b_.CreateStore(i64(0), fault_);
    value_.assign(nest_.body.size(), nullptr);
    at_ = Position{std::vector<Value*>(nest_.axes.size(), nullptr), nullptr, nullptr};
    moments_.clear();
    buffer_.clear();
    for (size_t k = 0; k < nest_.parameters.size(); k++)
        buffer_.push_back(
            b_.CreateLoad(b_.getPtrTy(), b_.CreateInBoundsGEP(b_.getPtrTy(), function_->getArg(buffers), i64(static_cast<int64_t>(k)))));
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (plan_.scope[id] == Scope::entry) value(one_, id);
}
void NestEmitter::end_phase() { b_.CreateRet(b_.CreateLoad(b_.getInt64Ty(), fault_)); }

static int64_t units_of(const fusion::LoopNest& nest, const NestPlan& plan) {
    if (plan.mode == NestPlan::flat) return fusion::row_count(nest);
    if (plan.mode == NestPlan::rows) return fusion::row_count(nest);
    const int64_t extent = nest.axes[plan.vector_axis].extent;
    const Columns c = columns_of(nest, plan);
    return extent == 0 ? 0 : fusion::row_count(nest) / extent * (c.groups + c.singles);
}

void NestEmitter::emit(CompiledCode& code) {
    const int64_t units = units_of(nest_, plan_), points = fusion::row_count(nest_) * std::max<int64_t>(1, fusion::row_length(nest_));
    const double total = plan_.nanoseconds_per_element * static_cast<double>(points);
    begin_phase("phase0");
    plan_.mode == NestPlan::flat ? flat_phase() : unit_phase();
    end_phase();
    const int64_t first = units * plan_.blocks;
    code.phases.push_back({"phase0", first, first ? total / static_cast<double>(first) : 0, plan_.mode == NestPlan::flat ? 1024 : 1});
    code.local_bytes = std::max(plan_.together * plan_.local_bytes, plan_.turn ? plan_.group * state_bytes() : 0);
    if (!plan_.split) return;
    code.shared_bytes = first * plan_.group * state_bytes();
    begin_phase("phase1");
    combine_phase();
    end_phase();
    code.phases.push_back({"phase1", units, 5.0 * static_cast<double>(plan_.blocks), 1});
}

/// Elements [begin, end) of all axes flattened: rows of the vector axis, the first and the last possibly in part.
void NestEmitter::flat_phase() {
    std::vector<Accumulator> none;
    if (nest_.axes.empty()) {
        loop(function_->getArg(begin), function_->getArg(end), i64(1), [&](Value*) {
            forget(Scope::unit);
            element(one_, 0, none, true);
        });
        return;
    }
    const int64_t extent = nest_.axes[plan_.vector_axis].extent;
    if (nest_.axes.size() == 1) {
        vector_loop(wide_, 0, function_->getArg(begin), function_->getArg(end), none);
        return;
    }
    Value* width = i64(std::max<int64_t>(1, extent));
    Value* first = b_.CreateUDiv(function_->getArg(begin), width);
    Value* last = b_.CreateUDiv(b_.CreateAdd(function_->getArg(end), i64(extent - 1)), width);
    loop(first, last, i64(1), [&](Value* row) {
        forget(Scope::unit);
        set_unit_position(one_, row);
        Value* base = b_.CreateMul(row, width);
        const auto clamp = [&](Value* x) {
            Value* low = b_.CreateSelect(b_.CreateICmpSLT(x, i64(0)), i64(0), x);
            return b_.CreateSelect(b_.CreateICmpSGT(low, width), width, low);
        };
        for (ValueId id = 0; id < nest_.body.size(); id++)
            if (plan_.scope[id] == Scope::unit) value(one_, id);
        vector_loop(wide_, 0, clamp(b_.CreateSub(function_->getArg(begin), base)), clamp(b_.CreateSub(function_->getArg(end), base)), none);
    });
}

void NestEmitter::unit_phase() {
    if (plan_.together > 1) return rows_together();
    loop(function_->getArg(begin), function_->getArg(end), i64(1), [&](Value* number) {
        Value* row = plan_.split ? b_.CreateUDiv(number, i64(plan_.blocks)) : number;
        Value* block = plan_.split ? b_.CreateURem(number, i64(plan_.blocks)) : nullptr;
        unit(row, [&](VectorEmitter& e) {
            if (plan_.turn && e.lanes() > 1) {
                group_pass(e, row, block);
                return finish_group(e, row, number);
            }
            for (uint32_t s = 0; s < plan_.stages; s++) {
                std::vector<Accumulator> all = pass(e, s, block);
                if (plan_.split) return store_partials(e, number, all);
                for (Accumulator& a : all) value_[a.id] = a.reducer.finish(total(e, a));
                ordered_sums(e, s);
            }
            row_stores(e);
        });
    });
}

/// Joins the blocks' partial results of each row, in the blocks' order, and goes on with the row's own values.
void NestEmitter::combine_phase() {
    loop(function_->getArg(begin), function_->getArg(end), i64(1), [&](Value* row) {
        unit(row, [&](VectorEmitter& e) {
            if (!plan_.turn || e.lanes() == 1) return combine(e, row, i64(0));
            for_strips(e, row, [&](Value* strip) { combine(e, row, strip); });
        });
    });
}

void NestEmitter::combine(VectorEmitter& e, Value* row, Value* strip) {
    std::vector<Accumulator> all = accumulators(e, 0);
    const bool lanes = plan_.mode == NestPlan::columns && e.lanes() > 1;
    loop(i64(0), i64(plan_.blocks), i64(1), [&](Value* block) {
        Value* number = b_.CreateAdd(b_.CreateMul(row, i64(plan_.blocks)), block);
        for (size_t k = 0; k < all.size(); k++) {
            auto& places = lanes ? all[k].vector : all[k].single;
            Reducer::State state = read(places), part;
            for (size_t j = 0; j < state.size(); j++)
                part.push_back(b_.CreateAlignedLoad(state[j]->getType(), partial(number, strip, k, j), llvm::Align(1)));
            state = all[k].reducer.merge(state, part);
            for (size_t j = 0; j < state.size(); j++) b_.CreateStore(state[j], places[j]);
        }
    });
    for (Accumulator& a : all) value_[a.id] = a.reducer.finish(read(lanes ? a.vector : a.single));
    row_stores(e);
}

/// Runs `body` for a unit with the emitter of its width: in columns mode some units are strips of lanes, the others single.
void NestEmitter::unit(Value* row, const std::function<void(VectorEmitter&)>& body) {
    const auto run = [&](VectorEmitter& e) {
        forget(Scope::unit);
        set_unit_position(e, row);
        body(e);
    };
    if (plan_.mode == NestPlan::rows) return run(wide_);
    const Columns c = columns_of(nest_, plan_);
    if (c.singles == 0) return run(wide_);
    if (c.groups == 0) return run(one_);
    auto* strip = llvm::BasicBlock::Create(b_.getContext(), "strip", function_);
    auto* single = llvm::BasicBlock::Create(b_.getContext(), "single", function_);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "unit_done", function_);
    b_.CreateCondBr(b_.CreateICmpULT(b_.CreateURem(row, i64(c.groups + c.singles)), i64(c.groups)), strip, single);
    b_.SetInsertPoint(strip);
    run(wide_);
    b_.CreateBr(after);
    b_.SetInsertPoint(single);
    run(one_);
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
}

/// Indices of the parallel axes from the unit's number.
void NestEmitter::set_unit_position(VectorEmitter& e, Value* row) {
    Value* rest = row;
    if (plan_.mode == NestPlan::columns) {
        const Columns c = columns_of(nest_, plan_);
        Value* local = b_.CreateURem(rest, i64(c.groups + c.singles));
        rest = b_.CreateUDiv(rest, i64(c.groups + c.singles));
        const bool single = e.lanes() == 1;
        at_.index[plan_.vector_axis] = single ? b_.CreateAdd(local, i64(c.strips * plan_.lanes - c.groups)) : strip_start(b_.CreateMul(local, i64(plan_.group)));
    }
    for (size_t k = nest_.axes.size(); k-- > 0;) {
        if (nest_.axes[k].kind == Axis::row || (k == plan_.vector_axis && plan_.mode != NestPlan::rows)) continue;
        bool more = false;
        for (size_t j = 0; j < k; j++) more |= nest_.axes[j].kind == Axis::parallel && j != plan_.vector_axis;
        Value* extent = i64(std::max<int64_t>(1, nest_.axes[k].extent));
        at_.index[k] = more ? b_.CreateURem(rest, extent) : rest;
        if (more) rest = b_.CreateUDiv(rest, extent);
    }
}

// --- passes over one unit

std::pair<Value*, Value*> NestEmitter::range_of(size_t axis, Value* block) {
    const int64_t extent = nest_.axes[axis].extent;
    if (turn_from_ && axis == plan_.turn_axis) return {turn_from_, turn_to_};
    if (!plan_.split || axis != plan_.split_axis || !block) return {i64(0), i64(extent)};
    Value* from = b_.CreateMul(block, i64(plan_.block));
    Value* to = b_.CreateAdd(from, i64(plan_.block));
    return {from, b_.CreateSelect(b_.CreateICmpSGT(to, i64(extent)), i64(extent), to)};
}

std::vector<NestEmitter::Accumulator> NestEmitter::accumulators(VectorEmitter& e, uint32_t stage) {
    std::vector<Accumulator> result;
    for (ValueId id = 0; id < nest_.body.size(); id++) {
        const Instruction& i = nest_.body[id];
        if (i.kind != Instruction::reduce || plan_.stage[id] != stage + 1) continue;
        const Ordered ordered = plan_.ordered[id];
        if (ordered == Ordered::in_place || ordered == Ordered::stashed) continue;
        Accumulator a{id, Reducer(e, i.how, nest_.body[i.operands[0]].dtype, plan_.mode == NestPlan::rows, ordered == Ordered::running), {}, {}};
        const auto make = [&](int lanes) {
            llvm::SmallVector<Value*, 2> places;
            for (Value* v : a.reducer.identity(lanes)) {
                places.push_back(alloca_of(v->getType()));
                b_.CreateStore(v, places.back());
            }
            return places;
        };
        if (e.lanes() > 1) a.vector = make(a.reducer.state_lanes(e.lanes()));
        a.single = make(1);
        result.push_back(std::move(a));
    }
    return result;
}

std::vector<NestEmitter::Accumulator> NestEmitter::pass(VectorEmitter& e, uint32_t stage, Value* block) {
    std::vector<Accumulator> all = accumulators(e, stage);
    if (all.empty() && idle(stage)) return all;
    prepare(e, stage);
    row_loops(e, stage, block, 0, i64(0), all);
    return all;
}

Reducer::State NestEmitter::read(const llvm::SmallVector<Value*, 2>& places) {
    Reducer::State state;
    for (Value* p : places) state.push_back(b_.CreateLoad(llvm::cast<llvm::AllocaInst>(p)->getAllocatedType(), p));
    return state;
}

/// What the loops left in the accumulators, as one state: of all lanes joined in rows mode, by lane in columns mode.
Reducer::State NestEmitter::total(VectorEmitter& e, Accumulator& a) {
    if (e.lanes() == 1) return read(a.single);
    if (plan_.mode == NestPlan::columns) return read(a.vector);
    return a.reducer.merge(a.reducer.across(read(a.vector)), read(a.single));
}

void NestEmitter::row_loops(VectorEmitter& e, uint32_t stage, Value* block, size_t axis, Value* linear, std::vector<Accumulator>& all) {
    while (axis < nest_.axes.size() && (nest_.axes[axis].kind != Axis::row || (plan_.mode == NestPlan::rows && axis == plan_.vector_axis)))
        axis++;
    if (axis < nest_.axes.size()) {
        const auto [from, to] = range_of(axis, block);
        loop(from, to, i64(1), [&](Value* i) {
            at_.index[axis] = i;
            row_loops(e, stage, block, axis + 1, b_.CreateAdd(b_.CreateMul(linear, i64(nest_.axes[axis].extent)), i), all);
        });
        return;
    }
    forget(Scope::mid);
    if (plan_.mode == NestPlan::columns) {
        at_.row_linear = linear;
        return element(e, stage, all, e.lanes() == 1);
    }
    at_.row_linear = b_.CreateMul(linear, i64(nest_.axes[plan_.vector_axis].extent));
    for (ValueId id : plan_.needed[stage])
        if (plan_.scope[id] == Scope::mid) value(e, id);
    const auto [from, to] = range_of(plan_.vector_axis, block);
    vector_loop(e, stage, from, to, all);
}

void NestEmitter::vector_loop(VectorEmitter& e, uint32_t stage, Value* from, Value* to, std::vector<Accumulator>& all) {
    Value* length = b_.CreateSub(to, from);
    Value* middle = b_.CreateAdd(from, b_.CreateAnd(length, i64(-e.lanes())));
    if (e.lanes() > 1)
        loop(from, middle, i64(e.lanes()), [&](Value* i) {
            forget(Scope::body);
            at_.index[plan_.vector_axis] = i;
            element(e, stage, all, false);
        });
    loop(e.lanes() > 1 ? middle : from, to, i64(1), [&](Value* i) {
        forget(Scope::body);
        at_.index[plan_.vector_axis] = i;
        element(one_, stage, all, true);
    });
    forget(Scope::body);
}

/// One point of the stage, or `lanes` of them: values, stash, accumulators, stores.
void NestEmitter::element(VectorEmitter& e, uint32_t stage, std::vector<Accumulator>& all, bool single) {
    if (plan_.mode == NestPlan::columns) forget(Scope::body);
    for (ValueId id : plan_.reused[stage]) {
        const DType t = nest_.body[id].dtype;
        llvm::Type* type = t == DType::b8 ? e.widen(b_.getInt8Ty()) : e.register_type(t);
        Value* kept = b_.CreateAlignedLoad(type, stash_pointer(e, id), llvm::Align(1));
        value_[id] = t == DType::b8 ? b_.CreateICmpNE(kept, e.i(kept, 0)) : kept;
    }
    for (ValueId id : plan_.needed[stage]) value(e, id);
    for (ValueId id : plan_.kept[stage]) {
        Value* v = e.splat(value(e, id));
        if (nest_.body[id].dtype == DType::b8) v = b_.CreateZExt(v, e.widen(b_.getInt8Ty()));
        b_.CreateAlignedStore(v, stash_pointer(e, id), llvm::Align(1));
    }
    for (size_t k = 0; k < nest_.stores.size(); k++)
        if (const fusion::Store& s = nest_.stores[k];
            plan_.mode == NestPlan::flat || (plan_.element_store[k] && plan_.stage[s.value] == stage))
            store(e, s.to, value(e, s.value));
    for (Accumulator& a : all) {
        llvm::SmallVector<Value*, 2>& places = single ? a.single : a.vector;
        Reducer::State state = read(places);
        Value* index = nullptr;
        if (a.reducer.positional() && plan_.mode == NestPlan::columns)
            index = e.splat(at_.row_linear);
        else if (a.reducer.positional())
            index = consecutive(e, b_.CreateAdd(at_.row_linear, at_.index[plan_.vector_axis]), 1);
        state = a.reducer.step(state, e.splat(value(e, nest_.body[a.id].operands[0])), index);
        for (size_t k = 0; k < places.size(); k++) b_.CreateStore(state[k], places[k]);
    }
}

void NestEmitter::row_stores(VectorEmitter& e) {
    VectorEmitter& width = plan_.mode == NestPlan::columns ? e : one_;
    for (size_t k = 0; k < nest_.stores.size(); k++)
        if (const fusion::Store& s = nest_.stores[k]; !plan_.element_store[k]) store(width, s.to, value(width, s.value));
}

// --- partial results of split rows

int64_t NestEmitter::state_bytes() const {
    int64_t bytes = 0;
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (nest_.body[id].kind == Instruction::reduce) bytes += 16 * (plan_.mode == NestPlan::columns ? plan_.lanes : 1);
    return bytes;
}

/// Where part `part` of reduction `which` lies, of a strip of unit `number`: 8 bytes a lane.
Value* NestEmitter::partial(Value* number, Value* strip, size_t which, size_t part) {
    const int64_t lanes = plan_.mode == NestPlan::columns ? plan_.lanes : 1;
    Value* state = b_.CreateAdd(b_.CreateMul(number, i64(plan_.group)), strip);
    Value* offset = b_.CreateAdd(b_.CreateMul(state, i64(state_bytes())),
                                 i64((2 * static_cast<int64_t>(which) + static_cast<int64_t>(part)) * 8 * lanes));
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), function_->getArg(shared), offset);
}
void NestEmitter::store_partials(VectorEmitter& e, Value* number, std::vector<Accumulator>& all) {
    for (size_t k = 0; k < all.size(); k++) {
        const Reducer::State state = total(e, all[k]);
        for (size_t j = 0; j < state.size(); j++) b_.CreateAlignedStore(state[j], partial(number, i64(0), k, j), llvm::Align(1));
    }
}

// --- values

void NestEmitter::forget(Scope from) {
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (plan_.scope[id] >= from) value_[id] = nullptr;
}

/// Row values that a pass uses must exist before its loops.
void NestEmitter::prepare(VectorEmitter& e, uint32_t stage) {
    VectorEmitter& width = plan_.mode == NestPlan::columns ? e : one_;
    const auto want = [&](ValueId id) {
        if (plan_.scope[id] == Scope::unit) value(width, id);
    };
    for (ValueId id : plan_.needed[stage])
        for (int k = 0; k < nest_.body[id].arity; k++) want(nest_.body[id].operands[k]);
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (nest_.body[id].kind == Instruction::reduce && plan_.stage[id] == stage + 1) want(nest_.body[id].operands[0]);
    for (size_t k = 0; k < nest_.stores.size(); k++)
        if (plan_.element_store[k] && plan_.stage[nest_.stores[k].value] == stage) want(nest_.stores[k].value);
}

Value* NestEmitter::value(VectorEmitter& e, ValueId id) {
    if (!value_[id]) value_[id] = compute(e, id);
    return value_[id];
}

} // namespace dyno::codegen
