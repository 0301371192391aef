// Attributes of functions, code objects and modules, the __dict__ of instances, what a class holds, and what is absent.
// Each is a place that a replay reads again, or a fact that a guard holds.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"

namespace dyno::capture {

/// Python code answers for an attribute: property, __getattribute__, __getattr__. What getattr() does with an AttributeError out of it is
/// `lookup_`'s. `type`: of the object; where it has a __getattr__ too, that would be asked after an error.
Recording::Before Recording::attribute_redirect(Activation& a, PyObject* function, std::vector<ShadowId> ids, std::vector<PyObject*> args, PyTypeObject* type,
                                                Redirect& redirect) {
    identity_object(function);
    const Before answer = redirect_to(a, function, std::move(ids), std::move(args), lookup_.popped, lookup_.after, redirect, lookup_.fallback);
    if (answer != Before::redirect) return answer;
    if (lookup_.fallback_object) redirect.made = Py_NewRef(lookup_.fallback_object);
    calls_.back().opaque = type && _PyType_Lookup(type, interned("__getattr__"));
    return answer;
}

/// Guards say that nothing answers to the name.
Recording::Before Recording::absent_attribute(Activation& a, const char* why) {
    if (lookup_.after == Redirect::exists) return pend_fixed(constant(Py_False));
    if (lookup_.after == Redirect::or_default) return pend_fixed(lookup_.fallback);
    return pend_raise(a, why);
}

Recording::Before Recording::function_attribute(Activation& a, ShadowId id, PyObject* object, PyObject* name) {
    static const struct {
        const char* name;
        Source::Kind kind;
        uint32_t part;
    } parts[] = {
        {"__name__", Source::function_part, Source::name_},     {"__qualname__", Source::function_part, Source::qualname_},
        {"__module__", Source::function_part, Source::module_}, {"__doc__", Source::function_part, Source::doc_},
        {"__code__", Source::code_of, 0},                       {"__globals__", Source::function_globals, 0},
    };
    const bool made_here = shadows_[id].kind == Shadow::fresh;
    for (const auto& part : parts) {
        if (PyUnicode_CompareWithASCIIString(name, part.name) != 0) continue;
        if (made_here) return part.kind == Source::function_part ? pend_constant() : stop(a, "a part of a function that was made here", "");
        auto value = Owned<>::steal(PyObject_GetAttr(object, name)); // the function holds it
        if (!value) PyErr_Clear();
        if (!value) return stop(a, "a part of a function that is not there", "");
        auto [it, fresh] = places_.try_emplace({id, 'f', name, 0}, 0);
        if (fresh) it->second = raw(source(part.kind, shadows_[id].source, part.part, nullptr), value.get());
        const ShadowId v = it->second;
        return know(v, value.get()) ? pend_fixed(v) : stop_refused(a);
    }
    PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
    if (found || made_here) {
        if (found && (Py_TYPE(found) == &PyWrapperDescr_Type || Py_TYPE(found) == &PyMethodDescr_Type)) return bind_method(a, id, object, found, false);
        return stop(a, std::string("the attribute ") + PyUnicode_AsUTF8(name) + " of a function", "");
    }
    if (PyObject* value = python::instance_attribute(object, name)) {
        auto [it, fresh] = places_.try_emplace({id, 'a', name, 0}, 0);
        if (fresh) it->second = raw(source(Source::attribute, shadows_[id].source, 0, name), value);
        const ShadowId v = it->second;
        return know(v, value) ? pend_fixed(v) : stop_refused(a);
    }
    guard_no_attribute(id, name);
    return absent_attribute(a, "an attribute that a function does not have");
}

/// A module's own dict first; of a subclass, what the class says: __getattr__ and descriptors written in Python are called.
Recording::Before Recording::module_attribute(Activation& a, ShadowId id, PyObject* object, PyObject* name, Redirect* redirect) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject* dict = PyModule_GetDict(object);
    PyObject* found = PyModule_CheckExact(object) ? nullptr : _PyType_Lookup(type, name);
    if (!PyModule_CheckExact(object)) {
        guard_type_attribute(type, name, found);
        if (found && Py_TYPE(found)->tp_descr_set) {
            PyObject* getter = _PyType_Lookup(Py_TYPE(found), interned("__get__"));
            if (!redirect || !getter || !PyFunction_Check(getter)) return stop(a, std::string("the descriptor ") + PyUnicode_AsUTF8(name), "");
            guard_type_attribute(Py_TYPE(found), interned("__get__"), getter);
            PyObject* owner = reinterpret_cast<PyObject*>(type);
            return attribute_redirect(a, getter, {identity_object(found), id, identity_object(owner)}, {found, object, owner}, type, *redirect);
        }
    }
    ShadowId d;
    if (auto it = by_object_.find(dict); it != by_object_.end()) d = canonical(it->second);
    else {
        d = raw(source(Source::module_dict, shadows_[id].source, 0, nullptr), dict);
        shadows_[d].kind = Shadow::object;
        shadows_[d].identity = true;
        shadows_[d].real = dict;
        shadows_[d].type = &PyDict_Type;
        kept_.try_emplace(dict, Owned<>::borrow(dict));
        by_object_[dict] = d;
    }
    if (PyObject* value = PyDict_GetItemWithError(dict, name)) {
        const ShadowId v = look_up(d, name, value);
        return v ? pend_fixed(v) : stop_refused(a);
    }
    auto absent = [&](PyObject* key) {
        if (!places_.try_emplace({d, 'b', canonical_key(key), 0}, 0).second) return;
        Guard g;
        g.kind = Guard::absent;
        g.source = shadows_[d].source;
        g.expected = constant_index(key);
        guard(g);
    };
    absent(name);
    if (PyModule_CheckExact(object)) {
        if (PyUnicode_CompareWithASCIIString(name, "__getattribute__") == 0)
            return pend_fixed(fresh(NewObject::method, {identity_object(_PyType_Lookup(type, name)), id}, &PyMethod_Type)); // a bound wrapper
        if (PyDict_GetItemWithError(dict, interned("__getattr__")) || _PyType_Lookup(type, name)) return stop(a, "a module attribute that is made on access", "");
        absent(interned("__getattr__"));
        return absent_attribute(a, "an attribute that a module does not have");
    }
    if (found) {
        if (is_immutable(found)) return pend_fixed(constant(found));
        if (PyFunction_Check(found)) return bind_method(a, id, object, found, false);
        if (!Py_TYPE(found)->tp_descr_get) return class_value(a, type, name, found);
        return stop(a, std::string("the class attribute ") + PyUnicode_AsUTF8(name), "");
    }
    PyObject* getattr = _PyType_Lookup(type, interned("__getattr__"));
    guard_type_attribute(type, interned("__getattr__"), getattr);
    if (!getattr || !PyFunction_Check(getattr) || !redirect) return stop(a, "a module attribute that is made on access", "");
    return attribute_redirect(a, getattr, {id, constant(name)}, {object, name}, nullptr, *redirect);
}

