// Lowerings of movement: shapes, views, indexing, concatenation; and the arguments' reader.
#include "compiler/capture/lowering_args.h"
#include "compiler/capture/lowerings.h"
#include "compiler/capture/names.h"
#include "compiler/graph/compose.h"
#include "compiler/python/torch_door.h"
#include <algorithm>
#include <numeric>

namespace dyno::capture::lower {
using graph::NodeId;
using graph::Op;
using graph::Operand;
namespace compose = graph::compose;
using Node = Result<NodeId>;

namespace {
const Refusal unusual{"an argument of an unusual form"};
} // namespace

// ------------------------------------------------------------------------------------------------ the reader
Args::Args(Recording& recording, const BoundArgs& args) : r_(recording), args_(args) {
    for (size_t k = 0; k < args.count; k++)
        if (args.ids[k] && r_.is_tensor(args.ids[k])) {
            domain_ = r_.builder().type(r_.at(args.ids[k]).node).domain;
            break;
        }
}
std::optional<Operand> Args::operand(int k) {
    if (!given(k)) return std::nullopt;
    if (r_.is_tensor(args_.ids[k]) && r_.builder().type(r_.at(args_.ids[k]).node).domain != domain_) return std::nullopt;
    return r_.operand(args_.ids[k], domain_);
}
std::optional<NodeId> Args::tensor(int k) {
    if (!is_tensor(k)) return std::nullopt;
    auto x = operand(k);
    if (!x) return std::nullopt;
    return x->node;
}
std::optional<int64_t> Args::integer_of(Recording& r, ShadowId id, PyObject* value) {
    if (!r.know(id, value)) return std::nullopt;
    if (!PyLong_Check(value) || !r.concrete(id, value)) return std::nullopt;
    const long long n = PyLong_AsLongLong(value);
    if (n == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return std::nullopt;
    }
    return n;
}
std::optional<int64_t> Args::integer(int k) { return given(k) ? integer_of(r_, args_.ids[k], args_.values[k]) : std::nullopt; }
std::optional<double> Args::number(int k) {
    if (!given(k) || !r_.know(args_.ids[k], args_.values[k])) return std::nullopt;
    PyObject* v = args_.values[k];
    if ((!PyFloat_CheckExact(v) && !PyLong_CheckExact(v)) || !r_.concrete(args_.ids[k], v)) return std::nullopt;
    const double d = PyFloat_AsDouble(v);
    if (d == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return std::nullopt;
    }
    return d;
}
std::optional<bool> Args::flag(int k) {
    if (!given(k) || !PyBool_Check(args_.values[k]) || !r_.concrete(args_.ids[k], args_.values[k])) return std::nullopt;
    return args_.values[k] == Py_True;
}
std::optional<std::string> Args::text(int k) {
    if (!given(k) || !PyUnicode_CheckExact(args_.values[k]) || r_.at(args_.ids[k]).kind != Shadow::constant) return std::nullopt;
    return PyUnicode_AsUTF8(args_.values[k]);
}
graph::SumOrder Args::sum_order(int k, const std::vector<int64_t>& axes, std::vector<int64_t>* places, bool dense) {
    std::vector<int64_t> strides;
    const graph::Type t = r_.type_of(args_.values[k], &strides);
    if ((t.dtype != DType::f32 && t.dtype != DType::f64) || t.device != graph::DeviceKind::cpu || strides.size() != t.dims.size()) return {};
    if (dense) {
        int64_t step = 1;
        const std::vector<int64_t> order = falling_strides(k);
        for (size_t j = order.size(); j-- > 0; step *= t.dims[static_cast<size_t>(order[j])]) strides[static_cast<size_t>(order[j])] = step;
    }
    const auto rank = static_cast<int64_t>(t.dims.size());
    std::vector<graph::ReducedDim> dims;
    for (int64_t d = 0; d < rank; d++) {
        const bool named = std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return a == d || a + rank == d; });
        dims.push_back({t.dims[static_cast<size_t>(d)], strides[static_cast<size_t>(d)], axes.empty() || named, d});
    }
    graph::sort_reduced(dims);
    for (int64_t d = 0; d < rank && places; d++) places->push_back(dims[static_cast<size_t>(d)].which);
    if (t.domain == graph::Domain::numpy) return graph::numpy_sum_order(dims);
    const int64_t bytes = python::torch_vector_bytes();
    return bytes > 0 ? graph::torch_sum_order(dims, bytes / size_of(t.dtype)) : graph::SumOrder{};
}
graph::SumOrder Args::moments_order(int k, size_t trailing) {
    std::vector<int64_t> strides;
    const graph::Type t = r_.type_of(args_.values[k], &strides);
    const bool followed = (t.dtype == DType::f32 || t.dtype == DType::f64) && t.device == graph::DeviceKind::cpu && python::torch_norms_fuse();
    if (!followed || trailing > t.dims.size()) return {};
    int64_t count = 1;
    for (size_t d = t.dims.size() - trailing; d < t.dims.size(); d++) count *= t.dims[d];
    return graph::torch_moments_order(count, python::torch_vector_bytes() / size_of(t.dtype));
}
std::vector<int64_t> Args::falling_strides(int k) {
    std::vector<int64_t> strides, order;
    const graph::Type t = r_.type_of(args_.values[k], &strides);
    for (size_t d = 0; d < strides.size(); d++) {
        if (t.dims[d] != 1 && strides[d] <= 0) return {};
        if (t.dims[d] != 1) order.push_back(static_cast<int64_t>(d));
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)]; });
    return order;
}
DType Args::dtype(int k) {
    if (!given(k)) return DType::none;
    PyObject* v = args_.values[k];
    const Shadow& s = r_.at(args_.ids[k]);
    if (s.kind != Shadow::constant && !s.identity) return DType::none;
    if (domain_ == graph::Domain::torch) return python::dtype_of_torch(v);
    // np.float32, "f4", float: NumPy itself says which.
    auto numpy_dtype = Owned<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(names().numpy_dtype), v));
    auto type = numpy_dtype ? Owned<>::steal(PyObject_GetAttrString(numpy_dtype.get(), "char")) : Owned<>();
    PyErr_Clear();
    const char c = type && PyUnicode_Check(type.get()) ? PyUnicode_AsUTF8(type.get())[0] : 0;
    switch (c) {
    case '?': return DType::b8;
    case 'b': return DType::i8;
    case 'B': return DType::u8;
    case 'h': return DType::i16;
    case 'H': return DType::u16;
    case 'i': return DType::i32;
    case 'I': return DType::u32;
    case 'l': return DType::i64;
    case 'L': return DType::u64;
    case 'e': return DType::f16;
    case 'f': return DType::f32;
    case 'd': return DType::f64;
    default: return DType::none;
    }
}
std::optional<std::vector<int64_t>> Args::integers(int k) {
    if (!given(k)) return std::nullopt;
    PyObject* v = args_.values[k];
    if (!r_.know(args_.ids[k], v)) return std::nullopt;
    if (PyLong_Check(v)) {
        auto n = integer(k);
        if (!n) return std::nullopt;
        return std::vector<int64_t>{*n};
    }
    if (!PyTuple_Check(v) && !PyList_CheckExact(v)) return std::nullopt;
    auto items = r_.items_of(args_.ids[k], v);
    if (!items) return std::nullopt;
    std::vector<int64_t> out;
    for (size_t j = 0; j < items->size(); j++) {
        auto n = integer_of(r_, (*items)[j], PySequence_Fast_GET_ITEM(v, static_cast<Py_ssize_t>(j)));
        if (!n) return std::nullopt;
        out.push_back(*n);
    }
    return out;
}
std::optional<std::vector<int64_t>> Args::gathered() {
    std::vector<int64_t> out;
    if (args_.rest_ids.size() == 1 && !PyLong_Check(args_.rest_values[0])) {
        PyObject* v = args_.rest_values[0];
        if (!r_.know(args_.rest_ids[0], v) || (!PyTuple_Check(v) && !PyList_CheckExact(v))) return std::nullopt;
        auto items = r_.items_of(args_.rest_ids[0], v);
        if (!items) return std::nullopt;
        for (size_t j = 0; j < items->size(); j++) {
            auto n = integer_of(r_, (*items)[j], PySequence_Fast_GET_ITEM(v, static_cast<Py_ssize_t>(j)));
            if (!n) return std::nullopt;
            out.push_back(*n);
        }
        return out;
    }
    for (size_t j = 0; j < args_.rest_ids.size(); j++) {
        auto n = integer_of(r_, args_.rest_ids[j], args_.rest_values[j]);
        if (!n) return std::nullopt;
        out.push_back(*n);
    }
    return out;
}
std::optional<std::vector<Operand>> Args::tensors(int k) {
    if (!given(k)) return std::nullopt;
    PyObject* v = args_.values[k];
    if (!PyTuple_CheckExact(v) && !PyList_CheckExact(v)) return std::nullopt;
    auto items = r_.items_of(args_.ids[k], v);
    if (!items || items->empty()) return std::nullopt;
    std::vector<Operand> out;
    bool first = true;
    for (size_t j = 0; j < items->size(); j++) {
        if (!r_.know((*items)[j], PySequence_Fast_GET_ITEM(v, static_cast<Py_ssize_t>(j))) || !r_.is_tensor((*items)[j])) return std::nullopt;
        const NodeId node = r_.at((*items)[j]).node;
        if (first) domain_ = r_.builder().type(node).domain;
        if (r_.builder().type(node).domain != domain_) return std::nullopt;
        first = false;
        out.emplace_back(node, false);
    }
    return out;
}
void Args::fits(int k, DType dtype) {
    if (given(k) && !is_tensor(k)) r_.guard_range(args_.ids[k], args_.values[k], dtype);
}
void Args::hold(int k) {
    if (given(k)) r_.concrete(args_.ids[k], args_.values[k]);
}

