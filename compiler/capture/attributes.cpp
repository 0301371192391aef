// Attribute access: instances, modules, types, super, tensors. Every spelling is reduced to its place; every answer of a
// type is a guarded fact; Python code behind an attribute (property, __getattr__) is called with a token.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"
#include <algorithm>
#include <cstring>
#include <utility>

namespace dyno::capture {
using bytecode::Op;

/// An object that is the same in every replay, reached by nothing that a replay reads: a type, a function of a type.
ShadowId Recording::identity_object(PyObject* object) {
    if (auto it = by_object_.find(object); it != by_object_.end()) return canonical(it->second);
    if (is_immutable(object)) return constant(object);
    const ShadowId id = raw(source(Source::anchored, 0, anchor(object), nullptr), object);
    Shadow& s = shadows_[id];
    s.kind = Shadow::object;
    s.identity = true;
    s.real = object;
    s.type = Py_TYPE(object);
    kept_.try_emplace(object, Owned<>::borrow(object));
    by_object_[object] = id;
    return id;
}

Recording::Before Recording::bind_method(Activation&, ShadowId self, PyObject*, PyObject* function, bool method) {
    const ShadowId f = identity_object(function);
    if (method) return pend_fixed(f);
    return pend_fixed(fresh(NewObject::method, {f, self}, &PyMethod_Type));
}

Recording::Before Recording::redirect_to(Activation& a, PyObject* function, std::vector<ShadowId> ids, std::vector<PyObject*> args, int popped,
                                         Redirect::After after, Redirect& redirect, ShadowId instance) {
    if (calls_.size() >= limits_.inlined_depth) return stop(a, "recursion deeper than 50 calls", "");
    redirect_ids_ = std::move(ids);
    redirect_args_ = std::move(args);
    redirect_args_.insert(redirect_args_.begin(), nullptr); // room before the first argument
    redirect.function = function;
    redirect.args = redirect_args_.data() + 1;
    redirect.shadows = redirect_ids_.data();
    redirect.nargs = redirect_ids_.size();
    redirect.kwnames = nullptr;
    redirect.after = after;
    calls_.push_back({&a, popped, after, instance});
    pending_ = PendingKind::called;
    return Before::redirect;
}

/// The redirected call came back.
ShadowId Recording::finish_redirect(Activation& a, const Instruction& i, PyObject* result, ShadowId callee) {
    const Inlined call = calls_.back();
    calls_.pop_back();
    if (i.op == Op::with_start) { // the manager's slot takes its bound __exit__
        ShadowId& slot = a.shadow(a.sp - 1);
        slot = fresh(NewObject::method, {identity_object(call.exit), canonical(slot)}, &PyMethod_Type);
    }
    if (call.generator) {
        const bool ended = generator_of(call.generator).state == Generator::ended;
        return ended && call.instance ? call.instance : callee;
    }
    switch (call.after) {
    case Redirect::identity: return callee;
    case Redirect::instance: return call.instance;
    case Redirect::nothing: return 0;
    case Redirect::length: { // an int as it came
        const Shadow& s = at(callee);
        return callee && ((s.kind == Shadow::number && s.type == &PyLong_Type) || (s.kind == Shadow::constant && s.real && PyLong_CheckExact(s.real))) ? callee : 0;
    }
    case Redirect::truth: return result && callee && at(callee).kind == Shadow::constant && PyBool_Check(result) ? constant(result) : 0;
    case Redirect::or_default: return std::exchange(raising_, false) ? call.instance : callee;
    case Redirect::exists: return constant(std::exchange(raising_, false) ? Py_False : Py_True);
    }
    return 0;
}

Recording::Before Recording::load_attribute(Activation& a, const Instruction& i, Redirect& redirect, bool method) {
    PyObject* name = PyTuple_GET_ITEM(a.code->co_names, i.arg);
    PyObject* object = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 1);
    if (!know(given, object)) return stop_refused(a);
    // Where attributes are not looked up the generic way, CPython has a bound method made.
    return attribute_value(a, canonical(given), object, name, &redirect, method && Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr);
}

