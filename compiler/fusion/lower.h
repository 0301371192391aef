// Lowering: a group of nodes becomes a LoopNest. Nothing is decided here about what is fused.
#pragma once
#include "compiler/fusion/group.h"
#include "compiler/fusion/schedule.h"

namespace dyno::fusion {

/// Where a node's value lies: offset + sum of strides (by the node's dims) in a buffer of the schedule.
struct Location {
    uint32_t buffer = 0;
    int64_t offset = 0;
    std::vector<int64_t> strides;
};

/// Answers where the lowered nest finds and puts values.
struct Places {
    virtual ~Places() = default;
    virtual Location of(graph::NodeId node) const = 0;
    virtual Location of_root(const Root& root) const = 0;
    /// A row-major copy of the node, made earlier.
    virtual Location of_copy(graph::NodeId node) const = 0;
};

struct Lowered {
    LoopNest nest;
    std::vector<uint32_t> buffers; // of the schedule, by parameter
    std::vector<graph::NodeId> scalars;
};

[[nodiscard]] Lowered lower(const graph::Graph& graph, const Grouping& grouping, GroupId group, const Places& places);

/// Drops axes of extent 1, orders the axes by stride and joins neighbours that every access passes through as one.
[[nodiscard]] LoopNest simplify_axes(LoopNest nest);

} // namespace dyno::fusion
