// The life of a recording: shadows, sources, guards; what a value from outside is; how a segment ends.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/array.h"
#include "compiler/python/versions.h"
#include <cstring>
#include <set>

namespace dyno::capture {

Recording::Recording(const SegmentKey& key, const Limits& limits) : limits_(limits), key_(key) {
    segment_.key = key;
    shadows_.emplace_back();
    alias_.push_back(0);
    keys_ = Owned<>::steal(PyDict_New());
    names(); // makes sure that what is imported is known before the ambient word is read
    python::numpy_ready();
    python::read_ambient(segment_.ambient);
}
Recording::~Recording() = default;

void Recording::begin(Activation& root) {
    root_ = &root;
    const int locals = root.code->co_nlocalsplus;
    const auto depth = static_cast<int>(root.sp - root.base);
    for (int k = 0; k < locals + depth; k++) {
        PyObject* value = root.locals[k];
        root.shadows[k] = value ? raw(source(Source::slot, 0, static_cast<uint32_t>(k), nullptr), value) : 0;
    }
    if (root.at == 0) free_variables(root, 0);
    op_start_ = std::chrono::steady_clock::now();
}

// ------------------------------------------------------------------------------------------------ the table
ShadowId Recording::canonical(ShadowId id) const {
    while (alias_[id]) id = alias_[id];
    return id;
}
Shadow& Recording::at(ShadowId id) { return shadows_[canonical(id)]; }
ShadowId Recording::add(Shadow shadow) {
    shadows_.push_back(std::move(shadow));
    alias_.push_back(0);
    return static_cast<ShadowId>(shadows_.size() - 1);
}
uint32_t Recording::constant_index(PyObject* value) {
    auto [it, fresh] = constant_ids_.try_emplace(value, static_cast<uint32_t>(segment_.constants.size()));
    if (fresh) segment_.constants.push_back(Owned<>::borrow(value));
    return it->second;
}
ShadowId Recording::constant(PyObject* value) {
    Shadow s;
    s.kind = Shadow::constant;
    s.ref = {ValueRef::constant, constant_index(value)};
    s.type = Py_TYPE(value);
    s.real = value;
    return add(std::move(s));
}
uint32_t Recording::anchor(PyObject* object) {
    auto [it, fresh] = anchor_ids_.try_emplace(object, static_cast<uint32_t>(segment_.anchors.size()));
    if (fresh) segment_.anchors.push_back(Owned<>::borrow(object));
    return it->second;
}
uint32_t Recording::source(Source::Kind kind, uint32_t base, uint32_t index, PyObject* name) {
    auto [it, fresh] = source_ids_.try_emplace({kind, base, index, name}, static_cast<uint32_t>(segment_.sources.size()));
    if (fresh) segment_.sources.push_back(Source{kind, base, index, Owned<>::borrow(name)});
    return it->second;
}
ShadowId Recording::raw(uint32_t source, PyObject* value) {
    Shadow s;
    s.kind = Shadow::raw;
    s.ref = {ValueRef::source, source};
    s.source = source;
    s.type = Py_TYPE(value);
    return add(std::move(s));
}
void Recording::guard(Guard g) {
    if (here_ && !g.from.code) g.from = span_of(*here_);
    segment_.guards.push_back(g);
}
bool Recording::refuse(std::string reason, std::string hint) {
    refusal_ = std::move(reason);
    hint_ = std::move(hint);
    return false;
}
PyObject* Recording::canonical_key(PyObject* key) {
    PyObject* known = PyDict_SetDefault(keys_.get(), key, key);
    if (!known) PyErr_Clear();
    return known;
}
bool Recording::is_tensor(ShadowId id) const { return id && shadows_[canonical(id)].kind == Shadow::tensor && !shadows_[canonical(id)].unsized; }

// ------------------------------------------------------------------------------------------------ values from outside
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
    if (names().is_identity_type(type) || PyModule_Check(value) || std::strcmp(type->tp_name, "functools._lru_cache_wrapper") == 0 || names().is_enum_member(value)) return know_identity(id, value);
    if (python::is_tensor_class(type) || type == names().ndarray) return know_data(id, value);
    if (DType scalar = python::numpy_scalar_dtype(value); scalar != DType::none) return know_numpy_scalar(id, value, scalar);
    if (names().overrides_operators(type)) return refuse(std::string("a ") + type->tp_name + " has operators of its own");
    if (value == names().variable_functions) return know_identity(id, value);
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) || PyODict_CheckExact(value) ||
        PyAnySet_CheckExact(value) || PyCell_Check(value) || PyContextVar_CheckExact(value) || PyMethod_Check(value) || names().is_followed_instance_type(type))
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
    const bool alone = value == Py_None || value == Py_Ellipsis || PyBool_Check(value);
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
    known_as(id, Shadow::number, value).real = value;
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
    while (!open.empty()) {
        const ValueRef r = open.back();
        open.pop_back();
        if (r.kind == ValueRef::outcome || r.kind == ValueRef::node) return nullptr;
        if (r.kind == ValueRef::source) sources.push_back(r.index);
        if (r.kind == ValueRef::scalar) {
            const ScalarStep& step = segment_.scalar_steps[r.index];
            if (step.a.kind) open.push_back(step.a);
            if (step.b.kind) open.push_back(step.b);
        }
    }
    for (uint32_t src : sources)
        for (ShadowId k = 1; k < shadows_.size(); k++)
            if (shadows_[k].kind == Shadow::number && shadows_[k].ref == ValueRef{ValueRef::source, src}) {
                PyObject* now = k == id ? value : shadows_[k].real;
                if (!now) return nullptr;
                Guard g;
                g.kind = Guard::equal;
                g.source = src;
                g.expected = constant_index(now);
                guard(g);
                shadows_[k].kind = Shadow::constant;
                shadows_[k].ref = {ValueRef::constant, g.expected};
                break;
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
    if (c.kind == Shadow::fresh || c.kind == Shadow::outcome) return c.parts[static_cast<size_t>(index)];
    auto [it, fresh] = places_.try_emplace({container, 'i', nullptr, index}, 0);
    if (fresh || !it->second) {
        const bool list = PyList_CheckExact(c.real);
        it->second = raw(source(list ? Source::list_item : Source::tuple_item, c.source, static_cast<uint32_t>(index), nullptr), value);
    }
    return it->second;
}
ShadowId Recording::fresh(NewObject::Kind kind, std::vector<ShadowId> parts, PyTypeObject* type) {
    Shadow s;
    s.kind = Shadow::fresh;
    s.type = type;
    s.fresh_index = fresh_values_++;
    s.parts = std::move(parts);
    NewObject object;
    object.kind = kind;
    segment_.fresh.push_back(std::move(object));
    return add(std::move(s));
}
ShadowId Recording::iterator(IteratorShadow it, PyTypeObject* type) {
    Shadow s;
    s.kind = Shadow::iterator;
    s.type = type;
    const ShadowId id = add(std::move(s));
    iterator_of_[id] = static_cast<uint32_t>(iterators_.size());
    iterators_.push_back(std::move(it));
    return id;
}
ShadowId Recording::number_step(ScalarStep step, std::initializer_list<ShadowId> operands, PyObject* result) {
    auto it = operands.begin();
    if (it != operands.end()) step.a = ref_of(*it++);
    if (it != operands.end()) step.b = ref_of(*it++);
    segment_.scalar_steps.push_back(step);
    Shadow s;
    s.kind = Shadow::number;
    s.ref = {ValueRef::scalar, static_cast<uint32_t>(segment_.scalar_steps.size() - 1)};
    s.type = Py_TYPE(result);
    return add(std::move(s));
}

