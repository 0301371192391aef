// Kernels of a nest: which thread has which elements, passes over rows, results of threads joined through the warp and shared
// memory by fixed trees. Threads beyond the last unit repeat the last unit's work, so that all meet at every barrier.
#include "compiler/codegen/grid_emitter.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace dyno::codegen {
using fusion::Axis;
using fusion::Instruction;
using fusion::ValueId;
using llvm::Value;

constexpr unsigned global_space = 1, shared_space = 3;
constexpr int joining_threads = 128;

GridEmitter::GridEmitter(llvm::Module& module, const fusion::LoopNest& nest, const GridPlan& plan)
    : nest_(nest), plan_(plan), module_(module), b_(module.getContext()), wide_(b_, module, plan.lanes), one_(b_, module, 1) {
    wide_.gpu = one_.gpu = true;
}

// --- kernels

void GridEmitter::begin_kernel(const std::string& symbol, int threads) {
    llvm::Type* pointer = b_.getPtrTy(global_space);
    std::vector<llvm::Type*> types(nest_.parameters.size(), pointer);
    types.insert(types.end(), nest_.scalars.size(), b_.getInt64Ty());
    types.push_back(pointer); // partial results
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), types, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module_);
    function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
    function_->setDoesNotThrow();
    // Where a store may not have the access of a load, what is only read can go through the read-only path.
    for (unsigned k = 0; k < nest_.parameters.size(); k++)
        if (!nest_.parameters[k].written && plan_.nest.mode != NestPlan::flat)
            function_->addParamAttr(k, llvm::Attribute::NoAlias), function_->addParamAttr(k, llvm::Attribute::ReadOnly);
    llvm::NamedMDNode* notes = module_.getOrInsertNamedMetadata("nvvm.annotations");
    const auto note = [&](const char* key, int number) {
        auto& c = b_.getContext();
        notes->addOperand(llvm::MDNode::get(c, {llvm::ValueAsMetadata::get(function_), llvm::MDString::get(c, key),
                                                llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<uint32_t>(number)))}));
    };
    note("kernel", 1);
    note("maxntidx", threads);
    if (plan_.least_blocks > 0 && threads == plan_.threads()) note("minctasm", plan_.least_blocks);
    entry_ = llvm::BasicBlock::Create(b_.getContext(), "entry", function_);
    auto* start = llvm::BasicBlock::Create(b_.getContext(), "start", function_);
    b_.SetInsertPoint(entry_);
    b_.CreateBr(start);
    b_.SetInsertPoint(start);
    fault_ = alloca_of(b_.getInt64Ty());
    b_.CreateStore(i64(0), fault_);
    thread_ = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    block_ = special_register(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
    unit_value_.assign(nest_.body.size(), nullptr);
    unit_index_.assign(nest_.axes.size(), nullptr);
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (plan_.nest.scope[id] == Scope::entry) value(one_, nullptr, id);
}
void GridEmitter::end_kernel() { b_.CreateRetVoid(); }

void GridEmitter::emit(CompiledCode& code) {
    const int64_t points = fusion::row_count(nest_) * std::max<int64_t>(1, fusion::row_length(nest_));
    begin_kernel("phase0", plan_.threads());
    if (plan_.parts > 1 && plan_.overlaps && !plan_.cluster) instruction("griddepcontrol.launch_dependents;");
    plan_.nest.mode == NestPlan::flat ? flat_kernel() : row_kernel();
    end_kernel();
    Phase first{"phase0", plan_.unit_count, 0, 1, plan_.blocks(), plan_.threads()};
    if (points == 0 && plan_.nest.mode == NestPlan::flat) first.blocks = 0;
    if (plan_.cluster) first.cluster = static_cast<int>(plan_.parts);
    code.phases.push_back(first);
    if (plan_.parts == 1 || plan_.cluster) return;
    int64_t slots = 0;
    for (const Instruction& i : nest_.body) slots += i.kind == Instruction::reduce ? 2 : 0;
    code.shared_bytes = plan_.unit_count * plan_.parts * slots * 8 * (plan_.nest.mode == NestPlan::columns ? plan_.lanes : 1);
    begin_kernel("phase1", joining_threads);
    if (plan_.overlaps) instruction("griddepcontrol.wait;");
    join_kernel();
    end_kernel();
    const int64_t units = joining_threads / plan_.joiners();
    code.phases.push_back({"phase1", plan_.unit_count, 0, 1, (plan_.unit_count + units - 1) / units, joining_threads, 1, plan_.overlaps});
}

