// Lists, tuples, dicts and slices: made here, or from outside with their lengths and keys guarded as far as used.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"

namespace dyno::capture {
using bytecode::Op;

/// Whether a container holds anything: its length is guarded where it is from outside. Nothing: it is none.
std::optional<Recording::Before> Recording::truth_of_container(Activation& a, ShadowId id, PyObject* value) {
    const Shadow::Kind kind = shadows_[id].kind;
    const bool container = PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) || PyODict_CheckExact(value) || PyAnySet_CheckExact(value);
    if (kind == Shadow::fresh && (container || made_dict(id) || made_deque(id))) return pend_constant();
    if (!container || kind != Shadow::object) return std::nullopt;
    return guard_length(id, value) ? pend_constant() : stop(a, "the length of a container that was changed", "");
}

bool Recording::guard_length(ShadowId id, PyObject* value) {
    id = canonical(id);
    const Shadow& s = shadows_[id];
    if (s.kind != Shadow::object || s.source == Guard::none_) return true;
    if (places_.contains({id, 'l', nullptr, 0})) return true; // stores since then are the segment's own
    if (s.written) return PyList_CheckExact(value) && follow_list(id, value);
    places_[{id, 'l', nullptr, 0}] = 0;
    Guard g;
    g.kind = Guard::length;
    g.source = s.source;
    g.expected = static_cast<uint32_t>(PyObject_Size(value));
    guard(g);
    return true;
}

bool Recording::is_named_tuple(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (!names().is_named_tuple(type)) return false;
    for (const char* method : {"__getitem__", "__iter__", "__len__"}) guard_type_attribute(type, interned(method), _PyType_Lookup(type, interned(method)));
    return true;
}

/// The shadows of a sequence's items; nothing if they cannot be known (refusal() is set).
std::optional<std::vector<ShadowId>> Recording::items_of(ShadowId given, PyObject* object) {
    const ShadowId id = canonical(given);
    const Shadow::Kind kind = shadows_[id].kind;
    if (kind == Shadow::constant && PyTuple_Check(object)) {
        std::vector<ShadowId> items;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++) items.push_back(constant(PyTuple_GET_ITEM(object, k)));
        return items;
    }
    if (auto items = module_items(id, object)) return items;
    if (kind == Shadow::constant && PyUnicode_CheckExact(object) && PyUnicode_GET_LENGTH(object) <= 4096) {
        std::vector<ShadowId> items;
        for (Py_ssize_t k = 0; k < PyUnicode_GET_LENGTH(object); k++) {
            const auto letter = Owned<>::steal(PyUnicode_Substring(object, k, k + 1));
            items.push_back(constant(letter.get()));
        }
        return items;
    }
    if (kind == Shadow::fresh && PySet_CheckExact(object)) return items_of_set(id, object);
    if (made_deque(id)) {
        if (static_cast<Py_ssize_t>(shadows_[id].parts.size()) == PyObject_Size(object)) return shadows_[id].parts;
        PyErr_Clear();
        return refuse("a deque that library code has changed"), std::nullopt;
    }
    const bool sequence = PyTuple_CheckExact(object) || PyList_CheckExact(object) || is_named_tuple(object);
    if (kind == Shadow::outcome && PyTuple_Check(object)) return shadows_[id].parts;
    if (!sequence) {
        refuse(std::string("the items of a ") + Py_TYPE(object)->tp_name);
        return std::nullopt;
    }
    if (kind == Shadow::fresh || kind == Shadow::outcome) {
        if (static_cast<Py_ssize_t>(shadows_[id].parts.size()) != PySequence_Fast_GET_SIZE(object)) {
            refuse("a list that library code has changed");
            return std::nullopt;
        }
        return shadows_[id].parts;
    }
    if (kind != Shadow::object) {
        refuse("a sequence of unknown origin");
        return std::nullopt;
    }
    if (shadows_[id].written && shadows_[id].type == &PyList_Type) {
        if (!follow_list(id, object)) return std::nullopt;
        if (static_cast<Py_ssize_t>(shadows_[id].parts.size()) == PyList_GET_SIZE(object)) return shadows_[id].parts;
        return refuse("a list that library code has changed"), std::nullopt;
    }
    guard_length(id, object);
    std::vector<ShadowId> items;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(object); k++) items.push_back(read_index(id, k, PySequence_Fast_GET_ITEM(object, k)));
    return items;
}

