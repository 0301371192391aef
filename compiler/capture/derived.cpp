// Objects that library code makes while recording, and that a replay need not make: they follow from what guards hold.
// Two sorts. Facts (inspect.signature(f), torch.finfo(dtype), a loss module made of constants): the same in every replay; what is read of
// them is a constant. Records (a library's dataclass over a dict, as models return): each field is one of the arguments, known by identity.
// A record can be made again at an exit, by the same call; a fact cannot, so it must be dead there.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {
namespace {

bool is_installed(PyObject* function) {
    return !PyFunction_Check(function) || names().is_installed_code(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)));
}
/// Written by dataclasses or namedtuple.
bool is_generated(PyObject* function) {
    return PyFunction_Check(function) && PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_filename, "<string>") == 0;
}

/// The methods by which making a record runs Python.
constexpr const char* record_methods[] = {"__new__", "__init__", "__post_init__", "__setattr__", "__setitem__"};

PyObject* interned_name(PyObject* name) {
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    Py_DECREF(name); // dataclass fields and attribute names are kept by their class
    return name;
}

PyObject* operator_getitem() {
    static PyObject* const function = [] {
        const auto op = Owned<>::steal(PyImport_ImportModule("operator"));
        return op ? PyObject_GetAttrString(op.get(), "getitem") : nullptr;
    }();
    return function;
}

} // namespace

/// The object is borrowed: the frame holds it as long as the shadow is asked about it.
ShadowId Recording::derived(PyObject* object) {
    Shadow s;
    s.kind = Shadow::derived;
    s.type = Py_TYPE(object);
    s.real = object;
    const ShadowId id = add(std::move(s));
    made_.try_emplace(id);
    return id;
}

/// The call's result is to be a fact: its arguments are the same in every replay.
Recording::Before Recording::pend_derived(Call c) {
    pending_call_ = std::move(c);
    pending_ = PendingKind::derived;
    return Before::perform;
}

/// A value by identity among the pending call's arguments and the fields of a record among them; 0 if it is none of those.
ShadowId Recording::known_part(PyObject* value) {
    for (size_t k = 0; k < pending_call_.args.size(); k++) {
        const ShadowId id = canonical(pending_call_.args[k]);
        if (pending_call_.values[k] == value) return id;
        auto made = made_.find(id);
        if (made == made_.end()) continue;
        for (auto& [name, field] : made->second.fields)
            if (python::instance_attribute(pending_call_.values[k], name) == value) return canonical(field);
    }
    return 0;
}

ShadowId Recording::finish_derived(Activation& a, PyObject* result) {
    if (making_record_ && Py_TYPE(result) == making_record_) {
        Made made;
        made.record = true;
        made.callable = reinterpret_cast<PyObject*>(making_record_);
        made.args = pending_call_.args;
        if (pending_call_.kwnames) made.kwnames = segment_.constants[constant_index(pending_call_.kwnames)].get();
        PyObject* fields = _PyType_Lookup(making_record_, interned("__dataclass_fields__"));
        PyObject *name, *field;
        for (Py_ssize_t at = 0; fields && PyDict_Check(fields) && PyDict_Next(fields, &at, &name, &field);) {
            PyObject* value = python::instance_attribute(result, name);
            if (!value) continue;
            ShadowId id = known_part(value);
            if (!id && is_immutable(value)) id = constant(value);
            if (id) made.fields.emplace_back(interned_name(name), id);
        }
        const ShadowId id = derived(result);
        made_[id] = std::move(made);
        if (PyObject* weak = PyWeakref_NewRef(result, nullptr)) {
            weak_.insert_or_assign(result, Owned<>::steal(weak));
            by_object_[result] = id;
        } else PyErr_Clear();
        return id;
    }
    if (const ShadowId known = known_part(result)) return known;
    if (is_immutable(result)) return constant(result);
    if (PyTuple_CheckExact(result)) {
        std::vector<ShadowId> parts;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(result); k++) {
            PyObject* item = PyTuple_GET_ITEM(result, k);
            ShadowId id = known_part(item);
            if (!id && is_immutable(item)) id = constant(item);
            if (!id) break;
            parts.push_back(id);
        }
        if (static_cast<Py_ssize_t>(parts.size()) == PyTuple_GET_SIZE(result)) return fresh(NewObject::tuple, std::move(parts), &PyTuple_Type);
    }
    if (making_record_) {
        end_before(a, std::string("a ") + Py_TYPE(result)->tp_name + " made of a record", "");
        return 0;
    }
    kept_.try_emplace(result, Owned<>::borrow(result)); // a fact: nobody else's
    return derived(result);
}

