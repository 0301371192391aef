// rules.def looked up and applied.
#include "compiler/graph/rules.h"
#include "compiler/graph/op_info.h"
#include "compiler/support/check.h"
#include <fmt/format.h>

namespace dyno::graph {

namespace {

enum class Computes : uint8_t { same, real, real64, int8 };

struct Row {
    Op op;
    std::string_view accepts[2];
    Computes computes[2];
    bool truth;
};

namespace column {
constexpr bool same = false, b8 = true;
}

constexpr Row rows[] = {
#define DYNO_RULE(op, torch_accepts, torch_computes, numpy_accepts, numpy_computes, result)                                                \
    {Op::op, {torch_accepts, numpy_accepts}, {Computes::torch_computes, Computes::numpy_computes}, column::result},
#include "compiler/graph/rules.def"
#undef DYNO_RULE
};

const Row* row_of(Op op) {
    for (const Row& row : rows)
        if (row.op == op) return &row;
    return nullptr;
}

char class_of(Domain domain, DType dtype) {
    if (dtype == DType::b8) return 'B';
    if (is_float(dtype)) return domain == Domain::numpy && dtype == DType::bf16 ? '?' : 'F';
    if (!is_int(dtype)) return '?';
    return domain == Domain::torch && (dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64) ? 'U' : 'I';
}

DType numpy_loop(DType dtype) { return size_of(dtype) == 1 ? DType::f16 : size_of(dtype) == 2 ? DType::f32 : DType::f64; }

/// NumPy picks the loop of a float-only function by what every operand fits in, not by their common integer type:
/// i8 with u16 is f32, though their common type is i32. Python numbers count where they lift the kind.
DType numpy_real(DType common, std::span<const PromotionOperand> operands) {
    DType widest = DType::f16;
    bool strong = false;
    for (const PromotionOperand& operand : operands) {
        if (operand.wrapped) continue;
        DType loop = is_float(operand.dtype) ? operand.dtype : numpy_loop(operand.dtype);
        if (size_of(loop) > size_of(widest)) widest = loop;
        strong |= operand.dtype != DType::b8 || common == DType::b8;
    }
    if (!strong) return is_float(common) ? common : numpy_loop(common);
    return is_float(common) && size_of(common) > size_of(widest) ? common : widest;
}

DType compute_dtype(Computes how, Domain domain, DType common, std::span<const PromotionOperand> operands, DType default_float) {
    if (how == Computes::same) return common;
    if (how == Computes::int8) return domain == Domain::numpy && common == DType::b8 ? DType::i8 : common;
    if (domain == Domain::torch) return is_float(common) ? common : default_float;
    if (how == Computes::real64) return is_float(common) ? common : DType::f64;
    return numpy_real(common, operands);
}

bool sub_of_bools(std::span<const PromotionOperand> operands) {
    for (const PromotionOperand& operand : operands)
        if (operand.dtype == DType::b8) return true;
    return false;
}

bool mixes_u64_with_signed(std::span<const PromotionOperand> operands) {
    bool u64 = false, other = false;
    for (const PromotionOperand& operand : operands) {
        if (operand.wrapped) continue;
        u64 |= operand.dtype == DType::u64;
        other |= is_signed_int(operand.dtype);
    }
    return u64 && other;
}

std::string dtypes_text(std::span<const PromotionOperand> operands) {
    std::string out;
    for (const PromotionOperand& operand : operands) out += fmt::format("{}{}", out.empty() ? "" : ", ", name_of(operand.dtype));
    return out;
}

} // namespace

Result<DTypeRule> elementwise_rule(Op op, Domain domain, std::span<const PromotionOperand> operands, DType default_float) {
    const Row* row = row_of(op);
    DYNO_CHECK(row, std::string(info(op).name));
    auto refuse = [&](const char* why) { return Refusal{fmt::format("{} of {}: {}", info(op).name, dtypes_text(operands), why)}; };
    DType common = common_dtype(domain, operands, default_float);
    if (common == DType::none) return refuse("no common element type");
    int library = static_cast<int>(domain);
    if (row->accepts[library].find(class_of(domain, common)) == std::string_view::npos) return refuse("not defined for this element type");
    if (op == Op::sub && domain == Domain::torch && sub_of_bools(operands)) return refuse("torch does not subtract bools");
    bool compares = op >= Op::eq && op <= Op::ge;
    if (compares && domain == Domain::numpy && mixes_u64_with_signed(operands))
        return refuse("NumPy compares these exactly, without a common type");
    DType compute = compute_dtype(row->computes[library], domain, common, operands, default_float);
    return DTypeRule{compute, row->truth ? DType::b8 : compute};
}

Result<DTypeRule> reduction_rule(Op op, Domain domain, DType operand, DType requested, DType default_float) {
    bool numpy = domain == Domain::numpy;
    char kind = class_of(domain, operand);
    auto refuse = [&] { return Refusal{fmt::format("{} of {}: not defined for this element type", info(op).name, name_of(operand))}; };
    if (kind == '?' || is_complex(requested)) return refuse();
    switch (op) {
    case Op::sum:
    case Op::prod: {
        DType result = is_float(operand) ? operand : numpy && is_unsigned_int(operand) ? DType::u64 : DType::i64;
        if (requested != DType::none) result = requested;
        return DTypeRule{result, result};
    }
    case Op::amax:
    case Op::amin:
    case Op::first_max:
    case Op::first_min:
        if (kind == 'U') return refuse();
        return DTypeRule{operand, operand};
    case Op::argmax:
    case Op::argmin:
        if (kind == 'U' || (!numpy && kind == 'B')) return refuse();
        return DTypeRule{operand, DType::i64};
    case Op::any:
    case Op::all:
        return DTypeRule{DType::b8, !numpy && operand == DType::u8 ? DType::u8 : DType::b8};
    case Op::welford_mean:
    case Op::welford_var:
        if (operand != DType::f32 && operand != DType::f64) return refuse();
        return DTypeRule{operand, operand};
    case Op::mean:
    case Op::var: {
        DType compute = requested != DType::none ? requested : operand;
        if (is_float(compute)) return DTypeRule{compute, compute};
        if (!numpy) return refuse();
        return DTypeRule{DType::f64, DType::f64};
    }
    case Op::logsumexp:
        if (numpy) return refuse();
        return is_float(operand) ? DTypeRule{operand, operand} : DTypeRule{default_float, default_float};
    case Op::softmax:
    case Op::log_softmax: {
        DType compute = requested != DType::none ? requested : operand;
        if (numpy || !is_float(compute)) return refuse();
        return DTypeRule{compute, compute};
    }
    case Op::layer_norm:
    case Op::rms_norm:
    case Op::gelu:
    case Op::silu:
    case Op::softplus:
        if (numpy || !is_float(operand)) return refuse();
        return DTypeRule{operand, operand};
    default:
        break;
    }
    return refuse();
}

} // namespace dyno::graph