/// The value of a constant-like key; null if it depends on data.
PyObject* Recording::key_of(ShadowId given, PyObject* key) {
    if (!know(given, key)) return nullptr;
    const ShadowId id = canonical(given);
    if (shadows_[id].kind == Shadow::number) return concrete(id, key);
    if (shadows_[id].kind == Shadow::constant || shadows_[id].identity) return key;
    return nullptr;
}

PyObject* Recording::attribute_name(ShadowId given, PyObject* value) {
    PyObject* name = PyUnicode_CheckExact(value) ? key_of(given, value) : nullptr;
    if (!name) return nullptr;
    auto held = Owned<>::borrow(name).release();
    PyUnicode_InternInPlace(&held);
    constant_index(held); // keeps it
    Py_DECREF(held);
    return held;
}

/// The dict lacks the key, unless the segment itself has stored there.
void Recording::guard_absent_key(ShadowId id, PyObject* key) {
    key = canonical_key(key);
    if (places_.contains({id, 'd', key, 0}) || !places_.try_emplace({id, 'b', key, 0}, 0).second) return;
    Guard g;
    g.kind = Guard::absent;
    g.source = shadows_[id].source;
    g.expected = constant_index(key);
    guard(g);
}

/// An item or a slice of a list, or of a tuple or what is one.
Recording::Before Recording::sequence_item(Activation& a, ShadowId id, PyObject* object, ShadowId key_id, PyObject* key, bool named) {
    PyObject* k = key_of(key_id, key);
    if (!k) return stop(a, "an index that is not known before run time", "");
    if (shadows_[id].kind == Shadow::constant) return pend_constant();
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(object);
    if (PyLong_CheckExact(k) || PyBool_Check(k)) {
        Py_ssize_t at_index = PyLong_AsSsize_t(k);
        if (at_index < 0) {
            const auto added = PyList_CheckExact(object) && shadows_[id].kind == Shadow::object ? added_items(id) : std::vector<ShadowId>{};
            if (!PyErr_Occurred() && -at_index <= static_cast<Py_ssize_t>(added.size())) return pend_fixed(added[added.size() - static_cast<size_t>(-at_index)]); // however long the list was
            at_index += n;
            if (!guard_length(id, object)) return stop(a, "the end of a list that was changed", "");
        }
        if (at_index < 0 || at_index >= n || PyErr_Occurred()) {
            PyErr_Clear();
            return stop(a, "an index out of range", "");
        }
        if (shadows_[id].kind == Shadow::object) {
            if (PyList_CheckExact(object) && !added_items(id).empty() && !follow_list(id, object)) return stop_refused(a);
            if (at_index > UINT32_MAX) return stop(a, "an index out of range", "");
            const ShadowId v = read_index(id, at_index, PySequence_Fast_GET_ITEM(object, at_index));
            return know(v, PySequence_Fast_GET_ITEM(object, at_index)) ? pend_fixed(v) : stop_refused(a);
        }
        if (static_cast<Py_ssize_t>(shadows_[id].parts.size()) != n) return stop(a, "a sequence of unknown origin", "");
        return pend_fixed(shadows_[id].parts[static_cast<size_t>(at_index)]);
    }
    if (PySlice_Check(k) && (PyTuple_CheckExact(object) || named || PyList_CheckExact(object))) {
        auto items = items_of(id, object);
        if (!items) return stop_refused(a);
        Py_ssize_t from, to, step;
        if (PySlice_Unpack(k, &from, &to, &step) < 0) {
            PyErr_Clear();
            return stop(a, "a slice that is not of integers", "");
        }
        const Py_ssize_t count = PySlice_AdjustIndices(n, &from, &to, step);
        std::vector<ShadowId> parts;
        for (Py_ssize_t j = 0; j < count; j++) parts.push_back((*items)[static_cast<size_t>(from + j * step)]);
        const bool tuple = !PyList_CheckExact(object);
        return pend_fixed(fresh(tuple ? NewObject::tuple : NewObject::list, std::move(parts), tuple ? &PyTuple_Type : &PyList_Type));
    }
    return stop(a, "an index of an unusual type", "");
}