/// object.__dict__: one more spelling of the instance's own attributes.
Recording::Before Recording::instance_dict(Activation& a, ShadowId id, PyObject* object) {
    if (shadows_[id].kind == Shadow::fresh) return stop(a, "the __dict__ of an object made here", "");
    auto dict = Owned<>::steal(PyObject_GenericGetDict(object, nullptr)); // the instance holds it, as the instruction would have it
    if (!dict || !PyDict_CheckExact(dict.get())) {
        PyErr_Clear();
        return stop(a, "a __dict__ of an unusual kind", "");
    }
    if (auto it = by_object_.find(dict.get()); it != by_object_.end()) return pend_fixed(canonical(it->second));
    const ShadowId d = raw(source(Source::instance_dict, shadows_[id].source, 0, nullptr), dict.get());
    if (!know(d, dict.get())) return stop_refused(a);
    shadows_[canonical(d)].written = shadows_[id].written;
    dict_owner_[canonical(d)] = id;
    return pend_fixed(d);
}

/// A value that a class holds and that is no descriptor: a container or an instance, found through the type anew in each replay.
Recording::Before Recording::class_value(Activation& a, PyTypeObject* type, PyObject* name, PyObject* found) {
    if (Py_TYPE(found)->tp_descr_get) return stop(a, std::string("the class attribute ") + PyUnicode_AsUTF8(name), "");
    const ShadowId owner = identity_object(reinterpret_cast<PyObject*>(type));
    auto [it, fresh] = places_.try_emplace({owner, 't', name, 0}, 0);
    if (fresh) it->second = raw(source(Source::type_attribute_, shadows_[owner].source, 0, name), found);
    const ShadowId v = it->second;
    return know(v, found) ? pend_fixed(v) : stop_refused(a);
}

} // namespace dyno::capture