/// The same in every replay: constants, identities, facts, and tuples, bound methods and numbers (which are held to their value) of such.
bool Recording::fixed_value(ShadowId given, PyObject* value, int depth) {
    if (depth > 3 || !know(given, value)) return false;
    const ShadowId id = canonical(given);
    const Shadow& s = shadows_[id];
    if (s.kind == Shadow::constant || s.identity) return true;
    if (s.kind == Shadow::number) return concrete(id, value) != nullptr;
    if (s.kind == Shadow::derived) return !made_[id].record;
    if (s.kind == Shadow::fresh && s.type == &PyMethod_Type) {
        // Of an object that may be another one in the next replay: only its function counts, and only where just that is looked at.
        return true;
    }
    if (s.kind == Shadow::fresh && PyTuple_CheckExact(value)) {
        const std::vector<ShadowId> parts = s.parts;
        for (size_t k = 0; k < parts.size() && static_cast<Py_ssize_t>(k) < PyTuple_GET_SIZE(value); k++)
            if (!fixed_value(parts[k], PyTuple_GET_ITEM(value, static_cast<Py_ssize_t>(k)), depth + 1)) return false;
        return true;
    }
    return false;
}

// ------------------------------------------------------------------------------------------------ records
/// A dataclass over a dict whose methods all come from installed files.
bool Recording::is_record(PyTypeObject* type) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !PyType_IsSubtype(type, &PyDict_Type) || type->tp_del) return false;
    PyObject* fields = _PyType_Lookup(type, interned("__dataclass_fields__"));
    if (!fields || !PyDict_Check(fields) || _PyType_Lookup(type, interned("__del__"))) return false;
    PyObject* module = type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, interned("__module__")) : nullptr;
    for (const char* name : record_methods) {
        PyObject* method = _PyType_Lookup(type, interned(name));
        if (method && !is_installed(method) && !is_generated(method)) return false;
    }
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "__main__") != 0;
}

Recording::Before Recording::make_record(Activation& a, PyTypeObject* type, Call& c) {
    for (size_t k = 0; k < c.args.size(); k++)
        if (!know(c.args[k], c.values[k])) return stop_refused(a);
    for (const char* name : record_methods) guard_type_attribute(type, interned(name), _PyType_Lookup(type, interned(name)));
    making_record_ = type;
    return pend_derived(std::move(c));
}

/// A field that was given to the record's class is another tensor now: as if that had been given. False: not one of these.
bool Recording::set_record_field(ShadowId id, PyObject* name, ShadowId v) {
    Made& made = made_[id];
    auto field = std::find_if(made.fields.begin(), made.fields.end(), [&](const auto& f) { return PyUnicode_Compare(f.first, name) == 0; });
    if (!made.callable || !is_tensor(v) || field == made.fields.end() || !made.items.empty() || built_.contains(id)) return false;
    const size_t named = made.kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(made.kwnames)) : 0;
    for (size_t k = 0; k < named; k++) {
        ShadowId& given = made.args[made.args.size() - named + k];
        if (PyUnicode_Compare(PyTuple_GET_ITEM(made.kwnames, static_cast<Py_ssize_t>(k)), name) != 0) continue;
        if (at(given).kind == Shadow::constant && at(given).real == Py_None) return false; // absent so far: it would go last
        given = canonical(v);
        field->second = canonical(v);
        return true;
    }
    return false;
}

/// Keys and values of a record that is an OrderedDict: those of its fields that are not None, in its order.
std::optional<std::vector<ShadowId>> Recording::items_of_record(ShadowId id, PyObject* object) {
    std::vector<ShadowId> pairs;
    auto walk = Owned<>::steal(PyObject_CallOneArg(_PyType_Lookup(&PyODict_Type, interned("keys")), object)); // past methods of its class
    walk = Owned<>::steal(walk ? PyObject_GetIter(walk.get()) : nullptr);
    while (walk) {
        auto key = Owned<>::steal(PyIter_Next(walk.get()));
        if (!key) break;
        const auto& fields = made_[id].fields;
        const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return PyUnicode_CheckExact(key.get()) && PyUnicode_Compare(f.first, key.get()) == 0; });
        if (field == fields.end()) return refuse("a record with items of unknown origin"), std::nullopt;
        pairs.push_back(constant(key.get()));
        pairs.push_back(canonical(field->second));
    }
    if (!walk || PyErr_Occurred()) return PyErr_Clear(), refuse("the items of a record"), std::nullopt;
    return pairs;
}

/// Recipe: the same call again.
ValueRef Recording::derived_ref(ShadowId id) {
    const Made& made = made_[id];
    if (!made.callable) return refuse(std::string("a ") + shadows_[id].type->tp_name + " in use at a break"), ValueRef{};
    if (auto built = built_.find(id); built != built_.end()) return {ValueRef::fresh, built->second};
    NewObject object;
    object.kind = NewObject::called;
    object.position = -1;
    object.type = anchor(made.callable);
    if (made.kwnames) object.kwnames = constant_index(made.kwnames);
    const std::vector<ShadowId> args = made.args;
    for (ShadowId arg : args) {
        object.parts.push_back(ref_of(arg));
        if (object.parts.back().kind == ValueRef::none) return {};
    }
    segment_.fresh.push_back(std::move(object));
    fresh_values_ = static_cast<uint32_t>(segment_.fresh.size());
    built_[id] = fresh_values_ - 1;
    return {ValueRef::fresh, fresh_values_ - 1};
}

