// Values from outside: what is known of an object that a recording meets, the guards that say so, and where a replay reads it again.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/array.h"
#include "compiler/python/partial.h"
#include "compiler/python/versions.h"
#include <cstring>

namespace dyno::capture {

namespace {
bool immutable_by_value(PyObject* v) {
    if (v == Py_None || v == Py_Ellipsis || v == Py_NotImplemented) return true;
    if (PyLong_CheckExact(v) || PyFloat_CheckExact(v) || PyBool_Check(v) || PyUnicode_CheckExact(v) || PyBytes_CheckExact(v) ||
        PyComplex_CheckExact(v))
        return true;
    if (PyTuple_CheckExact(v) || Py_TYPE(v) == names().torch_size) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(v); k++)
            if (!immutable_by_value(PyTuple_GET_ITEM(v, k))) return false;
        return true;
    }
    if (PySlice_Check(v)) {
        auto* s = reinterpret_cast<PySliceObject*>(v);
        return immutable_by_value(s->start) && immutable_by_value(s->stop) && immutable_by_value(s->step);
    }
    return names().is_value_type(Py_TYPE(v));
}
} // namespace

bool is_immutable(PyObject* v) { return immutable_by_value(v); }

bool Recording::know(ShadowId given, PyObject* value) {
    const ShadowId id = canonical(given);
    if (!id) return refuse("a value of unknown origin");
    if (shadows_[id].kind != Shadow::raw) return true;
    PyTypeObject* type = Py_TYPE(value);
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value)) return know_number(id, value);
    if (know_constant(id, value)) return true;
    if (const ShadowId other = shadow_of_object(value); other && other != id) return know_again(id, other);
    const Names::Traits traits = names().traits(type);
    if (traits.identity || traits.enumeration || PyModule_Check(value) || std::strcmp(type->tp_name, "functools._lru_cache_wrapper") == 0) return know_identity(id, value);
    if (python::is_tensor_class(type) || type == names().ndarray) return know_data(id, value);
    if (DType scalar = python::numpy_scalar_dtype(value); scalar != DType::none) return know_numpy_scalar(id, value, scalar);
    if (traits.overrides) return refuse(std::string("a ") + type->tp_name + " has operators of its own");
    if (value == names().variable_functions) return know_identity(id, value);
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) || PyODict_CheckExact(value) ||
        PyAnySet_CheckExact(value) || PyCell_Check(value) || PyContextVar_CheckExact(value) || PyMethod_Check(value) || type == python::partial_type() || traits.followed)
        return know_container(id, value);
    return refuse(std::string("a ") + type->tp_name + " object");
}

void Recording::guard_value(ShadowId id, Guard::Kind kind, uint32_t expected) {
    Guard g;
    g.kind = kind;
    g.source = shadows_[id].source;
    g.expected = expected;
    guard(g);
}
Shadow& Recording::known_as(ShadowId id, Shadow::Kind kind, PyObject* value) {
    Shadow& s = shadows_[id];
    s.kind = kind;
    s.type = Py_TYPE(value);
    return s;
}

bool Recording::know_constant(ShadowId id, PyObject* value) {
    PyTypeObject* type = Py_TYPE(value);
    const bool alone = value == Py_None || value == Py_Ellipsis || value == Py_NotImplemented || PyBool_Check(value);
    const bool singleton = names().is_singleton_type(type);
    const bool slice = PySlice_Check(value) && immutable_by_value(value);
    if (!alone && !slice && !PyUnicode_CheckExact(value) && !PyBytes_CheckExact(value) && type != names().torch_size &&
        !names().is_value_type(type))
        return false;
    const bool by_identity = alone || singleton;
    guard_value(id, by_identity ? Guard::is : Guard::equal, by_identity ? anchor(value) : constant_index(value));
    known_as(id, Shadow::constant, value).real = value;
    if (!singleton && !slice) shadows_[id].ref = {ValueRef::constant, constant_index(value)};
    return true;
}

bool Recording::know_number(ShadowId id, PyObject* value) {
    guard_value(id, Guard::number_type, anchor(reinterpret_cast<PyObject*>(Py_TYPE(value))));
    const Shadow& s = known_as(id, Shadow::number, value);
    shadows_[id].real = value;
    number_of_source_.try_emplace(s.source, id);
    kept_.try_emplace(value, Owned<>::borrow(value)); // a number: nobody can tell
    return true;
}

ShadowId Recording::shadow_of_object(PyObject* value) const {
    auto known = by_object_.find(value);
    if (known == by_object_.end()) return 0;
    auto weak = weak_.find(value);
    return weak == weak_.end() || PyWeakref_GetObject(weak->second.get()) == value ? known->second : 0;
}

