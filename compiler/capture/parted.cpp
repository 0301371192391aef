// Library calls with several results: max(x, dim), var_mean, chunk, split, unbind. Each result is a node of its own, so that loops fuse across
// the call and what nobody uses is not computed.
#include "compiler/capture/lowering_args.h"
#include "compiler/capture/lowerings.h"
#include "compiler/capture/names.h"
#include "compiler/graph/compose.h"

namespace dyno::capture {
using graph::NodeId;
using graph::Op;
namespace compose = graph::compose;

namespace {

using Nodes = std::optional<std::vector<NodeId>>;

/// The rows by the last word of their name, in torch's spelling.
struct PartedRow {
    const char* name;
    const char* parameters;
    Nodes (*results)(Recording&, const BoundArgs&, SourceSpan); // null: pieces, views of the first argument
    Op op = Op::count_;
};

Nodes both(const Result<NodeId>& first, const Result<NodeId>& second) {
    if (!first || !second) return std::nullopt;
    return std::vector<NodeId>{*first, *second};
}

Nodes extreme_along(Recording& r, const BoundArgs& args, SourceSpan from, Op element, Op position) {
    lower::Args a(r, args);
    auto x = a.tensor(0);
    auto axis = a.integer(1);
    auto keep = a.given(2) ? a.flag(2) : std::optional<bool>(false);
    if (!x || !axis || !keep || r.builder().type(*x).dims.empty()) return std::nullopt;
    return both(compose::reduce(r.builder(), element, *x, {*axis}, *keep, DType::none, 0.0, from), compose::reduce(r.builder(), position, *x, {*axis}, *keep, DType::none, 0.0, from));
}
Nodes max_along(Recording& r, const BoundArgs& args, SourceSpan from) { return extreme_along(r, args, from, Op::first_max, Op::argmax); }
Nodes min_along(Recording& r, const BoundArgs& args, SourceSpan from) { return extreme_along(r, args, from, Op::first_min, Op::argmin); }

/// (x, dim | correction keepdim unbiased)
Nodes spread_and_mean(Recording& r, const BoundArgs& args, SourceSpan from, Result<NodeId> (*spread)(Recording&, const BoundArgs&, Op, SourceSpan)) {
    BoundArgs mean = args;
    mean.ids[2] = args.ids[3], mean.values[2] = args.values[3];
    mean.count = 3;
    return both(spread(r, args, Op::var, from), lower::reduce(r, mean, Op::mean, from));
}
Nodes variance_and_mean(Recording& r, const BoundArgs& args, SourceSpan from) { return spread_and_mean(r, args, from, lower::variance); }
Nodes deviation_and_mean(Recording& r, const BoundArgs& args, SourceSpan from) { return spread_and_mean(r, args, from, lower::deviation); }

constexpr PartedRow rows[] = {
    {"max", "input dim keepdim", max_along},
    {"min", "input dim keepdim", min_along},
    {"var_mean", "input dim | correction keepdim unbiased", variance_and_mean},
    {"std_mean", "input dim | correction keepdim unbiased", deviation_and_mean},
    {"chunk", "input chunks dim", nullptr},
    {"split", "input split_size dim", nullptr},
    {"split_with_sizes", "input split_sizes dim", nullptr},
    {"tensor_split", "input indices_or_sections dim", nullptr},
    {"unbind", "input dim", nullptr},
};

const PartedRow* parted_row(const std::string& path) {
    if (path.rfind("torch.", 0) != 0) return nullptr;
    const std::string name = path.substr(path.rfind('.') + 1);
    for (const PartedRow& row : rows)
        if (name == row.name) return &row;
    return nullptr;
}

} // namespace

/// The pieces of a tensor along an axis, each as the call of narrow() or select() that makes it.
std::optional<std::vector<ShadowId>> Recording::pieces_of(Activation& a, PyObject* result, const BoundArgs& bound, bool unbinds) {
    lower::Args args(*this, bound);
    auto x = args.tensor(0);
    const int place = unbinds ? 1 : 2; // of the axis
    const int64_t axis = args.given(place) ? args.integer(place).value_or(-99) : 0;
    // What sets the sizes is held; that they came out as seen follows from it.
    if (!x || axis == -99 || (!unbinds && !args.integers(1)) || at(bound.ids[0]).requires_grad) return std::nullopt;
    const auto rank = static_cast<int64_t>(builder_.type(*x).dims.size());
    const int64_t along = axis < 0 ? axis + rank : axis;
    static PyObject* const narrow = PyObject_GetAttrString(reinterpret_cast<PyObject*>(names().tensor_base), "narrow");
    static PyObject* const select = PyObject_GetAttrString(reinterpret_cast<PyObject*>(names().tensor_base), "select");
    const auto number = [&](Call& c, int64_t n) {
        auto value = Owned<>::steal(PyLong_FromLongLong(n));
        c.args.push_back(constant(value.get()));
        c.values.push_back(shadows_[c.args.back()].real);
    };
    Call whole = pending_call_;
    std::vector<ShadowId> pieces;
    int64_t start = 0;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(result); k++) {
        PyObject* piece = PySequence_Fast_GET_ITEM(result, k);
        const graph::Type type = type_of(piece, nullptr);
        if (type.dtype == DType::none || along < 0 || along >= rank) break;
        Call c;
        c.callable = unbinds ? select : narrow;
        c.row = row_of(c.callable);
        c.name = unbinds ? "torch.Tensor.select" : "torch.Tensor.narrow";
        c.args = {bound.ids[0]};
        c.values = {bound.values[0]};
        number(c, along);
        number(c, unbinds ? k : start);
        if (!unbinds) {
            const int64_t length = type.dims[static_cast<size_t>(along)];
            number(c, length);
            start += length;
        }
        c.nargs = c.args.size();
        BoundArgs arguments;
        if (!c.row || !c.row->lower || !bind(c.row->parameters, c.args, c.values.data(), c.nargs, nullptr, arguments)) break;
        auto node = c.row->lower(*this, arguments, c.row->op, span_of(a));
        if (!node) break;
        pending_call_ = std::move(c);
        const ShadowId id = finish_lowered(a, piece, *node);
        pending_call_ = whole;
        if (!id) break;
        pieces.push_back(id);
    }
    if (finished_ || static_cast<Py_ssize_t>(pieces.size()) == PySequence_Fast_GET_SIZE(result)) return pieces;
    return std::nullopt;
}