Recording::Before Recording::subscript(Activation& a, const Instruction& i, Redirect& redirect) {
    (void)i;
    PyObject *object = a.sp[-2], *key = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 2), key_id = a.shadow(a.sp - 1);
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    if (shadows_[id].kind == Shadow::tensor) {
        Call call;
        call.callable = _PyType_Lookup(Py_TYPE(object), interned("__getitem__"));
        call.args = {id, key_id};
        call.values = {object, key};
        call.nargs = 2;
        return pend_call(a, std::move(call));
    }
    if (made_deque(id)) {
        const Py_ssize_t place = place_in_deque(id, key_id, key);
        return place < 0 ? stop(a, "an index of a deque that it does not have, or that is not known before run time", "") : pend_fixed(shadows_[id].parts[static_cast<size_t>(place)]);
    }
    if (PyDict_CheckExact(object) || made_dict(id)) {
        PyObject* k = key_of(key_id, key);
        if (!k) return stop(a, "a dict key that is not known before run time", "");
        k = canonical_key(k);
        PyObject* value = k ? PyDict_GetItemWithError(object, k) : nullptr;
        if (!value) {
            PyErr_Clear();
            if (k && is_immutable(k))
                if (auto answer = missing_item(a, id, object, key_id, k, redirect)) return *answer;
            if (!k || !is_immutable(k) || shadows_[id].kind != Shadow::object) return k && shadows_[id].kind == Shadow::fresh ? pend_raise(a, "a dict key that is missing") : stop(a, "a dict key that is missing", "");
            guard_absent_key(id, k);
            return pend_raise(a, "a dict key that is missing");
        }
        if (shadows_[id].kind == Shadow::fresh) {
            const ShadowId v = fresh_dict_item(id, k);
            return v ? pend_fixed(v) : stop(a, "a dict item of unknown origin", "");
        }
        if (shadows_[id].kind != Shadow::object) return stop(a, "a dict of unknown origin", "");
        const ShadowId v = look_up(id, k, value);
        return v ? pend_fixed(v) : stop_refused(a);
    }
    const bool named = is_named_tuple(object);
    if (PyTuple_CheckExact(object) || named || shadows_[id].kind == Shadow::outcome || Py_TYPE(object) == names().torch_size || PyList_CheckExact(object))
        return sequence_item(a, id, object, key_id, key, named);
    if (shadows_[id].kind == Shadow::constant && key_of(key_id, key)) return pend_constant();
    if (is_derived(id)) {
        Call call;
        call.callable = _PyType_Lookup(Py_TYPE(object), interned("__getitem__"));
        call.args = {id, canonical(key_id)};
        call.values = {object, key};
        call.nargs = 2;
        if (auto answer = call.callable ? derived_call(a, call) : std::nullopt) return *answer;
    }
    if (auto items = module_items(id, object)) return module_item(a, id, object, *items, key_id, key);
    if (names().is_plain_instance_type(Py_TYPE(object))) {
        PyObject* found = _PyType_Lookup(Py_TYPE(object), interned("__getitem__"));
        guard_type_attribute(Py_TYPE(object), interned("__getitem__"), found);
        if (found && PyFunction_Check(found)) {
            identity_object(found);
            return redirect_to(a, found, {id, key_id}, {object, key}, 2, Redirect::identity, redirect);
        }
    }
    return stop(a, std::string("an item of a ") + Py_TYPE(object)->tp_name, "");
}

