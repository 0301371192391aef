// schedule(): grouping, then buffers, then steps in an order that respects who reads what, then the arena.
#include "compiler/fusion/schedule.h"
#include "compiler/fusion/group.h"
#include "compiler/fusion/lower.h"
#include "compiler/fusion/memory_plan.h"
#include "compiler/graph/op_info.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <optional>

namespace dyno::fusion {
using graph::Graph;
using graph::NodeId;
using graph::Op;

namespace {

class Scheduler final : public Places {
  public:
    explicit Scheduler(const Graph& g) : g_(g), grouping_(group_nodes(g)), location_(g.nodes.size()), object_(g.nodes.size(), false) {}

    Schedule run() {
        out_.notes = grouping_.notes;
        out_.nest_of.assign(g_.nodes.size(), -1);
        buffers();
        order();
        arena();
        return std::move(out_);
    }

    Location of(NodeId node) const override {
        DYNO_CHECK(location_[node.index], "a value that is read lies in memory");
        return *location_[node.index];
    }
    Location of_root(const Root& root) const override {
        if (root.slot_of >= 0) return slot(static_cast<uint32_t>(root.slot_of), root.slot);
        return root.copy ? of_copy(root.node) : of(root.node);
    }
    Location of_copy(NodeId node) const override { return copies_.at(node.index); }

  private:
    // --- buffers

    /// The part of a cat's buffer that operand number k fills.
    Location slot(uint32_t cat, uint32_t k) const {
        Location place = of(NodeId{cat});
        const auto axis = static_cast<size_t>(g_.nodes[cat].ints[0]);
        for (uint32_t j = 0; j < k; j++) place.offset += place.strides[axis] * g_[g_.nodes[cat].operands[j]].type.dims[axis];
        return place;
    }

    uint32_t add_buffer(Buffer::Kind kind, uint32_t node, std::vector<int64_t> strides) {
        const graph::Type& type = g_.nodes[node].type;
        int64_t extent = type.numel() > 0 ? 1 : 0;
        for (size_t d = 0; d < type.dims.size() && extent > 0; d++) extent += std::abs(strides[d]) * (type.dims[d] - 1);
        out_.buffers.push_back({kind, NodeId{node}, type.dtype, type.dims, std::move(strides), extent * size_of(type.dtype), 0});
        return static_cast<uint32_t>(out_.buffers.size() - 1);
    }

    void buffers() {
        for (const graph::Output& o : g_.outputs) object_[o.node.index] = true;
        for (const graph::Extern& e : g_.externs)
            for (NodeId use : e.uses) object_[use.index] = true;
        for (uint32_t id = 0; id < g_.nodes.size(); id++)
            if (grouping_.in_memory[id] && !in_slot(id)) locate(id);
        for (uint32_t id = static_cast<uint32_t>(g_.nodes.size()); id-- > 0;) // a slot may lie in another slot's buffer
            if (grouping_.in_memory[id] && in_slot(id)) location_[id] = slot(slot_.at(id).first, slot_.at(id).second);
        for (const auto& [id, group] : grouping_.contiguous_copy) {
            std::vector<int64_t> strides = row_major(g_.nodes[id].type.dims);
            copies_[id] = {add_buffer(Buffer::temporary, id, strides), 0, strides};
        }
    }

    bool in_slot(uint32_t id) {
        if (slot_.empty())
            for (const Group& group : grouping_.groups)
                for (const Root& root : group.roots)
                    if (!group.dead && root.slot_of >= 0 && !root.copy)
                        slot_[root.node.index] = {static_cast<uint32_t>(root.slot_of), root.slot};
        return slot_.count(id) != 0;
    }

    void locate(uint32_t id) {
        const graph::Node& node = g_.nodes[id];
        std::vector<int64_t> strides = row_major(node.type.dims);
        Buffer::Kind kind = object_[id] ? Buffer::object : Buffer::temporary;
        if (node.op == Op::input) {
            kind = Buffer::input;
            for (const graph::Input& input : g_.inputs)
                if (input.node.index == id) strides = input.strides;
        } else if (graph::info(node.op).kind == graph::OpKind::extern_) {
            kind = Buffer::extern_;
        }
        const bool view = std::any_of(grouping_.groups.begin(), grouping_.groups.end(),
                                      [&](const Group& g) { return g.kind == Group::view && g.node.index == id; });
        if (view) kind = Buffer::extern_;
        for (const graph::Output& o : g_.outputs)
            if (o.node.index == id && node.op != Op::input) strides = o.strides;
        location_[id] = Location{add_buffer(kind, id, strides), 0, strides};
    }

