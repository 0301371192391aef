// Facts about a loop nest that every back end asks for, and its verifier. No decisions here.
#include "compiler/fusion/loop_nest.h"
#include "compiler/support/check.h"
#include <algorithm>

namespace dyno::fusion {

static int64_t product(const LoopNest& nest, Axis::Kind kind) {
    int64_t n = 1;
    for (const Axis& axis : nest.axes)
        if (axis.kind == kind) n *= axis.extent;
    return n;
}

int64_t row_count(const LoopNest& nest) { return product(nest, Axis::parallel); }
int64_t row_length(const LoopNest& nest) { return product(nest, Axis::row); }

static Level level_of(const LoopNest& nest, const Affine& at) {
    Level level = Level::uniform;
    const bool rows = std::any_of(nest.axes.begin(), nest.axes.end(), [](const Axis& a) { return a.kind == Axis::row; });
    for (size_t k = 0; k < nest.axes.size(); k++) {
        if (at.strides[k] == 0) continue;
        level = std::max(level, nest.axes[k].kind == Axis::row || !rows ? Level::element : Level::row);
    }
    return level;
}

std::vector<Level> levels(const LoopNest& nest) {
    std::vector<Level> result;
    for (const Instruction& i : nest.body) {
        Level level = Level::uniform;
        switch (i.kind) {
        case Instruction::constant:
        case Instruction::scalar:
            break;
        case Instruction::index:
            level = level_of(nest, nest.indices[i.which]);
            break;
        case Instruction::load:
            level = level_of(nest, nest.loads[i.which].at);
            break;
        case Instruction::reduce:
            level = Level::row;
            break;
        case Instruction::apply:
            for (int k = 0; k < i.arity; k++) level = std::max(level, result[i.operands[k]]);
        }
        result.push_back(level);
    }
    return result;
}

std::vector<uint32_t> stages(const LoopNest& nest) {
    std::vector<uint32_t> result;
    for (const Instruction& i : nest.body) {
        uint32_t stage = 0;
        for (int k = 0; k < i.arity; k++) stage = std::max(stage, result[i.operands[k]]);
        result.push_back(stage + (i.kind == Instruction::reduce ? 1 : 0));
    }
    return result;
}

const graph::SumOrder& order_of(const LoopNest& nest, const Instruction& reduce) {
    static const graph::SumOrder any;
    return reduce.which ? nest.orders[reduce.which - 1].order : any;
}

double cost_of(scalar::ScalarOp op) {
    using scalar::ScalarOp;
    switch (op) {
    case ScalarOp::div:
    case ScalarOp::sqrt:
    case ScalarOp::reciprocal:
    case ScalarOp::rsqrt:
        return 0.2;
    case ScalarOp::exp:
    case ScalarOp::log:
    case ScalarOp::tanh:
    case ScalarOp::erf:
    case ScalarOp::sigmoid:
    case ScalarOp::sin:
    case ScalarOp::cos:
        return 0.6;
    case ScalarOp::pow:
        return 2;
    case ScalarOp::floor_div:
    case ScalarOp::remainder:
    case ScalarOp::fmod:
        return 3;
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log2:
    case ScalarOp::log10:
    case ScalarOp::log1p:
    case ScalarOp::tan:
    case ScalarOp::atan:
    case ScalarOp::asin:
    case ScalarOp::acos:
    case ScalarOp::sinh:
    case ScalarOp::cosh:
    case ScalarOp::atan2:
    case ScalarOp::hypot:
        return 6;
    default:
        return 0.03;
    }
}

static void verify_instruction(const LoopNest& nest, ValueId id) {
    const Instruction& i = nest.body[id];
    DYNO_CHECK(i.dtype != DType::none && !is_complex(i.dtype), "a body value has an element type that loops know");
    for (int k = 0; k < i.arity; k++) DYNO_CHECK(i.operands[k] < id, "operands precede their users");
    if (i.kind == Instruction::load)
        DYNO_CHECK(i.dtype == nest.parameters[nest.loads[i.which].parameter].dtype, "a load has its parameter's dtype");
    if (i.kind == Instruction::scalar)
        DYNO_CHECK(i.which < nest.scalars.size() && i.dtype == nest.scalars[i.which], "a scalar has its slot's dtype");
    if (i.kind == Instruction::apply) DYNO_CHECK(scalar::info(i.op).arity == i.arity && i.arity > 0, "an op has its arity");
    if (i.kind == Instruction::reduce) {
        const bool position = i.how == Reduction::argmax || i.how == Reduction::argmin;
        DYNO_CHECK(i.arity == 1 && (position ? i.dtype == DType::i64 : i.dtype == nest.body[i.operands[0]].dtype),
                   "a reduction has its dtype");
        DYNO_CHECK(i.which <= nest.orders.size(), "a reduction names an order");
        const bool moment = is_moment(i.how), adds = moment || i.how == Reduction::sum || i.how == Reduction::prod;
        DYNO_CHECK(moment == (order_of(nest, i).kind == graph::SumOrder::welford), "moments have the order of moments");
        DYNO_CHECK(!i.which || (adds && (i.dtype == DType::f32 || i.dtype == DType::f64)), "only sums and products of f32 and f64 have an order");
    }
}

void verify(const LoopNest& nest) {
    for (const Axis& axis : nest.axes) DYNO_CHECK(axis.extent >= 0, "extents are not negative");
    const auto check = [&](const Affine& at) { DYNO_CHECK(at.strides.size() == nest.axes.size(), "one stride an axis"); };
    for (const Access& load : nest.loads) {
        check(load.at);
        DYNO_CHECK(load.parameter < nest.parameters.size(), "a load names a parameter");
    }
    for (const Affine& index : nest.indices) check(index);
    for (const RowOrder& row : nest.orders) check(row.result);
    for (ValueId id = 0; id < nest.body.size(); id++) verify_instruction(nest, id);
    for (const Instruction& i : nest.body)
        if (i.kind == Instruction::reduce)
            DYNO_CHECK(row_length(nest) > 0 || i.how == Reduction::sum || i.how == Reduction::prod || i.how == Reduction::any ||
                           i.how == Reduction::all,
                       "a reduction over nothing has an identity");
    for (const Store& store : nest.stores) {
        check(store.to.at);
        DYNO_CHECK(store.value < nest.body.size() && store.to.parameter < nest.parameters.size(), "a store names a value and a parameter");
        DYNO_CHECK(nest.parameters[store.to.parameter].written, "a stored parameter is marked as written");
        DYNO_CHECK(nest.parameters[store.to.parameter].dtype == nest.body[store.value].dtype, "a store has its parameter's dtype");
    }
}

} // namespace dyno::fusion
