// Decisions of GPU code generation, apart from LLVM so that they can be tested and read alone.
#include "compiler/codegen/grid_plan.h"
#include "compiler/codegen/coarse.h"
#include <algorithm>

namespace dyno::codegen {
using fusion::Access;
using fusion::Instruction;
using fusion::LoopNest;

namespace {

constexpr int64_t most_values = 64;    // elements of a row in a thread's registers
constexpr int flat_threads = 128;
constexpr int64_t small_flat = 16384;  // elements
constexpr int64_t small_rows = 65536;
constexpr size_t long_body = 12; // values; assembling takes as long as the code is
constexpr int64_t multiprocessors = 132; // of an H200; a multiple of it keeps all busy to the end

int64_t power_of_two_from(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}

int64_t stride_of(const Access& access) { return access.at.strides.empty() ? 0 : access.at.strides.back(); }

int choose_lanes(const LoopNest& nest) {
    if (nest.axes.empty()) return 1;
    // Too little work for all threads, and memory does not count: the shortest code is there soonest.
    const bool flat = std::none_of(nest.axes.begin(), nest.axes.end(), [](const fusion::Axis& axis) { return axis.kind == fusion::Axis::row; });
    if (flat && fusion::row_count(nest) <= small_flat) return 1;
    int64_t lanes = 1;
    const auto want = [&](const Access& access) {
        const int64_t size = size_of(nest.parameters[access.parameter].dtype);
        if (stride_of(access) == 1) lanes = std::max(lanes, std::min<int64_t>(8, 16 / size));
    };
    for (const Access& load : nest.loads) want(load);
    for (const fusion::Store& store : nest.stores) want(store.to);
    // Lanes never cross the end of the last axis, but at the very end of a nest of one axis.
    const int64_t extent = nest.axes.back().extent;
    while (lanes > 1 && (nest.axes.size() > 1 || nest.axes.back().kind == fusion::Axis::row ? extent % lanes != 0 : extent < lanes)) lanes /= 2;
    return static_cast<int>(lanes);
}

/// How many inputs an element of a row has that stages share, two at most.
int64_t inputs_kept(const LoopNest& nest, const NestPlan& plan) {
    int64_t loads = 0;
    for (const auto& needed : plan.needed)
        loads = std::max(loads, static_cast<int64_t>(std::count_if(needed.begin(), needed.end(), [&](auto id) { return nest.body[id].kind == Instruction::load; })));
    return std::clamp<int64_t>(plan.stages > 1 ? loads : 1, 1, 2);
}

/// Steps of a row that are written out: what is in flight to memory.
int row_unroll(const LoopNest& nest, int64_t steps) { return static_cast<int>(std::min<int64_t>(nest.body.size() > long_body ? 2 : 4, steps)); }

/// Measured on an H200 with rows of 4,096 and 8,192: few threads with much of the row each need few barriers and have much memory in flight.
void plan_rows(const LoopNest& nest, GridPlan& plan) {
    plan.positions = fusion::row_length(nest);
    plan.unit_count = fusion::row_count(nest);
    int64_t narrowest = 8;
    for (const Access& load : nest.loads) narrowest = std::min(narrowest, size_of(nest.parameters[load.parameter].dtype));
    const int64_t groups = std::max<int64_t>(1, (plan.positions + plan.lanes - 1) / plan.lanes), kept = inputs_kept(nest, plan.nest);
    const int64_t wanted = std::max<int64_t>(1, 128 / (plan.lanes * narrowest) / (kept * kept)); // 128 bytes of one input, less of two
    const auto sharers_for = [&](int64_t steps) { return power_of_two_from((groups + steps - 1) / steps); };
    // Neighbours in a warp read neighbouring memory: a short row has a warp, or as many threads as it has pieces.
    int64_t sharers = std::clamp<int64_t>(sharers_for(wanted), std::min<int64_t>(32, sharers_for(1)), 1024);
    plan.resident = (groups + sharers - 1) / sharers * plan.lanes * kept <= (sharers > 512 ? 32 : most_values);
    // In one pass over little nothing is gained by registers.
    const bool little = plan.positions * plan.unit_count <= small_rows;
    if (plan.nest.stages == 1 && little) plan.resident = false;
    else if (!plan.resident) sharers = std::min<int64_t>(1024, sharers_for(4)); // rows that are read again: few at a time, so that caches hold them
    // Short work on rows of f32 that a block keeps: more threads, as many blocks.
    if (plan.resident && sharers == 256 && kept == 1 && narrowest == 4 && plan.nest.stages > 1 && nest.body.size() <= 8) sharers = 512, plan.least_blocks = 3;
    plan.sharers = static_cast<int>(sharers);
    plan.steps = static_cast<int>((groups + sharers - 1) / sharers);
    plan.units = static_cast<int>(power_of_two_from(std::clamp<int64_t>(128 / sharers, 1, plan.unit_count)));
    plan.unroll = plan.resident || little ? 1 : row_unroll(nest, plan.steps);
}

/// Long rows that several passes need: blocks of a cluster have a piece each, as much as plan_rows() would keep of a row.
void plan_cluster(const LoopNest& nest, GridPlan& plan) {
    constexpr int64_t wanted_piece = 8192, largest_piece = 16384, most_blocks = 8; // what every GPU with clusters grants
    const int64_t kept = inputs_kept(nest, plan.nest);
    int64_t parts = 2;
    while (parts < most_blocks && plan.positions * kept > parts * wanted_piece) parts *= 2;
    const int64_t groups = (plan.positions + plan.lanes - 1) / plan.lanes, of_block = (groups + parts - 1) / parts;
    const int64_t sharers = std::clamp<int64_t>(power_of_two_from((of_block + 15) / 16), 32, 512); // 16 steps: measured with rows of 65,536
    const int64_t steps = (of_block + sharers - 1) / sharers;
    if (steps * plan.lanes * kept > most_values || of_block * plan.lanes * kept > largest_piece || plan.unit_count < 16) return;
    if (steps * sharers * plan.lanes * parts != plan.positions) return; // looks at a row's end cost more than reading it again
    plan.sharers = static_cast<int>(sharers);
    plan.units = 1;
    plan.steps = static_cast<int>(steps);
    plan.unroll = 1;
    plan.parts = parts;
    plan.part_length = steps * sharers * plan.lanes;
    plan.resident = plan.cluster = true;
}

/// Rows that are read once although they do not fit: many at a time.
void plan_single_pass(const LoopNest& nest, GridPlan& plan) {
    if (plan.resident || plan.nest.stages != 1 || plan.sharers < 256) return;
    const int64_t groups = (plan.positions + plan.lanes - 1) / plan.lanes;
    plan.sharers = 256;
    plan.steps = static_cast<int>((groups + plan.sharers - 1) / plan.sharers);
    plan.unroll = row_unroll(nest, plan.steps);
    plan.least_blocks = 4;
}

void plan_columns(const LoopNest& nest, GridPlan& plan) {
    plan.positions = fusion::row_length(nest);
    plan.unit_count = fusion::row_count(nest) / plan.lanes;
    plan.units = static_cast<int>(std::min<int64_t>(16, power_of_two_from(plan.unit_count))); // 256 bytes of a row
    int64_t reductions = 0;
    for (const Instruction& i : nest.body) reductions += i.kind == Instruction::reduce;
    int64_t sharers = std::min<int64_t>(256 / plan.units, power_of_two_from(std::max<int64_t>(1, (plan.positions + 3) / 4)));
    while (sharers > 1 && sharers * plan.units * plan.lanes * reductions * 16 > 40 * 1024) sharers /= 2;
    plan.sharers = static_cast<int>(std::max<int64_t>(1, sharers));
    plan.steps = static_cast<int>((plan.positions + plan.sharers - 1) / plan.sharers);
    plan.unroll = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(8, plan.steps)));
}

