// Promotion by arithmetic on kinds and sizes rather than by a square table.
#include "compiler/graph/promote.h"
#include <algorithm>

namespace dyno::graph {

namespace {

bool wide_unsigned(DType t) { return t == DType::u16 || t == DType::u32 || t == DType::u64; }

DType signed_of(int64_t bytes) { return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64; }

DType float_of(int64_t bytes) { return bytes <= 2 ? DType::f16 : bytes == 4 ? DType::f32 : DType::f64; }

/// Higher wins by kind; a lower category counts only where its kind is above the higher category's.
DType over(DType higher, DType lower) {
    if (higher == DType::none) return lower;
    if (lower == DType::none || is_float(higher)) return higher;
    if (higher == DType::b8 || is_float(lower)) return promote_torch(higher, lower);
    return higher;
}

DType common_torch(std::span<const PromotionOperand> operands, DType default_float) {
    DType dimensioned = DType::none, zero = DType::none, number = DType::none;
    for (const PromotionOperand& operand : operands) {
        DType& category = operand.wrapped ? number : operand.zero_dim ? zero : dimensioned;
        DType dtype = operand.wrapped && is_float(operand.dtype) ? default_float : operand.dtype;
        category = category == DType::none ? dtype : promote_torch(category, dtype);
        if (category == DType::none) return DType::none;
    }
    return over(over(dimensioned, zero), number);
}

/// NEP 50: strong operands decide; a Python number only lifts the kind (bool < int < float) where theirs is lower.
DType common_numpy(std::span<const PromotionOperand> operands) {
    DType strong = DType::none;
    int weak_kind = -1;
    for (const PromotionOperand& operand : operands) {
        if (operand.wrapped)
            weak_kind = std::max(weak_kind, operand.dtype == DType::b8 ? 0 : is_float(operand.dtype) ? 2 : 1);
        else
            strong = strong == DType::none ? operand.dtype : promote_numpy(strong, operand.dtype);
    }
    DType weak = weak_kind < 0 ? DType::none : weak_kind == 0 ? DType::b8 : weak_kind == 1 ? DType::i64 : DType::f64;
    if (strong == DType::none) return weak;
    int kind = strong == DType::b8 ? 0 : is_float(strong) ? 2 : 1;
    return weak_kind > kind ? weak : strong;
}

} // namespace

DType promote_torch(DType a, DType b) {
    if (a == b) return a;
    if (is_complex(a) || is_complex(b) || a == DType::none || b == DType::none) return DType::none;
    if (is_float(a) && is_float(b)) return size_of(a) == size_of(b) ? DType::f32 : size_of(a) > size_of(b) ? a : b;
    if (is_float(a)) return a;
    if (is_float(b)) return b;
    if (wide_unsigned(a) || wide_unsigned(b)) return DType::none;
    if (a == DType::b8) return b;
    if (b == DType::b8) return a;
    if (a == DType::u8 || b == DType::u8) return signed_of(std::max<int64_t>(2, std::max(size_of(a), size_of(b))));
    return size_of(a) > size_of(b) ? a : b;
}

DType promote_numpy(DType a, DType b) {
    if (a == b) return a;
    if (is_complex(a) || is_complex(b) || a == DType::none || b == DType::none || a == DType::bf16 || b == DType::bf16) return DType::none;
    if (a == DType::b8) return b;
    if (b == DType::b8) return a;
    if (is_float(a) && is_float(b)) return size_of(a) > size_of(b) ? a : b;
    if (is_float(b)) std::swap(a, b);
    if (is_float(a)) return float_of(std::max(size_of(a), size_of(b) == 1 ? 2 : 2 * size_of(b)));
    if (is_unsigned_int(a) == is_unsigned_int(b)) return size_of(a) > size_of(b) ? a : b;
    if (is_unsigned_int(b)) std::swap(a, b);
    if (a == DType::u64) return DType::f64;
    return signed_of(std::max(2 * size_of(a), size_of(b)));
}

DType common_dtype(Domain domain, std::span<const PromotionOperand> operands, DType default_float) {
    return domain == Domain::torch ? common_torch(operands, default_float) : common_numpy(operands);
}

} // namespace dyno::graph
