// One walk forwards (fold, rules, sharing), one backwards (what is needed).
#include "compiler/scalar/simplify.h"
#include "compiler/scalar/evaluate.h"
#include "compiler/support/check.h"
#include "compiler/support/hash.h"
#include <bit>
#include <cmath>
#include <unordered_map>

namespace dyno::scalar {

namespace {

using Op = ScalarOp;

bool is_leaf(Op op) { return info(op).arity == 0; }
bool is_exact(Op op) { return !((op >= Op::exp && op <= Op::sigmoid) || op == Op::pow || op == Op::atan2 || op == Op::hypot); }

uint64_t key_of(const Instruction& in) {
    Hasher hasher;
    hasher.add(static_cast<uint64_t>(in.op)).add(static_cast<uint64_t>(in.dtype));
    for (ValueId operand : in.operands) hasher.add(operand);
    return hasher.add(in.parameter).add(std::bit_cast<uint64_t>(in.number)).add(static_cast<uint64_t>(in.integer)).value();
}

bool equal(const Instruction& a, const Instruction& b) {
    return a.op == b.op && a.dtype == b.dtype && a.operands == b.operands && a.parameter == b.parameter && a.integer == b.integer &&
           std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number);
}

class Simplifier {
  public:
    ScalarExpr run(const ScalarExpr& expr) {
        std::vector<ValueId> now;
        for (Instruction in : expr.code) {
            for (int k = 0; k < info(in.op).arity; ++k) in.operands[k] = now.at(in.operands[k]);
            now.push_back(made(in));
        }
        for (ValueId result : expr.results) out_.results.push_back(now.at(result));
        return needed();
    }

  private:
    const Instruction& at(ValueId id) const { return out_.code[id]; }
    bool is_constant(ValueId id) const { return at(id).op == Op::constant; }
    /// The constant `number` of any dtype, zeros by sign.
    bool is_number(ValueId id, double number) const {
        const Instruction& in = at(id);
        if (in.op != Op::constant) return false;
        if (is_float(in.dtype)) return std::bit_cast<uint64_t>(in.number) == std::bit_cast<uint64_t>(number);
        return in.integer == static_cast<int64_t>(number) && !(number == 0.0 && std::signbit(number));
    }

    ValueId made(Instruction in) {
        if (info(in.op).commutes && is_constant(in.operands[0]) && !is_constant(in.operands[1])) std::swap(in.operands[0], in.operands[1]);
        if (!is_leaf(in.op)) {
            if (Instruction folded; fold(in, folded)) return shared(folded);
            if (ValueId same = rule(in); same != no_value) return same;
        }
        return shared(in);
    }

    ValueId shared(const Instruction& in) {
        uint64_t key = key_of(in);
        for (auto [first, last] = known_.equal_range(key); first != last; ++first)
            if (equal(at(first->second), in)) return first->second;
        ValueId id = out_.append(in);
        known_.emplace(key, id);
        return id;
    }

    bool fold(const Instruction& in, Instruction& folded) {
        if (!is_exact(in.op)) return false;
        int arity = info(in.op).arity;
        Value operands[3];
        for (int k = 0; k < arity; ++k) {
            if (!is_constant(in.operands[k])) return false;
            const Instruction& c = at(in.operands[k]);
            operands[k] = is_float(c.dtype) ? Value::of_float(c.dtype, c.number) : Value::of_int(c.dtype, c.integer);
        }
        std::optional<Value> value = apply(in.op, in.dtype, std::span<const Value>(operands, arity));
        if (!value) return false; // it traps: that stays for run time
        folded = {Op::constant, in.dtype, {no_value, no_value, no_value}, 0, value->number, value->integer};
        return true;
    }