/// The same object by another path: one shadow, and a guard that both paths lead to it.
bool Recording::know_again(ShadowId id, ShadowId given) {
    const ShadowId other = canonical(given);
    if (shadows_[other].source == Guard::none_) return refuse("an object made here was read back by another path");
    Guard g;
    g.kind = Guard::same;
    g.source = shadows_[id].source;
    g.other = shadows_[other].source;
    guard(g);
    alias_[id] = other;
    return true;
}

bool Recording::know_identity(ShadowId id, PyObject* value) {
    guard_value(id, Guard::is, anchor(value));
    Shadow& s = known_as(id, Shadow::object, value);
    s.identity = true;
    s.real = value;
    kept_.try_emplace(value, Owned<>::borrow(value));
    by_object_[value] = id;
    return true;
}

/// A tensor or array: an input of the graph.
bool Recording::know_data(ShadowId id, PyObject* value) {
    PyTypeObject* type = Py_TYPE(value);
    std::vector<int64_t> strides;
    const graph::Type t = type_of(value, &strides);
    met_data_ = true;
    if (t.dtype == DType::none)
        return refuse(type == names().ndarray ? "an array of a kind that is not compiled" : "a tensor of a kind that is not compiled");
    ArrayFacts facts{};
    facts.type = type;
    facts.dtype = t.dtype;
    facts.sizes = t.dims;
    facts.strides = strides;
    if (t.domain == graph::Domain::torch) {
        python::TensorView view;
        python::read_tensor(value, view);
        facts.device_type = view.device_type;
        facts.device_index = view.device_index;
        facts.requires_grad = view.requires_grad;
        facts.key_set = view.key_set;
    } else {
        python::ArrayView view;
        python::read_array(value, view);
        facts.writeable = view.writeable;
    }
    segment_.facts.push_back(std::move(facts));
    guard_value(id, t.domain == graph::Domain::torch ? Guard::tensor : Guard::array, static_cast<uint32_t>(segment_.facts.size() - 1));
    graph::NodeId node = builder_.input(t, strides);
    segment_.input_sources.push_back(shadows_[id].source);
    node_strides_.resize(builder_.size());
    node_strides_[node.index] = strides;
    Shadow& s = known_as(id, Shadow::tensor, value);
    s.node = node;
    s.requires_grad = segment_.facts.back().requires_grad;
    by_object_[value] = id;
    if (PyObject* weak = PyWeakref_NewRef(value, nullptr)) weak_.insert_or_assign(value, Owned<>::steal(weak));
    else PyErr_Clear();
    return true;
}

bool Recording::know_numpy_scalar(ShadowId id, PyObject* value, DType dtype) {
    if (is_complex(dtype)) return refuse("a complex NumPy scalar");
    guard_value(id, Guard::numpy_scalar, anchor(reinterpret_cast<PyObject*>(Py_TYPE(value))));
    met_data_ = true;
    // Passed as the bits of a double or a 64-bit integer, which hold every narrower value.
    const DType passed = is_float(dtype) ? DType::f64 : dtype == DType::b8 || dtype == DType::u64 ? dtype : DType::i64;
    graph::NodeId node = builder_.cast(builder_.scalar(passed, graph::Domain::numpy), dtype);
    segment_.scalar_values.push_back({ValueRef::source, shadows_[id].source});
    node_strides_.resize(builder_.size());
    if (segment_.numpy_scalar.size() < builder_.size()) segment_.numpy_scalar.resize(builder_.size());
    segment_.numpy_scalar[node.index] = true;
    known_as(id, Shadow::tensor, value).node = node;
    return true;
}

/// A container or an object of a class: its type is guarded, what is read of it is known when it is read.
bool Recording::know_container(ShadowId id, PyObject* value) {
    PyTypeObject* type = Py_TYPE(value);
    guard_value(id, Guard::type, anchor(reinterpret_cast<PyObject*>(type)));
    known_as(id, Shadow::object, value).real = value;
    if (!type->tp_del && !type->tp_finalize) kept_.try_emplace(value, Owned<>::borrow(value));
    by_object_[value] = id;
    return true;
}

graph::Type Recording::type_of(PyObject* object, std::vector<int64_t>* strides) {
    graph::Type t;
    python::TensorView v;
    python::ArrayView n;
    if (python::read_tensor(object, v)) {
        if (v.device_type > python::device_cuda || is_complex(v.dtype)) return t;
        t.dtype = v.dtype;
        t.dims.assign(v.sizes, v.sizes + v.ndim);
        t.device = v.device_type == python::device_cuda ? graph::DeviceKind::cuda : graph::DeviceKind::cpu;
        t.device_index = v.device_index;
        t.domain = graph::Domain::torch;
        if (strides) strides->assign(v.strides, v.strides + v.ndim);
    } else if (python::read_array(object, n)) {
        const int64_t item = size_of(n.dtype);
        for (int k = 0; k < n.ndim; k++)
            if (n.strides[k] % item) return t;
        if (is_complex(n.dtype)) return t;
        t.dtype = n.dtype;
        t.dims.assign(n.shape, n.shape + n.ndim);
        t.domain = graph::Domain::numpy;
        if (strides)
            for (int k = 0; k < n.ndim; k++) strides->push_back(n.strides[k] / item);
    } else if (DType s = python::numpy_scalar_dtype(object); s != DType::none && !is_complex(s)) {
        t.dtype = s;
        t.domain = graph::Domain::numpy;
    }
    return t;
}

