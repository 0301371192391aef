// The product of fusion: which loop nests run, over which buffers, in which order, between which eager calls.
// Made from a Graph by schedule(); read by codegen (the nests), by replay (steps and buffers) and by reports (notes).
#pragma once
#include "compiler/fusion/loop_nest.h"
#include "compiler/graph/graph.h"
#include <cstdint>
#include <variant>
#include <vector>

namespace dyno::fusion {

/// Memory of one value at run time.
struct Buffer {
    enum Kind : uint8_t {
        input,     // the memory of a graph input
        object,    // a tensor or array made by replay before the step that writes it: an output, or an operand of an extern step
        extern_,   // the memory of a tensor or array that an extern step returns
        temporary, // part of the replay's arena
    } kind;
    graph::NodeId node;
    DType dtype;
    std::vector<int64_t> dims, strides; // elements; of what the node's consumers see
    int64_t bytes = 0;                  // extent
    int64_t arena_offset = 0;           // temporary only; 64-byte aligned
};

/// One launch of a nest. `buffers` index Schedule::buffers in the order of the nest's parameters; `scalars` are the
/// Op::scalar nodes whose values are passed, in the nest's order.
struct KernelStep {
    uint32_t nest;
    std::vector<uint32_t> buffers;
    std::vector<graph::NodeId> scalars;
};

/// One eager call: of an Op::extern_call node, or of the twin of a movement node that must alias its operand.
struct ExternStep {
    uint32_t extern_index;
    graph::NodeId node;
};

struct Schedule {
    std::vector<LoopNest> nests;
    std::vector<std::variant<KernelStep, ExternStep>> steps; // in order
    std::vector<Buffer> buffers;
    int64_t arena_bytes = 0;
    std::vector<int32_t> nest_of; // by node index: the nest that computes it, -1 if none
    std::vector<Note> notes;      // kernels, and why neighbours were not fused
};

/// Groups the graph's nodes into nests. A node that is an output, or used by an extern, gets a buffer that can become an
/// object; views that escape become ExternSteps of their twins on their (materialised) operand. Never holds more memory at
/// once than eager would. Throws InternalError on a graph that the verifier would refuse.
[[nodiscard]] Schedule schedule(const graph::Graph& graph);

} // namespace dyno::fusion
