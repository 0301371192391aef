// Index maps: where, in the value of a graph node, the point of a nest's axes lies. Movement nodes are folded by sending
// the map of their result to the map of their operand; nothing moves in memory.
#pragma once
#include "compiler/fusion/loop_nest.h"
#include "compiler/graph/graph.h"
#include <vector>

namespace dyno::fusion {

/// One affine function of the axes for each dim of the node.
using IndexMap = std::vector<Affine>;

/// What comes of sending a map through a movement node.
struct Sent {
    enum Kind : uint8_t {
        map,   // expressible: the operand's map
        split, // expressible once `axis` is split in (extent / inner, inner)
        opaque // not affine: the operand must be in memory
    } kind = opaque;
    IndexMap operand;
    size_t axis = 0;
    int64_t inner = 0;
};

/// `node` is a reshape, permute, expand, slice or flip; `map` is its own.
[[nodiscard]] Sent through_movement(const graph::Graph& graph, graph::NodeId node, const IndexMap& map, const std::vector<Axis>& axes);

/// The position in row-major order of the node's dims.
[[nodiscard]] Affine linear(const std::vector<int64_t>& dims, const IndexMap& map, size_t axes);

/// offset + sum of stride * coordinate.
[[nodiscard]] Affine address(const std::vector<int64_t>& strides, const IndexMap& map, size_t axes);

/// The same function of the axes after `axis` has been split.
void split_axis(Affine& at, size_t axis, int64_t inner);

using graph::row_major;

/// Which axes (of extent above 1) the map looks at.
[[nodiscard]] std::vector<bool> axes_of(const IndexMap& map, const std::vector<Axis>& axes);

/// Whether every element of a node with these dims is met exactly once as the axes in the map run.
[[nodiscard]] bool covers(const std::vector<int64_t>& dims, const IndexMap& map, const std::vector<Axis>& axes);

} // namespace dyno::fusion
