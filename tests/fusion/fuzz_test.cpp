// Random graphs: scheduled, compiled and run, against the interpreter. DYNO_FUZZ_SEEDS sets how many (default 40), DYNO_FUZZ_SEED
// the first.
#include "compiler/fusion/schedule.h"
#include "compiler/graph/build.h"
#include "compiler/graph/op_info.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "run_schedule.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

namespace dyno {
namespace {
using graph::Builder;
using graph::HostArray;
using graph::NodeId;
using graph::Op;

class GraphMaker {
  public:
    explicit GraphMaker(uint32_t seed) : random_(seed) {}

    graph::Graph make() {
        const int64_t m = pick({1, 3, 8, 17}), n = pick({1, 2, 16, 40, 70});
        base_ = {m, n};
        dtype_ =
            static_cast<DType>(pick({static_cast<int64_t>(DType::f32), static_cast<int64_t>(DType::f64), static_cast<int64_t>(DType::i32),
                                     static_cast<int64_t>(DType::bf16), static_cast<int64_t>(DType::i64), static_cast<int64_t>(DType::f16),
                                     static_cast<int64_t>(DType::u8)}));
        for (int k = 0; k < 2; k++) add_input({m, n}, coin());
        add_input({n}, false);
        add_input({m, 1}, false);
        const int64_t count = pick({3, 6, 10, 16});
        for (int64_t k = 0; k < count; k++) step();
        const size_t outputs = std::min<size_t>(values_.size() - 4, 1 + static_cast<size_t>(pick({0, 1, 2})));
        output(values_.back());
        for (size_t k = 1; k < outputs; k++) output(values_[4 + static_cast<size_t>(below(static_cast<int64_t>(values_.size()) - 4))]);
        return std::move(b_).take();
    }

  private:
    int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
    bool coin() { return random_() & 1; }
    int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[below(static_cast<int64_t>(from.size()))]; }
    const std::vector<int64_t>& dims(NodeId id) { return b_.type(id).dims; }

    void add_input(std::vector<int64_t> d, bool transposed) {
        graph::Type t;
        t.dtype = dtype_;
        t.dims = d;
        std::vector<int64_t> strides(d.size(), 1);
        if (d.size() == 2) strides = transposed ? std::vector<int64_t>{1, d[0]} : std::vector<int64_t>{d[1], 1};
        values_.push_back(b_.input(t, strides));
    }
    void output(NodeId id) {
        std::vector<int64_t> strides(dims(id).size());
        int64_t step = 1;
        for (size_t k = strides.size(); k-- > 0;) strides[k] = step, step *= std::max<int64_t>(1, dims(id)[k]);
        if (strides.size() == 2 && coin()) strides = {1, dims(id)[0]};
        for (const graph::Output& o : b_.graph().outputs)
            if (o.node == id) return;
        if (b_[id].op != Op::input) b_.add_output(id, strides);
    }
    NodeId some() { return values_[static_cast<size_t>(below(static_cast<int64_t>(values_.size())))]; }

    void keep(const Result<NodeId>& made) {
        if (made && b_.type(*made).numel() <= 4000) values_.push_back(*made);
    }
    void step() {
        const NodeId a = some();
        const bool floats = is_float(b_.type(a).dtype);
        switch (below(11)) {
        case 0:
        case 1:
        case 2:
            return keep(b_.build(static_cast<Op>(pick({int(Op::add), int(Op::sub), int(Op::mul), int(Op::maximum), int(Op::minimum)})),
                                 {a, some()}));
        case 3:
            return keep(b_.build(
                static_cast<Op>(floats ? pick({int(Op::neg), int(Op::abs), int(Op::relu), int(Op::tanh), int(Op::sigmoid), int(Op::floor)})
                                       : pick({int(Op::neg), int(Op::abs), int(Op::sign)})),
                {a}));
        case 4: {
            auto condition = b_.build(static_cast<Op>(pick({int(Op::lt), int(Op::ge), int(Op::eq)})), {a, some()});
            if (condition) keep(b_.build(Op::where, {*condition, a, some()}));
            return;
        }
        case 5:
        case 6: {
            if (dims(a).empty()) return;
            const int64_t axis = below(static_cast<int64_t>(dims(a).size()));
            auto reduced =
                b_.build(static_cast<Op>(pick({int(Op::sum), int(Op::amax), int(Op::amin), int(Op::sum)})), {a}, {.ints = {axis}});
            keep(reduced);
            if (reduced && coin()) keep(b_.build(Op::sub, {a, *reduced}));
            return;
        }
        case 7:
            return dims(a).size() == 2 ? keep(b_.build(Op::permute, {a}, {.ints = {1, 0}})) : void();
        case 8: {
            std::vector<int64_t> flat{-1};
            if (coin() && b_.type(a).numel() % base_[0] == 0) flat = {base_[0], -1};
            return keep(b_.build(Op::reshape, {a}, {.dims = flat}));
        }
        case 9: {
            if (dims(a).empty()) return;
            graph::Attributes attributes;
            for (int64_t d : dims(a)) {
                const int64_t start = below(d), step = pick({1, 1, 2});
                attributes.ints.push_back(start);
                attributes.ints.push_back(step);
                attributes.dims.push_back((d - start + step - 1) / step);
            }
            return keep(coin() ? b_.build(Op::slice, {a}, attributes) : b_.build(Op::flip, {a}, {.ints = {0}}));
        }
        default: {
            const NodeId c = some();
            if (dims(a).size() == 2 && dims(c).size() == 2 && dims(a)[0] == dims(c)[0]) keep(b_.build(Op::cat, {a, c}, {.ints = {1}}));
        }
        }
    }