namespace {
/// What a C type says of a name, when its answer needs no guard: builtin and library types cannot be assigned to.
PyObject* builtin_attribute(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }
bool is_function_like(PyObject* v) {
    PyTypeObject* t = Py_TYPE(v);
    return t == &PyFunction_Type || t == &PyMethodDescr_Type || t == &PyWrapperDescr_Type || std::strcmp(t->tp_name, "functools._lru_cache_wrapper") == 0;
}
/// Whether x.flags is followed by .c_contiguous, ["F_CONTIGUOUS"] and the like: what sizes and strides say.
bool asks_for_layout(const Activation& a) {
    const bytecode::Instruction& next = following(a);
    const bool item = next.op == Op::load_const && following(a, 1).op == Op::subscript;
    PyObject* word = next.op == Op::load_attr ? PyTuple_GET_ITEM(a.code->co_names, next.arg) : item ? PyTuple_GET_ITEM(a.code->co_consts, next.arg) : nullptr;
    if (!word || !PyUnicode_Check(word)) return false;
    static const char* const layout[] = {"c_contiguous", "f_contiguous", "contiguous", "fortran", "forc", "fnc", "C_CONTIGUOUS", "F_CONTIGUOUS", "CONTIGUOUS", "FORTRAN", "C", "F"};
    return std::any_of(std::begin(layout), std::end(layout), [&](const char* one) { return PyUnicode_CompareWithASCIIString(word, one) == 0; });
}
} // namespace