void GridEmitter::flat_kernel() {
    Value* id = b_.CreateAdd(b_.CreateMul(b_.CreateZExt(block_, b_.getInt64Ty()), i64(plan_.threads())), b_.CreateZExt(thread_, b_.getInt64Ty()));
    const int64_t count = fusion::row_count(nest_), full = count / plan_.lanes, rest = count % plan_.lanes;
    const auto run = [&](VectorEmitter& e, Value* linear) {
        Point p;
        p.value.assign(nest_.body.size(), nullptr);
        p.index.assign(nest_.axes.size(), nullptr);
        unravel(linear, Axis::parallel, p.index, count, false);
        for (const fusion::Store& s : nest_.stores) value(e, &p, s.value);
        for (const fusion::Store& s : nest_.stores) store(e, &p, s.to, value(e, &p, s.value));
    };
    when(b_.CreateICmpSLT(id, i64(full)), [&] { run(wide_, b_.CreateMul(id, i64(plan_.lanes))); });
    if (rest == 0) return;
    Value* single = b_.CreateAnd(b_.CreateICmpSGE(id, i64(full)), b_.CreateICmpSLT(id, i64(full + rest)));
    when(single, [&] { run(one_, b_.CreateAdd(id, i64(full * plan_.lanes - full))); });
}

/// Where this thread stands: its unit, its place among the unit's threads, its part of the row.
void GridEmitter::set_unit() {
    const bool columns = plan_.nest.mode == NestPlan::columns;
    unit_ = columns ? b_.CreateURem(thread_, i32(plan_.units)) : b_.CreateUDiv(thread_, i32(plan_.sharers));
    sharer_ = columns ? b_.CreateUDiv(thread_, i32(plan_.units)) : b_.CreateURem(thread_, i32(plan_.sharers));
    Value* group = plan_.parts > 1 ? b_.CreateUDiv(block_, i32(plan_.parts)) : block_;
    part_ = plan_.parts > 1 ? b_.CreateZExt(b_.CreateURem(block_, i32(plan_.parts)), b_.getInt64Ty()) : i64(0);
    number_ = b_.CreateAdd(b_.CreateMul(b_.CreateZExt(group, b_.getInt64Ty()), i64(plan_.units)), b_.CreateZExt(unit_, b_.getInt64Ty()));
    if (plan_.unit_count % plan_.units != 0) {
        Value* last = i64(plan_.unit_count - 1);
        number_ = b_.CreateSelect(b_.CreateICmpSGT(number_, last), last, number_);
    }
    unravel(number_, Axis::parallel, unit_index_, plan_.unit_count, columns);
}

/// Indices of the axes of a kind from a number. `by_lanes`: the last axis is counted in strips of lanes.
void GridEmitter::unravel(Value* linear, Axis::Kind kind, std::vector<Value*>& index, int64_t total, bool by_lanes) {
    // Divisions of 32 bits by constants are a few instructions.
    llvm::Type* type = total < (int64_t{1} << 31) ? b_.getInt32Ty() : b_.getInt64Ty();
    Value* rest = b_.CreateTrunc(linear, type);
    size_t first = nest_.axes.size();
    for (size_t k = nest_.axes.size(); k-- > 0;)
        if (nest_.axes[k].kind == kind) first = k;
    for (size_t k = nest_.axes.size(); k-- > 0;) {
        if (nest_.axes[k].kind != kind) continue;
        const bool strips = by_lanes && k + 1 == nest_.axes.size();
        Value* extent = llvm::ConstantInt::get(type, static_cast<uint64_t>(std::max<int64_t>(1, nest_.axes[k].extent / (strips ? plan_.lanes : 1))));
        Value* mine = k == first ? rest : b_.CreateURem(rest, extent);
        if (k != first) rest = b_.CreateUDiv(rest, extent);
        mine = b_.CreateZExt(mine, b_.getInt64Ty());
        index[k] = strips ? b_.CreateMul(mine, i64(plan_.lanes)) : mine;
    }
}

