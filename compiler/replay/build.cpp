// build(): a Segment and its compiled product become a LaunchPlan. Everything that is the same in every replay is worked out here: which nodes
// are objects, where memory lies, which sources are read and held, which kernels run without the GIL.
#include "compiler/replay/run_state.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <unordered_map>

namespace dyno::replay {
namespace {

using capture::Effect;
using capture::Guard;
using graph::Graph;
using graph::NodeId;
using graph::Op;

/// From here on a launch is worth releasing the GIL, and more than one thread.
constexpr double releases_from = 50'000, parallel_from = 20'000;
constexpr int64_t alignment = 64;
int64_t rounded(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

class PlanBuilder {
  public:
    explicit PlanBuilder(LaunchPlan& plan) : plan_(plan), segment_(plan.segment), graph_(plan.product.graph) {}
    void build();

  private:
    template <class Visit> void each_ref(Visit&& visit) const;
    void match_nodes();
    void plan_memories();
    void plan_objects();
    uint32_t object_for(NodeId node);
    void plan_buffers();
    void plan_steps();
    void plan_guards();
    uint32_t memory_for(uint32_t source);
    bool follows_data(const ValueRef& ref) const;

    LaunchPlan& plan_;
    const Segment& segment_;
    const Graph& graph_;
    std::unordered_map<uint32_t, NodeId> same_node_;   // node of the original -> node of the product
    std::vector<uint32_t> object_of_product_;          // by product node: into plan.objects
    std::vector<uint32_t> input_of_product_;           // by product node
};

/// Every reference that a replay follows, with whether it needs the value as an object (the values of in-place effects do not). New objects
/// that nothing reaches are not built, so their parts do not count.
template <class Visit>
void PlanBuilder::each_ref(Visit&& visit) const {
    std::vector<bool> built(segment_.fresh.size());
    auto follow = [&](auto& self, const ValueRef& ref, bool as_object) -> void {
        visit(ref, as_object);
        if (ref.kind != ValueRef::fresh || built.at(ref.index)) return;
        built[ref.index] = true;
        for (const ValueRef& part : segment_.fresh[ref.index].parts) self(self, part, true);
    };
    auto use = [&](const ValueRef& ref, bool as_object = true) { follow(follow, ref, as_object); };
    for (const Guard& guard : segment_.guards)
        if (guard.kind == Guard::truth) use(guard.value);
    for (const capture::ScalarStep& step : segment_.scalar_steps) use(step.a), use(step.b);
    for (const ValueRef& value : segment_.scalar_values) use(value);
    for (const auto& step : plan_.product.schedule.steps)
        if (const auto* call = std::get_if<fusion::ExternStep>(&step))
            for (const ValueRef& argument : segment_.externs.at(call->extern_index).args) use(argument);
    for (const Effect& effect : segment_.effects) {
        use(effect.target), use(effect.key);
        use(effect.value, effect.kind != Effect::inplace);
    }
    use(segment_.exit.result);
    for (const capture::FrameRecipe& frame : segment_.exit.frames) {
        use(frame.function), use(frame.instance);
        for (const ValueRef& slot : frame.locals) use(slot);
        for (const ValueRef& slot : frame.stack) use(slot);
    }
}

void PlanBuilder::match_nodes() {
    const Graph& original = plan_.original();
    auto match = [&](NodeId from, NodeId to) { same_node_.emplace(from.index, to); };
    if (&original == &graph_) {
        for (uint32_t i = 0; i < graph_.nodes.size(); ++i) match({i}, {i});
        return;
    }
    for (size_t i = 0; i < original.inputs.size(); ++i) match(original.inputs[i].node, graph_.inputs.at(i).node);
    for (size_t i = 0; i < original.outputs.size(); ++i) match(original.outputs[i].node, graph_.outputs.at(i).node);
    for (size_t i = 0; i < original.externs.size(); ++i) {
        const auto &before = original.externs[i].uses, &after = graph_.externs.at(i).uses;
        if (before.size() != after.size()) continue; // some were dropped: a twin that is not called
        for (size_t k = 0; k < before.size(); ++k) match(before[k], after[k]);
    }
    // Calls and their results are found by their numbers, which passes keep.
    std::unordered_map<int64_t, NodeId> calls;
    std::unordered_map<uint64_t, NodeId> results;
    auto key = [](int64_t call, int64_t item) { return static_cast<uint64_t>(call) << 32 | static_cast<uint32_t>(item); };
    for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
        const graph::Node& node = graph_.nodes[i];
        if (node.op == Op::extern_call) calls.emplace(node.ints.at(0), NodeId{i});
        if (node.op == Op::extern_result) results.emplace(key(graph_[node.operands.at(0)].ints.at(0), node.ints.at(0)), NodeId{i});
    }
    for (uint32_t i = 0; i < original.nodes.size(); ++i) {
        const graph::Node& node = original.nodes[i];
        if (node.op == Op::extern_call)
            if (auto at = calls.find(node.ints.at(0)); at != calls.end()) match({i}, at->second);
        if (node.op == Op::extern_result)
            if (auto at = results.find(key(original[node.operands.at(0)].ints.at(0), node.ints.at(0))); at != results.end()) match({i}, at->second);
    }
}

uint32_t PlanBuilder::memory_for(uint32_t source) {
    uint32_t& known = plan_.memory_of_source[source];
    if (known != nowhere) return known;
    InputMemory memory{source};
    memory.number = true; // unless a guard gives facts
    for (const Guard& guard : segment_.guards) {
        if (guard.source != source || (guard.kind != Guard::tensor && guard.kind != Guard::array)) continue;
        memory.facts = &segment_.facts.at(guard.expected);
        const MemoryFacts facts = memory_facts(*memory.facts);
        memory.number = false;
        memory.numpy = guard.kind == Guard::array;
        memory.low = facts.low, memory.high = facts.high;
        break;
    }
    plan_.memories.push_back(memory);
    return known = static_cast<uint32_t>(plan_.memories.size() - 1);
}

void PlanBuilder::plan_memories() {
    plan_.memory_of_source.assign(segment_.sources.size(), nowhere);
    input_of_product_.assign(graph_.nodes.size(), nowhere);
    DYNO_CHECK(segment_.input_sources.size() == graph_.inputs.size(), "a source for each graph input");
    for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
        plan_.memory_of_input.push_back(memory_for(segment_.input_sources[i]));
        input_of_product_[graph_.inputs[i].node.index] = i;
    }
    for (const Effect& effect : segment_.effects) {
        if (effect.kind != Effect::inplace) continue;
        DYNO_CHECK(effect.target.kind == ValueRef::source, "an in-place effect on something that did not come from outside");
        DYNO_CHECK(!plan_.memories[memory_for(effect.target.index)].number, "an in-place effect on an input without facts");
    }
    for (uint32_t g = 0; g < segment_.guards.size(); ++g) {
        const Guard& guard = segment_.guards[g];
        if (guard.kind == Guard::memory) plan_.disjoint.push_back({memory_for(guard.source), memory_for(guard.other), g});
        if (guard.kind == Guard::truth && guard.value.kind != ValueRef::source)
            (follows_data(guard.value) ? plan_.supposed : plan_.truths).push_back({guard.value, guard.expected != 0, g});
    }
}

/// Whether the value is known only once something is computed.
bool PlanBuilder::follows_data(const ValueRef& ref) const {
    if (ref.kind == ValueRef::node || ref.kind == ValueRef::outcome) return true;
    return ref.kind == ValueRef::scalar && segment_.scalar_steps[ref.index].on_data;
}

uint32_t PlanBuilder::object_for(NodeId node) {
    uint32_t& known = object_of_product_[node.index];
    if (known != nowhere) return known;
    NodeObject object{node, input_of_product_[node.index]};
    const auto& buffers = plan_.product.schedule.buffers;
    for (uint32_t b = 0; b < buffers.size() && object.buffer == nowhere; ++b)
        if (buffers[b].node == node && buffers[b].kind == fusion::Buffer::object) object.buffer = b;
    for (uint32_t b = 0; b < buffers.size(); ++b)
        if (buffers[b].node == node && buffers[b].kind == fusion::Buffer::extern_) object.returned = b;
    plan_.objects.push_back(object);
    return known = static_cast<uint32_t>(plan_.objects.size() - 1);
}

void PlanBuilder::plan_objects() {
    plan_.product_node.assign(plan_.original().nodes.size(), nowhere);
    for (const auto& [from, to] : same_node_) plan_.product_node.at(from) = to.index;
    object_of_product_.assign(graph_.nodes.size(), nowhere);
    plan_.object_of_node.assign(plan_.original().nodes.size(), nowhere);
    auto add = [&](uint32_t original) {
        auto at = same_node_.find(original);
        DYNO_CHECK(at != same_node_.end(), "a node that the graph does not list as an output");
        const uint32_t object = object_for(at->second);
        plan_.object_of_node.at(original) = object;
        if (original < segment_.numpy_scalar.size() && segment_.numpy_scalar[original]) plan_.objects[object].numpy_scalar = true;
    };
    each_ref([&](const ValueRef& ref, bool as_object) {
        if (ref.kind == ValueRef::node && as_object) add(ref.index);
    });
    for (const auto& step : plan_.product.schedule.steps)
        if (const auto* call = std::get_if<fusion::ExternStep>(&step)) object_for(call->node);
    for (const capture::Outcome& outcome : segment_.outcomes)
        if (outcome.node.valid() && same_node_.contains(outcome.node.index)) add(outcome.node.index);
}

void PlanBuilder::plan_buffers() {
    const auto& buffers = plan_.product.schedule.buffers;
    plan_.arena_bytes = rounded(plan_.product.schedule.arena_bytes);
    for (const fusion::Buffer& buffer : buffers) {
        const uint32_t object = object_of_product_[buffer.node.index];
        int64_t offset = -1;
        uint32_t owner = nowhere, input = nowhere;
        auto reserve = [&](int64_t bytes) {
            offset = plan_.arena_bytes;
            plan_.arena_bytes += rounded(std::max<int64_t>(bytes, 16));
        };
        switch (buffer.kind) {
        case fusion::Buffer::input:
            input = input_of_product_[buffer.node.index];
            DYNO_CHECK(input != nowhere, "an input buffer of a node that is no input");
            break;
        case fusion::Buffer::temporary: offset = buffer.arena_offset; break;
        case fusion::Buffer::object:
            if (object == nowhere || plan_.objects[object].numpy_scalar) reserve(buffer.bytes); // no object, or one made of the value
            else owner = object;
            break;
        case fusion::Buffer::extern_:
            DYNO_CHECK(object != nowhere, "an extern's buffer of a node that no step makes");
            owner = object;
            if (plan_.objects[object].numpy_scalar) reserve(16); // its value is copied there
            break;
        }
        plan_.on_device.push_back(graph_[buffer.node].type.device == graph::DeviceKind::cuda);
        plan_.arena_offset.push_back(offset);
        plan_.buffer_object.push_back(owner);
        plan_.buffer_input.push_back(input);
    }
}

void PlanBuilder::plan_steps() {
    int64_t scratch = 0;
    for (const auto& kernel : plan_.product.kernels)
        if (kernel) scratch = std::max(scratch, kernel->scratch_bytes());
    plan_.scratch_offset = plan_.arena_bytes;
    plan_.arena_bytes += rounded(scratch);
    const auto& steps = plan_.product.schedule.steps;
    plan_.scalar_of_node.assign(graph_.nodes.size(), nowhere);
    for (uint32_t i = 0; i < graph_.scalars.size(); ++i) plan_.scalar_of_node[graph_.scalars[i].node.index] = i;
    for (uint32_t i = 0; i < steps.size();) {
        Stretch stretch{i, i};
        double nanoseconds = 0;
        for (; stretch.end < steps.size(); ++stretch.end) {
            const auto* kernel = std::get_if<fusion::KernelStep>(&steps[stretch.end]);
            if (!kernel) break;
            const auto& executable = plan_.product.executables.at(kernel->nest);
            if (stretch.end == i) stretch.on_device = !executable;
            if (stretch.on_device != !executable) break;
            if (executable) nanoseconds += executable->estimated_nanoseconds();
        }
        stretch.releases = nanoseconds >= releases_from;
        plan_.releases = plan_.releases || stretch.releases;
        stretch.parallel = nanoseconds >= parallel_from;
        if (stretch.end == i) { // an extern
            const auto& call = std::get<fusion::ExternStep>(steps[i]);
            plan_.extern_count++;
            stretch.object = object_of_product_[call.node.index];
            plan_.most_arguments = std::max(plan_.most_arguments, static_cast<uint32_t>(segment_.externs.at(call.extern_index).args.size()));
        }
        plan_.stretches.push_back(stretch);
        i = std::max(stretch.end, i + 1);
    }
}

void PlanBuilder::plan_guards() {
    std::vector<bool> wanted(segment_.sources.size());
    auto hold = [&](uint32_t source) { wanted.at(source) = true; };
    each_ref([&](const ValueRef& ref, bool) {
        if (ref.kind == ValueRef::source) hold(ref.index);
    });
    for (const InputMemory& memory : plan_.memories) hold(memory.source);
    for (uint32_t i = 0; i < wanted.size(); ++i)
        if (wanted[i]) plan_.held.push_back(i);
    plan_.guards = GuardProgram::compile(segment_, plan_.anchors, wanted);
}

void PlanBuilder::build() {
    match_nodes();
    plan_memories();
    plan_objects();
    plan_buffers();
    plan_steps();
    plan_guards();
}

} // namespace

