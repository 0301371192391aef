// Elements of host arrays as scalar values.
#include "compiler/graph/interpret.h"
#include "compiler/scalar/round.h"
#include "compiler/support/check.h"
#include <cstring>

namespace dyno::graph {

using scalar::Value;

namespace {

template <class T>
T word(const uint8_t* at) {
    T out;
    std::memcpy(&out, at, sizeof out);
    return out;
}

template <class T>
void put(uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

} // namespace

HostArray::HostArray(DType element, std::vector<int64_t> sizes) : dtype(element), dims(std::move(sizes)) {
    bytes.resize(numel() * size_of(dtype));
}

int64_t HostArray::numel() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
}

Value HostArray::at(int64_t i) const {
    const uint8_t* p = bytes.data() + i * size_of(dtype);
    switch (dtype) {
    case DType::f64:
        return Value::of_float(dtype, word<double>(p));
    case DType::f32:
        return Value::of_float(dtype, word<float>(p));
    case DType::f16:
        return Value::of_float(dtype, scalar::half_to_float(word<uint16_t>(p)));
    case DType::bf16:
        return Value::of_float(dtype, scalar::bfloat_to_float(word<uint16_t>(p)));
    case DType::b8:
        return Value::of_int(dtype, *p != 0);
    case DType::u8:
        return Value::of_int(dtype, *p);
    case DType::i8:
        return Value::of_int(dtype, word<int8_t>(p));
    case DType::u16:
        return Value::of_int(dtype, word<uint16_t>(p));
    case DType::i16:
        return Value::of_int(dtype, word<int16_t>(p));
    case DType::u32:
        return Value::of_int(dtype, word<uint32_t>(p));
    case DType::i32:
        return Value::of_int(dtype, word<int32_t>(p));
    case DType::u64:
    case DType::i64:
        return Value::of_int(dtype, word<int64_t>(p));
    default:
        DYNO_CHECK(false, std::string(name_of(dtype)));
    }
    return {};
}

void HostArray::set(int64_t i, const Value& value) {
    DYNO_CHECK(value.dtype == dtype, std::string(name_of(value.dtype)) + " into " + std::string(name_of(dtype)));
    uint8_t* p = bytes.data() + i * size_of(dtype);
    if (dtype == DType::f64) return put(p, value.number);
    if (dtype == DType::f32) return put(p, static_cast<float>(value.number));
    if (dtype == DType::f16) return put(p, scalar::double_to_half(value.number));
    if (dtype == DType::bf16) return put(p, scalar::float_to_bfloat(static_cast<float>(value.number)));
    switch (size_of(dtype)) {
    case 1:
        return put(p, static_cast<int8_t>(value.integer));
    case 2:
        return put(p, static_cast<int16_t>(value.integer));
    case 4:
        return put(p, static_cast<int32_t>(value.integer));
    default:
        return put(p, value.integer);
    }
}

} // namespace dyno::graph
