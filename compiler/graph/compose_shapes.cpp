// Views by name, and reductions that drop their axes.
#include "compiler/graph/compose.h"
#include "compiler/graph/steps.h"
#include <algorithm>
#include <fmt/format.h>

namespace dyno::graph::compose {

namespace {

/// Non-negative axis, or -1 if it is outside.
int64_t settled(int64_t axis, size_t rank) {
    int64_t n = static_cast<int64_t>(rank);
    if (axis < 0) axis += n;
    return axis >= 0 && axis < n ? axis : -1;
}

Refusal outside(int64_t axis, size_t rank) { return {fmt::format("axis {} of {} dims", axis, rank)}; }

Maybe reshaped(Builder& b, NodeId x, std::vector<int64_t> dims, SourceSpan from) {
    return b.build(Op::reshape, {x}, {.dims = std::move(dims)}, from);
}

} // namespace

Maybe unsqueeze(Builder& b, NodeId x, int64_t axis, SourceSpan from) {
    std::vector<int64_t> dims = b.type(x).dims;
    int64_t at = settled(axis, dims.size() + 1);
    if (at < 0) return outside(axis, dims.size() + 1);
    dims.insert(dims.begin() + at, 1);
    return reshaped(b, x, std::move(dims), from);
}

Maybe squeeze(Builder& b, NodeId x, const Axes& axes, SourceSpan from) {
    const Type& type = b.type(x);
    std::vector<bool> named(type.dims.size(), axes.empty());
    for (int64_t axis : axes) {
        int64_t at = settled(axis, type.dims.size());
        if (at < 0 && !type.dims.empty()) return outside(axis, type.dims.size());
        if (at >= 0 && type.domain == Domain::numpy && type.dims[at] != 1) return Refusal{"squeeze of a size other than 1"};
        if (at >= 0) named[at] = true;
    }
    std::vector<int64_t> dims;
    for (size_t i = 0; i < type.dims.size(); ++i)
        if (!(named[i] && type.dims[i] == 1)) dims.push_back(type.dims[i]);
    return reshaped(b, x, std::move(dims), from);
}

Maybe transpose(Builder& b, NodeId x, int64_t first, int64_t second, SourceSpan from) {
    size_t rank = b.type(x).dims.size();
    int64_t i = settled(first, rank), j = settled(second, rank);
    if (i < 0 || j < 0) return outside(i < 0 ? first : second, rank);
    std::vector<int64_t> order(rank);
    for (size_t k = 0; k < rank; ++k) order[k] = static_cast<int64_t>(k);
    std::swap(order[i], order[j]);
    return b.build(Op::permute, {x}, {.ints = order}, from);
}

Maybe narrow(Builder& b, NodeId x, int64_t axis, int64_t start, int64_t length, int64_t step, SourceSpan from) {
    std::vector<int64_t> dims = b.type(x).dims, ints;
    int64_t at = settled(axis, dims.size());
    if (at < 0) return outside(axis, dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
        bool here = static_cast<int64_t>(i) == at;
        ints.push_back(here ? start : 0);
        ints.push_back(here ? step : 1);
    }
    dims[at] = length;
    return b.build(Op::slice, {x}, {.ints = ints, .dims = dims}, from);
}

Maybe select(Builder& b, NodeId x, int64_t axis, int64_t index, SourceSpan from) {
    std::vector<int64_t> dims = b.type(x).dims;
    int64_t at = settled(axis, dims.size());
    if (at < 0) return outside(axis, dims.size());
    int64_t where = index < 0 ? index + dims[at] : index;
    if (where < 0 || where >= dims[at]) return Refusal{fmt::format("index {} of {} elements", index, dims[at])};
    Maybe one = narrow(b, x, at, where, 1, 1, from);
    if (!one) return one;
    dims.erase(dims.begin() + at);
    return reshaped(b, *one, std::move(dims), from);
}

Maybe split_piece(Builder& b, NodeId x, int64_t axis, int64_t size, int64_t k, SourceSpan from) {
    size_t rank = b.type(x).dims.size();
    int64_t at = settled(axis, rank);
    if (at < 0) return outside(axis, rank);
    int64_t total = b.type(x).dims[at], start = k * size;
    if (size <= 0 || k < 0 || start >= std::max<int64_t>(total, 1)) return Refusal{"a piece that does not exist"};
    return narrow(b, x, at, start, std::min(size, total - start), 1, from);
}

Maybe chunk_piece(Builder& b, NodeId x, int64_t axis, int64_t count, int64_t k, SourceSpan from) {
    size_t rank = b.type(x).dims.size();
    int64_t at = settled(axis, rank);
    if (at < 0 || count <= 0) return outside(axis, rank);
    int64_t size = (b.type(x).dims[at] + count - 1) / count;
    return split_piece(b, x, at, size, k, from);
}

Maybe stack(Builder& b, std::span<const Operand> values, int64_t axis, SourceSpan from) {
    if (values.empty()) return Refusal{"stack of nothing"};
    Steps step(b, from);
    std::vector<Operand> parts;
    for (const Operand& value : values) {
        if (b.type(value.node).dims != b.type(values[0].node).dims) return Refusal{"stack of different shapes"};
        NodeId part = step.take(unsqueeze(b, value.node, axis, from));
        if (!step.failed()) parts.push_back(part);
    }
    int64_t at = settled(axis, b.type(values[0].node).dims.size() + 1);
    return step.done(step.run(Op::cat, parts, {.ints = {at}}));
}

Maybe flatten(Builder& b, NodeId x, int64_t first, int64_t last, SourceSpan from) {
    const std::vector<int64_t>& dims = b.type(x).dims;
    if (dims.empty()) return reshaped(b, x, {1}, from);
    int64_t i = settled(first, dims.size()), j = settled(last, dims.size());
    if (i < 0 || j < i) return outside(i < 0 ? first : last, dims.size());
    std::vector<int64_t> out(dims.begin(), dims.begin() + i);
    int64_t merged = 1;
    for (int64_t k = i; k <= j; ++k) merged *= dims[k];
    out.push_back(merged);
    out.insert(out.end(), dims.begin() + j + 1, dims.end());
    return reshaped(b, x, std::move(out), from);
}

Maybe movedim(Builder& b, NodeId x, const Axes& source, const Axes& destination, SourceSpan from) {
    size_t rank = b.type(x).dims.size();
    if (source.size() != destination.size()) return Refusal{"as many targets as sources are needed"};
    std::vector<int64_t> order(rank, -1);
    std::vector<bool> moved(rank);
    for (size_t k = 0; k < source.size(); ++k) {
        int64_t i = settled(source[k], rank), j = settled(destination[k], rank);
        if (i < 0 || j < 0 || moved[i] || order[j] >= 0) return outside(source[k], rank);
        order[j] = i;
        moved[i] = true;
    }
    size_t next = 0;
    for (int64_t& at : order) {
        if (at >= 0) continue;
        while (moved[next]) ++next;
        at = static_cast<int64_t>(next++);
    }
    return b.build(Op::permute, {x}, {.ints = order}, from);
}

Maybe reduce(Builder& b, Op op, NodeId x, const Axes& axes, bool keepdim, DType dtype, double number, SourceSpan from, SumOrder order) {
    Maybe kept = b.build(op, {x}, {.ints = axes, .number = number, .dtype = dtype, .order = order}, from);
    if (!kept || keepdim) return kept;
    const std::vector<int64_t> dims = b.type(x).dims;
    std::vector<int64_t> out;
    for (size_t i = 0; i < dims.size(); ++i) {
        bool reduced = axes.empty() ||
                       std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return settled(a, dims.size()) == static_cast<int64_t>(i); });
        if (!reduced) out.push_back(dims[i]);
    }
    if (out == b.type(*kept).dims) return kept;
    return reshaped(b, *kept, std::move(out), from);
}

Maybe standard_deviation(Builder& b, NodeId x, const Axes& axes, bool keepdim, double correction, SourceSpan from, SumOrder order) {
    const Type type = b.type(x);
    const DType dtype = type.dtype;
    // torch's kernel on the CPU takes the root in f64, too.
    const bool in_f64 = is_float(dtype) && type.domain == Domain::torch && type.device == DeviceKind::cpu;
    NodeId wide = b.cast(x, in_f64 ? DType::f64 : inner_dtype(dtype), from);
    Steps step(b, from);
    NodeId root = step(Op::sqrt, {step.take(reduce(b, Op::var, wide, axes, keepdim, DType::none, correction, from, order))});
    return step.done(is_float(dtype) ? step.cast(root, dtype) : root);
}

} // namespace dyno::graph::compose