/// x[mask]: the key is, or holds, a boolean tensor or array.
bool Recording::selects_by_mask(ShadowId given, PyObject* key) {
    if (!know(given, key)) return false;
    const ShadowId id = canonical(given);
    if (shadows_[id].kind == Shadow::tensor) {
        const DType t = builder_.type(shadows_[id].node).dtype;
        return t == DType::b8 || (t == DType::u8 && builder_.type(shadows_[id].node).domain == graph::Domain::torch);
    }
    if (!PyTuple_CheckExact(key)) return false;
    auto items = items_of(id, key);
    if (!items) return false;
    for (size_t k = 0; k < items->size(); k++)
        if (selects_by_mask((*items)[k], PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(k)))) return true;
    return false;
}

ShadowId Recording::fresh_dict_item(ShadowId id, PyObject* key) {
    const std::vector<ShadowId>& parts = at(id).parts;
    for (size_t k = 0; k + 1 < parts.size(); k += 2) {
        PyObject* mine = at(parts[k]).real;
        if (!mine) continue;
        PyObject* same = canonical_key(mine);
        if (same == key) return parts[k + 1];
    }
    return 0;
}
/// False: the key is not a constant, the dict can no longer be followed.
bool Recording::set_fresh_dict_item(ShadowId id, ShadowId key, ShadowId value) {
    PyObject* real = at(key).kind == Shadow::constant || at(key).identity ? at(key).real : nullptr;
    if (!real || at(id).kind != Shadow::fresh) return false;
    PyObject* k = canonical_key(real);
    if (!k) return false;
    std::vector<ShadowId>& parts = at(id).parts;
    for (size_t j = 0; j + 1 < parts.size(); j += 2)
        if (canonical_key(at(parts[j]).real) == k) {
            parts[j + 1] = value;
            return true;
        }
    parts.push_back(key);
    parts.push_back(value);
    at(id).changes++;
    return true;
}

void Recording::remove_fresh_dict_item(ShadowId id, PyObject* key) {
    std::vector<ShadowId>& parts = at(id).parts;
    for (size_t k = 0; k + 1 < parts.size(); k += 2) {
        PyObject* mine = at(parts[k]).real;
        if (!mine || canonical_key(mine) != key) continue;
        parts.erase(parts.begin() + static_cast<long>(k), parts.begin() + static_cast<long>(k) + 2);
        at(id).changes++;
        return;
    }
}

Recording::Before Recording::store_subscript(Activation& a, const Instruction& i) {
    (void)i;
    PyObject *value = a.sp[-3], *object = a.sp[-2], *key = a.sp[-1];
    const ShadowId v = canonical(a.shadow(a.sp - 3)), given = a.shadow(a.sp - 2), key_id = a.shadow(a.sp - 1);
    if (!v) return stop(a, "a value of unknown origin is stored", "");
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    if (shadows_[id].kind == Shadow::tensor) return store_tensor_item(a, id, object, key_id, key, v, value);
    if (made_deque(id)) {
        const Py_ssize_t place = place_in_deque(id, key_id, key);
        if (place < 0) return stop(a, "an index of a deque that it does not have, or that is not known before run time", "");
        shadows_[id].parts[static_cast<size_t>(place)] = v;
        return pend_stored();
    }
    if (PyDict_CheckExact(object) || made_dict(id)) {
        PyObject* k = key_of(key_id, key);
        if (!k) return stop(a, "a dict key that is not known before run time", "");
        if (shadows_[id].kind == Shadow::fresh)
            return set_fresh_dict_item(id, canonical(key_id), v) ? pend_stored() : stop(a, "a dict key that is not a constant", "");
        if (shadows_[id].kind != Shadow::object || segment_.sources[shadows_[id].source].kind == Source::instance_dict)
            return stop(a, "a dict of unknown origin is changed", "");
        if (!is_immutable(k)) return stop(a, "a dict key with a hash of its own", "");
        return store_item(a, id, k, object, v);
    }
    if (PyList_CheckExact(object)) return store_list_item(a, id, object, key_id, key, v, value);
    return stop(a, std::string("an item of a ") + Py_TYPE(object)->tp_name + " is set", "");
}

