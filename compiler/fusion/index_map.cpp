// Affine index arithmetic. Reshape is the only hard case: a position is taken apart into digits without division, which
// works when each term of it falls into one digit; an axis that lies across a border is split there if it divides.
#include "compiler/fusion/index_map.h"
#include "compiler/support/check.h"
#include <algorithm>

namespace dyno::fusion {

Affine address(const std::vector<int64_t>& strides, const IndexMap& map, size_t axes) {
    Affine at{0, std::vector<int64_t>(axes, 0)};
    for (size_t d = 0; d < map.size(); d++) {
        at.offset += strides[d] * map[d].offset;
        for (size_t k = 0; k < axes; k++) at.strides[k] += strides[d] * map[d].strides[k];
    }
    return at;
}

Affine linear(const std::vector<int64_t>& dims, const IndexMap& map, size_t axes) { return address(row_major(dims), map, axes); }

void split_axis(Affine& at, size_t axis, int64_t inner) {
    const int64_t stride = at.strides[axis];
    at.strides[axis] = stride * inner;
    at.strides.insert(at.strides.begin() + static_cast<std::ptrdiff_t>(axis) + 1, stride);
}

std::vector<bool> axes_of(const IndexMap& map, const std::vector<Axis>& axes) {
    std::vector<bool> used(axes.size(), false);
    for (const Affine& at : map)
        for (size_t k = 0; k < axes.size(); k++) used[k] = used[k] || (at.strides[k] != 0 && axes[k].extent > 1);
    return used;
}

bool covers(const std::vector<int64_t>& dims, const IndexMap& map, const std::vector<Axis>& axes) {
    // Each dim must be counted out by its own axes, smallest stride first, each stride being the number counted so far.
    std::vector<int> owners(axes.size(), 0);
    for (size_t d = 0; d < dims.size(); d++) {
        std::vector<std::pair<int64_t, int64_t>> terms; // |stride|, extent
        int64_t low = map[d].offset;
        for (size_t k = 0; k < axes.size(); k++) {
            const int64_t s = map[d].strides[k];
            if (s == 0 || axes[k].extent <= 1) continue;
            if (++owners[k] > 1) return false;
            if (s < 0) low += s * (axes[k].extent - 1);
            terms.push_back({std::abs(s), axes[k].extent});
        }
        std::sort(terms.begin(), terms.end());
        int64_t counted = 1;
        for (const auto& [stride, extent] : terms) {
            if (stride != counted) return false;
            counted *= extent;
        }
        if (counted != dims[d] || low != 0) return false;
    }
    return true;
}

static Affine constant(int64_t offset, size_t axes) { return {offset, std::vector<int64_t>(axes, 0)}; }

/// Takes the digit of value `size` off `at` (at = quotient * size + digit); false if that is not affine.
static bool take_digit(Affine& at, int64_t size, const std::vector<Axis>& axes, Affine& digit, Sent& sent) {
    digit = constant(((at.offset % size) + size) % size, axes.size());
    int64_t reach = digit.offset;
    for (size_t k = 0; k < axes.size(); k++) {
        const int64_t s = at.strides[k];
        if (s % size == 0 || axes[k].extent <= 1) continue;
        if (s < 0) return false;
        if (s * (axes[k].extent - 1) >= size) { // lies across the border
            if (size % s == 0 && axes[k].extent % (size / s) == 0) sent = {Sent::split, {}, k, size / s};
            return false;
        }
        digit.strides[k] = s;
        reach += s * (axes[k].extent - 1);
    }
    if (reach >= size) return false;
    at.offset = (at.offset - digit.offset) / size;
    for (size_t k = 0; k < axes.size(); k++) at.strides[k] = (at.strides[k] - digit.strides[k]) / size;
    return true;
}

static Sent through_reshape(const std::vector<int64_t>& from, const std::vector<int64_t>& to, const IndexMap& map,
                            const std::vector<Axis>& axes) {
    Affine rest = linear(to, map, axes.size());
    for (size_t k = 0; k < axes.size(); k++)
        if (axes[k].extent <= 1) rest.strides[k] = 0;
    Sent sent;
    IndexMap operand(from.size(), constant(0, axes.size()));
    size_t outermost = 0;
    while (outermost < from.size() && from[outermost] == 1) outermost++;
    for (size_t d = from.size(); d-- > 0;) {
        if (from[d] == 1) continue;
        if (d == outermost)
            operand[d] = rest;
        else if (from[d] == 0 || !take_digit(rest, from[d], axes, operand[d], sent))
            return sent;
    }
    sent.kind = Sent::map;
    sent.operand = std::move(operand);
    return sent;
}

Sent through_movement(const graph::Graph& graph, graph::NodeId id, const IndexMap& map, const std::vector<Axis>& axes) {
    const graph::Node& node = graph[id];
    const std::vector<int64_t>& from = graph[node.operands[0]].type.dims;
    if (node.op == graph::Op::reshape) return through_reshape(from, node.type.dims, map, axes);
    IndexMap operand(from.size(), constant(0, axes.size()));
    switch (node.op) {
    case graph::Op::permute:
        for (size_t d = 0; d < map.size(); d++) operand[static_cast<size_t>(node.ints[d])] = map[d];
        break;
    case graph::Op::expand: {
        const size_t added = map.size() - from.size();
        for (size_t d = 0; d < from.size(); d++)
            if (from[d] != 1) operand[d] = map[d + added];
        break;
    }
    case graph::Op::slice:
        for (size_t d = 0; d < map.size(); d++) {
            operand[d] = map[d];
            const int64_t start = node.ints[2 * d], step = node.ints[2 * d + 1];
            operand[d].offset = start + step * map[d].offset;
            for (int64_t& s : operand[d].strides) s *= step;
        }
        break;
    case graph::Op::flip:
        for (size_t d = 0; d < map.size(); d++) {
            operand[d] = map[d];
            if (std::find(node.ints.begin(), node.ints.end(), static_cast<int64_t>(d)) == node.ints.end()) continue;
            operand[d].offset = from[d] - 1 - map[d].offset;
            for (int64_t& s : operand[d].strides) s = -s;
        }
        break;
    default:
        DYNO_CHECK(false, "a movement node with one operand");
    }
    return {Sent::map, std::move(operand), 0, 0};
}

} // namespace dyno::fusion
