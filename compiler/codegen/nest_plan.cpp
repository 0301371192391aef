// Decisions of CPU code generation, apart from LLVM so that they can be tested and read alone.
#include "compiler/codegen/nest_plan.h"
#include <algorithm>
#include <bit>

namespace dyno::codegen {
using fusion::Axis;
using fusion::cost_of;
using fusion::Instruction;
using fusion::LoopNest;
using fusion::ValueId;

namespace {

constexpr int64_t most_local_bytes = 512 * 1024;

bool depends(const fusion::Affine& at, size_t axis) { return at.strides[axis] != 0; }

struct Planner {
    const LoopNest& nest;
    NestPlan plan;
    std::vector<fusion::Level> level;

    const fusion::Affine* leaf(ValueId id) const {
        const Instruction& i = nest.body[id];
        return i.kind == Instruction::load ? &nest.loads[i.which].at : i.kind == Instruction::index ? &nest.indices[i.which] : nullptr;
    }

    void choose_axis() {
        if (nest.axes.empty()) return;
        size_t last_row = nest.axes.size();
        for (size_t k = 0; k < nest.axes.size(); k++)
            if (nest.axes[k].kind == Axis::row) last_row = k;
        plan.vector_axis = nest.axes.size() - 1;
        if (last_row == nest.axes.size()) return;
        // A very short last axis would leave the lanes empty.
        if (nest.axes.back().extent < 8 && nest.axes[last_row].extent > nest.axes.back().extent) plan.vector_axis = last_row;
        plan.mode = nest.axes[plan.vector_axis].kind == Axis::row ? NestPlan::rows : NestPlan::columns;
    }

    void choose_lanes(const Target& target) {
        int64_t widest = 1;
        double cost = 0;
        int reductions = 0;
        for (const Instruction& i : nest.body) {
            const int64_t size = i.dtype == DType::f16 || i.dtype == DType::bf16 ? 4 : size_of(i.dtype);
            widest = std::max(widest, size);
            if (i.kind == Instruction::apply) cost += cost_of(i.op);
            reductions += i.kind == Instruction::reduce;
        }
        const int one = static_cast<int>(target.vector_bits / 8 / widest);
        // Registers a value takes: several where the body is short, to keep the units busy; one where it is long, as its own
        // chains overlap and code is half the size. Columns want whole lines of memory, but sums of them also accumulators.
        // Sums of f64 in rows join four registers before they are compensated.
        const bool joined = plan.mode == NestPlan::rows && widest == 8 && reductions == 1;
        const int registers = cost > 1.3 ? 1 : cost > 0.35 || (reductions > (plan.mode == NestPlan::columns ? 1 : 0) && !joined) ? 2 : 4;
        plan.lanes = std::max(2, std::min(32, one * registers));
        plan.vector_bits = target.vector_bits;
        if (plan.mode == NestPlan::columns)
            while (plan.lanes > 2 && plan.lanes > nest.axes[plan.vector_axis].extent) plan.lanes /= 2;
    }

    void scopes() {
        const bool columns = plan.mode == NestPlan::columns;
        for (ValueId id = 0; id < nest.body.size(); id++) {
            const Instruction& i = nest.body[id];
            bool vector = false;
            Scope scope = Scope::entry;
            if (const fusion::Affine* at = leaf(id)) {
                vector = !nest.axes.empty() && depends(*at, plan.vector_axis);
                for (size_t k = 0; k < nest.axes.size(); k++) {
                    if (!depends(*at, k)) continue;
                    Scope s = Scope::unit;
                    if (plan.mode == NestPlan::flat)
                        s = k == plan.vector_axis ? Scope::body : Scope::unit;
                    else if (nest.axes[k].kind == Axis::row)
                        s = columns || k == plan.vector_axis ? Scope::body : Scope::mid;
                    scope = std::max(scope, s);
                }
            } else if (i.kind == Instruction::reduce) {
                scope = Scope::unit;
                vector = columns && plan.vector[i.operands[0]];
            } else {
                for (int k = 0; k < i.arity; k++) {
                    scope = std::max(scope, plan.scope[i.operands[k]]);
                    vector = vector || plan.vector[i.operands[k]];
                }
            }
            plan.scope.push_back(scope);
            plan.vector.push_back(vector);
        }
        plan.ordered.assign(nest.body.size(), Ordered::no);
    }

