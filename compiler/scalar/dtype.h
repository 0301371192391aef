// Element types of tensors and arrays: one list, shared by torch and NumPy, with the facts every stage asks for.
#pragma once
#include <cstdint>
#include <string_view>

namespace dyno {

/// Element types. The order is part of nothing; the names are those of the text form.
enum class DType : uint8_t { none, b8, u8, i8, i16, i32, i64, u16, u32, u64, f16, bf16, f32, f64, c64, c128 };

constexpr int dtype_count = 16;

/// Bytes of one element; 0 for none.
constexpr int64_t size_of(DType t) {
    switch (t) {
    case DType::none:
        return 0;
    case DType::b8:
    case DType::u8:
    case DType::i8:
        return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
        return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32:
        return 4;
    case DType::i64:
    case DType::u64:
    case DType::f64:
    case DType::c64:
        return 8;
    case DType::c128:
        return 16;
    }
    return 0;
}
constexpr bool is_float(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64; }
constexpr bool is_complex(DType t) { return t == DType::c64 || t == DType::c128; }
constexpr bool is_signed_int(DType t) { return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64; }
constexpr bool is_unsigned_int(DType t) { return t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64; }
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }
/// The text form: "f32", "i64", "b8".
constexpr std::string_view name_of(DType t) {
    constexpr std::string_view names[dtype_count] = {"none", "b8",  "u8",  "i8",   "i16", "i32", "i64", "u16",
                                                     "u32",  "u64", "f16", "bf16", "f32", "f64", "c64", "c128"};
    return names[static_cast<int>(t)];
}

} // namespace dyno