void GridEmitter::row_kernel() {
    set_unit();
    std::vector<Point> kept;
    for (uint32_t s = 0; s < plan_.nest.stages; s++) {
        prepare(s);
        stage(s, kept);
        if (plan_.parts > 1 && !plan_.cluster) return;
    }
    prepare(plan_.nest.stages);
    row_stores();
    if (plan_.cluster) cluster_barrier(); // nobody's shared memory goes while others read it
}

/// Joins the parts of each row: neighbours in a warp take them in turn, then join among themselves.
void GridEmitter::join_kernel() {
    const int64_t joiners = plan_.joiners();
    Value* id = b_.CreateAdd(b_.CreateMul(b_.CreateZExt(block_, b_.getInt64Ty()), i64(joining_threads)), b_.CreateZExt(thread_, b_.getInt64Ty()));
    // Whole warps come in, those beyond the last unit too: all threads of one take part in its exchanges.
    const int64_t units_of_warp = 32 / joiners;
    Value* unit = b_.CreateUDiv(id, i64(joiners));
    when(b_.CreateICmpSLT(unit, i64((plan_.unit_count + units_of_warp - 1) / units_of_warp * units_of_warp)), [&] {
        number_ = unit;
        Value* inside = nullptr;
        if (plan_.unit_count % units_of_warp != 0) {
            inside = b_.CreateICmpSLT(unit, i64(plan_.unit_count));
            number_ = b_.CreateSelect(inside, unit, i64(plan_.unit_count - 1));
        }
        Value* mine = b_.CreateURem(id, i64(joiners));
        sharer_ = b_.CreateTrunc(mine, b_.getInt32Ty());
        if (inside) sharer_ = b_.CreateSelect(inside, sharer_, i32(1)); // stores nothing
        const bool columns = plan_.nest.mode == NestPlan::columns;
        unravel(number_, Axis::parallel, unit_index_, plan_.unit_count, columns);
        std::vector<Accumulator> all = accumulators(0);
        const int lanes = columns ? plan_.lanes : 1;
        for (size_t k = 0; k < all.size(); k++) {
            Accumulator& a = all[k];
            for (Value* v : identity(a, lanes)) {
                a.places.push_back(alloca_of(v->getType()));
                b_.CreateStore(v, a.places.back());
            }
            const auto read = [&] {
                Reducer::State state;
                for (Value* p : a.places) state.push_back(b_.CreateLoad(llvm::cast<llvm::AllocaInst>(p)->getAllocatedType(), p));
                return state;
            };
            loop(mine, i64(plan_.parts), i64(joiners), [&](Value* part) {
                Value* number = b_.CreateAdd(b_.CreateMul(number_, i64(plan_.parts)), part);
                const Reducer::State state = read();
                Reducer::State other;
                for (size_t j = 0; j < state.size(); j++) {
                    llvm::Type* type = state[j]->getType()->getScalarType();
                    Value* v = lanes == 1 ? nullptr : llvm::PoisonValue::get(state[j]->getType());
                    for (int l = 0; l < lanes; l++) {
                        Value* one = b_.CreateLoad(type, part_address(all, k, j, l, number));
                        v = lanes == 1 ? one : b_.CreateInsertElement(v, one, static_cast<uint64_t>(l));
                    }
                    other.push_back(v);
                }
                const Reducer::State next = merged(a, state, other);
                for (size_t j = 0; j < next.size(); j++) b_.CreateStore(next[j], a.places[j]);
            });
            a.state = read();
            join_by_shuffles(a, static_cast<int>(joiners));
            finish(a);
        }
        prepare(plan_.nest.stages);
        row_stores();
    });
}

/// Where a part of unit-and-part `number` lies: 8 bytes a lane.
Value* GridEmitter::part_address(const std::vector<Accumulator>& all, size_t which, size_t part, int lane, Value* number) {
    const int lanes = plan_.nest.mode == NestPlan::columns ? plan_.lanes : 1;
    int64_t before = 0, total = 0;
    for (size_t k = 0; k < all.size(); k++) {
        const auto parts = static_cast<int64_t>(types(all[k]).size());
        before += k < which ? parts : 0, total += parts;
    }
    Value* base = b_.CreateMul(number, i64(total * lanes));
    Value* at = b_.CreateAdd(base, i64((before + static_cast<int64_t>(part)) * lanes + lane));
    return b_.CreateInBoundsGEP(b_.getInt64Ty(), function_->getArg(static_cast<unsigned>(function_->arg_size()) - 1), at);
}