    /// From one element of a row to the next, if the load's rows are runs of memory; else 0.
    int64_t row_stride(const fusion::Affine& at) const {
        int64_t stride = 0, span = 1;
        for (size_t k = nest.axes.size(); k-- > 0;) {
            if (nest.axes[k].kind != Axis::row || nest.axes[k].extent == 1) continue;
            if (stride == 0) stride = at.strides[k];
            if (at.strides[k] != stride * span) return 0;
            span *= nest.axes[k].extent;
        }
        return stride;
    }

    void follow_orders() {
        for (ValueId id = 0; id < nest.body.size(); id++) {
            const Instruction& i = nest.body[id];
            if (i.kind != Instruction::reduce || !i.which || fusion::row_length(nest) == 0) continue;
            const Instruction& source = nest.body[i.operands[0]];
            const bool columns = plan.mode == NestPlan::columns;
            bool there = source.kind == Instruction::load && row_stride(nest.loads[source.which].at) > 0;
            if (there && columns) there = nest.loads[source.which].at.strides[plan.vector_axis] == 1;
            plan.ordered[id] = columns && fusion::order_of(nest, i).kind == graph::SumOrder::in_turn ? Ordered::running
                               : there                                                             ? Ordered::in_place
                                                                                                   : Ordered::stashed;
        }
    }
    bool any_ordered(std::initializer_list<Ordered> how) const {
        return std::any_of(plan.ordered.begin(), plan.ordered.end(), [&](Ordered o) { return std::find(how.begin(), how.end(), o) != how.end(); });
    }

    void classify_stores() {
        for (const fusion::Store& s : nest.stores) {
            bool rows = element(s.value);
            for (size_t k = 0; k < nest.axes.size(); k++) rows |= nest.axes[k].kind == Axis::row && depends(s.to.at, k);
            plan.element_store.push_back(rows);
        }
    }

    bool element(ValueId id) const { return plan.scope[id] >= Scope::mid; }

    /// The element values that stage `s` must have, and what it may take from the stash.
    void need(uint32_t s, ValueId id, std::vector<bool>& seen, const std::vector<bool>& earlier, const std::vector<double>& cost) {
        if (seen[id] || !element(id)) return;
        seen[id] = true;
        if (earlier[id] && cost[id] > 0.3 && plan.scope[id] == Scope::body && plan.local_bytes >= 0) {
            plan.reused[s].push_back(id);
            return;
        }
        const Instruction& i = nest.body[id];
        for (int k = 0; k < i.arity && i.kind != Instruction::reduce; k++) need(s, i.operands[k], seen, earlier, cost);
        plan.needed[s].push_back(id);
    }

    /// As fusion::stages, but that the second of a pair comes with the first.
    void count_stages() {
        plan.stage.clear();
        for (ValueId id = 0; id < nest.body.size(); id++) {
            const Instruction& i = nest.body[id];
            uint32_t stage = 0;
            for (int k = 0; k < i.arity; k++) stage = std::max(stage, plan.stage[i.operands[k]]);
            stage += i.kind == Instruction::reduce ? 1 : 0;
            for (const ReductionPair& pair : plan.pairs)
                if (pair.second == id) stage = plan.stage[pair.first];
            plan.stage.push_back(stage);
        }
    }