// ------------------------------------------------------------------------------------------------ shapes
Node reshape(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    graph::Attributes attributes;
    auto dims = args.rest_ids.empty() && a.given(1) ? a.integers(1) : a.gathered();
    if (!x || !dims) return unusual;
    attributes.dims = *dims;
    return r.builder().build(op, {*x}, attributes, from);
}
Node permute(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    const auto rank = static_cast<int64_t>(r.builder().type(*x).dims.size());
    graph::Attributes attributes;
    if (args.rest_ids.empty() && !a.given(1)) {
        for (int64_t k = rank; k-- > 0;) attributes.ints.push_back(k);
    } else {
        auto order = args.rest_ids.empty() ? a.integers(1) : a.gathered();
        if (!order) return unusual;
        attributes.ints = *order;
    }
    return r.builder().build(op, {*x}, attributes, from);
}
Node transpose(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto first = a.integer(1), second = a.integer(2);
    if (!x || !first || !second) return unusual;
    return compose::transpose(r.builder(), *x, *first, *second, from);
}
Node t(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    graph::Attributes attributes;
    for (size_t k = r.builder().type(*x).dims.size(); k-- > 0;) attributes.ints.push_back(static_cast<int64_t>(k));
    return r.builder().build(op, {*x}, attributes, from);
}
Node mt(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x || r.builder().type(*x).dims.size() < 2) return unusual;
    return compose::transpose(r.builder(), *x, -1, -2, from);
}
Node unsqueeze(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto axis = a.integer(1);
    if (!x || !axis) return unusual;
    return compose::unsqueeze(r.builder(), *x, *axis, from);
}
Node squeeze(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    std::vector<int64_t> axes;
    if (a.given(1) && !a.none(1)) {
        auto given = a.integers(1);
        if (!given || given->empty()) return unusual;
        axes = *given;
    }
    return compose::squeeze(r.builder(), *x, axes, from);
}
Node narrow(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto axis = a.integer(1), start = a.integer(2), length = a.integer(3);
    if (!x || !axis || !start || !length) return unusual;
    const std::vector<int64_t>& dims = r.builder().type(*x).dims;
    const auto rank = static_cast<int64_t>(dims.size());
    if (*axis < -rank || *axis >= rank) return unusual;
    const int64_t size = dims[static_cast<size_t>(*axis < 0 ? *axis + rank : *axis)];
    return compose::narrow(r.builder(), *x, *axis, *start < 0 ? *start + size : *start, *length, 1, from);
}
Node select(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto axis = a.integer(1), index = a.integer(2);
    if (!x || !axis || !index) return unusual;
    return compose::select(r.builder(), *x, *axis, *index, from);
}
Node movedim(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto source = a.integers(1), destination = a.integers(2);
    if (!x || !source || !destination) return unusual;
    return compose::movedim(r.builder(), *x, *source, *destination, from);
}
Node flatten(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    return compose::flatten(r.builder(), *x, a.integer_or(1, 0), a.integer_or(2, -1), from);
}
Node ravel(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x) return unusual;
    graph::Attributes attributes;
    attributes.dims = {-1};
    return r.builder().build(Op::reshape, {*x}, attributes, from);
}
Node expand(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto dims = args.rest_ids.empty() && a.given(1) ? a.integers(1) : a.gathered();
    if (!x || !dims) return unusual;
    graph::Attributes attributes;
    attributes.dims = *dims;
    return r.builder().build(op, {*x}, attributes, from);
}
Node expand_as(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0), y = a.tensor(1);
    if (!x || !y) return unusual;
    graph::Attributes attributes;
    attributes.dims = r.builder().type(*y).dims;
    return r.builder().build(op == Op::expand ? Op::expand : op, {*x}, attributes, from);
}
Node flip(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    auto axes = a.integers(1);
    if (!x || !axes) return unusual;
    graph::Attributes attributes;
    attributes.ints = *axes;
    return r.builder().build(op, {*x}, attributes, from);
}
Node cat(Recording& r, const BoundArgs& args, Op op, SourceSpan from) {
    Args a(r, args);
    auto list = a.tensors(0);
    if (!list || (a.given(1) && a.none(1))) return unusual;
    graph::Attributes attributes;
    attributes.ints = {a.integer_or(1, 0)};
    return r.builder().build(op, std::span<const Operand>(*list), attributes, from);
}
Node stack(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto list = a.tensors(0);
    if (!list) return unusual;
    return compose::stack(r.builder(), *list, a.integer_or(1, 0), from);
}