Recording::Before Recording::attribute_value(Activation& a, ShadowId id, PyObject* object, PyObject* name, Redirect* redirect, bool method) {
    PyTypeObject* type = Py_TYPE(object);
    const Shadow::Kind kind = shadows_[id].kind;
    if (kind == Shadow::tensor) {
        bool call_needed = false;
        const ShadowId known = attribute_of_tensor(id, object, name, call_needed);
        if (known) return pend_fixed(known);
        if (call_needed) return Before::perform; // pending_ is set
        PyObject* found = _PyType_Lookup(type, name);
        if (!found) return stop(a, "a tensor has no attribute of that name", "");
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) guard_type_attribute(type, name, found);
        if (is_function_like(found)) return bind_method(a, id, object, found, method);
        if (type == names().ndarray && PyUnicode_CompareWithASCIIString(name, "flags") == 0 && asks_for_layout(a)) return pend_derived({.args = {id}, .values = {object}});
        return stop(a, "the attribute " + std::string(PyUnicode_AsUTF8(name)) + " of a tensor", "");
    }
    if (kind == Shadow::derived) return derived_attribute(a, id, object, name, method);
    if (kind == Shadow::fresh && PyUnicode_CompareWithASCIIString(name, "default_factory") == 0 && factories_.contains(id)) return pend_fixed(factories_.at(id));
    if (PyUnicode_CompareWithASCIIString(name, "maxlen") == 0 && made_deque(id)) return pend_constant();
    if (kind == Shadow::super_) {
        PyTypeObject* start = shadows_[id].type;
        const ShadowId self = shadows_[id].parts[0];
        PyTypeObject* self_type = reinterpret_cast<PyTypeObject*>(shadows_[id].real);
        PyObject* mro = self_type->tp_mro;
        bool behind = false;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(mro); k++) {
            auto* t = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, k));
            if (behind && t->tp_dict) {
                if (PyObject* found = PyDict_GetItemWithError(t->tp_dict, name)) {
                    guard_type_attribute(t, name, found);
                    if (!is_function_like(found)) return stop(a, "super() of an attribute that is not a function", "");
                    const ShadowId f = identity_object(found);
                    return pend_fixed(fresh(NewObject::method, {f, self}, &PyMethod_Type));
                }
                guard_type_attribute(t, name, _PyType_Lookup(t, name));
            }
            behind |= t == start;
        }
        return stop(a, "super() has no attribute of that name", "");
    }
    if (kind == Shadow::outcome) {
        auto value = Owned<>::steal(PyObject_GetAttr(object, name));
        if (!value) PyErr_Clear();
        if (value && PyTuple_Check(object))
            for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++)
                if (PyTuple_GET_ITEM(object, k) == value.get()) return pend_fixed(shadows_[id].parts[static_cast<size_t>(k)]);
        return stop(a, "an attribute of a library's result", "");
    }
    if (kind == Shadow::constant || kind == Shadow::number || kind == Shadow::iterator) {
        PyObject* found = builtin_attribute(type, name);
        if (found && is_function_like(found)) return bind_method(a, id, object, found, method);
        if (found && kind == Shadow::constant && names().is_value_type(type)) {
            own_python_ = true; // numpy.dtype.name
            return pend_constant();
        }
        return stop(a, std::string("an attribute of a ") + type->tp_name, "");
    }
    if (PyModule_Check(object)) return module_attribute(a, id, object, name, redirect);
    if (PyFunction_Check(object)) return function_attribute(a, id, object, name);
    if (PyType_Check(object)) return type_attribute_value(a, id, object, name);
    if (names().is_enum_member(object) && shadows_[id].identity) {
        if (PyUnicode_CompareWithASCIIString(name, "value") == 0 || PyUnicode_CompareWithASCIIString(name, "name") == 0 || PyUnicode_CompareWithASCIIString(name, "_value_") == 0) {
            own_python_ = true;
            return pend_constant();
        }
    }
    const bool plain = names().is_plain_instance_type(type);
    if (plain) guard_type_attribute(type, interned("__getattribute__"), _PyType_Lookup(type, interned("__getattribute__")));
    if (!plain && names().is_followed_instance_type(type)) {
        PyObject* getter = _PyType_Lookup(type, interned("__getattribute__"));
        guard_type_attribute(type, interned("__getattribute__"), getter);
        PyObject* after = _PyType_Lookup(type, interned("__getattr__"));
        guard_type_attribute(type, interned("__getattr__"), after);
        if (!redirect || !PyFunction_Check(getter)) return stop(a, "an attribute of a class with a __getattribute__ of its own", "");
        return attribute_redirect(a, getter, {id, constant(name)}, {object, name}, type, *redirect);
    }
    if (!plain) {
        PyObject* found = builtin_attribute(type, name);
        if (found && is_function_like(found)) return bind_method(a, id, object, found, method);
        if (PyCode_Check(object)) return pend_constant();
        if (found && Py_TYPE(found) == &PyStaticMethod_Type && object == names().variable_functions) {
            auto function = Owned<>::steal(PyObject_GetAttr(object, name)); // the type holds it
            return function ? pend_fixed(identity_object(function.get())) : (PyErr_Clear(), stop(a, "a function of torch's that is not there", ""));
        }
        if (PyMethod_Check(object) && kind == Shadow::fresh && PyUnicode_CompareWithASCIIString(name, "__self__") == 0) return pend_fixed(shadows_[id].parts[1]);
        return stop(a, std::string("the attribute ") + PyUnicode_AsUTF8(name) + " of a " + type->tp_name, "");
    }
    return instance_attribute_value(a, id, object, name, redirect, method);
}

void Recording::guard_no_attribute(ShadowId id, PyObject* name) {
    if (!places_.try_emplace({id, 'n', name, 0}, 0).second) return;
    Guard g;
    g.kind = Guard::no_attribute;
    g.source = shadows_[id].source;
    g.expected = constant_index(name);
    guard(g);
}