Recording::Before Recording::derived_attribute(Activation& a, ShadowId id, PyObject* object, PyObject* name, bool method) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject* found = _PyType_Lookup(type, name);
    for (auto& [field, value] : made_[id].fields)
        if (field == name && !(found && Py_TYPE(found)->tp_descr_set)) return pend_fixed(canonical(value));
    if (made_[id].record && lookup_.after != Redirect::identity && !found && !python::instance_attribute(object, name) &&
        !_PyType_Lookup(type, interned("__getattr__"))) {
        guard_type_attribute(type, name, nullptr);
        return absent_attribute(a, "an attribute that does not exist");
    }
    if (found && (PyFunction_Check(found) || Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type)) {
        guard_type_attribute(type, name, found);
        return bind_method(a, id, object, found, method);
    }
    if (made_[id].record) {
        if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return pend_fixed(identity_object(reinterpret_cast<PyObject*>(type)));
        return stop(a, std::string("the attribute ") + PyUnicode_AsUTF8(name) + " of a record", "");
    }
    own_python_ = true;
    Call c;
    c.args = {id};
    c.values = {object};
    return pend_derived(std::move(c));
}

/// A call whose first argument is a record or a fact: installed code runs on it as a whole.
std::optional<Recording::Before> Recording::derived_call(Activation& a, Call& c) {
    if (c.args.empty() || !is_derived(c.args[0])) return std::nullopt;
    if (!is_installed(c.callable) && !is_generated(c.callable)) return std::nullopt;
    if (made_[canonical(c.args[0])].modules) return std::nullopt; // a list of modules, whose items are known
    const bool record = made_[canonical(c.args[0])].record;
    PyObject* name = PyFunction_Check(c.callable) ? reinterpret_cast<PyFunctionObject*>(c.callable)->func_name : nullptr;
    static const char* const readers[] = {"to_tuple", "__getitem__", "__len__", "__contains__", "get"};
    if (record) {
        bool reads = false;
        for (const char* reader : readers) reads |= name && PyUnicode_CompareWithASCIIString(name, reader) == 0;
        if (!reads) return std::nullopt;
        making_record_ = Py_TYPE(c.values[0]);
    }
    for (size_t k = 1; k < c.args.size(); k++)
        if (!fixed_value(c.args[k], c.values[k])) return record ? std::optional(stop(a, "a record is read by a run-time value", "")) : std::nullopt;
    if (!record && PyFunction_Check(c.callable) && !names().is_library_code(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(c.callable)))) return std::nullopt;
    return pend_derived(std::move(c));
}

/// Holds an object of a class to its identity, where a replay can know it without keeping it alive.
bool Recording::pin(ShadowId given, PyObject* value) {
    if (!know(given, value)) return false;
    const ShadowId id = canonical(given);
    Shadow& s = shadows_[id];
    if (s.kind != Shadow::object || s.written || !names().is_followed_instance_type(Py_TYPE(value)) || !Py_TYPE(value)->tp_weaklistoffset) return false;
    if (!s.identity) guard_value(id, Guard::is, anchor(value));
    s.identity = true;
    return true;
}

/// functools.lru_cache over an installed function of values that are the same in every replay: it answered, so it remembers.
bool Recording::is_remembered(PyObject* callable, const Call& c) {
    if (std::strcmp(Py_TYPE(callable)->tp_name, "functools._lru_cache_wrapper") != 0) return false;
    const auto inner = Owned<>::steal(PyObject_GetAttrString(callable, "__wrapped__"));
    if (!inner) return PyErr_Clear(), false;
    if (!PyFunction_Check(inner.get()) || !is_installed(inner.get())) return false;
    for (size_t k = 0; k < c.args.size(); k++)
        if (!pin(c.args[k], c.values[k]) && (!fixed_value(c.args[k], c.values[k]) || (!is_immutable(c.values[k]) && !at(c.args[k]).identity))) return false;
    return true;
}

