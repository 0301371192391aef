// Rounding of host numbers to an element type, and the bit patterns of the 16-bit floats.
// The one definition of what "rounded to the tensor's dtype" means; constants, the evaluator and the interpreter use it.
#pragma once
#include "compiler/scalar/dtype.h"
#include <cstdint>

namespace dyno::scalar {

/// Nearest value of a float dtype, ties to even, one rounding; overflow gives infinity.
double round_to(DType dtype, double value);

/// A double converted to a float dtype as torch does: f16 and bf16 by way of f32 (two roundings).
double round_through_f32(DType dtype, double value);

/// The low bits of an integer read back in an integer dtype: two's complement wrap-around; b8 gives value != 0.
int64_t wrap_to(DType dtype, int64_t value);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
/// One rounding from double, as NumPy's npy_double_to_half.
uint16_t double_to_half(double value);
float bfloat_to_float(uint16_t bits);
/// Nearest even; NaN becomes the quiet NaN 0x7fc0 as in torch.
uint16_t float_to_bfloat(float value);

} // namespace dyno::scalar