Recording::Before Recording::instance_attribute_value(Activation& a, ShadowId id, PyObject* object, PyObject* name, Redirect* redirect, bool method) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject* found = _PyType_Lookup(type, name);
    guard_type_attribute(type, name, found);
    const bool made_here = shadows_[id].kind == Shadow::fresh;
    if (found && Py_TYPE(found)->tp_descr_set) { // a data descriptor goes first
        if (Py_TYPE(found) == &PyProperty_Type) {
            auto getter = Owned<>::steal(PyObject_GetAttrString(found, "fget"));
            if (getter && PyFunction_Check(getter.get()) && redirect) {
                PyObject* function = getter.get();
                kept_.try_emplace(function, std::move(getter));
                return attribute_redirect(a, function, {id}, {object}, type, *redirect);
            }
        }
        if (std::strcmp(Py_TYPE(found)->tp_name, "_collections._tuplegetter") == 0 && is_named_tuple(object)) { // a field
            auto how = Owned<>::steal(PyObject_CallMethod(found, "__reduce__", nullptr)); // its type, (index, doc)
            PyObject* rest = how && PyTuple_CheckExact(how.get()) && PyTuple_GET_SIZE(how.get()) == 2 ? PyTuple_GET_ITEM(how.get(), 1) : nullptr;
            const Py_ssize_t index = rest && PyTuple_CheckExact(rest) && PyTuple_GET_SIZE(rest) > 0 ? PyLong_AsSsize_t(PyTuple_GET_ITEM(rest, 0)) : -1;
            PyErr_Clear();
            if (index < 0 || index >= PyTuple_GET_SIZE(object)) return stop(a, "a field that a named tuple lacks", "");
            if (made_here && static_cast<size_t>(index) >= shadows_[id].parts.size()) return stop(a, "a named tuple of unknown origin", "");
            const ShadowId v = read_index(id, index, PyTuple_GET_ITEM(object, index));
            return know(v, PyTuple_GET_ITEM(object, index)) ? pend_fixed(v) : stop_refused(a);
        }
        if (python::slot_offset(type, name) >= 0) {
            auto known = places_.find({id, 'a', name, 0});
            if (known != places_.end() && known->second) return pend_fixed(known->second);
            PyObject* value = python::slotted_attribute(object, name);
            if (!value || made_here) return absent_attribute(a, "an attribute that is not set");
            const ShadowId v = raw(source(Source::slot_attribute, shadows_[id].source, 0, name), value);
            places_[{id, 'a', name, 0}] = v;
            return know(v, value) ? pend_fixed(v) : stop_refused(a);
        }
        if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return pend_fixed(identity_object(reinterpret_cast<PyObject*>(type)));
        if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0 && Py_TYPE(found) == &PyGetSetDescr_Type) return instance_dict(a, id, object);
        return stop(a, std::string("the descriptor ") + PyUnicode_AsUTF8(name), "");
    }
    auto place = places_.find({id, 'a', name, 0});
    if (place != places_.end() && place->second) return pend_fixed(place->second);
    PyObject* value = python::instance_attribute(object, name);
    if (value) {
        if (made_here) return stop(a, "an attribute of unknown origin", "");
        const ShadowId v = raw(source(Source::attribute, shadows_[id].source, 0, name), value);
        places_[{id, 'a', name, 0}] = v;
        return know(v, value) ? pend_fixed(v) : stop_refused(a);
    }
    if (!made_here) guard_no_attribute(id, name);
    if (found) {
        PyTypeObject* t = Py_TYPE(found);
        if (is_function_like(found)) return bind_method(a, id, object, found, method);
        if (t == &PyStaticMethod_Type || t == &PyClassMethod_Type) {
            auto inner = Owned<>::steal(PyObject_GetAttrString(found, "__func__"));
            PyObject* function = inner.get();
            kept_.try_emplace(function, std::move(inner));
            const ShadowId f = identity_object(function);
            if (t == &PyStaticMethod_Type) return pend_fixed(f);
            return pend_fixed(fresh(NewObject::method, {f, identity_object(reinterpret_cast<PyObject*>(type))}, &PyMethod_Type));
        }
        if (!t->tp_descr_get && (is_immutable(found) || names().is_identity_type(t))) return pend_fixed(identity_object(found));
        return class_value(a, type, name, found);
    }
    PyObject* getattr = _PyType_Lookup(type, interned("__getattr__"));
    guard_type_attribute(type, interned("__getattr__"), getattr);
    if (!getattr) return absent_attribute(a, "an attribute that does not exist");
    if (getattr == names().module_getattr && !made_here) {
        own_python_ = true;
        for (const char* which : {"_parameters", "_buffers", "_modules"}) {
            PyObject* dict_name = interned(which);
            PyObject* dict = python::instance_attribute(object, dict_name);
            if (!dict || !PyDict_CheckExact(dict)) return stop(a, "a module that is not set up", "");
            auto [it, new_place] = places_.try_emplace({id, 'a', dict_name, 0}, 0);
            if (new_place || !it->second) it->second = raw(source(Source::attribute, shadows_[id].source, 0, dict_name), dict);
            const ShadowId d_given = it->second;
            if (!know(d_given, dict)) return stop_refused(a);
            const ShadowId d = canonical(d_given);
            if (PyObject* v = PyDict_GetItemWithError(dict, name)) {
                const ShadowId s = look_up(d, name, v);
                return s ? pend_fixed(s) : stop_refused(a);
            }
            guard_absent_key(d, name);
        }
        return absent_attribute(a, "an attribute that does not exist");
    }
    if (PyFunction_Check(getattr) && redirect) return attribute_redirect(a, getattr, {id, constant(name)}, {object, name}, nullptr, *redirect);
    return stop(a, "an attribute made by __getattr__", "");
}

