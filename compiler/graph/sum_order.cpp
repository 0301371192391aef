// Both libraries first sort a call's axes by stride and join what lies in one run; then the first axis or two decide.
#include "compiler/graph/sum_order.h"
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <vector>

namespace dyno::graph {

namespace {

constexpr int64_t threads_from = 32768; // elements from which torch may divide a call among threads
constexpr int64_t most_moments = 8192;  // elements of a row
constexpr int64_t numpy_buffer = 8192;  // elements that NumPy gathers at a time

struct Run {
    int64_t extent = 1, stride = 0;
};

/// Dims of one kind joined, from the last to the first. False where a stride is not positive.
bool runs_of(std::span<const ReducedDim> dims, bool reduced, std::vector<Run>& runs) {
    for (size_t k = dims.size(); k-- > 0;) {
        const ReducedDim& d = dims[k];
        if (d.reduced != reduced || d.extent == 1) continue;
        if (d.stride <= 0) return false;
        if (!runs.empty() && d.stride == runs.back().stride * runs.back().extent)
            runs.back().extent *= d.extent;
        else
            runs.push_back({d.extent, d.stride});
    }
    return true;
}

int64_t product(const std::vector<Run>& runs) {
    int64_t n = 1;
    for (const Run& run : runs) n *= run.extent;
    return n;
}

} // namespace

int64_t ladder_step(int64_t count) {
    const int64_t log = count <= 2 ? 1 : std::bit_width(static_cast<uint64_t>(count - 1));
    return int64_t{1} << std::max<int64_t>(4, log / 4);
}

void sort_reduced(std::span<ReducedDim> dims) {
    std::vector<ReducedDim> sorted;
    for (const ReducedDim& d : dims)
        if (d.reduced && d.extent != 1) sorted.push_back(d);
    std::stable_sort(sorted.begin(), sorted.end(), [](const ReducedDim& a, const ReducedDim& b) { return a.stride > b.stride; });
    size_t next = 0;
    for (ReducedDim& d : dims)
        if (d.reduced && d.extent != 1) d = sorted[next++];
}

SumOrder torch_sum_order(std::span<const ReducedDim> dims, int64_t lanes) {
    std::vector<Run> rows, others;
    if (!runs_of(dims, true, rows) || !runs_of(dims, false, others)) return {};
    const Run row = rows.empty() ? Run{1, 1} : rows[0];
    const Run next = others.empty() ? Run{1, 0} : others[0];
    if (row.extent == 0 || next.extent == 0) return {};
    const int64_t run = rows.size() > 1 ? row.extent : 0;
    const bool divided = product(rows) * product(others) >= threads_from;
    if (divided && others.empty()) return {}; // a sum of the threads' sums
    if (row.stride == 1 && row.extent >= lanes) return {.kind = SumOrder::cascade, .lanes = lanes, .run = run};
    if (run) return {.kind = SumOrder::cascade, .run = run};
    if (next.stride == 1 && next.extent >= lanes) {
        if (divided) return {}; // which columns go in fours depends on where they are divided
        return {.kind = SumOrder::columns, .plain = next.extent / (4 * lanes) * 4 * lanes, .width = next.extent};
    }
    if (row.stride < next.stride) return {.kind = SumOrder::cascade};
    if (divided) return {};
    return {.kind = SumOrder::columns, .plain = next.extent / 4 * 4, .width = next.extent};
}

SumOrder torch_moments_order(int64_t count, int64_t lanes) {
    return count > 1 && count <= most_moments ? SumOrder{.kind = SumOrder::welford, .lanes = lanes} : SumOrder{};
}

SumOrder numpy_sum_order(std::span<const ReducedDim> dims) {
    std::vector<Run> rows, others;
    if (!runs_of(dims, true, rows) || !runs_of(dims, false, others)) return {};
    if (rows.empty()) return {.kind = SumOrder::in_turn};
    for (const Run& other : others)
        if (other.stride < rows[0].stride) return {.kind = SumOrder::in_turn};
    if (rows.size() == 1) return {.kind = SumOrder::pairwise};
    if (others.empty() && product(rows) <= numpy_buffer) return {.kind = SumOrder::pairwise}; // gathered
    const bool between = std::any_of(others.begin(), others.end(), [&](const Run& other) { return other.stride < rows[1].stride; });
    return between && rows.size() == 2 ? SumOrder{.kind = SumOrder::pairwise, .run = rows[0].extent} : SumOrder{};
}

std::string to_text(const SumOrder& order) {
    std::string text;
    switch (order.kind) {
    case SumOrder::any:
        return text;
    case SumOrder::cascade:
        text = fmt::format("cascade {}", order.lanes);
        break;
    case SumOrder::columns:
        text = fmt::format("columns {} {}", order.plain, order.width);
        break;
    case SumOrder::pairwise:
        text = "pairwise";
        break;
    case SumOrder::in_turn:
        text = "in_turn";
        break;
    case SumOrder::welford:
        text = fmt::format("welford {}", order.lanes);
        break;
    }
    return order.run ? text + fmt::format(" runs {}", order.run) : text;
}

} // namespace dyno::graph