/// A bound method of a C function is an object of another type: what the descriptor's __get__ gives. (getattr() by name would find an
/// override where this came from super().)
ValueRef Recording::bound_descriptor(NewObject& object, ShadowId function, const std::vector<ValueRef>& refs, uint32_t index) {
    PyTypeObject* t = Py_TYPE(at(function).real);
    PyObject* get = t == &PyMethodDescr_Type || t == &PyWrapperDescr_Type ? _PyType_Lookup(t, interned("__get__")) : nullptr;
    if (!get) return refuse("a bound method of a library object in use at a break"), ValueRef{};
    object.kind = NewObject::called;
    object.type = anchor(get);
    object.position = -1;
    object.parts = {refs[0], refs[1]};
    return {ValueRef::fresh, index};
}

/// How a replay names the value; makes the recipe of what was made here. none if there is no way (refusal() is set).
ValueRef Recording::ref_of(ShadowId given) {
    const ShadowId id = canonical(given);
    if (!id) return {};
    Shadow& s = shadows_[id];
    switch (s.kind) {
    case Shadow::nothing: return {};
    case Shadow::raw: case Shadow::object: case Shadow::number: case Shadow::outcome: case Shadow::constant: return s.ref;
    case Shadow::tensor: return s.unsized || s.source != Guard::none_ ? s.ref : ValueRef{ValueRef::node, s.as_object.valid() ? s.as_object.index : s.node.index};
    case Shadow::derived: return derived_ref(id);
    case Shadow::super_: refuse("super() kept in a variable"); return {};
    case Shadow::fresh: {
        const uint32_t index = s.fresh_index;
        if (!built_.try_emplace(id, index).second) return {ValueRef::fresh, index};
        const std::vector<ShadowId> parts = s.parts;
        std::vector<ValueRef> refs;
        for (ShadowId p : parts) {
            ValueRef r = ref_of(p);
            if (p && r.kind == ValueRef::none) return {};
            refs.push_back(r);
        }
        NewObject& object = segment_.fresh[index];
        if (object.kind == NewObject::method && at(parts[0]).real && !PyFunction_Check(at(parts[0]).real)) return bound_descriptor(object, parts[0], refs, index);
        object.parts = std::move(refs);
        if (object.kind == NewObject::instance) object.type = anchor(reinterpret_cast<PyObject*>(shadows_[id].type));
        return {ValueRef::fresh, index};
    }
    case Shadow::iterator: {
        auto built = built_.find(id);
        if (built != built_.end()) return {ValueRef::fresh, built->second};
        const IteratorShadow it = iterators_[iterator_of_[id]];
        const bool whole = s.type != nullptr; // a range or a view, not an iterator over it
        NewObject object;
        object.position = whole ? -1 : it.position;
        std::vector<ValueRef> bases;
        for (ShadowId base : it.bases) {
            bases.push_back(ref_of(base));
            if (bases.back().kind == ValueRef::none) return {};
        }
        auto number = [&](int64_t v) {
            auto n = Owned<>::steal(PyLong_FromLongLong(v));
            return ValueRef{ValueRef::constant, constant_index(n.get())};
        };
        auto called = [&](PyObject* callable) {
            object.kind = NewObject::called;
            object.type = anchor(callable);
        };
        switch (it.kind) {
        case IteratorShadow::range:
            called(reinterpret_cast<PyObject*>(&PyRange_Type));
            object.parts = {number(it.start), number(it.start + it.length * it.step), number(it.step)};
            break;
        case IteratorShadow::sequence:
            object.kind = at(it.bases[0]).type == &PyList_Type ? NewObject::list_iterator : NewObject::tuple_iterator;
            object.parts = bases;
            break;
        case IteratorShadow::rows: {
            static PyObject* const iter = PyDict_GetItemString(PyEval_GetBuiltins(), "iter");
            called(iter);
            object.parts = bases;
            break;
        }
        case IteratorShadow::dict_keys: case IteratorShadow::dict_values: case IteratorShadow::dict_items:
            called(_PyType_Lookup(&PyDict_Type, interned(it.kind == IteratorShadow::dict_keys ? "keys" : it.kind == IteratorShadow::dict_values ? "values" : "items")));
            object.parts = bases;
            break;
        case IteratorShadow::enumerate: // its base has moved on already
            called(reinterpret_cast<PyObject*>(&PyEnum_Type));
            object.parts = {bases[0], number(it.start + it.position)};
            object.position = 0;
            break;
        case IteratorShadow::zip:
            called(reinterpret_cast<PyObject*>(&PyZip_Type));
            object.parts = bases;
            object.position = 0;
            break;
        case IteratorShadow::reversed:
            called(reinterpret_cast<PyObject*>(&PyReversed_Type));
            object.parts = bases;
            if (bases.empty()) return refuse("an iterator that is in use at a break"), ValueRef{};
            break;
        }
        segment_.fresh.push_back(std::move(object));
        fresh_values_ = static_cast<uint32_t>(segment_.fresh.size());
        built_[id] = fresh_values_ - 1;
        return {ValueRef::fresh, fresh_values_ - 1};
    }
    }
    return {};
}