Recording::Before Recording::type_attribute_value(Activation& a, ShadowId, PyObject* object, PyObject* name) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    PyObject* meta = _PyType_Lookup(Py_TYPE(type), name);
    PyObject* found = _PyType_Lookup(type, name);
    if (found && (std::strcmp(Py_TYPE(type)->tp_name, "EnumType") == 0 || std::strcmp(Py_TYPE(type)->tp_name, "EnumMeta") == 0)) {
        auto member = Owned<>::steal(PyObject_GetAttr(object, name));
        PyErr_Clear();
        if (member && Py_TYPE(member.get()) == type) { // members cannot be reassigned
            own_python_ = true;
            return pend_fixed(identity_object(member.get()));
        }
    }
    if (meta && Py_TYPE(meta)->tp_descr_set) {
        for (const char* word : {"__name__", "__qualname__", "__module__"})
            if (PyUnicode_CompareWithASCIIString(name, word) == 0) return pend_constant();
        return stop(a, "an attribute of a metaclass", "");
    }
    if (!found && !meta && !_PyType_Lookup(Py_TYPE(type), interned("__getattr__"))) {
        guard_type_attribute(type, name, nullptr);
        return absent_attribute(a, "an attribute that a class does not have");
    }
    if (!found) return stop(a, "an attribute of a metaclass", "");
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) guard_type_attribute(type, name, found);
    PyTypeObject* t = Py_TYPE(found);
    if (t == &PyFunction_Type || t == &PyMethodDescr_Type || t == &PyWrapperDescr_Type) return pend_fixed(identity_object(found));
    if (t == &PyStaticMethod_Type || t == &PyClassMethod_Type) {
        auto inner = Owned<>::steal(PyObject_GetAttrString(found, "__func__"));
        PyObject* function = inner.get();
        kept_.try_emplace(function, std::move(inner));
        const ShadowId f = identity_object(function);
        if (t == &PyStaticMethod_Type) return pend_fixed(f);
        return pend_fixed(fresh(NewObject::method, {f, identity_object(object)}, &PyMethod_Type));
    }
    if (!t->tp_descr_get && (is_immutable(found) || names().is_identity_type(t) || names().is_plain_instance_type(t))) {
        if (is_immutable(found)) return pend_fixed(constant(found));
        return pend_fixed(identity_object(found));
    }
    return class_value(a, type, name, found);
}

