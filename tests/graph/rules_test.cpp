// Every row x element types x library against what torch and NumPy answered (op_rules.tsv, written by tools/op_rules.py).
#include "compiler/graph/build.h"
#include "compiler/graph/op_info.h"
#include <fstream>
#include <gtest/gtest.h>
#include <map>
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

Operand operand_of(Builder& builder, const std::string& spec, Domain domain) {
    std::vector<std::string> parts = split(spec, ':');
    DType dtype = dtype_named(parts[0]);
    if (parts[1] == "w")
        return {is_float(dtype) ? builder.constant(1.5, dtype, domain)
                                : builder.constant_integer(dtype == DType::b8 ? 1 : 2, dtype, domain),
                true};
    Type type{dtype, parts[1] == "t" ? std::vector<int64_t>{3, 3} : std::vector<int64_t>{}, DeviceKind::cpu, 0, domain};
    return builder.input(type, parts[1] == "t" ? std::vector<int64_t>{3, 1} : std::vector<int64_t>{});
}

/// What eager does and the builder leaves to an extern call, on purpose.
bool may_refuse(const std::string& domain, const std::string& op, const std::string& operands) {
    bool numpy = domain == "numpy";
    bool u64 = operands.find("u64") != std::string::npos;
    bool integers = operands.find('f') == std::string::npos;
    if (numpy && (op == "reciprocal" || op == "round") && integers) return true; // integer reciprocals; rint and round differ
    if (numpy && u64 && integers && (op == "eq" || op == "ne" || op == "lt" || op == "le" || op == "gt" || op == "ge")) return true;
    return !numpy && op == "pow" && operands.find("b8:w") != std::string::npos; // x ** True is a copy, even of bools
}

/// The result dtype the builder gives, "!" if it refuses.
std::string built(const std::string& domain_name, const std::string& op_name, const std::string& first, const std::string& second) {
    Domain domain = domain_name == "torch" ? Domain::torch : Domain::numpy;
    Op op = op_named(op_name);
    if (op == Op::count_) return "no such op";
    Builder builder;
    std::vector<Operand> operands;
    if (op == Op::where) operands.push_back(operand_of(builder, "b8:t", domain));
    operands.push_back(operand_of(builder, first, domain));
    if (second != "-") operands.push_back(operand_of(builder, second, domain));
    Attributes attributes;
    OpKind kind = info(op).kind;
    if (kind == OpKind::reduction || kind == OpKind::composite) attributes.ints = {1};
    Result<NodeId> result = builder.build(op, operands, attributes);
    return result ? std::string(name_of(builder.type(*result).dtype)) : "!";
}

} // namespace

TEST(Rules, EveryRowMatchesTorchAndNumPy) {
    std::ifstream file("tests/graph/op_rules.tsv");
    ASSERT_TRUE(file) << "run in the root of the tree";
    std::string line;
    std::getline(file, line);
    int walked = 0, wrong = 0;
    std::map<std::string, int> refused;
    while (std::getline(file, line)) {
        std::vector<std::string> columns = split(line, '\t');
        ASSERT_EQ(columns.size(), 4u) << line;
        for (const std::string& cell : split(columns[3], ' ')) {
            size_t equals = cell.find('=');
            std::string second = cell.substr(0, equals), expected = cell.substr(equals + 1);
            std::string got = built(columns[0], columns[1], columns[2], second);
            ++walked;
            if (got == expected) continue;
            if (got == "!" && may_refuse(columns[0], columns[1], columns[2] + " " + second)) {
                ++refused[columns[0] + " " + columns[1]];
                continue;
            }
            if (++wrong <= 40) ADD_FAILURE() << columns[0] << ' ' << columns[1] << ' ' << columns[2] << ' ' << cell << " but built " << got;
        }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(walked, 20000);
    for (const auto& [what, count] : refused) std::printf("left to externs: %s (%d rows)\n", what.c_str(), count);
}
