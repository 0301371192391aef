// Floats as doubles rounded after each op, integers as 64-bit words wrapped after each op.
#include "compiler/scalar/evaluate.h"
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include <bit>
#include <cmath>

namespace dyno::scalar {

namespace {

using Op = ScalarOp;

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

int bits_of(DType t) { return static_cast<int>(8 * size_of(t)); }

/// The arithmetic of one float type. T is float for f32 and the 16-bit floats, double for f64.
template <class T>
double basic(Op op, T a, T b, T c) {
    switch (op) {
    case Op::neg:
        return -a;
    case Op::abs:
        return std::fabs(a);
    case Op::sign:
        return T((T(0) < a) - (a < T(0)));
    case Op::sqrt:
        return std::sqrt(a);
    case Op::rsqrt:
        return T(1) / std::sqrt(a);
    case Op::reciprocal:
        return T(1) / a;
    case Op::floor:
        return std::floor(a);
    case Op::ceil:
        return std::ceil(a);
    case Op::round:
        return std::nearbyint(a);
    case Op::trunc:
        return std::trunc(a);
    case Op::relu:
        return T(0) > a ? T(0) : a;
    case Op::add:
        return a + b;
    case Op::sub:
        return a - b;
    case Op::mul:
        return a * b;
    case Op::div:
        return a / b;
    case Op::fmod:
        return std::fmod(a, b);
    case Op::maximum:
        return std::isnan(a) || a > b ? a : b;
    case Op::minimum:
        return std::isnan(a) || a < b ? a : b;
    case Op::fmax:
        return std::isnan(a) ? b : std::isnan(b) ? a : a < b ? b : a;
    case Op::fmin:
        return std::isnan(a) ? b : std::isnan(b) ? a : b < a ? b : a;
    case Op::copysign:
        return std::copysign(a, b);
    case Op::fma:
        return std::fma(a, b, c);
    default:
        DYNO_CHECK(false, std::string(info(op).name));
    }
    return 0;
}

template <class T>
double remainder_of(T a, T b) {
    T mod = std::fmod(a, b);
    if (mod != 0 && (b < 0) != (mod < 0)) mod += b;
    return mod;
}

template <class T>
double floor_div_of(T a, T b) {
    if (b == 0) return a / b;
    T mod = std::fmod(a, b), quotient = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    T floored = std::floor(quotient);
    if (quotient - floored > T(0.5)) floored += 1;
    return floored;
}

/// Transcendental ops, in double; the caller rounds.
double gated(Op op, double a, double b) {
    switch (op) {
    case Op::exp:
        return std::exp(a);
    case Op::exp2:
        return std::exp2(a);
    case Op::expm1:
        return std::expm1(a);
    case Op::log:
        return std::log(a);
    case Op::log2:
        return std::log2(a);
    case Op::log10:
        return std::log10(a);
    case Op::log1p:
        return std::log1p(a);
    case Op::sin:
        return std::sin(a);
    case Op::cos:
        return std::cos(a);
    case Op::tan:
        return std::tan(a);
    case Op::atan:
        return std::atan(a);
    case Op::asin:
        return std::asin(a);
    case Op::acos:
        return std::acos(a);
    case Op::sinh:
        return std::sinh(a);
    case Op::cosh:
        return std::cosh(a);
    case Op::tanh:
        return std::tanh(a);
    case Op::erf:
        return std::erf(a);
    case Op::sigmoid:
        return 1.0 / (1.0 + std::exp(-a));
    case Op::pow:
        return std::pow(a, b);
    case Op::atan2:
        return std::atan2(a, b);
    case Op::hypot:
        return std::hypot(a, b);
    default:
        DYNO_CHECK(false, std::string(info(op).name));
    }
    return 0;
}

bool is_gated(Op op) { return (op >= Op::exp && op <= Op::sigmoid) || op == Op::pow || op == Op::atan2 || op == Op::hypot; }

double float_result(Op op, DType dtype, double a, double b, double c) {
    if (is_gated(op)) return gated(op, a, b);
    bool wide = dtype == DType::f64;
    auto fa = static_cast<float>(a), fb = static_cast<float>(b), fc = static_cast<float>(c);
    if (op == Op::remainder) return wide ? remainder_of(a, b) : remainder_of(fa, fb);
    if (op == Op::floor_div) return wide ? floor_div_of(a, b) : floor_div_of(fa, fb);
    return wide ? basic(op, a, b, c) : basic(op, fa, fb, fc);
}

uint64_t power_of(uint64_t base, uint64_t exponent) {
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

bool less(DType dtype, int64_t a, int64_t b) { return dtype == DType::u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b; }

/// Quotient rounded down and remainder with the divisor's sign; or towards zero, with the dividend's.
struct Divided {
    int64_t quotient, remainder;
};
Divided divide(DType dtype, int64_t a, int64_t b, bool floor) {
    if (dtype == DType::u64) {
        auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
        return {static_cast<int64_t>(ua / ub), static_cast<int64_t>(ua % ub)};
    }
    int64_t quotient = a / b, rest = a % b;
    if (floor && rest != 0 && (rest < 0) != (b < 0)) --quotient, rest += b;
    return {quotient, rest};
}

std::optional<int64_t> divided(Op op, DType dtype, int64_t a, int64_t b) {
    int64_t smallest = std::numeric_limits<int64_t>::min() >> (64 - bits_of(dtype));
    if (b == 0 || (is_signed_int(dtype) && b == -1 && a == smallest)) return std::nullopt;
    Divided both = divide(dtype, a, b, op != Op::fmod);
    return op == Op::floor_div ? both.quotient : both.remainder;
}

int64_t shifted(Op op, DType dtype, int64_t a, int64_t count) {
    bool outside = less(dtype, count, 0) || !less(dtype, count, bits_of(dtype));
    if (op == Op::shift_left) return outside ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << count);
    if (dtype == DType::u64) return outside ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) >> count);
    return outside ? (a < 0 ? -1 : 0) : a >> count;
}

