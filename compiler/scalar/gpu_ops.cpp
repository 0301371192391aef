// The table of what has no GPU form yet.
#include "compiler/scalar/gpu_ops.h"

namespace dyno::scalar {

const char* not_on_gpu(ScalarOp op, DType operand) {
    switch (op) {
    case ScalarOp::atan:
    case ScalarOp::asin:
    case ScalarOp::acos:
    case ScalarOp::atan2:
        return "GPU loops have no inverse trigonometric functions";
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log2:
    case ScalarOp::log10:
    case ScalarOp::log1p:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
    case ScalarOp::sinh:
    case ScalarOp::cosh:
    case ScalarOp::hypot:
        return operand == DType::f64 ? "GPU loops compute it for float32 and narrower only" : nullptr;
    case ScalarOp::pow:
        return operand == DType::f64 ? "GPU loops compute it for float32 and narrower only"
               : is_float(operand)   ? nullptr
                                     : "GPU loops raise no integers to powers";
    case ScalarOp::floor_div:
    case ScalarOp::remainder:
    case ScalarOp::fmod:
        return is_float(operand) ? "GPU loops have no exact remainder of floats" : nullptr;
    default:
        return nullptr;
    }
}

} // namespace dyno::scalar