SourceSpan Recording::span_of(const Activation& a) {
    auto* code = reinterpret_cast<PyObject*>(a.code);
    auto [it, fresh] = code_ids_.try_emplace(code, static_cast<uint32_t>(segment_.codes.size() + 1));
    if (fresh) {
        segment_.codes.push_back(a.code);
        const char *file = PyUnicode_AsUTF8(a.code->co_filename), *name = PyUnicode_AsUTF8(a.code->co_qualname);
        if (!file || !name) PyErr_Clear(); // code_names: lone surrogates
        segment_.code_names.push_back({file ? file : "?", name ? name : "?"});
        codes_.push_back(a.code);
        if (a.code != segment_.key.code) anchor(code); // the key's own code owns the entry and must not be held
    }
    auto [line, unknown] = line_of_.try_emplace(uint64_t{it->second} << 32 | static_cast<uint32_t>(a.at), 0);
    if (unknown) line->second = PyCode_Addr2Line(a.code, a.at * 2);
    return {it->second, line->second};
}
void Recording::seen(const Activation& a) {
    if (seen_code_ != a.code) {
        seen_code_ = a.code;
        seen_row_ = span_of(a).code - 1;
        if (seen_.size() <= seen_row_) seen_.resize(seen_row_ + 1);
        if (seen_[seen_row_].empty()) seen_[seen_row_].resize(static_cast<size_t>(Py_SIZE(a.code)));
    }
    seen_[seen_row_][static_cast<size_t>(a.at)] = true;
}
void Recording::add_covered_lines() {
    for (size_t row = 0; row < seen_.size(); row++) {
        std::set<int> lines;
        for (size_t unit = 0; unit < seen_[row].size(); unit++)
            if (seen_[row][unit]) lines.insert(PyCode_Addr2Line(segment_.codes[row], static_cast<int>(unit) * 2));
        for (const int line : lines) segment_.lines.push_back({{static_cast<uint32_t>(row + 1), line}, "captured", "", ""});
    }
}
void Recording::line_note(Activation& a, const char* status, const std::string& reason, const std::string& hint) {
    lines_.push_back({span_of(a), status, reason, hint});
}

