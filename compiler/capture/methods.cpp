// Methods of builtin types on known values: dict (lists.cpp has those of list), and the immutable ones (str, int, float, tuple, torch.Size).
// A method that is not modelled ends the segment; methods of other types are none of this file's business.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {
namespace {

bool is_modelled(PyTypeObject* type) {
    return type == &PyList_Type || type == &PyDict_Type || type == &PySet_Type || type == &PyTuple_Type || type == &PyUnicode_Type || type == &PyLong_Type ||
           type == &PyFloat_Type || type == names().torch_size || type == &PyContextVar_Type || (type == names().deque && type);
}

} // namespace

/// Nothing: the callable is no method that is modelled.
std::optional<Recording::Before> Recording::call_method(Activation& a, Call& c, Redirect& redirect, int popped) {
    if (Py_TYPE(c.callable) != &PyMethodDescr_Type || c.args.empty()) return std::nullopt;
    auto* d = reinterpret_cast<PyMethodDescrObject*>(c.callable);
    PyTypeObject* type = d->d_common.d_type;
    static constexpr const char* views[] = {"items", "keys", "values"};
    const bool record = is_derived(c.args[0]) && made_[canonical(c.args[0])].record && PyODict_Check(c.values[0]);
    const bool view_of_ordered = type == &PyODict_Type && (PyODict_CheckExact(c.values[0]) || record) && std::any_of(std::begin(views), std::end(views), [&](const char* v) { return std::strcmp(v, d->d_method->ml_name) == 0; });
    const bool kin = (type == &PyODict_Type || type == names().defaultdict) && made_dict(c.args[0]);
    if (!is_modelled(type) && !view_of_ordered && !kin) return std::nullopt;
    return call_known_method(a, c, type, d->d_method->ml_name, redirect, popped);
}

Recording::Before Recording::call_known_method(Activation& a, const Call& c, PyTypeObject* type, const char* name, Redirect& redirect, int popped) {
    if (!know(c.args[0], c.values[0])) return stop(a, refusal_, "");
    if (type == &PyContextVar_Type) return context_method(a, c, name);
    if (auto answer = ordered_method(a, c, name)) return *answer;
    if (c.kwnames && type != &PyUnicode_Type && !(type == &PyList_Type && std::strcmp(name, "sort") == 0)) return stop(a, "a method of a builtin type with keywords", "");
    if (type == &PyList_Type) return list_method(a, c, name, redirect, popped);
    if (type == names().deque) return deque_method(a, c, name, redirect, popped);
    if (type == &PyDict_Type && PyODict_Check(c.values[0]) && c.callable != _PyType_Lookup(Py_TYPE(c.values[0]), interned(name)) && made_dict(c.args[0]))
        return stop(a, "a dict's method of an OrderedDict, whose order it does not know", "");
    if (type == &PyDict_Type || type == &PyODict_Type || type == names().defaultdict) return dict_method(a, c, name);
    if (type == &PySet_Type) return set_method(a, c, name);
    if (all_constant(c)) return pend_constant();
    return stop(a, std::string("the method ") + name + " of a " + type->tp_name + " with run-time values", "");
}

