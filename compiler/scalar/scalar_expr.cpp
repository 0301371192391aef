// The op table's rows as data, construction and printing of scalar expressions.
#include "compiler/scalar/scalar_expr.h"
#include "compiler/support/check.h"
#include <fmt/format.h>

namespace dyno::scalar {

namespace {
constexpr ScalarOpInfo rows[] = {
#define DYNO_SCALAR_OP(name, arity, result, traps, commutes) {#name, arity, ResultRule::result, TrapRule::traps, commutes != 0},
#include "compiler/scalar/scalar_ops.def"
#undef DYNO_SCALAR_OP
};
static_assert(sizeof(rows) / sizeof(rows[0]) == scalar_op_count);
} // namespace

const ScalarOpInfo& info(ScalarOp op) {
    DYNO_CHECK(op < ScalarOp::count_, "a scalar op");
    return rows[static_cast<int>(op)];
}

ScalarOp scalar_op_named(std::string_view name) {
    for (int i = 0; i < scalar_op_count; ++i)
        if (rows[i].name == name) return static_cast<ScalarOp>(i);
    return ScalarOp::count_;
}

ValueId ScalarExpr::apply(ScalarOp op, ValueId a, ValueId b, ValueId c) {
    const ScalarOpInfo& row = info(op);
    DYNO_CHECK(row.result != ResultRule::given, row.name.data());
    ValueId typed = op == ScalarOp::select ? b : a;
    DType dtype = row.result == ResultRule::b8 ? DType::b8 : code.at(typed).dtype;
    return append({op, dtype, {a, b, c}});
}

std::string to_text(const ScalarExpr& expr) {
    std::string out;
    for (size_t i = 0; i < expr.code.size(); ++i) {
        const Instruction& in = expr.code[i];
        out += fmt::format("%{}: {} = {}", i, name_of(in.dtype), info(in.op).name);
        if (in.op == ScalarOp::load || in.op == ScalarOp::scalar || in.op == ScalarOp::index) out += fmt::format(" {}", in.parameter);
        if (in.op == ScalarOp::constant) out += is_float(in.dtype) ? fmt::format(" {}", in.number) : fmt::format(" {}", in.integer);
        for (int k = 0; k < info(in.op).arity; ++k) out += fmt::format(" %{}", in.operands[k]);
        out += '\n';
    }
    out += "return";
    for (ValueId result : expr.results) out += fmt::format(" %{}", result);
    return out + '\n';
}

} // namespace dyno::scalar
