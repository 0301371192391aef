// The oracle: runs a graph node by node on host buffers, element by element through scalar/evaluate.h.
// Reductions and composites of floats are summed in double (f64: compensated) and rounded once, so generated code is
// compared with something more accurate than itself. For tests and for checked replays; never for speed.
#pragma once
#include "compiler/graph/graph.h"
#include "compiler/scalar/evaluate.h"
#include "compiler/support/result.h"
#include <functional>
#include <span>
#include <vector>

namespace dyno::graph {

/// A dense row-major array on the host.
struct HostArray {
    DType dtype = DType::none;
    std::vector<int64_t> dims;
    std::vector<uint8_t> bytes;
    HostArray() = default;
    HostArray(DType element, std::vector<int64_t> sizes);
    int64_t numel() const;
    scalar::Value at(int64_t i) const;
    void set(int64_t i, const scalar::Value& value);
    bool operator==(const HostArray&) const = default;
};

/// Runs an eager call: `uses` in the order of the extern; returns all its tensors.
using ExternCall = std::function<std::vector<HostArray>(uint32_t extern_index, std::span<const HostArray> uses)>;

/// The value of every node of the graph, by index; or which node trapped ("%7 floor_div: division by zero").
/// `inputs` and `scalars` in the graph's order; scalars are values of the scalar nodes' dtypes.
Result<std::vector<HostArray>> interpret(const Graph& graph, std::span<const HostArray> inputs, std::span<const scalar::Value> scalars = {},
                                         const ExternCall& call = {});

/// The values of graph.outputs, in order.
Result<std::vector<HostArray>> interpret_outputs(const Graph& graph, std::span<const HostArray> inputs,
                                                 std::span<const scalar::Value> scalars = {}, const ExternCall& call = {});

} // namespace dyno::graph