/// ContextVar.set() and reset() in pairs: nobody outside sees what was set between. Where a pair is open at an exit, a commit sets the
/// variable again, for the token that the frames there hold.
Recording::Before Recording::context_method(Activation& a, const Call& c, const char* name) {
    const ShadowId variable = canonical(c.args[0]);
    std::vector<ContextValue>& values = context_[variable];
    const bool plain = !c.kwnames;
    if (plain && std::strcmp(name, "set") == 0 && c.args.size() == 2) {
        Shadow s;
        s.kind = Shadow::derived;
        s.type = &PyContextToken_Type;
        const ShadowId token = add(std::move(s));
        static PyObject* const set = _PyType_Lookup(&PyContextVar_Type, interned("set"));
        Made& made = made_[token];
        made.callable = set;
        made.args = {variable, canonical(c.args[1])};
        values.push_back({token, canonical(c.args[1])});
        return pend_fixed(token);
    }
    if (plain && std::strcmp(name, "get") == 0 && !values.empty()) return pend_fixed(values.back().value);
    if (plain && std::strcmp(name, "reset") == 0 && c.args.size() == 2 && !values.empty() && values.back().token == canonical(c.args[1])) {
        values.pop_back();
        return pend_fixed(constant(Py_None));
    }
    return stop(a, std::string("the context variable's method ") + name, "");
}

// ------------------------------------------------------------------------------------------------ containers of modules
/// layers[2], layers[:n]: an item, or a new list of modules that is made again only where it is still in use at an exit.
Recording::Before Recording::module_item(Activation& a, ShadowId id, PyObject* object, const std::vector<ShadowId>& items, ShadowId key_id, PyObject* key) {
    PyObject* getitem = _PyType_Lookup(Py_TYPE(object), interned("__getitem__"));
    if (!getitem || !PyFunction_Check(getitem) || !names().is_library_code(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(getitem))))
        return stop(a, std::string("an item of a ") + Py_TYPE(object)->tp_name, "");
    guard_type_attribute(Py_TYPE(object), interned("__getitem__"), getitem);
    PyObject* k = key_of(key_id, key);
    const auto n = static_cast<Py_ssize_t>(items.size());
    if (k && PyLong_CheckExact(k)) {
        Py_ssize_t index = PyLong_AsSsize_t(k);
        if (index < 0) index += n;
        if (index >= 0 && index < n) return pend_fixed(items[static_cast<size_t>(index)]);
        PyErr_Clear();
    }
    Py_ssize_t from, to, step;
    if (!k || !PySlice_Check(k) || PySlice_Unpack(k, &from, &to, &step) < 0) {
        PyErr_Clear();
        return stop(a, std::string("an item of a ") + Py_TYPE(object)->tp_name, "");
    }
    Made made;
    const Py_ssize_t count = PySlice_AdjustIndices(n, &from, &to, step);
    for (Py_ssize_t j = 0; j < count; j++) made.items.push_back(items[static_cast<size_t>(from + j * step)]);
    made.modules = true;
    made.callable = operator_getitem();
    made.args = {id, canonical(key_id)};
    Shadow s;
    s.kind = Shadow::derived;
    s.type = Py_TYPE(object);
    const ShadowId slice = add(std::move(s));
    made_[slice] = std::move(made);
    return pend_fixed(slice);
}

/// What iterating an nn.ModuleList or nn.Sequential gives: the values of its _modules.
std::optional<std::vector<ShadowId>> Recording::module_items(ShadowId given, PyObject* object) {
    const ShadowId id = canonical(given);
    if (auto made = made_.find(id); made != made_.end() && made->second.modules) {
        own_python_ = true;
        return made->second.items;
    }
    if (shadows_[id].kind != Shadow::object || !names().module) return std::nullopt;
    PyTypeObject* type = Py_TYPE(object);
    PyObject* iter = _PyType_Lookup(type, interned("__iter__"));
    if (!iter || !PyFunction_Check(iter) || PyObject_IsInstance(object, names().module) != 1) return PyErr_Clear(), std::nullopt;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(iter));
    const bool theirs = PyUnicode_CompareWithASCIIString(code->co_qualname, "ModuleList.__iter__") == 0 || PyUnicode_CompareWithASCIIString(code->co_qualname, "Sequential.__iter__") == 0;
    if (!theirs || !names().is_library_code(code)) return std::nullopt;
    guard_type_attribute(type, interned("__iter__"), iter);
    PyObject* name = interned("_modules");
    PyObject* dict = python::instance_attribute(object, name);
    if (!dict || !PyDict_CheckExact(dict)) return std::nullopt;
    auto [it, fresh_place] = places_.try_emplace({id, 'a', name, 0}, 0);
    if (fresh_place || !it->second) it->second = raw(source(Source::attribute, shadows_[id].source, 0, name), dict);
    const ShadowId d = it->second;
    if (!know(d, dict)) return std::nullopt;
    auto pairs = dict_items(canonical(d), dict);
    if (!pairs) return std::nullopt;
    std::vector<ShadowId> items;
    for (size_t k = 1; k < pairs->size(); k += 2) items.push_back((*pairs)[k]);
    own_python_ = true; // the library's __iter__ or __len__
    return items;
}

} // namespace dyno::capture