void GridEmitter::store_parts(std::vector<Accumulator>& all) {
    const int lanes = plan_.nest.mode == NestPlan::columns ? plan_.lanes : 1;
    when(b_.CreateICmpEQ(sharer_, i32(0)), [&] {
        Value* number = b_.CreateAdd(b_.CreateMul(number_, i64(plan_.parts)), part_);
        for (size_t k = 0; k < all.size(); k++)
            for (size_t j = 0; j < all[k].state.size(); j++)
                for (int l = 0; l < lanes; l++) {
                    Value* v = all[k].state[j];
                    if (v->getType()->isVectorTy()) v = b_.CreateExtractElement(v, static_cast<uint64_t>(l));
                    b_.CreateStore(v, part_address(all, k, j, l, number));
                }
    });
}

// --- passes

std::vector<GridEmitter::Accumulator> GridEmitter::accumulators(uint32_t stage) {
    std::vector<Accumulator> result;
    for (ValueId id = 0; id < nest_.body.size(); id++) {
        const Instruction& i = nest_.body[id];
        if (i.kind != Instruction::reduce || plan_.nest.stage[id] != stage + 1) continue;
        const ReductionPair* pair = nullptr;
        bool second = false;
        for (const ReductionPair& p : plan_.nest.pairs) {
            if (p.first == id) pair = &p;
            second = second || p.second == id;
        }
        if (second) continue;
        const DType operand = nest_.body[i.operands[0]].dtype;
        const bool rows = plan_.nest.mode == NestPlan::rows;
        const bool widens = !pair && i.how == fusion::Reduction::sum && is_float(operand) && operand != DType::f64;
        const bool joined = (pair && pair->kind == ReductionPair::exponentials) || (widens && rows);
        Reducer reducer(wide_, i.how, operand, rows, !widens);
        result.push_back({id, reducer, pair, plan_.nest.taken_by(nest_, id), widens, joined ? 1 : plan_.lanes, {}, {}});
    }
    return result;
}

/// Positions of a row that the sharers pass in one step.
int64_t GridEmitter::step_length() const { return static_cast<int64_t>(plan_.sharers) * (plan_.nest.mode == NestPlan::rows ? plan_.lanes : 1); }

/// The elements of a step: of number first_step + step, counted from the thread's first. `whole`: it surely ends inside the row.
GridEmitter::Point GridEmitter::step_point(Value* first_step, int64_t step, bool whole) {
    Value* mine = b_.CreateMul(b_.CreateZExt(sharer_, b_.getInt64Ty()), i64(plan_.nest.mode == NestPlan::rows ? plan_.lanes : 1));
    Value* first = b_.CreateAdd(b_.CreateMul(first_step, i64(step_length())), mine);
    if (plan_.parts > 1) first = b_.CreateAdd(first, b_.CreateMul(part_, i64(plan_.part_length)));
    Point p;
    p.value.assign(nest_.body.size(), nullptr);
    p.index.assign(nest_.axes.size(), nullptr);
    size_t row_axes = 0, axis = 0;
    for (size_t k = 0; k < nest_.axes.size(); k++)
        if (nest_.axes[k].kind == Axis::row) row_axes++, axis = k;
    if (whole && row_axes == 1) {
        unravel(first, Axis::row, p.index, plan_.positions, false);
        p.shifted_axis = axis, p.shift = step * step_length();
        p.linear = b_.CreateAdd(first, i64(p.shift));
        return p;
    }
    first = b_.CreateAdd(first, i64(step * step_length()));
    if (!whole) {
        p.active = b_.CreateICmpSLT(first, i64(plan_.positions));
        if (plan_.parts > 1) {
            Value* end = b_.CreateMul(b_.CreateAdd(part_, i64(1)), i64(plan_.part_length));
            p.active = b_.CreateAnd(p.active, b_.CreateICmpSLT(first, end));
        }
        first = b_.CreateSelect(p.active, first, i64(0)); // a valid address; what it gives is not used
    }
    p.linear = first;
    unravel(first, Axis::row, p.index, plan_.positions, false);
    return p;
}