// ------------------------------------------------------------------------------------------------ x[...]
namespace {
/// One part of a basic index.
struct Part {
    enum Kind : uint8_t { integer, slice, newaxis, ellipsis } kind;
    int64_t start = 0, stop = 0, step = 1;
    bool has_start = false, has_stop = false;
};
bool part_of(Recording& r, ShadowId id, PyObject* v, Part& part) {
    if (!r.know(id, v)) return false;
    if (v == Py_None) return part.kind = Part::newaxis, true;
    if (v == Py_Ellipsis) return part.kind = Part::ellipsis, true;
    if (PyBool_Check(v)) return false;
    if (PyLong_CheckExact(v)) {
        auto n = Args::integer_of(r, id, v);
        if (!n) return false;
        part.kind = Part::integer;
        part.start = *n;
        return true;
    }
    if (!PySlice_Check(v)) return false;
    part.kind = Part::slice;
    auto* s = reinterpret_cast<PySliceObject*>(v);
    PyObject* fields[3] = {s->start, s->stop, s->step};
    const Shadow::Kind kind = r.at(id).kind;
    const std::vector<ShadowId> parts = r.at(id).parts;
    int64_t values[3] = {0, 0, 1};
    bool has[3] = {};
    for (int k = 0; k < 3; k++) {
        if (fields[k] == Py_None) continue;
        if (kind == Shadow::fresh) {
            auto n = Args::integer_of(r, parts[static_cast<size_t>(k)], fields[k]);
            if (!n) return false;
            values[k] = *n;
        } else if (kind == Shadow::constant && PyLong_CheckExact(fields[k])) {
            values[k] = PyLong_AsLongLong(fields[k]);
            if (PyErr_Occurred()) return PyErr_Clear(), false;
        } else return false;
        has[k] = true;
    }
    part.start = values[0], part.stop = values[1], part.step = values[2];
    part.has_start = has[0], part.has_stop = has[1];
    return part.step != 0;
}
} // namespace

