// The text form of loop nests:
//
//   nest add_relu reports_flags
//   axis parallel 100
//   axis row 33
//   parameter f32
//   parameter f32 written
//   scalar f64
//   %0: f32 = load 0 [0 + 33 i0 + i1]
//   %1: f32 = constant 0x40000000
//   %2: f32 = add %0 %1
//   %3: f32 = reduce sum %2
//   store %2 1 [i0 + i1]
#include "compiler/fusion/loop_nest.h"
#include <fmt/format.h>

namespace dyno::fusion {

const char* name_of(Reduction how) {
    static constexpr const char* names[] = {"sum",       "prod",      "amax", "amin", "argmax",       "argmin",
                                            "first_max", "first_min", "any",  "all",  "welford_mean", "welford_var"};
    return names[static_cast<size_t>(how)];
}

static std::string affine(const Affine& at) {
    std::string text = std::to_string(at.offset);
    for (size_t k = 0; k < at.strides.size(); k++)
        if (at.strides[k] != 0) text += at.strides[k] == 1 ? fmt::format(" + i{}", k) : fmt::format(" + {} i{}", at.strides[k], k);
    return "[" + text + "]";
}

static std::string instruction(const LoopNest& nest, const Instruction& i) {
    std::string text;
    switch (i.kind) {
    case Instruction::constant:
        return fmt::format("constant {:#x}", i.bits);
    case Instruction::scalar:
        return fmt::format("scalar {}", i.which);
    case Instruction::index:
        return "index " + affine(nest.indices[i.which]);
    case Instruction::load:
        return fmt::format("load {} {}", nest.loads[i.which].parameter, affine(nest.loads[i.which].at));
    case Instruction::reduce:
        text = fmt::format("reduce {} %{}", name_of(i.how), i.operands[0]);
        if (i.which) text += " " + graph::to_text(order_of(nest, i));
        if (i.which && order_of(nest, i).kind == graph::SumOrder::columns) text += " " + affine(nest.orders[i.which - 1].result);
        return text;
    case Instruction::apply:
        text = scalar::info(i.op).name;
    }
    for (int k = 0; k < i.arity; k++) text += fmt::format(" %{}", i.operands[static_cast<size_t>(k)]);
    return text;
}

std::string to_text(const LoopNest& nest) {
    std::string text = "nest " + nest.name + (nest.reports_flags ? " reports_flags\n" : "\n");
    for (const Axis& axis : nest.axes) text += fmt::format("axis {} {}\n", axis.kind == Axis::row ? "row" : "parallel", axis.extent);
    for (const Parameter& p : nest.parameters) text += fmt::format("parameter {}{}\n", name_of(p.dtype), p.written ? " written" : "");
    for (DType t : nest.scalars) text += fmt::format("scalar {}\n", name_of(t));
    for (size_t k = 0; k < nest.body.size(); k++)
        text += fmt::format("%{}: {} = {}\n", k, name_of(nest.body[k].dtype), instruction(nest, nest.body[k]));
    for (const Store& s : nest.stores) text += fmt::format("store %{} {} {}\n", s.value, s.to.parameter, affine(s.to.at));
    return text;
}

} // namespace dyno::fusion
