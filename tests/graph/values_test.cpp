// Bit for bit against torch and NumPy: builder, compose, decompose and interpreter together (op_values.tsv, written by
// tools/op_values.py). Exact rows must give the same bits; gated and ordered ones lie within a few units of the last place.
#include "compiler/graph/compose.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/interpret.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/simplify.h"
#include "compiler/graph/verify.h"
#include <cmath>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

using namespace dyno;
using namespace dyno::graph;

namespace {

DType dtype_named(const std::string& name) {
    for (int i = 0; i < dtype_count; ++i)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    return DType::none;
}

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> out;
    std::stringstream in(text);
    for (std::string part; std::getline(in, part, by);) out.push_back(part);
    return out;
}

HostArray array_of(const std::string& dtype, const std::string& hex) {
    HostArray out;
    out.dtype = dtype_named(dtype);
    for (size_t i = 0; i + 1 < hex.size(); i += 2) out.bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    out.dims = {static_cast<int64_t>(out.bytes.size()) / size_of(out.dtype)};
    return out;
}

/// The arguments of one line as nodes.
struct Arguments {
    Builder b;
    Domain domain;
    std::vector<Operand> operands;
    std::vector<HostArray> inputs;
    NodeId operator[](size_t i) const { return operands[i].node; }
    Operand number(double value) { return {b.constant(value, DType::f64, domain), true}; }
    NodeId matrix(size_t i, std::vector<int64_t> dims) {
        int64_t n = dims[0] * dims[1];
        return *b.build(Op::reshape, {*compose::narrow(b, operands[i].node, 0, 0, n)}, {.dims = dims});
    }
    NodeId row(size_t i, int64_t n) { return *compose::narrow(b, operands[i].node, 0, 0, n); }
    NodeId positive(size_t i) { return *b.build(Op::gt, {operands[i], number(0.0)}); }
};

using Call = std::function<Result<NodeId>(Arguments&)>;

namespace c = compose;

/// Composite row over the second axis of a 6 x 11 matrix.
Call over_rows(Op op, double number = 0.0, bool drop = true) {
    return [=](Arguments& a) -> Result<NodeId> {
        NodeId x = a.matrix(0, {6, 11});
        return drop ? c::reduce(a.b, op, x, {1}, false, DType::none, number) : a.b.build(op, {x}, {.ints = {1}, .number = number});
    };
}

Call cross_entropy(c::LossReduction reduction) {
    return [=](Arguments& a) { return c::cross_entropy(a.b, a.matrix(0, {6, 11}), a[1], -100, reduction); };
}