// ------------------------------------------------------------------------------------------------ the end
FrameRecipe Recording::recipe_of(Activation& a, PyObject** sp, int unit) {
    FrameRecipe recipe;
    recipe.unit = unit;
    recipe.at = span_of(a);
    const auto depth = sp - a.base;
    auto slot = [&](Py_ssize_t k) -> ValueRef {
        if (!a.locals[k]) return {};
        ValueRef r = ref_of(a.shadows[k]);
        if (r.kind == ValueRef::none) {
            discarded_ = true;
            if (refusal_.empty()) refusal_ = "a value of unknown origin is in use";
            why_not_ = refusal_ + (lines_.empty() || lines_.back().status != "break" ? std::string() : ", at a break: " + lines_.back().reason);
        }
        return r;
    };
    const int locals = a.code->co_nlocalsplus;
    for (int k = 0; k < locals; k++) recipe.locals.push_back(slot(k));
    for (Py_ssize_t k = 0; k < depth; k++) recipe.stack.push_back(slot(locals + k));
    return recipe;
}

void Recording::finish(Activation* innermost, Exit exit) {
    if (finished_) return;
    here_ = nullptr;
    if (innermost) {
        std::vector<Activation*> chain;
        for (Activation* a = innermost; a; a = a == root_ ? nullptr : a->up) chain.insert(chain.begin(), a);
        for (size_t k = 0; k < chain.size(); k++) {
            Activation& a = *chain[k];
            const bool inner = k + 1 == chain.size();
            int unit = a.at;
            if (inner && a.decoded->instructions[static_cast<size_t>(unit)].op == bytecode::Op::call) unit = kw_names_before(*a.decoded, a.at);
            unit -= a.decoded->instructions[static_cast<size_t>(unit)].prefix;
            FrameRecipe recipe = recipe_of(a, inner ? a.sp : a.sp - calls_[k].popped, unit);
            if (!inner) { // how this frame's call is completed
                recipe.after = calls_[k].after;
                if (calls_[k].instance) recipe.instance = ref_of(calls_[k].instance);
            }
            if (k > 0) {
                auto* function = reinterpret_cast<PyObject*>(frame::function_of(a.frame));
                ShadowId f = by_object_.contains(function) ? by_object_[function] : 0;
                recipe.function = f ? ref_of(f) : ValueRef{};
                if (recipe.function.kind == ValueRef::none) {
                    discarded_ = true;
                    why_not_ = "a break inside a function that was made in the same call";
                }
            }
            exit.frames.push_back(std::move(recipe));
        }
    }
    finished_ = true;
    stopped_at_ = innermost && root_ ? root_->at : -1;
    for (WrittenEffect& w : effects_) {
        Effect e = std::move(w.effect);
        if (w.target) e.target = ref_of(w.target);
        if (w.key) e.key = ref_of(w.key);
        if (w.value) e.value = ref_of(w.value);
        if ((w.value && e.value.kind == ValueRef::none) || (w.target && e.target.kind == ValueRef::none)) {
            discarded_ = true;
            why_not_ = "a stored value of unknown origin";
        }
        segment_.effects.push_back(std::move(e));
    }
    for (Shadow& s : shadows_)
        if (s.kind == Shadow::tensor && s.written && s.source != Guard::none_) {
            Effect e{};
            e.kind = Effect::inplace;
            e.target = s.ref;
            e.value = {ValueRef::node, s.node.index};
            e.count = s.writes;
            segment_.effects.push_back(std::move(e));
        }
    for (const auto& [variable, values] : context_)
        if (!values.empty()) discarded_ = true, why_not_ = "a context variable is set at the break: " + exit.reason;
    segment_.exit = std::move(exit);
    add_identity_guards();
    add_memory_guards();
    add_outputs();
    // From here on nothing of the program's is held, not even weakly: ndarray.resize looks.
    weak_.clear();
    by_object_.clear();
    const auto kept = std::move(kept_);
    kept_.clear();
    segment_.eager_seconds = op_seconds_ + static_cast<double>(instructions_) * 8e-9;
}

