// First fit by decreasing size: within a few per cent of the peak for the few dozen temporaries of a segment.
#include "compiler/fusion/memory_plan.h"
#include <algorithm>
#include <numeric>

namespace dyno::fusion {

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
    MemoryPlan plan;
    plan.offsets.assign(lifetimes.size(), 0);
    std::vector<size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
    std::vector<size_t> placed;
    for (size_t id : order) {
        const Lifetime& mine = lifetimes[id];
        std::vector<std::pair<int64_t, int64_t>> taken; // of those alive at the same time
        for (size_t other : placed)
            if (lifetimes[other].first <= mine.last && mine.first <= lifetimes[other].last)
                taken.push_back({plan.offsets[other], plan.offsets[other] + lifetimes[other].bytes});
        std::sort(taken.begin(), taken.end());
        int64_t at = 0;
        for (const auto& [from, to] : taken) {
            if (at + mine.bytes <= from) break;
            at = std::max(at, (to + 63) / 64 * 64);
        }
        plan.offsets[id] = at;
        plan.bytes = std::max(plan.bytes, at + mine.bytes);
        placed.push_back(id);
    }
    return plan;
}

} // namespace dyno::fusion