// ------------------------------------------------------------------------------------------------ building
Recording::Before Recording::build(Activation& a, const Instruction& i) {
    const bool map = i.op == Op::build_map, fixed = i.op == Op::build_const_map;
    const int count = static_cast<int>(map ? 2 * i.arg : fixed ? i.arg + 1 : i.arg);
    PyObject** first = a.sp - count;
    bool all_constant = true;
    std::vector<ShadowId> ids;
    for (int k = 0; k < count; k++) {
        const ShadowId id = canonical(a.shadow(first + k));
        if (!id) return stop(a, "a value of unknown origin", "");
        all_constant &= shadows_[id].kind == Shadow::constant;
        ids.push_back(id);
    }
    switch (i.op) {
    case Op::build_tuple:
        if (all_constant) return pend_constant();
        return pend_fixed(fresh(NewObject::tuple, std::move(ids), &PyTuple_Type));
    case Op::build_slice: {
        for (int k = 0; k < count; k++)
            if (!know(ids[static_cast<size_t>(k)], first[k])) return stop_refused(a);
        all_constant = true;
        for (int k = 0; k < count; k++) {
            const ShadowId id = canonical(ids[static_cast<size_t>(k)]);
            if (shadows_[id].kind == Shadow::number) concrete(id, first[k]);
            all_constant &= shadows_[id].kind == Shadow::constant;
        }
        if (all_constant) return pend_constant();
        if (ids.size() == 2) ids.push_back(constant(Py_None));
        return pend_fixed(fresh(NewObject::slice, std::move(ids), &PySlice_Type));
    }
    case Op::build_list: return pend_fixed(fresh(NewObject::list, std::move(ids), &PyList_Type));
    case Op::build_set:
        if (!all_constant) return build_set(a, ids, first);
        return pend_fixed(fresh(NewObject::set, std::move(ids), &PySet_Type));
    default: break;
    }
    std::vector<ShadowId> parts;
    if (fixed) {
        PyObject* keys = a.sp[-1];
        ids.pop_back();
        for (size_t k = 0; k < ids.size(); k++) {
            parts.push_back(constant(PyTuple_GET_ITEM(keys, static_cast<Py_ssize_t>(k))));
            parts.push_back(ids[k]);
        }
        return pend_fixed(fresh(NewObject::dict, std::move(parts), &PyDict_Type));
    }
    const ShadowId dict = fresh(NewObject::dict, {}, &PyDict_Type);
    for (size_t k = 0; k + 1 < ids.size(); k += 2) {
        if (!key_of(ids[k], first[k]) || !set_fresh_dict_item(dict, canonical(ids[k]), ids[k + 1])) return stop(a, "a dict key that is not a constant", "");
    }
    return pend_fixed(dict);
}

