// The product of capture that the pure half of the compiler works on: a flat graph of tensor operations.
// Values, not objects: nodes are immutable records in one vector, referred to by id, operands before users.
// No Python here. What Python calls an extern is an index into `externs`; only capture and replay know its callable.
#pragma once
#include "compiler/graph/sum_order.h"
#include "compiler/scalar/dtype.h"
#include "compiler/support/source_span.h"
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dyno::graph {

struct NodeId {
    uint32_t index = std::numeric_limits<uint32_t>::max();
    bool valid() const { return index != std::numeric_limits<uint32_t>::max(); }
    auto operator<=>(const NodeId&) const = default;
};

enum class Op : uint16_t {
#define DYNO_OP(name, ...) name,
#include "compiler/graph/ops.def"
#undef DYNO_OP
    count_
};

/// Where the rules of promotion and of results come from: torch and NumPy share ops and differ here.
enum class Domain : uint8_t { torch, numpy };
enum class DeviceKind : uint8_t { cpu, cuda };

/// The type of a node's value. Layout is not part of it: see Input::strides and Output::strides.
struct Type {
    DType dtype = DType::none;
    std::vector<int64_t> dims; // empty: a 0-d value
    DeviceKind device = DeviceKind::cpu;
    int8_t device_index = 0;
    Domain domain = Domain::torch;
    int64_t numel() const {
        int64_t n = 1;
        for (int64_t d : dims) n *= d;
        return n;
    }
    bool operator==(const Type&) const = default;
};

/// Strides of a dense layout whose last dim runs fastest, in elements.
[[nodiscard]] inline std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
    std::vector<int64_t> strides(dims.size());
    int64_t step = 1;
    for (size_t k = dims.size(); k-- > 0;) {
        strides[k] = step;
        step *= dims[k] > 1 ? dims[k] : 1;
    }
    return strides;
}

/// One operation. What `ints` and `number` mean is said by the op's row in ops.def.
struct Node {
    Op op;
    Type type;
    std::vector<NodeId> operands;
    std::vector<int64_t> ints; // static attributes: axes, shapes, starts, target dtype
    double number = 0.0;       // one static floating-point attribute: eps, value of a constant
    int32_t twin = -1;         // index into Graph::externs: the eager call that makes this node's value as an object
    SourceSpan from;
    SumOrder order; // sum, prod, mean, var
};

/// An eager call: run at replay in torch or NumPy. `uses` are the nodes whose values it needs as objects (tensors or
/// arrays); the template of its arguments is kept by capture under the same index.
struct Extern {
    std::string name; // "torch.matmul", for people
    std::vector<NodeId> uses;
    bool makes_view = false; // its result shares memory with an operand
};

/// A tensor or array that comes from outside. Its node is Op::input; strides are in elements and guarded exact.
struct Input {
    NodeId node;
    std::vector<int64_t> strides;
};

/// A run-time number (a Python float or int, an item): Op::scalar nodes of dims {} and dtype f64, i64 or b8.
struct ScalarInput {
    NodeId node;
};

/// A value that must exist as an object (returned, stored, or used by an extern that escapes), with its layout.
struct Output {
    NodeId node;
    std::vector<int64_t> strides; // elements; what eager's result had
};

struct Graph {
    std::vector<Node> nodes;
    std::vector<Extern> externs;
    std::vector<Input> inputs;
    std::vector<ScalarInput> scalars;
    std::vector<Output> outputs;
    std::vector<Note> notes;
    const Node& operator[](NodeId id) const { return nodes[id.index]; }
};

} // namespace dyno::graph
