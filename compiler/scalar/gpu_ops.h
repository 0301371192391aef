// Which scalar operations GPU loops compute. The rest is called in torch: there is no C library on a GPU.
#pragma once
#include "compiler/scalar/scalar_expr.h"

namespace dyno::scalar {

/// Null if GPU loops compute the op on operands of that dtype, else why not, for people.
const char* not_on_gpu(ScalarOp op, DType operand);

} // namespace dyno::scalar