Recording::Before Recording::extend(Activation& a, const Instruction& i, Redirect& redirect) {
    if (i.op == Op::list_to_tuple) {
        auto items = items_of(a.shadow(a.sp - 1), a.sp[-1]);
        return items ? pend_fixed(fresh(NewObject::tuple, *items, &PyTuple_Type)) : stop_refused(a);
    }
    const int below = static_cast<int>(i.arg) + (i.op == Op::map_add ? 1 : 0);
    const ShadowId target = canonical(a.shadow(a.sp - 1 - below)), value = canonical(a.shadow(a.sp - 1));
    if (!target || !value || shadows_[target].kind != Shadow::fresh) return stop(a, "a container of unknown origin grows", "");
    switch (i.op) {
    case Op::list_append: shadows_[target].parts.push_back(value); return pend_stored();
    case Op::set_add: {
        const auto member = is_member(target, value, a.sp[-1]);
        if (!member) return stop_refused(a);
        if (!*member) shadows_[target].parts.push_back(value);
        return pend_stored();
    }
    case Op::map_add:
        if (!key_of(a.shadow(a.sp - 2), a.sp[-2]) || !set_fresh_dict_item(target, canonical(a.shadow(a.sp - 2)), value)) return stop(a, "a dict key that is not a constant", "");
        return pend_stored();
    case Op::list_extend: {
        if (!know(value, a.sp[-1])) return stop_refused(a);
        if (PyObject* function = is_generator(value) ? consumer("extend") : nullptr) {
            identity_object(function);
            return redirect_to(a, function, {target, value}, {a.sp[-1 - below], a.sp[-1]}, 1, Redirect::nothing, redirect);
        }
        auto items = items_left(value, a.sp[-1]);
        if (!items) return stop_refused(a);
        shadows_[target].parts.insert(shadows_[target].parts.end(), items->begin(), items->end());
        return pend_stored();
    }
    default: {
        if (!know(value, a.sp[-1])) return stop_refused(a);
        auto pairs = dict_items(canonical(value), a.sp[-1]);
        if (!pairs) return stop_refused(a);
        for (size_t k = 0; k + 1 < pairs->size(); k += 2)
            if (!set_fresh_dict_item(target, (*pairs)[k], (*pairs)[k + 1])) return stop(a, "a dict key that is not a constant", "");
        return pend_stored();
    }
    }
}

/// del x[k] of a list or dict.
Recording::Before Recording::delete_subscript(Activation& a) {
    PyObject *object = a.sp[-2], *key = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 2), key_id = a.shadow(a.sp - 1);
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    if (PyList_CheckExact(object)) return delete_list_item(a, id, object, key_id, key);
    PyObject* k = key_of(key_id, key);
    if (!k || !is_immutable(k)) return stop(a, "del of an item that is not known before run time", "");
    if (made_deque(id)) {
        const Py_ssize_t place = place_in_deque(id, key_id, key);
        if (place < 0) return stop(a, "del of an index that a deque does not have", "");
        shadows_[id].parts.erase(shadows_[id].parts.begin() + place);
        shadows_[id].changes++;
        return pend_stored();
    }
    k = canonical_key(k);
    if (made_dict(id) && shadows_[id].type != names().counter) { // whose __delitem__ is its own
        if (!fresh_dict_item(id, k)) return stop(a, "del of a dict item that is not there", "");
        remove_fresh_dict_item(id, k);
        return pend_stored();
    }
    if (!PyDict_CheckExact(object) || shadows_[id].kind != Shadow::object) return stop(a, "a del statement", "");
    if (!PyDict_GetItemWithError(object, k)) return PyErr_Clear(), stop(a, "del of a dict item that is not there", "");
    return remove_item(a, id, k, object, false);
}

/// del x.name of an object made here, whose class has no say in it.
Recording::Before Recording::delete_attribute(Activation& a, PyObject* name) {
    PyObject* object = a.sp[-1];
    const ShadowId id = canonical(a.shadow(a.sp - 1));
    PyTypeObject* type = Py_TYPE(object);
    if (!id || shadows_[id].kind != Shadow::fresh || shadows_[id].type != type || !names().is_plain_instance_type(type) || segment_.fresh[shadows_[id].fresh_index].kind != NewObject::instance)
        return stop(a, "a del statement of an attribute", "");
    PyObject* deleter = _PyType_Lookup(type, interned("__delattr__"));
    PyObject* found = _PyType_Lookup(type, name);
    if (deleter != _PyType_Lookup(&PyBaseObject_Type, interned("__delattr__")) || (found && Py_TYPE(found)->tp_descr_set)) return stop(a, "a del statement of an attribute", "");
    if (PyObject* dict = python::instance_dict_if_any(object); dict && by_object_.contains(dict)) return stop(a, "an attribute is removed beside its __dict__", "");
    guard_type_attribute(type, interned("__delattr__"), deleter);
    guard_type_attribute(type, name, found);
    std::vector<ShadowId>& parts = shadows_[id].parts;
    for (size_t k = 0; k + 1 < parts.size(); k += 2) {
        if (at(parts[k]).real != name) continue;
        parts.erase(parts.begin() + static_cast<long>(k), parts.begin() + static_cast<long>(k) + 2);
        places_.erase({id, 'a', name, 0});
        return pend_stored();
    }
    return stop(a, "del of an attribute that is not there", "");
}

