// Sets made in the segment: what they hold is decided while recording, by the equality of constants and the identity of tensors and objects,
// which guards keep. Sets from outside are containers whose members are not looked at.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/tensor.h"
#include <cstring>

namespace dyno::capture {

/// Constants in the order in which the set has them: strings hash alike as long as the process lives.
std::optional<std::vector<ShadowId>> Recording::items_of_set(ShadowId id, PyObject* object) {
    for (ShadowId part : shadows_[id].parts)
        if (at(part).kind != Shadow::constant) return refuse("the items of a set of run-time values"), std::nullopt;
    std::vector<ShadowId> items;
    const auto list = Owned<>::steal(PySequence_List(object));
    for (Py_ssize_t k = 0; list && k < PyList_GET_SIZE(list.get()); k++) {
        PyObject* item = PyList_GET_ITEM(list.get(), k);
        if (!PyUnicode_CheckExact(item) && !PyLong_CheckExact(item)) return refuse("the items of a set of other things than text and integers"), std::nullopt;
        items.push_back(constant(item));
    }
    return items;
}

/// A set of values known by equality or identity.
Recording::Before Recording::build_set(Activation& a, const std::vector<ShadowId>& ids, PyObject* const* values) {
    const ShadowId set = fresh(NewObject::set, {}, &PySet_Type);
    for (size_t k = 0; k < ids.size(); k++) {
        const auto member = is_member(set, ids[k], values[k]);
        if (!member) return stop_refused(a);
        if (!*member) shadows_[set].parts.push_back(canonical(ids[k]));
    }
    return pend_fixed(set);
}

/// Whether a set made here holds a value: constants by equality, tensors and objects by identity, which guards hold. Nothing: refused.
std::optional<bool> Recording::is_member(ShadowId set, ShadowId given, PyObject* value) {
    if (!know(given, value)) return std::nullopt;
    const ShadowId id = canonical(given);
    const auto by_identity = [&](ShadowId x) {
        const Shadow& s = shadows_[x];
        if (s.identity || (s.kind == Shadow::tensor && python::is_tensor_class(s.type))) return true;
        if (s.kind != Shadow::object || !names().is_plain_instance_type(s.type)) return false;
        for (const char* name : {"__eq__", "__hash__"}) {
            PyObject* found = _PyType_Lookup(s.type, interned(name));
            if (found != _PyType_Lookup(&PyBaseObject_Type, interned(name))) return false;
            guard_type_attribute(s.type, interned(name), found);
        }
        return true;
    };
    if (shadows_[id].kind == Shadow::tensor) own_python_ = true; // Tensor.__hash__
    const bool constant_value = shadows_[id].kind == Shadow::constant && is_immutable(value);
    if (!constant_value && !by_identity(id)) return refuse(std::string("a ") + Py_TYPE(value)->tp_name + " in a set"), std::nullopt;
    const std::vector<ShadowId> parts = shadows_[set].parts;
    if (parts.size() > 32) return refuse("a set of more than 32 values"), std::nullopt;
    bool found = false;
    for (ShadowId part : parts) {
        const ShadowId other = canonical(part);
        if (other == id) found = true;
        else if (constant_value && shadows_[other].kind == Shadow::constant) {
            const int same = shadows_[other].real ? PyObject_RichCompareBool(shadows_[other].real, value, Py_EQ) : -1;
            if (same < 0) return PyErr_Clear(), refuse("values in a set that cannot be compared"), std::nullopt;
            found |= same == 1;
        } else if (!constant_value && shadows_[other].source != Guard::none_ && shadows_[id].source != Guard::none_ && !shadows_[other].identity && !shadows_[id].identity) {
            Guard g;
            g.kind = Guard::distinct;
            g.source = shadows_[id].source;
            g.other = shadows_[other].source;
            guard(g);
        }
    }
    return found;
}

/// set(), or a set of what is known.
Recording::Before Recording::call_set(Activation& a, const Call& c) {
    if (c.kwnames || c.args.size() > 1) return stop(a, "a set of an unusual call", "");
    if (c.args.empty()) return pend_fixed(fresh(NewObject::set, {}, &PySet_Type));
    PyObject* from = c.values[0];
    if (!PyTuple_CheckExact(from) && !PyList_CheckExact(from)) return stop(a, std::string("a set of the items of a ") + Py_TYPE(from)->tp_name, "");
    const auto items = items_of(c.args[0], from);
    return items ? build_set(a, *items, PySequence_Fast_ITEMS(from)) : stop_refused(a);
}

Recording::Before Recording::set_method(Activation& a, const Call& c, const char* name) {
    const ShadowId self = canonical(c.args[0]);
    if (shadows_[self].kind != Shadow::fresh || std::strcmp(name, "add") != 0 || c.args.size() != 2) return stop(a, std::string("the set method ") + name, "");
    const auto member = is_member(self, c.args[1], c.values[1]);
    if (!member) return stop_refused(a);
    if (!*member) shadows_[self].parts.push_back(canonical(c.args[1]));
    return pend_fixed(constant(Py_None));
}

} // namespace dyno::capture