    /// An existing value that equals the instruction's, or none.
    ValueId rule(const Instruction& in) const {
        ValueId x = in.operands[0], y = in.operands[1];
        bool floats = is_float(in.dtype), truth = in.dtype == DType::b8;
        switch (in.op) {
        case Op::neg:
        case Op::bitwise_not:
            return at(x).op == in.op ? at(x).operands[0] : no_value;
        case Op::abs:
        case Op::relu:
        case Op::floor:
        case Op::ceil:
        case Op::round:
        case Op::trunc:
            if (at(x).op == in.op) return x;
            return !floats && in.op != Op::abs && in.op != Op::relu ? x : no_value;
        case Op::add:
            return is_number(y, floats ? -0.0 : 0.0) ? x : no_value;
        case Op::sub:
            return is_number(y, 0.0) ? x : no_value;
        case Op::mul:
            return !truth && is_number(y, 1.0) ? x : no_value;
        case Op::div:
            return floats && is_number(y, 1.0) ? x : no_value;
        case Op::floor_div:
            return !floats && is_number(y, 1.0) ? x : no_value;
        case Op::maximum:
        case Op::minimum:
        case Op::fmax:
        case Op::fmin:
        case Op::bitwise_and:
        case Op::bitwise_or:
            return x == y ? x : no_value;
        case Op::bitwise_xor:
            return is_number(y, 0.0) ? x : no_value;
        case Op::shift_left:
        case Op::shift_right:
            return is_number(y, 0.0) ? x : no_value;
        case Op::logical_not:
            return at(x).op == Op::logical_not && at(at(x).operands[0]).dtype == DType::b8 ? at(x).operands[0] : no_value;
        case Op::select:
            return selected(in);
        case Op::cast:
            return at(x).dtype == in.dtype ? x : undone(in);
        default:
            return no_value;
        }
    }

    ValueId selected(const Instruction& in) const {
        if (is_number(in.operands[0], 1.0)) return in.operands[1];
        if (is_number(in.operands[0], 0.0)) return in.operands[2];
        return in.operands[1] == in.operands[2] ? in.operands[1] : no_value;
    }

    /// A cast back to where a lossless cast came from.
    ValueId undone(const Instruction& in) const {
        const Instruction& below = at(in.operands[0]);
        if (below.op != Op::cast) return no_value;
        DType source = at(below.operands[0]).dtype;
        return source == in.dtype && holds_all(below.dtype, source) ? below.operands[0] : no_value;
    }

    static int digits_of(DType t) {
        if (is_float(t)) return t == DType::f64 ? 53 : t == DType::f32 ? 24 : t == DType::f16 ? 11 : 8;
        return t == DType::b8 ? 1 : static_cast<int>(8 * size_of(t)) - (is_signed_int(t) ? 1 : 0);
    }
    static bool holds_all(DType wide, DType narrow) {
        if (wide == DType::b8) return false;
        if (is_float(narrow)) return (wide == DType::f64 || wide == DType::f32) && digits_of(wide) > digits_of(narrow);
        if (is_unsigned_int(wide) && is_signed_int(narrow)) return false;
        return digits_of(wide) >= digits_of(narrow);
    }

    ScalarExpr needed() const {
        std::vector<bool> used(out_.code.size());
        for (ValueId result : out_.results) used[result] = true;
        for (size_t i = out_.code.size(); i-- > 0;) {
            const Instruction& in = out_.code[i];
            // What may trap stays: the trap is part of the meaning.
            if (info(in.op).traps != TrapRule::never && !is_float(in.dtype)) used[i] = true;
            if (!used[i]) continue;
            for (int k = 0; k < info(in.op).arity; ++k) used[in.operands[k]] = true;
        }
        ScalarExpr out;
        std::vector<ValueId> now(out_.code.size(), no_value);
        for (size_t i = 0; i < out_.code.size(); ++i) {
            if (!used[i]) continue;
            Instruction in = out_.code[i];
            for (int k = 0; k < info(in.op).arity; ++k) in.operands[k] = now[in.operands[k]];
            now[i] = out.append(in);
        }
        for (ValueId result : out_.results) out.results.push_back(now[result]);
        return out;
    }

    ScalarExpr out_;
    std::unordered_multimap<uint64_t, ValueId> known_;
};

} // namespace

ScalarExpr simplify(const ScalarExpr& expr) { return Simplifier().run(expr); }

} // namespace dyno::scalar