/// The shadow of a call's several results; nothing if it has no row here.
std::optional<ShadowId> Recording::finish_parted(Activation& a, PyObject* result) {
    const Call& c = pending_call_;
    const PartedRow* row = PyTuple_Check(result) || PyList_CheckExact(result) ? parted_row(c.name) : nullptr;
    BoundArgs bound;
    if (!row || holds_unsized(c.args[0]) || !bind(row->parameters, c.args, c.values.data(), c.nargs, c.kwnames, bound)) return std::nullopt;
    std::vector<ShadowId> parts;
    if (!row->results) {
        auto pieces = pieces_of(a, result, bound, std::strcmp(row->name, "unbind") == 0);
        if (finished_) return 0;
        if (!pieces || pieces->empty()) return std::nullopt;
        parts = std::move(*pieces);
    } else {
        auto nodes = row->results(*this, bound, span_of(a));
        if (finished_) return 0;
        if (!nodes || !PyTuple_Check(result) || static_cast<size_t>(PyTuple_GET_SIZE(result)) != nodes->size()) return std::nullopt;
        for (size_t k = 0; k < nodes->size(); k++) {
            const ShadowId id = finish_lowered(a, PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(k)), (*nodes)[k], false);
            if (finished_) return 0;
            if (!id) return std::nullopt;
            parts.push_back(id);
        }
    }
    if (PyTuple_CheckExact(result)) return fresh(NewObject::tuple, std::move(parts), &PyTuple_Type);
    if (PyList_CheckExact(result)) return fresh(NewObject::list, std::move(parts), &PyList_Type);
    Shadow s; // torch.return_types.max
    s.kind = Shadow::outcome;
    s.type = Py_TYPE(result);
    s.parts = std::move(parts);
    return add(std::move(s));
}

/// A library's named tuple of parts that are followed each by itself: its type makes it of a tuple.
ValueRef Recording::ref_of_named_tuple(ShadowId id) {
    auto built = built_.find(id);
    if (built != built_.end()) return {ValueRef::fresh, built->second};
    const ShadowId tuple = fresh(NewObject::tuple, shadows_[id].parts, &PyTuple_Type);
    const ValueRef items = ref_of(tuple);
    if (items.kind == ValueRef::none) return {};
    NewObject object;
    object.kind = NewObject::called;
    object.position = -1;
    object.type = anchor(reinterpret_cast<PyObject*>(shadows_[id].type));
    object.parts = {items};
    segment_.fresh.push_back(std::move(object));
    fresh_values_ = static_cast<uint32_t>(segment_.fresh.size());
    built_[id] = fresh_values_ - 1;
    return {ValueRef::fresh, fresh_values_ - 1};
}

} // namespace dyno::capture
