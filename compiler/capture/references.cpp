// How a replay names the values that a recording followed, and the recipes of objects that it makes anew.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"

namespace dyno::capture {

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

/// An object that was made here: its recipe is completed with its parts. What an eager call was given is the object as it was then; one
/// that has changed since has another recipe.
ValueRef Recording::ref_of_fresh(ShadowId id) {
    const auto [known, first] = built_.try_emplace(id, shadows_[id].fresh_index);
    uint64_t& named = named_at_[id];
    if (!first && named == instructions_) return {ValueRef::fresh, known->second};
    named = instructions_;
    const std::vector<ShadowId> parts = shadows_[id].parts;
    std::vector<ValueRef> refs;
    for (ShadowId p : parts) {
        ValueRef r = ref_of(p);
        if (p && r.kind == ValueRef::none) return {};
        refs.push_back(r);
    }
    const auto factory = factories_.find(id);
    if (factory != factories_.end()) {
        refs.insert(refs.begin(), ref_of(factory->second));
        if (refs[0].kind == ValueRef::none) return {};
    }
    uint32_t& index = built_.at(id);
    if (!first && segment_.fresh[index].parts != refs) {
        NewObject again;
        again.kind = segment_.fresh[index].kind;
        segment_.fresh.push_back(std::move(again));
        fresh_values_ = static_cast<uint32_t>(segment_.fresh.size());
        index = fresh_values_ - 1;
    }
    NewObject& object = segment_.fresh[index];
    if (object.kind == NewObject::method && at(parts[0]).real && !PyFunction_Check(at(parts[0]).real)) return bound_descriptor(object, parts[0], refs, index);
    object.parts = std::move(refs);
    const bool of_collections = (object.kind == NewObject::dict && shadows_[id].type != &PyDict_Type) || made_deque(id);
    if (const auto bound = bounds_.find(id); bound != bounds_.end()) object.position = bound->second;
    if (of_collections || object.kind == NewObject::instance || (object.kind == NewObject::tuple && shadows_[id].type != &PyTuple_Type)) object.type = anchor(reinterpret_cast<PyObject*>(shadows_[id].type));
    return {ValueRef::fresh, index};
}

/// An iterator, a range or a view in use at the end: it is made anew and stands where the recording left it.
ValueRef Recording::ref_of_iterator(ShadowId id) {
    const Shadow& s = shadows_[id];
    auto built = built_.find(id);
    if (built != built_.end()) return {ValueRef::fresh, built->second};
    const IteratorShadow it = iterators_[iterator_of_[id]];
    const bool whole = s.type != nullptr; // a range or a view, not an iterator over it
    if (!whole && !it.bases.empty() && (is_of_dict(it) || it.kind == IteratorShadow::reversed || it.kind == IteratorShadow::sequence)) {
        // Made anew it would not know that what it goes through has changed.
        const Shadow& base = at(it.bases[0]);
        const bool grown = it.kind == IteratorShadow::reversed && base.type == &PyList_Type && (base.kind == Shadow::fresh ? base.parts.size() != it.items.size() : base.written);
        const auto given = base.followed ? given_lengths_.find(canonical(it.bases[0])) : given_lengths_.end();
        const bool beyond = given != given_lengths_.end() && it.position + it.ended > given->second; // it is made before the list has grown
        if (grown || beyond || base.changes != it.changes) return refuse("an iterator in use at a break, over what was changed meanwhile"), ValueRef{};
    }
    NewObject object;
    object.position = whole ? -1 : it.position + it.ended;
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
    case IteratorShadow::generator:
        avoid(generators_[it.made_by].code);
        return refuse("a generator in use at a break"), ValueRef{};
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
        if (at(it.bases[0]).kind == Shadow::derived) return refuse("a view of a record in use at a break"), ValueRef{};
        called(_PyType_Lookup(at(it.bases[0]).type == &PyODict_Type ? &PyODict_Type : &PyDict_Type, interned(it.kind == IteratorShadow::dict_keys ? "keys" : it.kind == IteratorShadow::dict_values ? "values" : "items")));
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

/// How a replay names the value; makes the recipe of what was made here. none if there is no way (refusal() is set).
ValueRef Recording::ref_of(ShadowId given) {
    const ShadowId id = canonical(given);
    if (!id) return {};
    Shadow& s = shadows_[id];
    switch (s.kind) {
    case Shadow::nothing: return {};
    case Shadow::raw: case Shadow::object: case Shadow::number: case Shadow::constant: return s.ref;
    case Shadow::outcome: return s.ref.kind == ValueRef::none ? ref_of_named_tuple(id) : s.ref;
    case Shadow::tensor: return s.unsized || s.source != Guard::none_ ? s.ref : ValueRef{ValueRef::node, s.as_object.valid() ? s.as_object.index : s.node.index};
    case Shadow::derived: return derived_ref(id);
    case Shadow::super_: refuse("super() kept in a variable"); return {};
    case Shadow::fresh: return ref_of_fresh(id);
    case Shadow::iterator: return ref_of_iterator(id);
    }
    return {};
}

} // namespace dyno::capture