    std::mt19937 random_;
    Builder b_;
    std::vector<NodeId> values_;
    std::vector<int64_t> base_;
    DType dtype_ = DType::f32;
};

HostArray random_array(const graph::Type& type, std::mt19937& random) {
    HostArray a(type.dtype, type.dims);
    std::uniform_real_distribution<double> real(-2, 2);
    for (int64_t k = 0; k < a.numel(); k++) {
        const double x = real(random);
        a.set(k, is_float(type.dtype) ? scalar::convert(scalar::Value::of_float(DType::f64, x), type.dtype)
                                      : scalar::convert(scalar::Value::of_int(DType::i64, static_cast<int64_t>(x * 20)), type.dtype));
    }
    return a;
}

double tolerance(DType t) { return t == DType::f64 ? 1e-11 : t == DType::f32 ? 3e-5 : 0.05; }

void compare(const HostArray& mine, const HostArray& oracle, const std::string& what) {
    ASSERT_EQ(mine.dims, oracle.dims);
    int64_t bad = 0;
    for (int64_t k = 0; k < mine.numel(); k++) {
        const scalar::Value x = mine.at(k), y = oracle.at(k);
        if (x.same_as(y)) continue;
        const bool near = is_float(x.dtype) && std::abs(x.number - y.number) <= tolerance(x.dtype) * (std::abs(y.number) + 1);
        if (!near && ++bad > mine.numel() / 50)
            FAIL() << what << " [" << k << "] " << x.number << "/" << x.integer << " instead of " << y.number << "/" << y.integer;
    }
}

TEST(Fuzz, SchedulesAgreeWithTheInterpreter) {
    const char* seeds = std::getenv("DYNO_FUZZ_SEEDS");
    const char* start = std::getenv("DYNO_FUZZ_SEED");
    const uint32_t from = start ? static_cast<uint32_t>(std::atoi(start)) : 1, count = seeds ? static_cast<uint32_t>(std::atoi(seeds)) : 40;
    size_t nests = 0, graphs = 0;
    for (uint32_t seed = from; seed < from + count; seed++) {
        const graph::Graph g = GraphMaker(seed).make();
        if (g.outputs.empty()) continue;
        graph::check(g, "fuzz");
        SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + graph::to_text(g));
        std::mt19937 random(seed);
        std::vector<HostArray> inputs;
        for (const graph::Input& i : g.inputs) inputs.push_back(random_array(g[i.node].type, random));
        const auto oracle = graph::interpret_outputs(g, inputs);
        ASSERT_TRUE(oracle) << oracle.reason();
        const fusion::Schedule s = fusion::schedule(g);
        std::string nest_text;
        for (const fusion::LoopNest& nest : s.nests) nest_text += fusion::to_text(nest);
        SCOPED_TRACE(nest_text);
        const auto quick = testing::run_schedule(g, s, inputs, {}, 0, 2);
        const auto better = testing::run_schedule(g, s, inputs, {}, 2, 1);
        for (size_t k = 0; k < oracle->size(); k++) {
            compare(quick.outputs[k], (*oracle)[k], "output " + std::to_string(k));
            ASSERT_EQ(quick.outputs[k].bytes, better.outputs[k].bytes) << "levels differ in output " << k;
            if (HasFatalFailure()) return;
        }
        nests += s.nests.size();
        graphs++;
    }
    RecordProperty("nests", static_cast<int>(nests));
    EXPECT_GT(graphs, count / 2);
}

} // namespace
} // namespace dyno
