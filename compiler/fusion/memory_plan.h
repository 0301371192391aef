// MemoryPlan: where in the replay's arena each temporary lies, so that values not needed at the same time share memory.
#pragma once
#include <cstdint>
#include <vector>

namespace dyno::fusion {

/// A temporary lives from the step that writes it first to the step that reads it last, both included.
struct Lifetime {
    int64_t bytes = 0;
    uint32_t first = 0, last = 0;
};

struct MemoryPlan {
    std::vector<int64_t> offsets; // by lifetime; 64-byte aligned
    int64_t bytes = 0;
};

/// Largest first, each at the lowest offset that is free through its life.
[[nodiscard]] MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

} // namespace dyno::fusion
