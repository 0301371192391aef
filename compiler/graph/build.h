// Builder: grows a Graph, one operation at a time, as eager torch or NumPy would type it. Input: operands and attributes
// as the recorder saw them; output: interned, fully typed nodes with casts and broadcasts made explicit.
// Refuses (with a reason) what it does not model; the caller then records the call as an extern. Runs no numbers but the
// conversion of constants.
#pragma once
#include "compiler/graph/graph.h"
#include "compiler/graph/promote.h"
#include "compiler/support/result.h"
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace dyno::graph {

/// A node as an argument. `wrapped`: it stands for a Python number (bool, int or float: b8, i64, f64; Op::scalar or
/// Op::constant) and takes part in promotion as such. A 0-d tensor, a 0-d array or a NumPy scalar object is not wrapped.
struct Operand {
    NodeId node;
    bool wrapped = false;
    Operand(NodeId id, bool is_wrapped = false) : node(id), wrapped(is_wrapped) {}
};

/// Static attributes of a call, before normalisation. Axes may be negative.
struct Attributes {
    std::vector<int64_t> ints{}; // as the op's row says; reductions: no axes means all
    double number = 0.0;         // as the op's row says
    std::vector<int64_t> dims{}; // reshape (one -1 allowed), expand (-1 keeps), slice: the result's sizes; iota: {length}
    DType dtype = DType::none;   // cast, iota, full; sum, prod, mean, softmax: the dtype argument
    SumOrder order{};            // sum, prod, mean, var of f32 and f64: eager's; not taken where the operand is converted first
};

class Builder {
  public:
    Builder() = default;
    /// Grows a graph that exists: the passes' way of rewriting. Nodes of the graph are interned.
    explicit Builder(Graph graph);

    // --- leaves
    NodeId input(Type type, std::vector<int64_t> strides, SourceSpan from = {});
    /// A run-time number: b8, i64 or f64 for Python's, any dtype for a NumPy scalar object or an item.
    /// `after`: the number is known only once that extern has been called (-1: from the start).
    NodeId scalar(DType dtype, Domain domain = Domain::torch, SourceSpan from = {}, int64_t after = -1);
    NodeId constant(double number, DType dtype, Domain domain = Domain::torch, SourceSpan from = {});
    NodeId constant_integer(int64_t value, DType dtype, Domain domain = Domain::torch, SourceSpan from = {});
    /// A constant spread over `type.dims` (zeros, ones, full).
    NodeId full(double number, const Type& type, SourceSpan from = {});

    // --- operations
    /// The operation as the library of its operands would do it, or why not. Reductions and composites with axes keep
    /// reduced axes as size 1 (compose.h drops them).
    [[nodiscard]] Result<NodeId> build(Op op, std::span<const Operand> operands, const Attributes& attributes = {}, SourceSpan from = {});
    [[nodiscard]] Result<NodeId> build(Op op, std::initializer_list<Operand> operands, const Attributes& attributes = {},
                                       SourceSpan from = {}) {
        return build(op, std::span<const Operand>(operands.begin(), operands.size()), attributes, from);
    }
    /// The value converted; the node itself if it has that dtype. Constants are converted on the spot.
    NodeId cast(NodeId node, DType to, SourceSpan from = {});
    /// Broadcast to dims (which the caller checked); the node itself if it has them.
    NodeId expand(NodeId node, const std::vector<int64_t>& dims, SourceSpan from = {});
    /// The same to `like.dims`, on the device of `like`: a number lies on none, what is made of it does.
    NodeId spread(NodeId node, const Type& like, SourceSpan from = {});
    /// The same value again as a node of its own (never interned): two results of eager are two objects even where they are equal.
    NodeId duplicate(NodeId node);
    /// A node as given, interned; checked by nobody but the verifier. For passes.
    NodeId add_node(Node node);

    // --- eager calls
    uint32_t add_extern(std::string name, std::vector<NodeId> uses, bool makes_view = false);
    /// The call itself; its value is the call's first (or only) result, of that type. Never interned.
    NodeId extern_call(uint32_t index, Type type, SourceSpan from = {});
    /// The k-th tensor the call returns; k = 0 gives the call's own value again.
    NodeId extern_result(NodeId call, int64_t k, Type type, SourceSpan from = {});
    /// Says that the node's value, where it must be an object, is made by that eager call.
    void set_twin(NodeId node, uint32_t extern_index);

    // --- the result
    void add_output(NodeId node, std::vector<int64_t> strides);
    void note(Note note) { graph_.notes.push_back(std::move(note)); }
    const Graph& graph() const { return graph_; }
    const Node& operator[](NodeId id) const { return graph_.nodes[id.index]; }
    const Type& type(NodeId id) const { return graph_.nodes[id.index].type; }
    size_t size() const { return graph_.nodes.size(); }
    [[nodiscard]] Graph take() && { return std::move(graph_); }

    /// torch.get_default_dtype() of the recording; part of the ambient word.
    DType default_float = DType::f32;

  private:
    friend struct BuildCall;
    void remember(NodeId id);
    Graph graph_;
    std::unordered_multimap<uint64_t, NodeId> interned_;
};

/// The dims both broadcast to, or why they do not.
Result<std::vector<int64_t>> broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

} // namespace dyno::graph