PyObject* Recording::concrete(ShadowId given, PyObject* value) {
    const ShadowId id = canonical(given);
    Shadow& s = shadows_[id];
    if (s.kind == Shadow::constant) return value;
    if (s.kind != Shadow::number) return nullptr;
    // Every source under the number is held to its present value.
    std::vector<ValueRef> open{s.ref};
    std::vector<uint32_t> sources;
    std::vector<bool> seen(segment_.scalar_steps.size());
    while (!open.empty()) {
        const ValueRef r = open.back();
        open.pop_back();
        if (r.kind == ValueRef::scalar) {
            if (seen[r.index]) continue;
            seen[r.index] = true;
        }
        if (r.kind == ValueRef::outcome || r.kind == ValueRef::node) return nullptr;
        if (r.kind == ValueRef::source) sources.push_back(r.index);
        if (r.kind == ValueRef::scalar) {
            const ScalarStep& step = segment_.scalar_steps[r.index];
            if (step.a.kind) open.push_back(step.a);
            if (step.b.kind) open.push_back(step.b);
        }
    }
    for (uint32_t src : sources) {
        hold_length(src);
        const auto found = number_of_source_.find(src);
        if (found == number_of_source_.end() || shadows_[found->second].kind != Shadow::number) continue;
        Shadow& number = shadows_[found->second];
        PyObject* now = found->second == id ? value : number.real;
        if (!now) return nullptr;
        Guard g;
        g.kind = Guard::equal;
        g.source = src;
        g.expected = constant_index(now);
        guard(g);
        number.kind = Shadow::constant;
        number.ref = {ValueRef::constant, g.expected};
    }
    if (shadows_[id].kind == Shadow::number) {
        shadows_[id].kind = Shadow::constant;
        shadows_[id].ref = {ValueRef::constant, constant_index(value)};
    }
    shadows_[id].real = segment_.constants[shadows_[id].ref.index].get();
    return value;
}

bool Recording::guard_type_attribute(PyTypeObject* type, PyObject* name, PyObject* found) {
    auto [it, fresh] = type_facts_.try_emplace({type, name}, true);
    if (!fresh) return true;
    Guard g;
    g.kind = Guard::type_attribute;
    g.source = anchor(reinterpret_cast<PyObject*>(type));
    g.name = constant_index(name);
    g.expected = found ? anchor(found) : Guard::none_;
    guard(g);
    return true;
}

// ------------------------------------------------------------------------------------------------ derived values
ShadowId Recording::read_item(ShadowId container, PyObject* key, PyObject* value) {
    container = canonical(container);
    PyObject* k = canonical_key(key);
    if (auto owner = dict_owner_.find(container); owner != dict_owner_.end() && PyUnicode_CheckExact(k)) {
        // An attribute by another spelling: its place is the instance's. Names are interned there.
        auto own = Owned<>::borrow(k);
        PyObject* name = own.release();
        PyUnicode_InternInPlace(&name);
        constant_index(name);
        auto attribute = places_.find({owner->second, 'a', name, 0});
        Py_DECREF(name);
        if (attribute != places_.end() && attribute->second) return attribute->second;
    }
    auto [it, fresh] = places_.try_emplace({container, 'd', k, 0}, 0);
    if (fresh || !it->second) it->second = raw(source(Source::dict_item, shadows_[container].source, 0, k), value);
    return it->second;
}
ShadowId Recording::read_index(ShadowId container, int64_t index, PyObject* value) {
    container = canonical(container);
    const Shadow& c = shadows_[container];
    if (c.followed && index >= static_cast<int64_t>(c.parts.size())) return 0;
    if (c.kind == Shadow::fresh || c.kind == Shadow::outcome || c.followed) return c.parts[static_cast<size_t>(index)];
    auto [it, fresh] = places_.try_emplace({container, 'i', nullptr, index}, 0);
    if (fresh || !it->second) {
        const bool list = PyList_CheckExact(c.real);
        it->second = raw(source(list ? Source::list_item : Source::tuple_item, c.source, static_cast<uint32_t>(index), nullptr), value);
    }
    return it->second;
}

} // namespace dyno::capture