Recording::Before Recording::store_attribute(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject* name = PyTuple_GET_ITEM(a.code->co_names, i.arg);
    PyObject *object = a.sp[-1], *value = a.sp[-2];
    const ShadowId given = a.shadow(a.sp - 1), v = canonical(a.shadow(a.sp - 2));
    if (!v) return stop(a, "a value of unknown origin is stored", "");
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    PyTypeObject* type = Py_TYPE(object);
    if (is_derived(id) && made_[id].record && set_record_field(id, name, v)) {
        making_record_ = type; // its __setattr__ and what that calls
        return pend_stored();
    }
    if (!names().is_plain_instance_type(type) || (shadows_[id].kind != Shadow::object && shadows_[id].kind != Shadow::fresh))
        return stop(a, std::string("an attribute of a ") + type->tp_name + " is set", "");
    if (shadows_[id].kind == Shadow::fresh && segment_.fresh[shadows_[id].fresh_index].kind != NewObject::instance) // its parts are items
        return stop(a, std::string("an attribute of a ") + type->tp_name + " is set", "");
    PyObject* setter = _PyType_Lookup(type, interned("__setattr__"));
    guard_type_attribute(type, interned("__setattr__"), setter);
    if (setter != _PyType_Lookup(&PyBaseObject_Type, interned("__setattr__"))) {
        if (setter && PyFunction_Check(setter) && setter != names().module_setattr) {
            identity_object(setter);
            return redirect_to(a, setter, {id, constant(name), v}, {object, name, value}, 2, Redirect::nothing, redirect);
        }
        if (setter != names().module_setattr || !plain_module_store(a, id, object, name, value)) return stop(a, "an attribute of a module is set", "");
        own_python_ = true;
    }
    PyObject* found = _PyType_Lookup(type, name);
    guard_type_attribute(type, name, found);
    const bool in_slot = python::slot_offset(type, name) >= 0;
    if (found && Py_TYPE(found)->tp_descr_set && !in_slot) {
        auto set = Owned<>::steal(Py_TYPE(found) == &PyProperty_Type ? PyObject_GetAttrString(found, "fset") : nullptr);
        PyObject* function = set.get();
        if (!function || !PyFunction_Check(function)) return PyErr_Clear(), stop(a, std::string("the descriptor ") + PyUnicode_AsUTF8(name) + " is set", "");
        kept_.try_emplace(function, std::move(set));
        identity_object(function);
        return redirect_to(a, function, {id, v}, {object, value}, 2, Redirect::nothing, redirect);
    }
    if (!in_slot && !type->tp_dictoffset && !(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return stop(a, "an attribute is set that the object has no place for", "");
    if (PyObject* dict = python::instance_dict_if_any(object); dict && by_object_.contains(dict)) {
        const ShadowId d = canonical(by_object_[dict]);
        if (!dict_owner_.contains(d)) return stop(a, "an attribute is set beside its __dict__", "");
        shadows_[d].written = true; // what is read of it by name goes by the instance's places
    }
    if (PyObject* old = in_slot ? python::slotted_attribute(object, name) : python::instance_attribute(object, name); old && has_finaliser(old)) return stop(a, "the store drops an object with a finaliser", "");
    places_[{id, 'a', name, 0}] = v;
    if (shadows_[id].kind == Shadow::fresh) {
        std::vector<ShadowId>& parts = shadows_[id].parts;
        for (size_t k = 0; k + 1 < parts.size(); k += 2)
            if (at(parts[k]).real == name) {
                parts[k + 1] = v;
                return pend_stored();
            }
        const ShadowId key = constant(name);
        shadows_[id].parts.push_back(key);
        shadows_[id].parts.push_back(v);
        return pend_stored();
    }
    return note_store(a, Effect::attribute_set, id, constant(name), v);
}

/// nn.Module.__setattr__ comes down to a plain store when the name is no parameter, buffer or submodule and the value is none.
bool Recording::plain_module_store(Activation& a, ShadowId id, PyObject* object, PyObject* name, PyObject* value) {
    if (shadows_[id].kind != Shadow::object) return false;
    if (names().parameter && PyObject_TypeCheck(value, names().parameter)) return false;
    if (names().module && PyObject_IsInstance(value, names().module) == 1) return false;
    for (const char* which : {"_parameters", "_buffers", "_modules"}) {
        PyObject* dict_name = interned(which);
        PyObject* dict = python::instance_attribute(object, dict_name);
        if (!dict || !PyDict_CheckExact(dict) || PyDict_Contains(dict, name)) return false;
        auto [it, new_place] = places_.try_emplace({id, 'a', dict_name, 0}, 0);
        if (new_place || !it->second) it->second = raw(source(Source::attribute, shadows_[id].source, 0, dict_name), dict);
        const ShadowId given = it->second;
        if (!know(given, dict)) return false;
        const ShadowId d = canonical(given);
        guard_absent_key(d, name);
    }
    (void)a;
    return true;
}

} // namespace dyno::capture