const std::map<std::string, Call> calls = {
    {"cross_entropy_none", cross_entropy(c::LossReduction::none)},
    {"cross_entropy_mean", cross_entropy(c::LossReduction::mean)},
    {"cross_entropy_sum", cross_entropy(c::LossReduction::sum)},
    {"lerp_0.1", [](Arguments& a) { return c::lerp(a.b, a[0], a[1], a.number(0.1)); }},
    {"lerp_0.7", [](Arguments& a) { return c::lerp(a.b, a[0], a[1], a.number(0.7)); }},
    {"lerp", [](Arguments& a) { return c::lerp(a.b, a[0], a[1], a[2]); }},
    {"addcmul", [](Arguments& a) { return c::addcmul(a.b, a[0], a[1], a[2], 0.1); }},
    {"addcmul_1", [](Arguments& a) { return c::addcmul(a.b, a[0], a[1], a[2], 1.0); }},
    {"addcdiv", [](Arguments& a) { return c::addcdiv(a.b, a[0], a[1], a[2], 0.1); }},
    {"addcdiv_1", [](Arguments& a) { return c::addcdiv(a.b, a[0], a[1], a[2], 1.0); }},
    {"add_alpha", [](Arguments& a) { return c::add(a.b, a[0], a[1], 0.1); }},
    {"sub_alpha", [](Arguments& a) { return c::sub(a.b, a[0], a[1], 0.3); }},
    {"number_over", [](Arguments& a) { return c::number_over(a.b, a.number(3.3), a[0]); }},
    {"rsub", [](Arguments& a) { return c::sub(a.b, a.number(1.1), a[0], 1.0); }},
    {"square", [](Arguments& a) { return c::square(a.b, a[0]); }},
    {"clamp", [](Arguments& a) { return c::clamp(a.b, a[0], a.number(-0.3), a.number(1.1)); }},
    {"clamp_tensors", [](Arguments& a) { return c::clamp(a.b, a[0], a.operands[1], a.operands[2]); }},
    {"masked_fill", [](Arguments& a) { return c::masked_fill(a.b, a[0], a.positive(1), a.number(0.1)); }},
    {"leaky_relu", [](Arguments& a) { return c::leaky_relu(a.b, a[0], 0.1); }},
    {"elu", [](Arguments& a) { return c::elu(a.b, a[0], 1.3); }},
    {"hardtanh", [](Arguments& a) { return c::hardtanh(a.b, a[0], -0.4, 0.3); }},
    {"hardswish", [](Arguments& a) { return c::hardswish(a.b, a[0]); }},
    {"hardsigmoid", [](Arguments& a) { return c::hardsigmoid(a.b, a[0]); }},
    {"logsigmoid", [](Arguments& a) { return c::logsigmoid(a.b, a[0]); }},
    {"mish", [](Arguments& a) { return c::mish(a.b, a[0]); }},
    {"glu", [](Arguments& a) { return c::glu(a.b, a.row(0, 66), -1); }},
    {"mse", [](Arguments& a) { return c::mse_loss(a.b, a[0], a[1], c::LossReduction::none); }},
    {"l1", [](Arguments& a) { return c::l1_loss(a.b, a[0], a[1], c::LossReduction::none); }},
    {"bce",
     [](Arguments& a) { return c::bce_with_logits(a.b, a[0], a.b.cast(a.positive(1), a.b.type(a[0]).dtype), c::LossReduction::none); }},
    {"nan_to_num",
     [](Arguments& a) {
         NodeId low = *a.b.build(Op::where, {*a.b.build(Op::lt, {a[0], a.number(-1.0)}), a.number(NAN), a[0]});
         NodeId both = *a.b.build(Op::where, {*a.b.build(Op::gt, {a[0], a.number(1.0)}), a.number(INFINITY), low});
         return c::nan_to_num(a.b, both, 0.0, std::nullopt, std::nullopt);
     }},
    {"tril",
     [](Arguments& a) {
         return c::triangle(a.b, a.matrix(0, {8, 8}), 1, true);
     }},
    {"softmax", over_rows(Op::softmax, 0.0, false)},
    {"log_softmax", over_rows(Op::log_softmax, 0.0, false)},
    {"layer_norm",
     [](Arguments& a) {
         return a.b.build(Op::layer_norm, {a.matrix(0, {6, 11}), a.row(1, 11), a.row(2, 11)}, {.ints = {1}, .number = 1e-5});
     }},
    {"rms_norm",
     [](Arguments& a) {
         return a.b.build(Op::rms_norm, {a.matrix(0, {6, 11}), a.row(1, 11)}, {.ints = {1}, .number = 1e-5});
     }},
    {"gelu", [](Arguments& a) { return a.b.build(Op::gelu, {a[0]}, {.ints = {0}}); }},
    {"gelu_tanh", [](Arguments& a) { return a.b.build(Op::gelu, {a[0]}, {.ints = {1}}); }},
    {"silu", [](Arguments& a) { return a.b.build(Op::silu, {a[0]}); }},
    {"softplus",
     [](Arguments& a) {
         return a.b.build(Op::softplus, {*a.b.build(Op::mul, {a[0], a.number(10.0)})}, {.number = 20});
     }},
    {"mean", over_rows(Op::mean)},
    {"var", over_rows(Op::var, 1.0)},
    {"std",
     [](Arguments& a) {
         return c::standard_deviation(a.b, a.matrix(0, {6, 11}), {0}, false, 0.0);
     }},
    {"sum", over_rows(Op::sum)},
    {"logsumexp", over_rows(Op::logsumexp)},
    {"argmax", over_rows(Op::argmax)},
};

/// How far a call's result may be from eager's, in units of the last place of its dtype.
double tolerance(const std::string& call, DType dtype) {
    static const std::set<std::string> loose = {"exp",
                                                "log",
                                                "tanh",
                                                "pow",
                                                "logsigmoid",
                                                "mish",
                                                "glu",
                                                "bce",
                                                "softmax",
                                                "log_softmax",
                                                "layer_norm",
                                                "gelu",
                                                "rms_norm",
                                                "silu",
                                                "elu",
                                                "softplus",
                                                "mean",
                                                "var",
                                                "std",
                                                "sum",
                                                "logsumexp",
                                                "gelu_tanh",
                                                "cross_entropy_none",
                                                "cross_entropy_mean",
                                                "cross_entropy_sum"};
    if (call == "sqrt") return 1;
    if (!loose.contains(call)) return 0;
    return dtype == DType::f32 || dtype == DType::f64 ? 16 : 1;
}

double unit(DType dtype, double at) {
    int bits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : dtype == DType::f32 ? 24 : 53;
    double magnitude = std::max(std::fabs(at), dtype == DType::f16 ? 0x1p-14 : 0x1p-126);
    return std::ldexp(1.0, std::ilogb(magnitude) - bits + 1);
}

/// Sums that cancel are compared at the size of what was summed, which is about one here.
double scale_of(const std::string& call, double at) {
    static const std::set<std::string> cancels = {"sum",       "mean", "layer_norm",         "log_softmax",        "gelu",
                                                  "gelu_tanh", "bce",  "cross_entropy_none", "cross_entropy_mean", "cross_entropy_sum"};
    return cancels.contains(call) ? std::max(1.0, std::fabs(at)) : at;
}