Recording::Before Recording::dict_method(Activation& a, const Call& c, const char* name) {
    const size_t n = c.args.size() - 1;
    auto is = [&](const char* one) { return std::strcmp(name, one) == 0; };
    if (is("items")) return dict_view(a, c, IteratorShadow::dict_items);
    if (is("keys")) return dict_view(a, c, IteratorShadow::dict_keys);
    if (is("values")) return dict_view(a, c, IteratorShadow::dict_values);
    if (is("get") && (n == 1 || n == 2)) return dict_get(a, c);
    if (is("__getitem__") && n == 1 && at(c.args[0]).kind == Shadow::object) { // super().__getitem__ of a subclass
        PyObject* key = key_of(c.args[1], c.values[1]);
        if (key && is_immutable(key) && PyDict_GetItemWithError(c.values[0], key)) return dict_get(a, c);
    }
    if (at(c.args[0]).kind == Shadow::fresh) return fresh_dict_method(a, c, name);
    if (is("pop") && (n == 1 || n == 2) && at(c.args[0]).kind == Shadow::object && PyDict_CheckExact(c.values[0])) {
        PyObject* key = key_of(c.args[1], c.values[1]);
        if (!key || !is_immutable(key)) return stop(a, "a dict key that is not known before run time", "");
        if (PyDict_GetItemWithError(c.values[0], canonical_key(key))) return remove_item(a, canonical(c.args[0]), canonical_key(key), c.values[0], true);
        if (n == 2) return dict_get(a, c); // what is not there is not removed
        guard_absent_key(canonical(c.args[0]), key);
        return pend_raise(a, "a dict key that is missing");
    }
    if (is("update") && n == 1 && at(c.args[0]).kind == Shadow::object && PyDict_CheckExact(c.values[0])) return update_dict(a, c);
    if (is("setdefault") && (n == 1 || n == 2) && at(c.args[0]).kind == Shadow::object) {
        PyObject* key = key_of(c.args[1], c.values[1]);
        if (!key || !is_immutable(key)) return stop(a, "a dict key that is not known before run time", "");
        if (PyDict_GetItemWithError(c.values[0], canonical_key(key))) return dict_get(a, c);
        const ShadowId value = n == 2 ? canonical(c.args[2]) : constant(Py_None);
        guard_absent_key(canonical(c.args[0]), canonical_key(key));
        const Before stored = store_item(a, c.args[0], key, c.values[0], value);
        return stored == Before::perform ? pend_fixed(value) : stored;
    }
    return stop(a, std::string("the dict method ") + name, "");
}

/// d.update(mapping) of a dict from outside: so many stores.
Recording::Before Recording::update_dict(Activation& a, const Call& c) {
    const ShadowId self = canonical(c.args[0]);
    if (segment_.sources[shadows_[self].source].kind == Source::instance_dict) return stop(a, "a dict of unknown origin is changed", "");
    const auto pairs = dict_items(c.args[1], c.values[1]);
    if (!pairs) return stop_refused(a);
    for (size_t k = 0; k + 1 < pairs->size(); k += 2) { // before anything is stored
        PyObject* key = at((*pairs)[k]).kind == Shadow::constant ? at((*pairs)[k]).real : nullptr;
        if (!key || !is_immutable(key) || !(*pairs)[k + 1]) return stop(a, "a dict key that is not a constant", "");
        if (PyObject* old = PyDict_GetItemWithError(c.values[0], key); old && has_finaliser(old)) return stop(a, "the store drops an object with a finaliser", "");
    }
    for (size_t k = 0; k + 1 < pairs->size(); k += 2) store_item(a, self, at((*pairs)[k]).real, c.values[0], canonical((*pairs)[k + 1]));
    return pend_fixed(constant(Py_None));
}