    void passes() {
        count_stages();
        plan.stages = 1;
        for (ValueId id = 0; id < nest.body.size(); id++) {
            const Instruction& i = nest.body[id];
            if (i.kind == Instruction::reduce) plan.stages = std::max(plan.stages, plan.stage[id]);
        }
        for (size_t k = 0; k < nest.stores.size(); k++)
            if (plan.element_store[k]) plan.stages = std::max(plan.stages, plan.stage[nest.stores[k].value] + 1);
        std::vector<double> cost(nest.body.size());
        for (ValueId id = 0; id < nest.body.size(); id++) {
            const Instruction& i = nest.body[id];
            cost[id] = i.kind == Instruction::apply ? cost_of(i.op) : 0.02;
            for (int k = 0; k < i.arity && i.kind == Instruction::apply; k++) cost[id] += element(i.operands[k]) ? cost[i.operands[k]] : 0;
        }
        plan.needed.assign(plan.stages, {});
        plan.reused.assign(plan.stages, {});
        plan.stash_offset.assign(nest.body.size(), -1);
        std::vector<bool> earlier(nest.body.size(), false);
        for (uint32_t s = 0; s < plan.stages; s++) {
            std::vector<bool> seen(nest.body.size(), false);
            for (ValueId id = 0; id < nest.body.size(); id++)
                if (nest.body[id].kind == Instruction::reduce && plan.stage[id] == s + 1 && plan.ordered[id] != Ordered::in_place)
                    need(s, plan.taken_by(nest, id), seen, earlier, cost);
            for (const fusion::Store& store : nest.stores)
                if (plan.stage[store.value] == s) need(s, store.value, seen, earlier, cost);
            std::sort(plan.needed[s].begin(), plan.needed[s].end());
            for (ValueId id : plan.needed[s]) earlier[id] = true;
        }
        stash();
    }

    int64_t bytes_of_row(ValueId id) const {
        const int64_t points = fusion::row_length(nest) * (plan.mode == NestPlan::columns ? plan.lanes : 1);
        const DType t = nest.body[id].dtype;
        return (points * (t == DType::f16 || t == DType::bf16 ? 4 : size_of(t)) + 63) / 64 * 64;
    }

    void keep(ValueId id) {
        if (plan.stash_offset[id] >= 0) return;
        plan.stash_offset[id] = plan.local_bytes;
        plan.local_bytes += bytes_of_row(id);
    }

    void stash() {
        for (const auto& reused : plan.reused)
            for (ValueId id : reused) keep(id);
    }

    /// Elements that are added up in an order of their own, and what passes write down.
    void stash_ordered() {
        plan.kept.assign(plan.stages, {});
        for (uint32_t s = 0; s < plan.stages; s++)
            for (ValueId id : plan.needed[s])
                if (plan.stash_offset[id] >= 0 && plan.scope[id] == Scope::body) plan.kept[s].push_back(id);
        for (ValueId id = 0; id < nest.body.size(); id++) {
            if (plan.ordered[id] != Ordered::stashed) continue;
            const ValueId source = nest.body[id].operands[0];
            const bool must = fusion::is_moment(nest.body[id].how); // of short rows
            if (!must && plan.stash_offset[source] < 0 && plan.local_bytes + bytes_of_row(source) > most_local_bytes) {
                plan.ordered[id] = Ordered::no;
                continue;
            }
            keep(source);
            auto& kept = plan.kept[plan.stage[id] - 1];
            const auto& reused = plan.reused[plan.stage[id] - 1];
            const auto has = [&](const auto& list) { return std::find(list.begin(), list.end(), source) != list.end(); };
            if (!has(kept) && !has(reused)) kept.push_back(source);
        }
    }

    /// Moments are long chains, of which a short row has one.
    void choose_together() {
        if (plan.mode != NestPlan::rows || fusion::row_length(nest) > 512) return;
        bool any = false;
        for (const Instruction& i : nest.body) {
            if (i.kind != Instruction::reduce) continue;
            if (!fusion::is_moment(i.how)) return;
            any = true;
        }
        if (any) plan.together = 4;
    }