std::optional<int64_t> int_result(Op op, DType dtype, int64_t a, int64_t b, int64_t c) {
    auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b), uc = static_cast<uint64_t>(c);
    bool truth = dtype == DType::b8;
    switch (op) {
    case Op::neg:
        return static_cast<int64_t>(0 - ua);
    case Op::abs:
        return less(dtype, a, 0) ? static_cast<int64_t>(0 - ua) : a;
    case Op::sign:
        return less(dtype, a, 0) ? -1 : a != 0;
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
        return a;
    case Op::relu:
        return less(dtype, a, 0) ? 0 : a;
    case Op::bitwise_not:
        return truth ? !a : ~a;
    case Op::add:
        return truth ? a | b : static_cast<int64_t>(ua + ub);
    case Op::sub:
        return static_cast<int64_t>(ua - ub);
    case Op::mul:
        return static_cast<int64_t>(ua * ub);
    case Op::fma:
        return static_cast<int64_t>(ua * ub + uc);
    case Op::floor_div:
    case Op::remainder:
    case Op::fmod:
        return divided(op, dtype, a, b);
    case Op::pow:
        return less(dtype, b, 0) ? std::nullopt : std::optional(static_cast<int64_t>(power_of(ua, ub)));
    case Op::maximum:
    case Op::fmax:
        return less(dtype, b, a) ? a : b;
    case Op::minimum:
    case Op::fmin:
        return less(dtype, a, b) ? a : b;
    case Op::bitwise_and:
        return a & b;
    case Op::bitwise_or:
        return a | b;
    case Op::bitwise_xor:
        return a ^ b;
    case Op::shift_left:
    case Op::shift_right:
        return shifted(op, dtype, a, b);
    default:
        DYNO_CHECK(false, std::string(info(op).name) + " of " + std::string(name_of(dtype)));
    }
    return 0;
}

bool truth_of(const Value& v) { return is_float(v.dtype) ? v.number != 0.0 : v.integer != 0; }

bool compare(Op op, const Value& x, const Value& y) {
    bool floats = is_float(x.dtype);
    bool below = floats ? x.number < y.number : less(x.dtype, x.integer, y.integer);
    bool above = floats ? x.number > y.number : less(x.dtype, y.integer, x.integer);
    bool equal = floats ? x.number == y.number : x.integer == y.integer;
    switch (op) {
    case Op::eq:
        return equal;
    case Op::ne:
        return !equal;
    case Op::lt:
        return below;
    case Op::le:
        return below || equal;
    case Op::gt:
        return above;
    case Op::ge:
        return above || equal;
    default:
        DYNO_CHECK(false, std::string(info(op).name));
    }
    return false;
}

