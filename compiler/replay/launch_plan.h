// LaunchPlan from the inside: what build() works out once so that a replay looks nothing up. Private to this folder.
#pragma once
#include "compiler/replay/anchors.h"
#include "compiler/replay/guard_program.h"
#include "compiler/replay/plan.h"
#include <memory>
#include <vector>

namespace dyno::replay {

using capture::Segment;
using capture::ValueRef;

struct RunState;
constexpr uint32_t nowhere = 0xffffffff;

/// A source whose memory a replay reads or writes.
struct InputMemory {
    uint32_t source;
    bool numpy = false;
    bool number = false;       // a NumPy scalar object: its value is copied
    int64_t low = 0, high = 0; // extent around the first element
    const capture::ArrayFacts* facts = nullptr; // in the segment; null for numbers
};

struct DisjointGuard {
    uint32_t a, b; // into LaunchPlan::memories
    uint32_t guard;
};

/// A guard on a number that scalar steps compute.
struct TruthGuard {
    ValueRef value;
    bool expected;
    uint32_t guard;
};

/// A node that is known as an object: an output, an operand of an extern, a result of one.
struct NodeObject {
    graph::NodeId node;       // in the product's graph
    uint32_t input = nowhere; // it is this input's own object
    uint32_t buffer = nowhere;   // it is made by us, over this buffer
    uint32_t returned = nowhere; // an eager call returns it: the buffer that names its layout
    bool numpy_scalar = false;
};

/// Consecutive kernel steps without an extern between, and whether they are worth releasing the GIL.
struct Stretch {
    uint32_t first = 0, end = 0; // in the schedule's steps
    bool releases = false;
    uint32_t object = nowhere;   // extern: the entry of LaunchPlan::objects that is the step's own node
    bool parallel = false;       // long enough to ask how many threads there are
    bool on_device = false;      // kernels of the plan's GPU
};

class LaunchPlan {
  public:
    LaunchPlan(Segment&& taken, CompileProduct&& made);
    ~LaunchPlan();
    LaunchPlan(const LaunchPlan&) = delete;
    LaunchPlan& operator=(const LaunchPlan&) = delete;

    const graph::Graph& original() const { return segment.graph.nodes.empty() ? product.graph : segment.graph; }
    uint32_t object_of_original(uint32_t node) const { return node < object_of_node.size() ? object_of_node[node] : nowhere; }

    Segment segment;
    CompileProduct product;
    Anchors anchors;
    GuardProgram guards;
    std::vector<InputMemory> memories;
    std::vector<uint32_t> memory_of_input;  // by graph input
    std::vector<uint32_t> memory_of_source; // by source, or nowhere
    std::vector<DisjointGuard> disjoint;
    std::vector<TruthGuard> truths;
    std::vector<TruthGuard> supposed;       // of what is computed: looked at behind the compute phase
    std::vector<uint32_t> held;             // sources kept alive during a replay
    std::vector<NodeObject> objects;
    std::vector<uint32_t> object_of_node;   // by node of original(): into `objects`, or nowhere
    std::vector<uint32_t> product_node;     // by node of original(): the product's node, or nowhere
    std::vector<int64_t> arena_offset;      // by buffer: where it lies if it is no object; -1 for others
    std::vector<bool> on_device;            // by buffer: on the GPU. Its arena has the same offsets as that of the CPU
    int64_t scratch_offset = 0;             // in the GPU's arena: partial results of any kernel, one after the other
    std::vector<uint32_t> buffer_object;    // by buffer: the entry of `objects` that owns its memory, or nowhere
    std::vector<uint32_t> buffer_input;     // by buffer: the graph input, or nowhere
    std::vector<Stretch> stretches;         // by step: kernels start a stretch, externs have first == end
    std::vector<uint32_t> scalar_of_node;   // by product node: index of the graph's scalar, or nowhere
    int64_t arena_bytes = 0;
    uint32_t extern_count = 0;
    bool releases = false;                  // some stretch runs without the GIL
    uint32_t most_arguments = 0;            // of any extern
    std::unique_ptr<RunState> spare;        // of the last run, used again
    std::vector<GuardFailure> failures;     // why it was not used, for reports
};

} // namespace dyno::replay