    /// Sums down columns in one pass, with nothing stored on the way: strips may be taken in any order, and twice.
    void choose_group() {
        if (plan.mode != NestPlan::columns || plan.stages != 1 || any_ordered({Ordered::in_place, Ordered::stashed})) return;
        for (const bool element : plan.element_store)
            if (element) return;
        const int64_t extent = nest.axes[plan.vector_axis].extent;
        if (extent < plan.lanes) return;
        plan.overlapping = true;
        const int64_t strips = (extent + plan.lanes - 1) / plan.lanes;
        if (strips < 2 || fusion::row_length(nest) < 64) return;
        plan.group = std::min<int64_t>(16, strips);
        for (size_t k = nest.axes.size(); k-- > 0;)
            if (nest.axes[k].kind == Axis::row) plan.turn_axis = k; // ends as the outermost
        plan.turn = 16;
    }

    void choose_split() {
        bool element_stores = false;
        for (size_t k = 0; k < nest.stores.size(); k++) element_stores |= plan.element_store[k] && plan.stage[nest.stores[k].value] > 0;
        if (plan.mode == NestPlan::flat || plan.stages != 1 || element_stores) return;
        if (any_ordered({Ordered::running, Ordered::in_place, Ordered::stashed})) return;
        const int64_t count = fusion::row_count(nest), length = fusion::row_length(nest);
        const int64_t wide = plan.mode == NestPlan::columns ? plan.lanes * plan.group : 1;
        const int64_t units = (count + wide - 1) / wide;
        if (units >= 64 || count * length < 131072 || length < 64) return;
        for (size_t k = nest.axes.size(); k-- > 0;)
            if (nest.axes[k].kind == Axis::row) plan.split_axis = k; // ends as the outermost
        const int64_t extent = nest.axes[plan.split_axis].extent;
        const int64_t inner = length / extent * wide;
        plan.block = std::max<int64_t>(1, 32768 * std::min<int64_t>(4, plan.group) / std::max<int64_t>(1, inner));
        if (plan.split_axis == plan.vector_axis) plan.block = (plan.block + plan.lanes - 1) / plan.lanes * plan.lanes;
        plan.blocks = (extent + plan.block - 1) / plan.block;
        plan.split = plan.blocks > 1;
    }

