// ops.def expanded into an array.
#include "compiler/graph/op_info.h"
#include "compiler/support/check.h"

namespace dyno::graph {

namespace {
constexpr OpInfo rows[] = {
#define DYNO_OP(name, kind, equality, arity, doc) {#name, OpKind::kind, Equality::equality, arity, doc},
#include "compiler/graph/ops.def"
#undef DYNO_OP
};
static_assert(sizeof(rows) / sizeof(rows[0]) == op_count);
} // namespace

const OpInfo& info(Op op) {
    DYNO_CHECK(op < Op::count_, "an op");
    return rows[static_cast<int>(op)];
}

Op op_named(std::string_view name) {
    for (int i = 0; i < op_count; ++i)
        if (rows[i].name == name) return static_cast<Op>(i);
    return Op::count_;
}

scalar::ScalarOp scalar_op_of(Op op) {
    if (!is_elementwise(op)) return scalar::ScalarOp::count_;
    if (op == Op::where) return scalar::ScalarOp::select;
    switch (op) {
#define DYNO_SCALAR_ROW_unary(name)                                                                                                        \
    case Op::name:                                                                                                                         \
        return scalar::ScalarOp::name;
#define DYNO_SCALAR_ROW_binary(name)                                                                                                       \
    case Op::name:                                                                                                                         \
        return scalar::ScalarOp::name;
#define DYNO_SCALAR_ROW_ternary(name)
#define DYNO_SCALAR_ROW_cast(name)                                                                                                         \
    case Op::name:                                                                                                                         \
        return scalar::ScalarOp::name;
#define DYNO_SCALAR_ROW_leaf(name)
#define DYNO_SCALAR_ROW_reduction(name)
#define DYNO_SCALAR_ROW_composite(name)
#define DYNO_SCALAR_ROW_movement(name)
#define DYNO_SCALAR_ROW_extern_(name)
#define DYNO_OP(name, kind, equality, arity, doc) DYNO_SCALAR_ROW_##kind(name)
#include "compiler/graph/ops.def"
#undef DYNO_OP
    case Op::fma:
        return scalar::ScalarOp::fma;
    default:
        break;
    }
    DYNO_CHECK(false, std::string(info(op).name));
    return scalar::ScalarOp::count_;
}

} // namespace dyno::graph
