// Conversions between host numbers and 16-bit floats by integer arithmetic, so that no compiler flag changes them.
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include <bit>
#include <cmath>

namespace dyno::scalar {

namespace {

/// Rounds a finite double to a binary float of `precision` bits and smallest normal exponent `min_exponent`, once, ties to
/// even. Overflow is left to the caller.
double round_bits(double value, int precision, int min_exponent) {
    if (value == 0.0) return value;
    int exponent = 0;
    std::frexp(value, &exponent); // value = m * 2^exponent, 0.5 <= |m| < 1
    int quantum = std::max(exponent - precision, min_exponent - precision + 1);
    return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

} // namespace

float half_to_float(uint16_t bits) {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
    if (exponent == 0) {
        float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
        return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t double_to_half(double value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | 0x7e00;
    double magnitude = std::fabs(value);
    double rounded = std::isinf(magnitude) ? magnitude : round_bits(magnitude, 11, -14);
    if (rounded > 65504.0) return sign | 0x7c00;
    if (rounded < 0x1p-14) return sign | static_cast<uint16_t>(rounded * 0x1p24);
    int exponent = 0;
    double mantissa = std::frexp(rounded, &exponent); // in [0.5, 1)
    return sign | static_cast<uint16_t>(((exponent + 14) << 10) + static_cast<int>(mantissa * 2048.0) - 1024);
}

uint16_t float_to_half(float value) { return double_to_half(value); }

float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat(float value) {
    if (std::isnan(value)) return 0x7fc0;
    uint32_t bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double round_to(DType dtype, double value) {
    switch (dtype) {
    case DType::f64:
        return value;
    case DType::f32:
        return static_cast<float>(value);
    case DType::f16:
        return std::isnan(value) ? value : half_to_float(double_to_half(value));
    case DType::bf16: {
        if (!std::isfinite(value)) return value;
        double rounded = round_bits(value, 8, -126);
        return std::fabs(rounded) > 0x1.fep127 ? std::copysign(HUGE_VAL, value) : rounded;
    }
    default:
        DYNO_CHECK(false, std::string(name_of(dtype)));
    }
    return value;
}

double round_through_f32(DType dtype, double value) {
    if (dtype == DType::f16 || dtype == DType::bf16) return round_to(dtype, static_cast<float>(value));
    return round_to(dtype, value);
}

int64_t wrap_to(DType dtype, int64_t value) {
    switch (dtype) {
    case DType::b8:
        return value != 0;
    case DType::u8:
        return static_cast<uint8_t>(value);
    case DType::i8:
        return static_cast<int8_t>(value);
    case DType::u16:
        return static_cast<uint16_t>(value);
    case DType::i16:
        return static_cast<int16_t>(value);
    case DType::u32:
        return static_cast<uint32_t>(value);
    case DType::i32:
        return static_cast<int32_t>(value);
    case DType::u64:
    case DType::i64:
        return value;
    default:
        DYNO_CHECK(false, std::string(name_of(dtype)));
    }
    return value;
}

} // namespace dyno::scalar
