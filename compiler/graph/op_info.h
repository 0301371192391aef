// The rows of ops.def as data: what every pass asks of an operation without a switch.
#pragma once
#include "compiler/graph/graph.h"
#include "compiler/scalar/scalar_expr.h"
#include <string_view>

namespace dyno::graph {

enum class OpKind : uint8_t { leaf, unary, binary, ternary, cast, reduction, movement, composite, extern_ };
enum class Equality : uint8_t { exact, gated, ordered };
constexpr int op_count = static_cast<int>(Op::count_);

/// One row. `arity` -1: any number of operands.
struct OpInfo {
    std::string_view name;
    OpKind kind;
    Equality equality;
    int8_t arity;
    std::string_view doc;
};

const OpInfo& info(Op op);
/// The op of that name; Op::count_ if there is none.
Op op_named(std::string_view name);
/// One element of the result comes from the elements at the same place of the operands.
inline bool is_elementwise(Op op) {
    OpKind kind = info(op).kind;
    return kind == OpKind::unary || kind == OpKind::binary || kind == OpKind::ternary || kind == OpKind::cast;
}
/// What an elementwise row does per element (where is select); ScalarOp::count_ for other rows.
scalar::ScalarOp scalar_op_of(Op op);

} // namespace dyno::graph
