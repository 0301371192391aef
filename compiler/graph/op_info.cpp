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

} // namespace dyno::graph