/// Few long rows are divided over blocks, if one pass makes all their results.
void split(const LoopNest& nest, GridPlan& plan) {
    bool late_stores = false;
    for (size_t k = 0; k < nest.stores.size(); k++) late_stores |= plan.nest.element_store[k] && plan.nest.stage[nest.stores[k].value] > 0;
    if (plan.nest.stages != 1 || late_stores) return;
    const bool columns = plan.nest.mode == NestPlan::columns;
    const int64_t blocks = (plan.unit_count + plan.units - 1) / plan.units;
    int64_t enough_blocks = 2 * multiprocessors;
    if (!columns && blocks * 2 <= multiprocessors && plan.positions >= int64_t{16} * 1024 * plan.lanes) { // one large block each
        plan.sharers = 1024, plan.units = 1, plan.least_blocks = 1;
        enough_blocks = multiprocessors;
    }
    const int64_t a_step = columns ? plan.sharers : static_cast<int64_t>(plan.sharers) * plan.lanes;
    const int64_t steps = (plan.positions + a_step - 1) / a_step;
    if (blocks * 2 > enough_blocks || steps < 16) return;
    const int64_t parts = std::min<int64_t>(steps / 8, enough_blocks / blocks); // rounded down: no wave that is nearly empty
    if (parts < 2) return;
    const int64_t steps_each = (steps + parts - 1) / parts;
    plan.part_length = steps_each * a_step;
    plan.parts = (plan.positions + plan.part_length - 1) / plan.part_length;
    plan.resident = false;
    plan.steps = static_cast<int>(steps_each);
    plan.unroll = columns ? static_cast<int>(std::min<int64_t>(8, steps_each)) : row_unroll(nest, steps_each);
}

} // namespace

