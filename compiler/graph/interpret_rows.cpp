// Groups of elements that share a place outside the reduced axes; then one formula per row, in double.
#include "compiler/graph/interpret_rows.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/op_info.h"
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace dyno::graph {

using scalar::Value;

namespace {

using Group = std::vector<int64_t>; // row-major indices into the operand

/// One group per element of the reduced shape, in its order; members in the operand's order.
std::vector<Group> groups_of(const std::vector<int64_t>& dims, const std::vector<int64_t>& axes) {
    std::vector<bool> reduced(dims.size());
    for (int64_t axis : axes) reduced[axis] = true;
    int64_t count = 1, total = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
        total *= dims[i];
        if (!reduced[i]) count *= dims[i];
    }
    std::vector<Group> groups(count);
    for (int64_t k = 0; k < total; ++k) {
        int64_t rest = k, place = 0, scale = 1;
        for (size_t i = dims.size(); i-- > 0;) {
            int64_t at = rest % dims[i];
            rest /= dims[i];
            if (reduced[i]) continue;
            place += at * scale;
            scale *= dims[i];
        }
        groups[place].push_back(k);
    }
    return groups;
}

/// Neumaier's sum: the error of each addition is kept and added at the end.
struct Sum {
    double total = 0.0, lost = 0.0;
    void add(double x) {
        double next = total + x;
        if (std::isfinite(next)) lost += std::fabs(total) >= std::fabs(x) ? (total - next) + x : (x - next) + total;
        total = next;
    }
    double value() const { return std::isfinite(total) ? total + lost : total; }
};

Value folded(scalar::ScalarOp op, const HostArray& x, const Group& group) {
    Value out = x.at(group.at(0));
    for (size_t i = 1; i < group.size(); ++i) {
        Value pair[] = {out, x.at(group[i])};
        out = *scalar::apply(op, x.dtype, pair);
    }
    return out;
}

Value accumulated(Op op, const HostArray& x, const Group& group) {
    bool sum = op == Op::sum;
    if (!is_float(x.dtype)) {
        if (group.empty()) return Value::of_int(x.dtype, sum ? 0 : 1);
        return folded(sum ? scalar::ScalarOp::add : scalar::ScalarOp::mul, x, group);
    }
    Sum total;
    double product = 1.0;
    for (int64_t k : group) {
        total.add(x.at(k).number);
        product *= x.at(k).number;
    }
    return Value::of_float(x.dtype, scalar::round_to(x.dtype, sum ? total.value() : product));
}

bool beats(Op op, const Value& challenger, const Value& best) {
    bool most = op == Op::argmax || op == Op::first_max;
    if (is_float(best.dtype)) {
        if (std::isnan(best.number)) return false;
        if (std::isnan(challenger.number)) return true;
    }
    Value pair[] = {challenger, best};
    return scalar::apply(most ? scalar::ScalarOp::gt : scalar::ScalarOp::lt, DType::b8, pair)->integer != 0;
}

Value argument(Op op, const HostArray& x, const Group& group) {
    size_t best = 0;
    for (size_t i = 1; i < group.size(); ++i)
        if (beats(op, x.at(group[i]), x.at(group[best]))) best = i;
    return Value::of_int(DType::i64, static_cast<int64_t>(best));
}

double sum_of(const HostArray& x, const Group& group) {
    Sum sum;
    for (int64_t k : group) sum.add(x.at(k).number);
    return sum.value();
}

double centred_squares(const HostArray& x, const Group& group, double mean) {
    Sum sum;
    for (int64_t k : group) sum.add((x.at(k).number - mean) * (x.at(k).number - mean));
    return sum.value();
}

Value moment(Op op, const HostArray& x, const Group& group) {
    const auto n = static_cast<double>(group.size());
    const double mean = sum_of(x, group) / n;
    return Value::of_float(x.dtype, scalar::round_to(x.dtype, op == Op::welford_mean ? mean : centred_squares(x, group, mean) / n));
}

double most_of(const HostArray& x, const Group& group) {
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t k : group) most = std::isnan(most) || most > x.at(k).number ? most : x.at(k).number;
    return most;
}

double powers_of(const HostArray& x, const Group& group, double shift) {
    Sum sum;
    for (int64_t k : group) sum.add(std::exp(x.at(k).number - shift));
    return sum.value();
}