bool predicate(Op op, std::span<const Value> v) {
    bool floats = is_float(v[0].dtype);
    switch (op) {
    case Op::logical_not:
        return !truth_of(v[0]);
    case Op::logical_and:
        return truth_of(v[0]) && truth_of(v[1]);
    case Op::logical_or:
        return truth_of(v[0]) || truth_of(v[1]);
    case Op::logical_xor:
        return truth_of(v[0]) != truth_of(v[1]);
    case Op::isnan:
        return floats && std::isnan(v[0].number);
    case Op::isinf:
        return floats && std::isinf(v[0].number);
    case Op::isfinite:
        return !floats || std::isfinite(v[0].number);
    case Op::signbit:
        return floats ? std::signbit(v[0].number) : less(v[0].dtype, v[0].integer, 0);
    default:
        return compare(op, v[0], v[1]);
    }
}

int64_t truncated(double value, DType to) {
    if (to == DType::u64 && value >= 0x1p63) {
        double rest = value - 0x1p63;
        return static_cast<int64_t>((rest < 0x1p63 ? static_cast<uint64_t>(rest) : uint64_t{1} << 63) ^ (uint64_t{1} << 63));
    }
    bool wide = to == DType::u32 || size_of(to) == 8;
    double limit = wide ? 0x1p63 : 0x1p31, whole = std::trunc(value);
    if (!(whole >= -limit && whole < limit)) return wide ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
    return static_cast<int64_t>(whole);
}

} // namespace

bool Value::same_as(const Value& other) const {
    if (dtype != other.dtype) return false;
    if (!is_float(dtype)) return integer == other.integer;
    return (std::isnan(number) && std::isnan(other.number)) || std::bit_cast<uint64_t>(number) == std::bit_cast<uint64_t>(other.number);
}

Value convert(Value value, DType to) {
    if (is_float(to)) {
        if (is_float(value.dtype)) return Value::of_float(to, round_through_f32(to, value.number));
        bool narrow = to == DType::f32 || is_half(to);
        double number = 0;
        if (value.dtype == DType::u64) {
            auto word = static_cast<uint64_t>(value.integer);
            number = narrow ? static_cast<float>(word) : static_cast<double>(word);
        } else {
            number = narrow ? static_cast<float>(value.integer) : static_cast<double>(value.integer);
        }
        return Value::of_float(to, round_to(to, number));
    }
    if (to == DType::b8) return Value::of_int(to, truth_of(value));
    int64_t word = is_float(value.dtype) ? truncated(value.number, to) : value.integer;
    return Value::of_int(to, wrap_to(to, word));
}

std::optional<Value> apply(ScalarOp op, DType result, std::span<const Value> v) {
    DYNO_CHECK(v.size() == info(op).arity, std::string(info(op).name));
    if (op == Op::cast) return convert(v[0], result);
    if (op == Op::select) return truth_of(v[0]) ? v[1] : v[2];
    if (info(op).result == ResultRule::b8) return Value::of_int(DType::b8, predicate(op, v));
    if (is_float(v[0].dtype)) {
        double number = float_result(op, result, v[0].number, v.size() > 1 ? v[1].number : 0.0, v.size() > 2 ? v[2].number : 0.0);
        return Value::of_float(result, round_through_f32(result, number));
    }
    std::optional<int64_t> word = int_result(op, result, v[0].integer, v.size() > 1 ? v[1].integer : 0, v.size() > 2 ? v[2].integer : 0);
    if (!word) return std::nullopt;
    return Value::of_int(result, wrap_to(result, *word));
}

std::optional<std::vector<Value>> evaluate(const ScalarExpr& expr, const Environment& environment) {
    std::vector<Value> values;
    for (const Instruction& in : expr.code) {
        Value operands[3];
        int arity = info(in.op).arity;
        for (int i = 0; i < arity; ++i) operands[i] = values.at(in.operands[i]);
        std::optional<Value> value;
        switch (in.op) {
        case Op::load:
            value = environment.loads[in.parameter];
            break;
        case Op::scalar:
            value = environment.scalars[in.parameter];
            break;
        case Op::index:
            value = Value::of_int(in.dtype, wrap_to(in.dtype, environment.indices[in.parameter]));
            break;
        case Op::constant:
            value = is_float(in.dtype) ? Value::of_float(in.dtype, in.number) : Value::of_int(in.dtype, in.integer);
            break;
        default:
            value = apply(in.op, in.dtype, std::span<const Value>(operands, arity));
        }
        if (!value) return std::nullopt;
        values.push_back(*value);
    }
    std::vector<Value> results;
    for (ValueId id : expr.results) results.push_back(values.at(id));
    return results;
}

} // namespace dyno::scalar
