// simplify_axes: the loop order and as few axes as the accesses allow. Why here: lowering iterates over dims of nodes;
// codegen wants the smallest strides last and long last axes. Promises: same values at the same addresses; row axes keep
// their order where a reduction asks for positions or for an order of elements.
#include "compiler/fusion/lower.h"
#include <algorithm>
#include <numeric>

namespace dyno::fusion {

namespace {

template <class Function>
void each_affine(LoopNest& nest, Function f) {
    for (Access& load : nest.loads) f(load.at);
    for (Affine& index : nest.indices) f(index);
    for (RowOrder& row : nest.orders) f(row.result);
    for (Store& store : nest.stores) f(store.to.at);
}

void drop_unit_axes(LoopNest& nest) {
    for (size_t k = nest.axes.size(); k-- > 0;) {
        if (nest.axes[k].extent != 1) continue;
        // The last row axis stays: without one the nest would no longer reduce.
        const auto rows = std::count_if(nest.axes.begin(), nest.axes.end(), [](const Axis& a) { return a.kind == Axis::row; });
        const bool reduces =
            std::any_of(nest.body.begin(), nest.body.end(), [](const Instruction& i) { return i.kind == Instruction::reduce; });
        if (nest.axes[k].kind == Axis::row && rows == 1 && reduces) continue;
        nest.axes.erase(nest.axes.begin() + static_cast<std::ptrdiff_t>(k));
        each_affine(nest, [&](Affine& at) { at.strides.erase(at.strides.begin() + static_cast<std::ptrdiff_t>(k)); });
    }
}

/// How much memory traffic speaks for axis a being outside of axis b: accesses vote with the elements they touch.
double vote(const LoopNest& nest, size_t a, size_t b) {
    double sum = 0;
    const auto add = [&](const Affine& at, double weight) {
        const int64_t x = std::abs(at.strides[a]), y = std::abs(at.strides[b]);
        if (x == y || x == 0 || y == 0) return;
        double touched = 1;
        for (size_t k = 0; k < nest.axes.size(); k++)
            if (at.strides[k] != 0) touched *= static_cast<double>(nest.axes[k].extent);
        sum += (x > y ? 1 : -1) * weight * touched;
    };
    for (const Access& load : nest.loads) add(load.at, 1);
    for (const Store& store : nest.stores) add(store.to.at, 1.5);
    return sum;
}

void order_axes(LoopNest& nest) {
    const bool positions = std::any_of(nest.body.begin(), nest.body.end(), [](const Instruction& i) {
        return i.kind == Instruction::reduce && (is_positional(i.how) || i.which > 0);
    });
    std::vector<size_t> order(nest.axes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t k = 1; k < order.size(); k++) // insertion: votes need not be transitive
        for (size_t j = k; j > 0; j--) {
            const size_t outer = order[j - 1], inner = order[j];
            if (positions && nest.axes[outer].kind == Axis::row && nest.axes[inner].kind == Axis::row) break;
            if (vote(nest, outer, inner) >= 0) break;
            std::swap(order[j - 1], order[j]);
        }
    const auto permute = [&](auto& list) {
        auto old = list;
        for (size_t k = 0; k < order.size(); k++) list[k] = old[order[k]];
    };
    permute(nest.axes);
    each_affine(nest, [&](Affine& at) { permute(at.strides); });
}

void join_axes(LoopNest& nest) {
    for (size_t k = nest.axes.size(); k-- > 1;) {
        const Axis inner = nest.axes[k];
        Axis& outer = nest.axes[k - 1];
        if (outer.kind != inner.kind) continue;
        bool joins = true;
        each_affine(nest, [&](Affine& at) { joins &= at.strides[k - 1] == at.strides[k] * inner.extent; });
        if (!joins) continue;
        outer.extent *= inner.extent;
        nest.axes.erase(nest.axes.begin() + static_cast<std::ptrdiff_t>(k));
        each_affine(nest, [&](Affine& at) { at.strides.erase(at.strides.begin() + static_cast<std::ptrdiff_t>(k) - 1); });
    }
}

} // namespace

LoopNest simplify_axes(LoopNest nest) {
    drop_unit_axes(nest);
    order_axes(nest);
    join_axes(nest);
    return nest;
}

} // namespace dyno::fusion
