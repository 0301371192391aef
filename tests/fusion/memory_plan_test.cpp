// The arena: no overlap of lives, reuse after death.
#include "compiler/fusion/memory_plan.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace dyno::fusion {
namespace {

TEST(MemoryPlan, LivesThatMeetDoNotShareMemory) {
    std::mt19937 random(5);
    for (int turn = 0; turn < 100; turn++) {
        std::vector<Lifetime> lives(20);
        std::vector<int64_t> at_step(30, 0);
        for (Lifetime& l : lives) {
            l.bytes = static_cast<int64_t>(random() % 1000) + 1;
            l.first = random() % 25;
            l.last = l.first + random() % 5;
            for (uint32_t s = l.first; s <= l.last; s++) at_step[s] += (l.bytes + 63) / 64 * 64;
        }
        const MemoryPlan plan = plan_memory(lives);
        for (size_t a = 0; a < lives.size(); a++) {
            EXPECT_EQ(plan.offsets[a] % 64, 0);
            EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.bytes);
            for (size_t b = a + 1; b < lives.size(); b++) {
                if (lives[a].last < lives[b].first || lives[b].last < lives[a].first) continue;
                EXPECT_TRUE(plan.offsets[a] + lives[a].bytes <= plan.offsets[b] || plan.offsets[b] + lives[b].bytes <= plan.offsets[a]);
            }
        }
        EXPECT_LE(plan.bytes, 2 * *std::max_element(at_step.begin(), at_step.end()));
    }
}

TEST(MemoryPlan, DeadMemoryIsUsedAgain) { EXPECT_EQ(plan_memory({{640, 0, 1}, {640, 1, 2}, {640, 2, 3}, {640, 3, 4}}).bytes, 1280); }

} // namespace
} // namespace dyno::fusion
