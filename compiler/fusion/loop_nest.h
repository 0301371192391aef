// LoopNest: what one launch computes, for any device. Made by fusion, read by codegen. No widths, no threads, no blocks:
// axes of iteration, memory parameters reached by affine accesses, one flat SSA body, stores.
//
// Meaning. For each point of the `parallel` axes there is one *row*: the points of the `row` axes. A body value belongs to
// a level: `uniform` (no axis), `row` (parallel axes only, or the result of a reduce) or `element`. A reduce combines an
// element value over the whole row and gives a row value, which later element values may use: so a row may be passed over
// several times, in stages. A nest without row axes is elementwise. Stores of row values happen once a row.
// Parameters do not overlap, but that in a nest without row axes a store may have the very access of a load (in place).
#pragma once
#include "compiler/graph/sum_order.h"
#include "compiler/scalar/scalar_expr.h"
#include "compiler/support/source_span.h"
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dyno::fusion {

using ValueId = uint32_t; // index into LoopNest::body

/// One axis of iteration. Order of the vector: outermost first; the last axis has the smallest strides.
struct Axis {
    enum Kind : uint8_t { parallel, row } kind;
    int64_t extent;
    bool operator==(const Axis&) const = default;
};

/// offset + sum over axes of strides[axis] * index[axis], in elements.
struct Affine {
    int64_t offset = 0;
    std::vector<int64_t> strides; // one for each axis of the nest
    bool operator==(const Affine&) const = default;
};

/// An element of a parameter's memory.
struct Access {
    uint32_t parameter = 0;
    Affine at;
    bool operator==(const Access&) const = default;
};

struct Parameter {
    DType dtype;
    bool written = false; // else read only
};

enum class Reduction : uint8_t { sum, prod, amax, amin, argmax, argmin, first_max, first_min, any, all, welford_mean, welford_var };
[[nodiscard]] const char* name_of(Reduction how);
/// Its state has a position in the row beside the element.
[[nodiscard]] constexpr bool is_positional(Reduction how) { return how >= Reduction::argmax && how <= Reduction::first_min; }
/// Two of one operand are made together, by a function of the run-time library.
[[nodiscard]] constexpr bool is_moment(Reduction how) { return how == Reduction::welford_mean || how == Reduction::welford_var; }

/// The order in which a reduction takes in the elements of a row.
struct RowOrder {
    graph::SumOrder order;
    Affine result; // of `columns`: the result's row-major position
    bool operator==(const RowOrder&) const = default;
};

/// One value of the body; operands precede it. Meaning of `op` per dtype: scalar/evaluate.h.
struct Instruction {
    enum Kind : uint8_t {
        constant, // bits: the value in its dtype's own representation (bf16: 16 bits, b8: 0 or 1, ...)
        scalar,   // which: index into LoopNest::scalars
        index,    // which: index into LoopNest::indices; an affine function of the axes, as an integer of dtype
        load,     // which: index into LoopNest::loads
        apply,    // op: not a leaf
        reduce,   // how: over all row axes, in row-major order of these (argmax: position in that order); which: 0, or 1 + index into orders
    } kind;
    scalar::ScalarOp op = scalar::ScalarOp::count_;
    Reduction how = Reduction::sum;
    DType dtype = DType::none;
    std::array<ValueId, 3> operands{};
    uint8_t arity = 0;
    uint32_t which = 0;
    uint64_t bits = 0;
    bool operator==(const Instruction&) const = default;
};

struct Store {
    ValueId value;
    Access to;
};

struct LoopNest {
    std::string name; // for people: the ops, in short
    std::vector<Axis> axes;
    std::vector<Parameter> parameters;
    std::vector<DType> scalars; // run-time numbers, each passed as a 64-bit word: the dtype's own bits in the low end
    std::vector<Access> loads;
    std::vector<Affine> indices;
    std::vector<RowOrder> orders;
    std::vector<Instruction> body;
    std::vector<Store> stores;
    bool reports_flags = false;   // NumPy: raised floating-point flags are those of the program's own arithmetic
    std::vector<SourceSpan> from; // by body value: the line it comes from; may be empty
};

/// The number of points of the parallel axes and of the row axes.
[[nodiscard]] int64_t row_count(const LoopNest& nest);
[[nodiscard]] int64_t row_length(const LoopNest& nest);

enum class Level : uint8_t { uniform, row, element };
/// Level of each body value. In a nest without row axes everything that depends on an axis is `element`.
[[nodiscard]] std::vector<Level> levels(const LoopNest& nest);
/// Stage of each body value: the number of reductions on the longest path to it.
[[nodiscard]] std::vector<uint32_t> stages(const LoopNest& nest);

/// In which order a reduction adds; kind `any` for most.
[[nodiscard]] const graph::SumOrder& order_of(const LoopNest& nest, const Instruction& reduce);

/// Estimated nanoseconds of one element of the op in cache, for f32, on one thread: what decides about fusing, splitting
/// and threads.
[[nodiscard]] double cost_of(scalar::ScalarOp op);

/// The text form. Name-free apart from its first line, so that it also serves as the key of caches.
[[nodiscard]] std::string to_text(const LoopNest& nest);

/// Throws InternalError where the nest breaks a rule stated in this header.
void verify(const LoopNest& nest);

} // namespace dyno::fusion