Node getitem(Recording& r, const BoundArgs& args, Op, SourceSpan from) {
    Args a(r, args);
    auto x = a.tensor(0);
    if (!x || !a.given(1)) return unusual;
    std::vector<Part> parts;
    PyObject* key = args.values[1];
    if (PyTuple_CheckExact(key)) {
        auto items = r.items_of(args.ids[1], key);
        if (!items) return unusual;
        for (size_t k = 0; k < items->size(); k++) {
            Part p;
            if (!part_of(r, (*items)[k], PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(k)), p)) return unusual;
            parts.push_back(p);
        }
    } else {
        Part p;
        if (!part_of(r, args.ids[1], key, p)) return unusual;
        parts.push_back(p);
    }
    graph::Builder& b = r.builder();
    const std::vector<int64_t> dims = b.type(*x).dims;
    size_t consumed = 0;
    bool ellipsis = false;
    for (const Part& p : parts) consumed += p.kind == Part::integer || p.kind == Part::slice, ellipsis |= p.kind == Part::ellipsis;
    if (consumed > dims.size()) return unusual;
    std::vector<int64_t> starts, steps, sizes, final_dims;
    size_t axis = 0;
    auto whole = [&](size_t count) {
        for (size_t k = 0; k < count; k++, axis++) {
            starts.push_back(0), steps.push_back(1), sizes.push_back(dims[axis]);
            final_dims.push_back(dims[axis]);
        }
    };
    for (const Part& p : parts) {
        switch (p.kind) {
        case Part::newaxis: final_dims.push_back(1); break;
        case Part::ellipsis: whole(dims.size() - consumed); break;
        case Part::integer: {
            const int64_t n = dims[axis], at = p.start < 0 ? p.start + n : p.start;
            if (at < 0 || at >= n) return unusual;
            starts.push_back(at), steps.push_back(1), sizes.push_back(1);
            axis++;
            break;
        }
        case Part::slice: {
            Py_ssize_t start = p.has_start ? p.start : (p.step < 0 ? PY_SSIZE_T_MAX : 0), stop = p.has_stop ? p.stop : (p.step < 0 ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX);
            const Py_ssize_t count = PySlice_AdjustIndices(dims[axis], &start, &stop, p.step);
            starts.push_back(start), steps.push_back(p.step), sizes.push_back(count);
            final_dims.push_back(count);
            axis++;
            break;
        }
        }
    }
    if (!ellipsis) whole(dims.size() - axis);
    bool changed = false;
    for (size_t k = 0; k < dims.size(); k++) changed |= sizes[k] != dims[k] || steps[k] != 1;
    NodeId value = *x;
    if (changed) {
        graph::Attributes attributes;
        for (size_t k = 0; k < dims.size(); k++) attributes.ints.push_back(starts[k]), attributes.ints.push_back(steps[k]);
        attributes.dims = sizes;
        auto cut = b.build(Op::slice, {value}, attributes, from);
        if (!cut) return cut;
        value = *cut;
    }
    if (final_dims != sizes || !changed) {
        graph::Attributes attributes;
        attributes.dims = final_dims;
        return b.build(Op::reshape, {value}, attributes, from);
    }
    return value;
}

} // namespace dyno::capture::lower