    void estimate() {
        double compute = 0, bytes = 0, scale = 4;
        for (ValueId id = 0; id < nest.body.size(); id++) {
            const Instruction& i = nest.body[id];
            if (plan.scope[id] < Scope::mid) continue;
            if (i.kind == Instruction::apply)
                compute += cost_of(i.op) * static_cast<double>(std::max<int64_t>(4, size_of(i.dtype))) / scale;
            if (i.kind == Instruction::load) bytes += static_cast<double>(size_of(i.dtype));
        }
        for (size_t k = 0; k < nest.stores.size(); k++)
            if (const fusion::Store& s = nest.stores[k]; plan.element_store[k])
                bytes += 2 * static_cast<double>(size_of(nest.body[s.value].dtype));
        plan.nanoseconds_per_element = compute + 0.02 * bytes * plan.stages + 0.02;
    }
};

} // namespace

Columns columns_of(const LoopNest& nest, const NestPlan& plan) {
    const int64_t extent = nest.axes[plan.vector_axis].extent, left = extent % plan.lanes;
    const int64_t strips = extent / plan.lanes + (plan.overlapping && left);
    return {strips, (strips + plan.group - 1) / plan.group, plan.overlapping ? 0 : left};
}

std::vector<ReductionPair> reduction_pairs(const LoopNest& nest) {
    std::vector<ReductionPair> pairs;
    const auto level = fusion::levels(nest);
    const auto f32 = [&](ValueId id) { return nest.body[id].dtype == DType::f32; };
    const auto is = [&](ValueId id, scalar::ScalarOp op) { return nest.body[id].kind == Instruction::apply && nest.body[id].op == op && f32(id); };
    const auto reduces = [&](ValueId id, fusion::Reduction how) { return nest.body[id].kind == Instruction::reduce && nest.body[id].how == how && f32(id); };
    const auto taken = [&](ValueId id) {
        return std::any_of(pairs.begin(), pairs.end(), [&](const ReductionPair& p) { return p.first == id || p.second == id; });
    };
    const auto number = [&](ValueId id, double wanted) {
        const Instruction& i = nest.body[id];
        return i.kind == Instruction::constant && f32(id) && std::bit_cast<float>(static_cast<uint32_t>(i.bits)) == static_cast<float>(wanted);
    };
    for (ValueId id = 0; id < nest.body.size(); id++) {
        if (!reduces(id, fusion::Reduction::sum)) continue;
        const ValueId operand = nest.body[id].operands[0];
        if (is(operand, scalar::ScalarOp::exp)) {
            const ValueId shifted = nest.body[operand].operands[0];
            if (!is(shifted, scalar::ScalarOp::sub)) continue;
            const ValueId element = nest.body[shifted].operands[0], most = nest.body[shifted].operands[1];
            if (level[element] == fusion::Level::element && reduces(most, fusion::Reduction::amax) && nest.body[most].operands[0] == element && !taken(most))
                pairs.push_back({ReductionPair::exponentials, most, id, element});
        } else if (is(operand, scalar::ScalarOp::mul) && nest.body[operand].operands[0] == nest.body[operand].operands[1]) {
            const ValueId centred = nest.body[operand].operands[0];
            if (!is(centred, scalar::ScalarOp::sub)) continue;
            const ValueId element = nest.body[centred].operands[0], mean = nest.body[centred].operands[1];
            if (level[element] != fusion::Level::element || nest.body[mean].kind != Instruction::apply) continue;
            const ValueId sum = nest.body[mean].operands[0];
            const auto length = static_cast<double>(fusion::row_length(nest));
            const bool is_mean = (is(mean, scalar::ScalarOp::div) && number(nest.body[mean].operands[1], length)) ||
                                 (is(mean, scalar::ScalarOp::mul) && number(nest.body[mean].operands[1], 1 / length));
            if (is_mean && reduces(sum, fusion::Reduction::sum) && nest.body[sum].operands[0] == element && !taken(sum))
                pairs.push_back({ReductionPair::spread, sum, id, element});
        }
    }
    return pairs;
}

NestPlan plan_for_threads(const LoopNest& nest, int lanes, const std::vector<ReductionPair>& pairs) {
    Planner p{nest, {}, fusion::levels(nest)};
    p.plan.pairs = pairs;
    if (!nest.axes.empty()) p.plan.vector_axis = nest.axes.size() - 1;
    bool rows = false;
    for (const Axis& axis : nest.axes) rows |= axis.kind == Axis::row;
    if (rows) p.plan.mode = nest.axes.back().kind == Axis::row ? NestPlan::rows : NestPlan::columns;
    p.plan.lanes = lanes;
    p.scopes();
    p.classify_stores();
    p.plan.local_bytes = -1; // values stay in registers or are computed again
    p.passes();
    p.plan.local_bytes = 0;
    p.estimate();
    return p.plan;
}

NestPlan plan_nest(const LoopNest& nest, const Target& target) {
    Planner p{nest, {}, fusion::levels(nest)};
    p.choose_axis();
    p.choose_lanes(target);
    p.scopes();
    p.classify_stores();
    p.follow_orders();
    p.passes();
    if (p.plan.local_bytes > most_local_bytes) { // too long to keep: later passes compute again
        p.plan.local_bytes = -1;
        p.passes();
        p.plan.local_bytes = 0;
    }
    p.stash_ordered();
    p.choose_together();
    p.choose_group();
    p.choose_split();
    p.estimate();
    return p.plan;
}

} // namespace dyno::codegen