bool alike(const std::string& call, const scalar::Value& got, const scalar::Value& expected) {
    if (got.same_as(expected)) return true;
    if (!is_float(got.dtype) || std::isnan(got.number) != std::isnan(expected.number)) return false;
    // Which of two zeros wins depends in eager on whether the element falls into a vector or into the tail.
    bool either_zero = call == "maximum" || call == "minimum" || call == "fmax" || call == "fmin" || call == "pow";
    if (either_zero && got.number == 0.0 && expected.number == 0.0) return true;
    if (std::isinf(got.number) || std::isinf(expected.number)) return false;
    return std::fabs(got.number - expected.number) <= tolerance(call, got.dtype) * unit(got.dtype, scale_of(call, expected.number));
}

struct Walk {
    std::map<std::string, HostArray> vectors;
    std::map<std::string, int> refused;
    int checked = 0, wrong = 0;

    void fail(const std::string& where, const std::string& what) {
        if (++wrong <= 40) ADD_FAILURE() << where << ": " << what;
    }

    Arguments arguments(const std::string& domain, const std::string& specs) {
        Arguments a;
        a.domain = domain == "torch" ? Domain::torch : Domain::numpy;
        for (const std::string& spec : split(specs, ' ')) {
            auto at = vectors.find(spec);
            if (at != vectors.end()) {
                a.operands.push_back(a.b.input(Type{at->second.dtype, at->second.dims, DeviceKind::cpu, 0, a.domain}, {1}));
                a.inputs.push_back(at->second);
            } else if (spec.find('.') != std::string::npos) {
                a.operands.push_back(a.number(std::stod(spec)));
            } else {
                a.operands.push_back({a.b.constant_integer(std::stoll(spec), DType::i64, a.domain), true});
            }
        }
        return a;
    }

    Result<NodeId> built(Arguments& a, const std::string& call) {
        if (call.starts_with("cast_")) return a.b.build(Op::cast, {a.operands[0]}, {.dtype = dtype_named(call.substr(5))});
        auto at = calls.find(call);
        if (at != calls.end()) return at->second(a);
        return a.b.build(op_named(call), a.operands);
    }

    void compare(const std::string& where, const std::string& call, const HostArray& got, const HostArray& expected) {
        if (got.dtype != expected.dtype || got.numel() != expected.numel())
            return fail(where, std::string(name_of(got.dtype)) + " x " + std::to_string(got.numel()));
        int different = 0;
        std::string first;
        for (int64_t i = 0; i < got.numel(); ++i) {
            scalar::Value g = got.at(i), e = expected.at(i);
            if (alike(call, g, e)) continue;
            if (!different++)
                first = "element " + std::to_string(i) + " is " + std::to_string(is_float(g.dtype) ? g.number : g.integer) + ", expected " +
                        std::to_string(is_float(e.dtype) ? e.number : e.integer);
        }
        checked += static_cast<int>(got.numel());
        if (different) fail(where, std::to_string(different) + " of " + std::to_string(got.numel()) + " differ; " + first);
    }

    void line(const std::vector<std::string>& cells) {
        if (cells[0] == "vector") {
            vectors[cells[1]] = array_of(cells[2], cells[3]);
            return;
        }
        std::string where = cells[0] + " " + cells[1] + " " + cells[2];
        Arguments a = arguments(cells[0], cells[2]);
        Result<NodeId> result = built(a, cells[1]);
        if (!result) {
            if (cells[3] != "!") ++refused[cells[0] + " " + cells[1]];
            return;
        }
        a.b.add_output(*result, std::vector<int64_t>(a.b.type(*result).dims.size(), 1));
        Graph graph = std::move(a.b).take();
        check(graph, "build");
        Graph parts = simplify(decompose(graph));
        check(parts, "simplify");
        for (const Graph* one : {&graph, &parts}) {
            Result<std::vector<HostArray>> values = interpret_outputs(*one, a.inputs);
            if (cells[3] == "!") {
                if (values) fail(where, "eager raises, the graph does not trap");
            } else if (!values) {
                fail(where, values.reason());
            } else {
                compare(where + (one == &parts ? " (decomposed)" : ""), cells[1], (*values)[0], array_of(cells[3], cells[4]));
            }
        }
    }
};

} // namespace

TEST(Values, RowsAndCompositionsGiveEagersBits) {
    std::ifstream file("tests/graph/op_values.tsv");
    ASSERT_TRUE(file) << "run in the root of the tree";
    Walk walk;
    for (std::string line; std::getline(file, line);) {
        std::vector<std::string> cells = split(line, '\t');
        cells.resize(5);
        walk.line(cells);
    }
    EXPECT_EQ(walk.wrong, 0);
    EXPECT_GT(walk.checked, 50000);
    for (const auto& [what, count] : walk.refused) std::printf("left to externs: %s (%d)\n", what.c_str(), count);
    std::printf("%d elements compared\n", walk.checked);
}