LaunchPlan::LaunchPlan(Segment&& taken, CompileProduct&& made)
    : segment(std::move(taken)), product(std::move(made)), anchors(segment) {
    if (!segment.stale->load(std::memory_order_acquire)) PlanBuilder(*this).build();
    anchors.let_go(segment);
}

LaunchPlan::~LaunchPlan() = default;

std::shared_ptr<LaunchPlan> build(Segment&& segment, CompileProduct&& product) {
    return std::make_shared<LaunchPlan>(std::move(segment), std::move(product));
}

const Segment& segment_of(const LaunchPlan& plan) { return plan.segment; }
const CompileProduct& product_of(const LaunchPlan& plan) { return plan.product; }
CompileProduct& mutable_product_of(LaunchPlan& plan) { return plan.product; }
bool runs_best_code(const LaunchPlan& plan) {
    return std::ranges::all_of(plan.product.executables, [](const auto& executable) { return !executable || executable->level() == 2; });
}

int traverse(const LaunchPlan& plan, visitproc visit, void* arg) {
    const Segment& s = plan.segment;
    for (const capture::Source& source : s.sources) Py_VISIT(source.name.get());
    for (const Owned<>& constant : s.constants) Py_VISIT(constant.get());
    for (const capture::ExternTemplate& call : s.externs) {
        Py_VISIT(call.callable.get());
        Py_VISIT(call.kwnames.get());
    }
    return plan.anchors.traverse(visit, arg);
}

} // namespace dyno::replay