void GridEmitter::one_step(uint32_t s, Point& p) {
    for (ValueId id : plan_.nest.needed[s]) value(wide_, &p, id);
    bool stores = false;
    for (size_t k = 0; k < nest_.stores.size(); k++) stores |= plan_.nest.element_store[k] && plan_.nest.stage[nest_.stores[k].value] == s;
    if (!stores) return;
    for (const fusion::Store& st : nest_.stores)
        if (plan_.nest.stage[st.value] == s && !of_unit(st.value)) value(wide_, &p, st.value);
    when(p.active, [&] {
        for (size_t k = 0; k < nest_.stores.size(); k++)
            if (const fusion::Store& st = nest_.stores[k]; plan_.nest.element_store[k] && plan_.nest.stage[st.value] == s)
                store(wide_, &p, st.to, value(wide_, &p, st.value));
    });
}

/// `unroll` steps, the accumulators' states being in their places.
void GridEmitter::round_of(uint32_t s, std::vector<Accumulator>& all, Value* first_step, bool whole) {
    for (Accumulator& a : all)
        for (size_t j = 0; j < a.places.size(); j++) a.state[j] = b_.CreateLoad(llvm::cast<llvm::AllocaInst>(a.places[j])->getAllocatedType(), a.places[j]);
    std::vector<Point> points;
    for (int u = 0; u < plan_.unroll; u++) {
        points.push_back(step_point(first_step, u, whole));
        for (ValueId id : plan_.nest.needed[s])
            if (nest_.body[id].kind == Instruction::load) value(wide_, &points.back(), id);
    }
    for (Point& p : points) one_step(s, p);
    for (Accumulator& a : all) take(a, points);
    for (Accumulator& a : all)
        for (size_t j = 0; j < a.places.size(); j++) b_.CreateStore(a.state[j], a.places[j]);
}

/// A row, or the part of one that the block has: whole rounds without a look at its end, then at most one with.
void GridEmitter::rounds_of(uint32_t s, std::vector<Accumulator>& all) {
    const int64_t of_round = step_length() * plan_.unroll;
    const bool alike = plan_.parts == 1 || plan_.positions % plan_.part_length == 0;
    const int64_t length = plan_.parts == 1 ? plan_.positions : plan_.part_length;
    Value* whole_rounds = i64(length / of_round);
    if (!alike) {
        Value* left = b_.CreateSub(i64(plan_.positions), b_.CreateMul(part_, i64(plan_.part_length)));
        whole_rounds = b_.CreateUDiv(b_.CreateSelect(b_.CreateICmpSLT(left, i64(length)), left, i64(length)), i64(of_round));
    }
    loop(i64(0), whole_rounds, i64(1), [&](Value* round) { round_of(s, all, b_.CreateMul(round, i64(plan_.unroll)), true); });
    if (!alike || length % of_round != 0) round_of(s, all, b_.CreateMul(whole_rounds, i64(plan_.unroll)), false);
}

/// One pass over the unit's row: elements, stores, and the reductions that end with it.
void GridEmitter::stage(uint32_t s, std::vector<Point>& kept) {
    std::vector<Accumulator> all = accumulators(s);
    for (Accumulator& a : all) a.state = identity(a, a.lanes);
    if (plan_.resident) {
        for (int step = 0; step < plan_.steps && s == 0; step++) {
            kept.push_back(step_point(i64(0), step, plan_.parts == 1 ? (step + 1) * step_length() <= plan_.positions : plan_.part_length * plan_.parts == plan_.positions));
            // All loads first: they are in flight together.
            for (ValueId id : plan_.nest.needed[0])
                if (nest_.body[id].kind == Instruction::load) value(wide_, &kept.back(), id);
        }
        for (Point& p : kept) one_step(s, p);
        for (Accumulator& a : all) take(a, kept);
    } else if (!plan_.nest.needed[s].empty() || !all.empty()) {
        for (Accumulator& a : all)
            for (Value* v : a.state) {
                a.places.push_back(alloca_of(v->getType()));
                b_.CreateStore(v, a.places.back());
            }
        rounds_of(s, all);
        for (Accumulator& a : all)
            for (size_t j = 0; j < a.places.size(); j++) a.state[j] = b_.CreateLoad(llvm::cast<llvm::AllocaInst>(a.places[j])->getAllocatedType(), a.places[j]);
    }
    join(all);
    if (plan_.cluster) join_cluster(all);
    else if (plan_.parts > 1) return store_parts(all);
    for (Accumulator& a : all) finish(a);
}

