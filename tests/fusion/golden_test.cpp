// Golden files tests/golden/fusion/*.txt: a graph, a line of dashes, the nests and notes that schedule() makes of it. Run in the
// root of the tree; DYNO_BLESS=1 rewrites the expected parts.
#include "compiler/fusion/schedule.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace dyno {
namespace {

std::string shown(const fusion::Schedule& s) {
    std::string text;
    for (const auto& step : s.steps) {
        if (const auto* kernel = std::get_if<fusion::KernelStep>(&step))
            text += fusion::to_text(s.nests[kernel->nest]);
        else
            text += "extern " + std::to_string(std::get<fusion::ExternStep>(step).extern_index) + "\n";
    }
    for (const Note& note : s.notes) text += note.kind + ": " + note.text + "\n";
    return text + "arena " + std::to_string(s.arena_bytes) + "\n";
}

TEST(Golden, Schedules) {
    const std::filesystem::path folder = "tests/golden/fusion";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "not run in the root of the tree";
    const std::string border = "\n----\n";
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".txt") continue;
        files++;
        std::stringstream content;
        content << std::ifstream(entry.path()).rdbuf();
        const std::string all = content.str();
        const size_t at = all.find(border);
        ASSERT_NE(at, std::string::npos) << entry.path();
        const auto g = graph::parse(all.substr(0, at + 1));
        ASSERT_TRUE(g) << entry.path() << ": " << g.reason();
        graph::check(*g, "golden");
        const std::string mine = shown(fusion::schedule(*g));
        if (std::getenv("DYNO_BLESS"))
            std::ofstream(entry.path()) << all.substr(0, at) << border << mine;
        else
            EXPECT_EQ(mine, all.substr(at + border.size())) << entry.path();
    }
    EXPECT_GE(files, 4);
}

} // namespace
} // namespace dyno