void Recording::add_identity_guards() {
    // For each container written, whether it is each container read: they were different objects, since one object has one shadow.
    for (ShadowId w = 1; w < shadows_.size(); w++) {
        const Shadow& written = shadows_[w];
        if (alias_[w] || !written.written || written.kind != Shadow::object) continue;
        for (ShadowId r = 1; r < shadows_.size(); r++) {
            const Shadow& read = shadows_[r];
            if (r == w || alias_[r] || read.kind != Shadow::object || read.type != written.type || read.identity) continue;
            if (read.written && r < w) continue;
            Guard g;
            g.kind = Guard::distinct;
            g.source = written.source;
            g.other = read.source;
            guard(g);
        }
    }
}
void Recording::add_memory_guards() {
    for (ShadowId w = 1; w < shadows_.size(); w++) {
        const Shadow& written = shadows_[w];
        if (alias_[w] || written.kind != Shadow::tensor || !written.written || written.source == Guard::none_) continue;
        for (ShadowId r = 1; r < shadows_.size(); r++) {
            const Shadow& read = shadows_[r];
            if (r == w || alias_[r] || read.kind != Shadow::tensor || read.source == Guard::none_ || (read.written && r < w)) continue;
            if (segment_.numpy_scalar.size() > read.node.index && segment_.numpy_scalar[read.node.index]) continue;
            Guard g;
            g.kind = Guard::memory;
            g.source = written.source;
            g.other = read.source;
            guard(g);
        }
    }
}
void Recording::add_outputs() {
    std::vector<bool> wanted(builder_.size());
    std::vector<bool> seen_fresh(segment_.fresh.size());
    auto want = [&](auto& self, const ValueRef& r) -> void {
        if (r.kind == ValueRef::node) wanted[r.index] = true;
        if (r.kind == ValueRef::fresh && !seen_fresh[r.index]) {
            seen_fresh[r.index] = true;
            for (const ValueRef& p : segment_.fresh[r.index].parts) self(self, p);
        }
    };
    auto visit = [&](const ValueRef& r) { want(want, r); };
    visit(segment_.exit.result);
    for (const FrameRecipe& f : segment_.exit.frames) {
        for (const ValueRef& r : f.locals) visit(r);
        for (const ValueRef& r : f.stack) visit(r);
        visit(f.instance);
    }
    for (const Effect& e : segment_.effects) visit(e.value);
    for (const Guard& g : segment_.guards)
        if (g.kind == Guard::truth) visit(g.value);
    // NumPy tells of a division by zero even where nobody uses the quotient.
    std::vector<bool> used(builder_.size());
    for (const graph::Node& n : builder_.graph().nodes)
        for (graph::NodeId operand : n.operands) used[operand.index] = true;
    for (uint32_t k = 0; k < wanted.size(); k++) {
        const graph::Node& n = builder_[{k}];
        const graph::OpKind kind = graph::info(n.op).kind;
        const bool computes = kind != graph::OpKind::leaf && kind != graph::OpKind::movement && kind != graph::OpKind::extern_;
        const bool divides = n.op == graph::Op::floor_div || n.op == graph::Op::remainder || n.op == graph::Op::fmod || n.op == graph::Op::pow;
        if (!used[k] && claimed_.contains(k) && computes && ((n.type.domain == graph::Domain::numpy && (is_float(n.type.dtype) || divides)) || (divides && is_int(n.type.dtype)))) wanted[k] = true;
    }
    // Operands of eager calls become objects too, and an object has eager's layout.
    for (const graph::Node& n : builder_.graph().nodes)
        if (n.op == graph::Op::extern_call)
            for (graph::NodeId use : n.operands) wanted[use.index] = true;
    for (const Outcome& o : segment_.outcomes) // what an eager call returns is laid out as it likes
        if (o.node.valid()) wanted[o.node.index] = true;
    node_strides_.resize(builder_.size());
    for (uint32_t k = static_cast<uint32_t>(wanted.size()); k-- > 0;) { // a view that becomes an object is made from an object
        const graph::Node& n = builder_[{k}];
        if (wanted[k] && n.twin >= 0 && builder_.graph().externs[static_cast<size_t>(n.twin)].makes_view)
            for (graph::NodeId use : builder_.graph().externs[static_cast<size_t>(n.twin)].uses) wanted[use.index] = true;
    }
    for (const Shadow& s : shadows_) { // made here, changed in place since, and seen outside: its version tells how often
        if (s.kind != Shadow::tensor || !s.writes || s.source != Guard::none_ || !wanted[s.node.index] || !python::is_tensor_class(s.type)) continue;
        Effect e{};
        e.kind = Effect::bump;
        e.target = {ValueRef::node, s.node.index};
        e.count = s.writes;
        segment_.effects.push_back(std::move(e));
    }
    for (uint32_t k = 0; k < wanted.size(); k++) {
        const graph::Op op = builder_[{k}].op;
        if (op == graph::Op::input || op == graph::Op::scalar || op == graph::Op::constant) wanted[k] = false;
    }
    for (uint32_t k = 0; k < wanted.size(); k++)
        if (wanted[k]) builder_.add_output({k}, node_strides_[k]);
}