void GridEmitter::row_stores() {
    bool any = false;
    for (size_t k = 0; k < nest_.stores.size(); k++) any |= !plan_.nest.element_store[k];
    if (!any) return;
    Value* storing = b_.CreateICmpEQ(sharer_, i32(0));
    if (plan_.cluster) storing = b_.CreateAnd(storing, b_.CreateICmpEQ(part_, i64(0)));
    when(storing, [&] {
        for (size_t k = 0; k < nest_.stores.size(); k++)
            if (const fusion::Store& s = nest_.stores[k]; !plan_.nest.element_store[k]) store(unit_width(), nullptr, s.to, value(unit_width(), nullptr, s.value));
    });
}

/// Values of the unit that a stage uses must exist before its loops and branches.
void GridEmitter::prepare(uint32_t stage) {
    const auto want = [&](ValueId id) {
        if (of_unit(id)) value(unit_width(), nullptr, id);
    };
    if (stage < plan_.nest.needed.size())
        for (ValueId id : plan_.nest.needed[stage])
            for (int k = 0; k < nest_.body[id].arity && nest_.body[id].kind != Instruction::reduce; k++) want(nest_.body[id].operands[k]);
    for (ValueId id = 0; id < nest_.body.size(); id++)
        if (nest_.body[id].kind == Instruction::reduce && plan_.nest.stage[id] == stage + 1) want(plan_.nest.taken_by(nest_, id));
    for (size_t k = 0; k < nest_.stores.size(); k++) {
        const ValueId id = nest_.stores[k].value;
        if (plan_.nest.element_store[k] ? plan_.nest.stage[id] == stage : stage >= plan_.nest.stages) want(id);
    }
}

// --- code

void GridEmitter::when(Value* condition, const std::function<void()>& body) {
    if (!condition) return body();
    auto* inside = llvm::BasicBlock::Create(b_.getContext(), "when", function_);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "done", function_);
    b_.CreateCondBr(condition, inside, after);
    b_.SetInsertPoint(inside);
    body();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
}

Value* GridEmitter::special_register(llvm::Intrinsic::ID id) { return b_.CreateIntrinsic(id, {}, {}); }
void GridEmitter::barrier() { b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

/// Releases and acquires, which is what the instructions do unless told otherwise.
void GridEmitter::cluster_barrier() { instruction("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;"); }

void GridEmitter::instruction(const char* text) {
    b_.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(b_.getVoidTy(), false), text, "~{memory}", true));
}

Value* GridEmitter::shared_memory(int64_t bytes) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), static_cast<uint64_t>(bytes));
    auto* memory = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
                                            function_->getName() + "_shared" + std::to_string(shared_count_++), nullptr, llvm::GlobalValue::NotThreadLocal, shared_space);
    memory->setAlignment(llvm::Align(16));
    return memory;
}

/// The value of the thread whose number in the warp differs in the mask's bits.
Value* GridEmitter::shuffled(Value* v, int mask) {
    if (v->getType()->isVectorTy()) return one_.each_lane(v, [&](Value* lane) { return shuffled(lane, mask); });
    llvm::Type* type = v->getType();
    const auto bits = type->getPrimitiveSizeInBits().getFixedValue();
    const auto exchange = [&](Value* word) {
        return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {}, {i32(-1), word, i32(mask), i32(31)});
    };
    Value* whole = b_.CreateBitCast(v, b_.getIntNTy(static_cast<unsigned>(bits)));
    if (bits <= 32) return b_.CreateBitCast(b_.CreateTrunc(exchange(b_.CreateZExt(whole, b_.getInt32Ty())), whole->getType()), type);
    Value* low = exchange(b_.CreateTrunc(whole, b_.getInt32Ty()));
    Value* high = exchange(b_.CreateTrunc(b_.CreateLShr(whole, i64(32)), b_.getInt32Ty()));
    Value* joined = b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()), b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), i64(32)));
    return b_.CreateBitCast(joined, type);
}

} // namespace dyno::codegen