double activation(const Node& node, double x) {
    switch (node.op) {
    case Op::gelu:
        if (node.ints[0] == 0) return 0.5 * x * (1.0 + std::erf(x * 0.70710678118654752440));
        return 0.5 * x * (1.0 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case Op::silu:
        return x / (1.0 + std::exp(-x));
    case Op::softplus:
        return x > 20.0 ? x : std::log1p(std::exp(x));
    default:
        DYNO_CHECK(false, std::string(info(node.op).name));
    }
    return 0;
}

double one_per_group(const Node& node, const HostArray& x, const Group& group) {
    double n = static_cast<double>(group.size());
    double mean = sum_of(x, group) / n;
    if (node.op == Op::mean) return mean;
    if (node.op == Op::var) return centred_squares(x, group, mean) / std::max(0.0, n - node.number);
    double most = most_of(x, group), shift = std::isinf(most) ? 0.0 : most;
    return std::log(powers_of(x, group, shift)) + shift;
}

/// softmax, log_softmax and the norms: each element from itself and its group.
void across_group(const Node& node, std::span<const HostArray> operands, const Group& group, HostArray& out) {
    const HostArray& x = operands[0];
    double n = static_cast<double>(group.size());
    bool soft = node.op == Op::softmax || node.op == Op::log_softmax;
    double shift = soft ? most_of(x, group) : node.op == Op::layer_norm ? sum_of(x, group) / n : 0.0;
    double total = soft ? powers_of(x, group, shift) : centred_squares(x, group, shift) / n;
    for (size_t i = 0; i < group.size(); ++i) {
        double value = x.at(group[i]).number - shift;
        if (node.op == Op::softmax)
            value = std::exp(value) / total;
        else if (node.op == Op::log_softmax)
            value -= std::log(total);
        else
            value /= std::sqrt(total + node.number);
        if (!soft && operands.size() > 1) value *= operands[1].at(static_cast<int64_t>(i)).number;
        if (!soft && operands.size() > 2) value += operands[2].at(static_cast<int64_t>(i)).number;
        if (ends_with_zero(node)) value += 0.0;
        out.set(group[i], Value::of_float(out.dtype, scalar::round_to(out.dtype, value)));
    }
}

} // namespace

HostArray interpret_reduction(const Node& node, const HostArray& x) {
    HostArray out(node.type.dtype, node.type.dims);
    std::vector<Group> groups = groups_of(x.dims, node.ints);
    for (size_t g = 0; g < groups.size(); ++g) {
        Value value;
        switch (node.op) {
        case Op::sum:
        case Op::prod:
            value = accumulated(node.op, x, groups[g]);
            break;
        case Op::welford_mean:
        case Op::welford_var:
            value = moment(node.op, x, groups[g]);
            break;
        case Op::amax:
            value = folded(scalar::ScalarOp::maximum, x, groups[g]);
            break;
        case Op::amin:
            value = folded(scalar::ScalarOp::minimum, x, groups[g]);
            break;
        case Op::any:
            value = groups[g].empty() ? Value::of_int(DType::b8, 0) : folded(scalar::ScalarOp::logical_or, x, groups[g]);
            break;
        case Op::all:
            value = groups[g].empty() ? Value::of_int(DType::b8, 1) : folded(scalar::ScalarOp::logical_and, x, groups[g]);
            break;
        case Op::first_max:
        case Op::first_min:
            value = x.at(groups[g][static_cast<size_t>(argument(node.op, x, groups[g]).integer)]);
            break;
        default:
            value = argument(node.op, x, groups[g]);
        }
        out.set(static_cast<int64_t>(g), value);
    }
    return out;
}

HostArray interpret_composite(const Node& node, std::span<const HostArray> operands) {
    const HostArray& x = operands[0];
    HostArray out(node.type.dtype, node.type.dims);
    auto rounded = [&](double value) { return Value::of_float(out.dtype, scalar::round_to(out.dtype, value)); };
    std::vector<int64_t> axes = node.ints;
    switch (node.op) {
    case Op::gelu:
    case Op::silu:
    case Op::softplus: {
        const double zero = ends_with_zero(node) ? 0.0 : -0.0; // adding -0.0 changes nothing
        for (int64_t k = 0; k < out.numel(); ++k) out.set(k, rounded(activation(node, x.at(k).number) + zero));
        return out;
    }
    case Op::layer_norm:
    case Op::rms_norm:
        axes.clear();
        for (int64_t axis = static_cast<int64_t>(x.dims.size()) - node.ints[0]; axis < static_cast<int64_t>(x.dims.size()); ++axis)
            axes.push_back(axis);
        break;
    default:
        break;
    }
    std::vector<Group> groups = groups_of(x.dims, axes);
    bool single = node.op == Op::mean || node.op == Op::var || node.op == Op::logsumexp;
    for (size_t g = 0; g < groups.size(); ++g) {
        if (single)
            out.set(static_cast<int64_t>(g), rounded(one_per_group(node, x, groups[g])));
        else
            across_group(node, operands, groups[g], out);
    }
    return out;
}

} // namespace dyno::graph
