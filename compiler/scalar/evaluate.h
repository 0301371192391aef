// The reference evaluator of scalar expressions: exact meaning per dtype, on host numbers. The oracle of generated code.
// Slow and plain; never used at run time.
//
// Meaning, by dtype of the op:
//   f64, f32   IEEE, every op rounded to the dtype, no contraction (fma is one op). f16, bf16: operands are exact in f32, the op
//              is done in f32 and rounded once. Transcendental ops: the host's f64 functions, rounded (f64: the host's ulp).
//   integers   two's complement, wrap around. b8: 0 or 1; add is or, mul is and, max and min as of 0 and 1.
//   maximum    isnan(a) || a > b ? a : b      minimum  isnan(a) || a < b ? a : b     (so of two equal zeros the second)
//   fmax       isnan(a) ? b : isnan(b) ? a : a < b ? b : a          fmin likewise   (of two equal zeros the first)
//   relu       0 > x ? 0 : x (NaN and -0.0 stay)       sign  NaN and zeros give +0
//   sigmoid    1 / (1 + exp(-x)); rsqrt 1 / sqrt(x), rounded twice
//   floor_div  floats: the quotient of (a - fmod(a, b)), as CPython's; a / b if b is 0; integers: floor
//   remainder  fmod plus b if the signs differ (a zero keeps fmod's sign); integers: sign of the divisor
//   pow        integers: by multiplication, wrapping
//   shifts     a count below 0 or of the width and more: 0, for shift_right of negative values -1
//   cast       float to i8, u8, i16, u16, i32: x86's cvttss2si to 32 bits (NaN and out of range INT32_MIN), low bits kept; to u32,
//              i64: the same with 64 bits; u64: from 2^63 on by subtracting 2^63 first. To b8: != 0 (NaN is true).
//              f64 to f16, bf16 and integers to f16, bf16: by way of f32 (two roundings). Integers to integers: wrap.
#pragma once
#include "compiler/scalar/scalar_expr.h"
#include <optional>
#include <span>
#include <string>

namespace dyno::scalar {

/// A value of some dtype: `number` for floats (exact in the dtype), `integer` for integers and b8 (u64: its bits).
struct Value {
    DType dtype = DType::none;
    double number = 0.0;
    int64_t integer = 0;
    static Value of_float(DType dtype, double number) { return {dtype, number, 0}; }
    static Value of_int(DType dtype, int64_t integer) { return {dtype, 0.0, integer}; }
    /// Bit for bit, but all NaNs are one.
    bool same_as(const Value& other) const;
};

/// One op on values; nullopt if it trapped (zero divisor, negative integer exponent).
std::optional<Value> apply(ScalarOp op, DType result, std::span<const Value> operands);
/// The cast's meaning.
Value convert(Value value, DType to);

/// Inputs of one element: load and scalar parameters by number, the indices of the loop axes.
struct Environment {
    std::span<const Value> loads, scalars;
    std::span<const int64_t> indices;
};
/// The values of expr.results; nullopt if any instruction trapped.
std::optional<std::vector<Value>> evaluate(const ScalarExpr& expr, const Environment& environment);

} // namespace dyno::scalar