/// A dict made here: pop, setdefault, update, copy, clear.
Recording::Before Recording::fresh_dict_method(Activation& a, const Call& c, const char* name) {
    const ShadowId self = canonical(c.args[0]);
    const size_t n = c.args.size() - 1;
    auto is = [&](const char* one) { return std::strcmp(name, one) == 0; };
    if (is("copy") && n == 0) {
        // A Counter's copy() is Python; dict.copy(counter) makes a dict.
        const bool kin = shadows_[self].type == &PyODict_Type || (factories_.contains(self) && Py_TYPE(c.callable) == &PyMethodDescr_Type && reinterpret_cast<PyMethodDescrObject*>(c.callable)->d_common.d_type != &PyDict_Type);
        const ShadowId copy = fresh(NewObject::dict, std::vector<ShadowId>(shadows_[self].parts), kin ? shadows_[self].type : &PyDict_Type);
        if (kin && factories_.contains(self)) factories_[copy] = ShadowId(factories_.at(self));
        return pend_fixed(copy);
    }
    if (is("popitem") && n == 0) return pop_item(a, self, true);
    if (is("clear") && n == 0) {
        shadows_[self].parts.clear();
        shadows_[self].changes++;
        return pend_fixed(constant(Py_None));
    }
    if (is("update") && n == 1) {
        if (!know(c.args[1], c.values[1])) return stop_refused(a);
        auto pairs = dict_items(c.args[1], c.values[1]);
        if (!pairs) return stop_refused(a);
        for (size_t k = 0; k + 1 < pairs->size(); k += 2)
            if (!set_fresh_dict_item(self, (*pairs)[k], (*pairs)[k + 1])) return stop(a, "a dict key that is not a constant", "");
        return pend_fixed(constant(Py_None));
    }
    if ((is("pop") || is("setdefault")) && (n == 1 || n == 2)) {
        PyObject* key = key_of(c.args[1], c.values[1]);
        if (!key || !is_immutable(key)) return stop(a, "a dict key that is not known before run time", "");
        key = canonical_key(key);
        const ShadowId found = fresh_dict_item(self, key);
        if (PyDict_GetItemWithError(c.values[0], key)) {
            if (!found) return stop(a, "a dict item of unknown origin", "");
            if (is("pop")) remove_fresh_dict_item(self, key);
            return pend_fixed(found);
        }
        if (n == 1 && is("pop")) return pend_raise(a, "a dict key that is missing");
        const ShadowId given = n == 2 ? canonical(c.args[2]) : constant(Py_None);
        if (is("setdefault") && !set_fresh_dict_item(self, canonical(c.args[1]), given)) return stop(a, "a dict key that is not a constant", "");
        return pend_fixed(given);
    }
    return stop(a, std::string("the dict method ") + name, "");
}

Recording::Before Recording::dict_view(Activation& a, const Call& c, IteratorShadow::Kind kind) {
    const ShadowId self = canonical(c.args[0]);
    auto pairs = is_derived(self) ? items_of_record(self, c.values[0]) : dict_items(self, c.values[0]);
    if (!pairs) return stop(a, refusal_, "");
    IteratorShadow it;
    it.kind = kind;
    it.bases = {self};
    it.items = std::move(*pairs);
    it.changes = shadows_[self].changes;
    if (PyODict_Check(c.values[0]))
        return pend_fixed(iterator(std::move(it), kind == IteratorShadow::dict_items ? &PyODictItems_Type : kind == IteratorShadow::dict_keys ? &PyODictKeys_Type : &PyODictValues_Type));
    PyTypeObject* type = kind == IteratorShadow::dict_items  ? &PyDictItems_Type
                         : kind == IteratorShadow::dict_keys ? &PyDictKeys_Type
                                                             : &PyDictValues_Type;
    return pend_fixed(iterator(std::move(it), type));
}

Recording::Before Recording::dict_get(Activation& a, const Call& c) {
    const ShadowId self = canonical(c.args[0]);
    PyObject* key = key_of(c.args[1], c.values[1]);
    if (!key || !is_immutable(key)) return stop(a, "a dict key that is not known before run time", "");
    key = canonical_key(key);
    if (PyObject* value = PyDict_GetItemWithError(c.values[0], key)) {
        if (shadows_[self].kind == Shadow::fresh) {
            const ShadowId v = fresh_dict_item(self, key);
            return v ? pend_fixed(v) : stop(a, "a dict item of unknown origin", "");
        }
        const ShadowId v = look_up(self, key, value);
        return v ? pend_fixed(v) : stop(a, refusal_, "");
    }
    if (shadows_[self].kind == Shadow::object) guard_absent_key(self, key);
    return pend_fixed(c.args.size() == 3 ? canonical(c.args[2]) : constant(Py_None));
}

} // namespace dyno::capture
