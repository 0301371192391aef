// Golden files: tests/golden/graph/<pass>.txt. A case is a title line `== title`, the input graph, and below a line `--` what
// the pass makes of it. DYNO_BLESS=1 rewrites the files; read the difference before committing it.
#include "compiler/graph/decompose.h"
#include "compiler/graph/simplify.h"
#include "compiler/graph/sink_cats.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/graph/zero_signs.h"
#include <cstdlib>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>

using namespace dyno;
using namespace dyno::graph;

namespace {

struct Case {
    std::string title, input, expected;
};

std::vector<Case> read_cases(const std::string& path) {
    std::ifstream file(path);
    std::vector<Case> cases;
    bool below = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("== ")) {
            cases.push_back({line.substr(3), "", ""});
            below = false;
        } else if (line == "--") {
            below = true;
        } else if (!cases.empty()) {
            (below ? cases.back().expected : cases.back().input) += line + "\n";
        }
    }
    return cases;
}

std::string verified(const Graph& graph) {
    std::string out;
    for (const std::string& error : verify(graph)) out += error + "\n";
    return out.empty() ? "good\n" : out;
}

void run(const std::string& name, const std::function<std::string(const Graph&)>& pass) {
    std::string path = "tests/golden/graph/" + name + ".txt";
    std::vector<Case> cases = read_cases(path);
    ASSERT_FALSE(cases.empty()) << "run in the root of the tree";
    bool bless = std::getenv("DYNO_BLESS") != nullptr;
    std::string rewritten;
    for (const Case& one : cases) {
        Result<Graph> graph = parse(one.input);
        ASSERT_TRUE(graph) << one.title << ": " << graph.reason();
        EXPECT_EQ(to_text(*graph), one.input) << one.title << ": the text form is not the printed one";
        std::string got = pass(*graph);
        if (!bless) {
            EXPECT_EQ(got, one.expected) << one.title;
        }
        rewritten += "== " + one.title + "\n" + one.input + "--\n" + got;
    }
    if (bless) std::ofstream(path) << rewritten;
}

} // namespace

TEST(Golden, Simplify) {
    run("simplify", [](const Graph& graph) {
        check(graph, "parse");
        Graph once = simplify(graph);
        check(once, "simplify");
        EXPECT_EQ(to_text(simplify(once)), to_text(once)) << "not idempotent";
        return to_text(once);
    });
}

TEST(Golden, Decompose) {
    run("decompose", [](const Graph& graph) {
        check(graph, "parse");
        Graph parts = decompose(graph);
        check(parts, "decompose");
        return to_text(parts);
    });
}

TEST(Golden, SinkCats) {
    run("sink_cats", [](const Graph& graph) {
        check(graph, "parse");
        Graph parts = sink_cats(graph);
        check(parts, "sink_cats");
        return to_text(parts);
    });
}

TEST(Golden, ZeroSigns) {
    run("zero_signs", [](const Graph& graph) {
        check(graph, "parse");
        Graph forgotten = forget_zero_signs(graph);
        check(forgotten, "forget_zero_signs");
        return to_text(forgotten);
    });
}

TEST(Golden, Verify) { run("verify", verified); }
