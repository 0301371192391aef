// Grouping: which nodes of a graph are computed together. Decides only; lower.h turns a group into a nest.
// A group iterates over axes; every node in it has one or more index maps from these axes. Roots are stored.
#pragma once
#include "compiler/fusion/index_map.h"
#include "compiler/graph/graph.h"
#include <map>
#include <set>
#include <vector>

namespace dyno::fusion {

using GroupId = uint32_t;
constexpr GroupId no_group = std::numeric_limits<GroupId>::max();

/// What a group writes. A copy loads a value that is in memory already and stores it where a cat, or a reshape that is not
/// affine, wants it.
struct Root {
    graph::NodeId node;
    bool copy = false;
    int32_t slot_of = -1; // a cat node's index: the value goes into its buffer, as operand number `slot`; -1: its own buffer
    uint32_t slot = 0;
};

struct Group {
    enum Kind : uint8_t { nest, call, view } kind = nest;
    graph::NodeId node; // call, view: the node
    std::vector<Axis> axes;
    std::vector<Root> roots;
    std::map<uint32_t, std::vector<IndexMap>> maps; // by node index: computed here, at these maps
    std::map<uint32_t, IndexMap> reduced;           // by index of a reduction: the map of its operand
    std::set<uint32_t> reads;                       // nodes in memory that it loads or passes
    std::set<GroupId> after;                        // further groups that come before it
    double cost = 0;
    bool dead = false; // merged into another
};

struct Grouping {
    std::vector<Group> groups;
    std::vector<std::vector<GroupId>> writers;   // by node index: groups that put the value in memory (several for cat)
    std::vector<bool> in_memory;                 // by node index: has a buffer
    std::map<uint32_t, GroupId> contiguous_copy; // by node index: the group that makes a row-major copy of it
    std::vector<Note> notes;
};

[[nodiscard]] Grouping group_nodes(const graph::Graph& graph);

/// Whether `group` needs, directly or not, what `other` makes. Eager calls keep their order.
[[nodiscard]] bool depends_on(const Grouping& grouping, GroupId group, GroupId other);

} // namespace dyno::fusion