std::optional<std::vector<ShadowId>> Recording::items_left(ShadowId given, PyObject* object) {
    const ShadowId id = canonical(given);
    if (shadows_[id].kind == Shadow::tensor) return few_rows(id); // [*x]
    const bool dict = PyDict_CheckExact(object) || made_dict(id);
    if (!dict && (shadows_[id].kind != Shadow::iterator || is_generator(id))) return items_of(id, object);
    const ShadowId it = iterate(id, object);
    if (!it) return std::nullopt;
    if (turns_of(it) > 4096) return refuse("a sequence of more than 4,096 items"), std::nullopt;
    std::vector<ShadowId> items;
    while (auto element = next_of(it)) items.push_back(*element);
    return items;
}

/// key, value, key, value ... of a dict whose keys are then guarded.
std::optional<std::vector<ShadowId>> Recording::dict_items(ShadowId given, PyObject* object) {
    const ShadowId id = canonical(given);
    if (made_dict(id)) return shadows_[id].parts;
    const bool ordered = PyODict_CheckExact(object); // its order need not be that of its table
    if (!PyDict_CheckExact(object) && !(ordered && shadows_[id].kind == Shadow::object)) {
        refuse(std::string("the items of a ") + Py_TYPE(object)->tp_name);
        return std::nullopt;
    }
    if (shadows_[id].kind != Shadow::object || shadows_[id].written) {
        refuse("a dict is read as a whole after it was changed");
        return std::nullopt;
    }
    std::vector<ShadowId> parts;
    PyObject *key, *value;
    auto keys = Owned<>::steal(PyTuple_New(PyDict_GET_SIZE(object)));
    Py_ssize_t pos = 0, n = 0;
    auto walk = Owned<>::steal(ordered ? PyObject_GetIter(object) : nullptr);
    const auto next = [&] {
        if (!ordered) return PyDict_Next(object, &pos, &key, &value) != 0;
        auto found = Owned<>::steal(walk ? PyIter_Next(walk.get()) : nullptr);
        key = found.get(); // the table keeps it
        value = key ? PyDict_GetItemWithError(object, key) : nullptr;
        PyErr_Clear();
        return value != nullptr;
    };
    while (n < PyTuple_GET_SIZE(keys.get()) && next()) {
        if (!is_immutable(key)) {
            refuse("a dict with keys that have a hash of their own");
            return std::nullopt;
        }
        PyTuple_SET_ITEM(keys.get(), n++, Py_NewRef(key));
        parts.push_back(constant(key));
        parts.push_back(read_item(id, key, value));
    }
    if (places_.try_emplace({id, 'k', nullptr, 0}, 0).second) {
        Guard g;
        g.kind = ordered ? Guard::ordered_keys : Guard::keys;
        g.source = shadows_[id].source;
        g.expected = constant_index(keys.get());
        guard(g);
    }
    return parts;
}