    // --- steps

    /// Depth first from the eager calls in their order, then from what is left: everything a step reads comes before it.
    void order() {
        emitted_.assign(grouping_.groups.size(), false);
        std::vector<GroupId> calls, rest;
        for (GroupId id = 0; id < grouping_.groups.size(); id++) {
            const Group& g = grouping_.groups[id];
            if (!g.dead) (g.kind == Group::call ? calls : rest).push_back(id);
        }
        const auto first = [&](GroupId id) {
            return grouping_.groups[id].kind == Group::nest ? grouping_.groups[id].roots[0].node.index : grouping_.groups[id].node.index;
        };
        for (auto* list : {&calls, &rest}) {
            std::sort(list->begin(), list->end(), [&](GroupId a, GroupId b) { return first(a) < first(b); });
            for (GroupId id : *list) emit(id);
        }
    }

    void emit(GroupId id) {
        if (emitted_[id]) return;
        emitted_[id] = true;
        const Group& group = grouping_.groups[id];
        for (uint32_t node : group.reads)
            for (GroupId w : grouping_.writers[node]) emit(w);
        for (GroupId w : group.after) emit(w);
        if (group.kind == Group::call) return out_.steps.push_back(ExternStep{static_cast<uint32_t>(g_[group.node].ints[0]), group.node});
        if (group.kind == Group::view) return out_.steps.push_back(ExternStep{static_cast<uint32_t>(g_[group.node].twin), group.node});
        Lowered lowered = lower(g_, grouping_, id, *this);
        const auto number = static_cast<uint32_t>(out_.nests.size());
        for (const auto& [node, maps] : group.maps) out_.nest_of[node] = static_cast<int32_t>(number);
        out_.steps.push_back(KernelStep{number, std::move(lowered.buffers), std::move(lowered.scalars)});
        kernel_note(group, lowered.nest);
        out_.nests.push_back(std::move(lowered.nest));
    }

    void kernel_note(const Group& group, const LoopNest& nest) {
        int64_t bytes = 0;
        const KernelStep& step = std::get<KernelStep>(out_.steps.back());
        for (uint32_t b : step.buffers) bytes += out_.buffers[b].bytes;
        out_.notes.push_back({"kernel",
                              nest.name + ": " + std::to_string(group.maps.size()) + " operations, " + std::to_string(bytes) + " bytes",
                              g_[group.roots[0].node].from});
    }

    // --- the arena

    void arena() {
        std::vector<Lifetime> lifetimes(out_.buffers.size());
        std::vector<bool> used(out_.buffers.size(), false);
        const auto touch = [&](uint32_t buffer, uint32_t step) {
            if (!used[buffer]) lifetimes[buffer].first = step;
            used[buffer] = true;
            lifetimes[buffer].last = step;
        };
        for (uint32_t step = 0; step < out_.steps.size(); step++)
            if (const auto* kernel = std::get_if<KernelStep>(&out_.steps[step]))
                for (uint32_t b : kernel->buffers) touch(b, step);
        std::vector<uint32_t> temporaries;
        std::vector<Lifetime> wanted;
        for (uint32_t b = 0; b < out_.buffers.size(); b++) {
            if (out_.buffers[b].kind != Buffer::temporary) continue;
            lifetimes[b].bytes = out_.buffers[b].bytes;
            temporaries.push_back(b);
            wanted.push_back(lifetimes[b]);
        }
        const MemoryPlan plan = plan_memory(wanted);
        for (size_t k = 0; k < temporaries.size(); k++) out_.buffers[temporaries[k]].arena_offset = plan.offsets[k];
        out_.arena_bytes = plan.bytes;
    }

    const Graph& g_;
    Grouping grouping_;
    std::vector<std::optional<Location>> location_;
    std::vector<bool> object_;
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> slot_;
    std::map<uint32_t, Location> copies_;
    std::vector<bool> emitted_;
    Schedule out_;
};

} // namespace

Schedule schedule(const Graph& graph) { return Scheduler(graph).run(); }

} // namespace dyno::fusion