bool is_piece(const LoopNest& nest, const Access& access, int lanes) {
    if (stride_of(access) != 1 || lanes == 1) return false;
    const int64_t size = size_of(nest.parameters[access.parameter].dtype);
    const int64_t piece = std::min<int64_t>(16, lanes * size);
    if (access.at.offset * size % piece != 0) return false;
    for (size_t k = 0; k + 1 < access.at.strides.size(); k++)
        if (nest.axes[k].extent > 1 && access.at.strides[k] * size % piece != 0) return false;
    return true;
}

GridPlan plan_grid(const LoopNest& nest, bool wide_memory, bool clusters) {
    GridPlan plan;
    plan.lanes = choose_lanes(nest);
    plan.wide_memory = wide_memory;
    plan.nest = plan_for_threads(nest, plan.lanes);
    plan.coarse = coarse_values(nest);
    if (plan.nest.mode == NestPlan::flat) {
        const int64_t count = fusion::row_count(nest);
        plan.unit_count = count / plan.lanes + count % plan.lanes;
        plan.units = static_cast<int>(std::max<int64_t>(32, std::min<int64_t>(flat_threads, power_of_two_from(plan.unit_count))));
        return plan;
    }
    const bool rows = plan.nest.mode == NestPlan::rows;
    rows ? plan_rows(nest, plan) : plan_columns(nest, plan);
    std::vector<ReductionPair> pairs = reduction_pairs(nest);
    if (!rows) std::erase_if(pairs, [](const ReductionPair& p) { return p.kind == ReductionPair::exponentials; });
    if (!plan.resident) {
        NestPlan paired = pairs.empty() ? plan.nest : plan_for_threads(nest, plan.lanes, pairs); // what is read again is read once less
        if (rows && clusters && paired.stages > 1) plan_cluster(nest, plan);
        if (plan.cluster) return plan;
        plan.nest = std::move(paired);
    }
    if (rows) plan_single_pass(nest, plan);
    plan.part_length = plan.positions;
    split(nest, plan);
    return plan;
}

} // namespace dyno::codegen