Recording::Before Recording::unpack(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject* object = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 1);
    if (!know(given, object)) return stop_refused(a);
    const size_t least = i.op == Op::unpack ? i.arg : (i.arg & 0xff) + (i.arg >> 8);
    if (PyObject* function = is_generator(given) ? consumer(i.op == Op::unpack ? "first" : "tuple") : nullptr) { // then its values are unpacked
        identity_object(function);
        if (i.op != Op::unpack) return redirect_to(a, function, {canonical(given)}, {object}, 0, Redirect::identity, redirect);
        number_ = Owned<>::steal(PyLong_FromSize_t(least + 1));
        return redirect_to(a, function, {canonical(given), constant(number_.get())}, {object, number_.get()}, 0, Redirect::identity, redirect);
    }
    std::optional<std::vector<ShadowId>> items;
    if (shadows_[canonical(given)].kind == Shadow::iterator && !is_generator(given)) {
        const ShadowId it = iterate(given, object);
        if (!it) return stop_refused(a);
        const int64_t turns = turns_of(it);
        if (i.op == Op::unpack ? turns != static_cast<int64_t>(least) : turns < static_cast<int64_t>(least)) return stop(a, "an iterator of another length is unpacked", "");
        items = items_left(given, object);
    } else if (shadows_[canonical(given)].kind == Shadow::tensor) {
        items = few_rows(canonical(given));
        if (items && i.op == Op::unpack && items->size() != least) return stop(a, "the rows of a tensor or array are unpacked", "");
    } else {
        items = items_of(given, object);
    }
    if (!items) return stop_refused(a);
    if (items->size() < least) return stop(a, "too few values are unpacked", "");
    pending_parts_ = std::move(*items);
    pending_ = PendingKind::stored;
    return Before::perform;
}
void Recording::unpacked(Activation& a, const Instruction& i, PyObject* const* items, size_t n, ShadowId* out) {
    if (finished_) {
        for (size_t k = 0; k < n; k++) out[k] = 0;
        return;
    }
    if (i.op == Op::unpack) {
        for (size_t k = 0; k < n; k++) out[k] = k < pending_parts_.size() ? pending_parts_[k] : 0;
        return;
    }
    const size_t before = i.arg & 0xff, after = i.arg >> 8, total = pending_parts_.size();
    for (size_t k = 0; k < before; k++) out[k] = pending_parts_[k];
    out[before] = fresh(NewObject::list, {pending_parts_.begin() + static_cast<long>(before), pending_parts_.begin() + static_cast<long>(total - after)}, &PyList_Type);
    for (size_t k = 0; k < after; k++) out[before + 1 + k] = pending_parts_[total - after + k];
    (void)a;
    (void)items;
}

// ------------------------------------------------------------------------------------------------ iteration
Recording::Before Recording::contains(Activation& a, const Instruction& i, Redirect& redirect) {
    (void)i;
    PyObject *item = a.sp[-2], *object = a.sp[-1];
    const ShadowId item_id = a.shadow(a.sp - 2), given = a.shadow(a.sp - 1);
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    if (PySet_CheckExact(object) && shadows_[id].kind == Shadow::fresh) {
        const auto member = is_member(id, item_id, item);
        return member ? pend_constant() : stop_refused(a);
    }
    if (names().is_plain_instance_type(Py_TYPE(object)) && shadows_[id].kind == Shadow::object) {
        PyObject* found = _PyType_Lookup(Py_TYPE(object), interned("__contains__"));
        guard_type_attribute(Py_TYPE(object), interned("__contains__"), found);
        if (found && PyFunction_Check(found)) {
            identity_object(found);
            return redirect_to(a, found, {id, canonical(item_id)}, {object, item}, 2, Redirect::truth, redirect);
        }
    }
    PyObject* k = key_of(item_id, item);
    if (!k) return stop(a, "membership of a value that is not known before run time", "");
    if (shadows_[id].kind == Shadow::constant) return pend_constant();
    if (made_dict(id) && is_immutable(k)) return pend_constant();
    if (PyDict_CheckExact(object) && is_immutable(k)) {
        PyObject* key = canonical_key(k);
        PyObject* value = PyDict_GetItemWithError(object, key);
        if (value) {
            const ShadowId v = look_up(id, key, value);
            return v ? pend_constant() : stop_refused(a);
        }
        guard_absent_key(id, key);
        return pend_constant();
    }
    if ((PyTuple_CheckExact(object) || PyList_CheckExact(object))) {
        auto items = items_of(id, object);
        if (!items) return stop_refused(a);
        for (size_t n = 0; n < items->size(); n++) {
            PyObject* element = PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(n));
            if (!key_of((*items)[n], element)) return stop(a, "membership in a sequence of run-time values", "");
        }
        return pend_constant();
    }
    return stop(a, std::string("membership in a ") + Py_TYPE(object)->tp_name, "");
}

} // namespace dyno::capture