std::optional<Segment> Recording::take() {
    if (!finished_ || discarded_) return std::nullopt;
    if (tensor_nodes_ == 0) {
        why_not_ = "no tensor or array work before " + (segment_.exit.reason.empty() ? std::string("the end") : "the break: " + segment_.exit.reason);
        return std::nullopt;
    }
    segment_.lines = lines_;
    add_covered_lines();
    segment_.graph = std::move(builder_).take();
    segment_.numpy_scalar.resize(segment_.graph.nodes.size());
    return std::move(segment_);
}

Recording::Before Recording::stop(Activation& a, std::string reason, std::string hint) {
    end_before(a, std::move(reason), std::move(hint));
    return Before::stop;
}
void Recording::end_before(Activation& a, std::string reason, std::string hint) {
    if (finished_) return;
    refusal_.clear();
    line_note(a, "break", reason, hint);
    Exit exit;
    exit.kind = Exit::breaks;
    exit.reason = std::move(reason);
    exit.hint = std::move(hint);
    exit.at = span_of(a);
    finish(&a, std::move(exit));
    frame::detach(this);
}
void Recording::failed(Activation& a, const Instruction&) {
    if (!finished_) end_before(a, "the next instruction raised or needs CPython's own words", "");
}
bool Recording::stranger(PyCodeObject* code) {
    if (finished_) return false;
    Activation* top = frame::top_activation();
    if (making_record_) return true;
    if ((pending_ == PendingKind::call || pending_ == PendingKind::derived || own_python_) && names().is_library_code(code)) return true; // the library's own Python under its call
    if (top && top->recorder == this) end_before(*top, std::string("Python code ran inside an instruction: ") + PyUnicode_AsUTF8(code->co_qualname), "");
    return false;
}

} // namespace dyno::capture
