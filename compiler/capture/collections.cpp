// The containers of `collections` that are made in the segment: OrderedDict, defaultdict and Counter, which are dicts in nearly all that is
// asked of them here, and deque. Those that come from outside are not looked into.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {

/// A dict made here, or one of its kin.
bool Recording::made_dict(ShadowId given) const {
    const Shadow& s = shadows_[canonical(given)];
    return s.kind == Shadow::fresh && segment_.fresh[s.fresh_index].kind == NewObject::dict;
}
bool Recording::made_deque(ShadowId given) const {
    const Shadow& s = shadows_[canonical(given)];
    return s.kind == Shadow::fresh && names().deque && s.type == names().deque;
}

Recording::Before Recording::call_collection(Activation& a, Call& c, Redirect& redirect, int popped) {
    auto* type = reinterpret_cast<PyTypeObject*>(c.callable);
    if (type == names().deque) return make_deque(a, c);
    if (type == names().counter) return make_counter(a, c, redirect, popped);
    const bool defaults = type == names().defaultdict;
    const size_t first = defaults ? 1 : 0;
    if (defaults && c.nargs > 0 && c.values[0] != Py_None && !PyCallable_Check(c.values[0])) return stop(a, "a dict of an unusual call", "");
    if (!defaults && c.nargs == 1)
        if (auto answer = dict_of_pairs(a, c, "ordered_of", redirect, popped)) return *answer;
    const ShadowId d = fresh(NewObject::dict, {}, type);
    if (defaults) factories_[d] = c.nargs > 0 ? canonical(c.args[0]) : constant(Py_None);
    return fill_dict(c, d, first) ? pend_fixed(d) : stop_refused(a);
}

/// A mapping among the arguments and keywords, as dict() takes them from the argument `first` on.
bool Recording::fill_dict(const Call& c, ShadowId d, size_t first) {
    if (c.nargs > first + 1) return refuse("a dict of an unusual call");
    if (c.nargs == first + 1) {
        const auto pairs = dict_items(c.args[first], c.values[first]);
        if (!pairs) return false;
        at(d).parts = *pairs;
    }
    for (size_t k = c.nargs; k < c.args.size(); k++) {
        const ShadowId key = constant(PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs)));
        if (!set_fresh_dict_item(d, key, c.args[k])) return refuse("a dict key that is not a constant");
    }
    return true;
}

/// dict(zip(keys, values)), dict([(key, value), ...]): the pairs are stored one by one, in Python. Nothing: the argument may hold other things
/// than pairs, which dict() has words of its own for.
std::optional<Recording::Before> Recording::dict_of_pairs(Activation& a, const Call& c, const char* consumer_name, Redirect& redirect, int popped) {
    if (c.nargs != 1 || c.args.size() != 1) return std::nullopt;
    const ShadowId id = canonical(c.args[0]);
    PyObject* from = c.values[0];
    bool pairs = false;
    if (shadows_[id].kind == Shadow::iterator) {
        const IteratorShadow& it = iterators_[iterator_of_.at(id)];
        pairs = (it.kind == IteratorShadow::zip && it.bases.size() == 2) || it.kind == IteratorShadow::enumerate || it.kind == IteratorShadow::dict_items;
    } else if (PyList_CheckExact(from) || PyTuple_CheckExact(from)) {
        const auto items = items_of(id, from);
        if (!items) return stop_refused(a);
        pairs = true;
        for (size_t k = 0; k < items->size() && pairs; k++) {
            PyObject* pair = PySequence_Fast_GET_ITEM(from, static_cast<Py_ssize_t>(k));
            pairs = (PyTuple_CheckExact(pair) || PyList_CheckExact(pair)) && PySequence_Fast_GET_SIZE(pair) == 2;
        }
    }
    PyObject* function = pairs ? consumer(consumer_name) : nullptr;
    if (!function) return std::nullopt;
    identity_object(function);
    return redirect_to(a, function, c.args, c.values, popped, Redirect::identity, redirect);
}

/// d[key] of a key that a dict made here lacks. Nothing: it raises KeyError.
std::optional<Recording::Before> Recording::missing_item(Activation& a, ShadowId id, PyObject* object, ShadowId key_id, PyObject* key, Redirect& redirect) {
    if (names().counter && shadows_[id].type == names().counter) {
        own_python_ = true; // its __missing__, which is guarded
        return pend_constant();
    }
    const auto made_by = factories_.find(id);
    if (made_by == factories_.end()) return std::nullopt;
    const auto held = Owned<>::steal(PyObject_GetAttrString(object, "default_factory"));
    PyObject* factory = held.get(); // the dict has it
    if (!factory) PyErr_Clear();
    if (factory == Py_None) return std::nullopt;
    PyObject* function = factory ? consumer("missing") : nullptr;
    if (!function) return stop(a, "a dict key that is missing", "");
    identity_object(function);
    return redirect_to(a, function, {id, canonical(key_id), made_by->second}, {object, key, factory}, 2, Redirect::identity, redirect);
}

/// What only an OrderedDict made here has. Nothing: it is none of its methods.
std::optional<Recording::Before> Recording::ordered_method(Activation& a, const Call& c, const char* name) {
    const ShadowId self = canonical(c.args[0]);
    const bool moves = std::strcmp(name, "move_to_end") == 0;
    if (!made_dict(self) || shadows_[self].type != &PyODict_Type || (!moves && std::strcmp(name, "popitem") != 0)) return std::nullopt;
    const size_t flag = moves ? 2 : 1;
    const bool named = c.kwnames && PyTuple_GET_SIZE(c.kwnames) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c.kwnames, 0), "last") == 0;
    if (c.args.size() > flag + 1 || (moves && c.nargs < 2) || (c.kwnames && !named)) return stop(a, std::string("the dict method ") + name, "");
    bool last = true;
    if (c.args.size() == flag + 1) {
        if (!PyBool_Check(c.values[flag]) || !key_of(c.args[flag], c.values[flag])) return stop(a, std::string("the dict method ") + name, "");
        last = c.values[flag] == Py_True;
    }
    std::vector<ShadowId>& parts = shadows_[self].parts;
    if (!moves) return pop_item(a, self, last);
    PyObject* key = key_of(c.args[1], c.values[1]);
    if (!key || !is_immutable(key)) return stop(a, "a dict key that is not known before run time", "");
    key = canonical_key(key);
    for (size_t k = 0; k + 1 < parts.size(); k += 2) {
        if (!at(parts[k]).real || canonical_key(at(parts[k]).real) != key) continue;
        const auto pair = parts.begin() + static_cast<long>(k);
        if (last) std::rotate(pair, pair + 2, parts.end());
        else std::rotate(parts.begin(), pair, pair + 2);
        shadows_[self].changes++;
        return pend_fixed(constant(Py_None));
    }
    return pend_raise(a, "a dict key that is missing");
}

/// popitem() of a dict made here.
Recording::Before Recording::pop_item(Activation& a, ShadowId self, bool last) {
    std::vector<ShadowId>& parts = shadows_[self].parts;
    if (parts.empty()) return pend_raise(a, "popitem() of an empty dict");
    const auto pair = last ? parts.end() - 2 : parts.begin();
    std::vector<ShadowId> item{pair[0], pair[1]};
    parts.erase(pair, pair + 2);
    shadows_[self].changes++;
    return pend_fixed(fresh(NewObject::tuple, std::move(item), &PyTuple_Type));
}

// ------------------------------------------------------------------------------------------------ Counter
/// Its __init__ is Python and is followed; what it does not define is dict's, which guards hold.
Recording::Before Recording::make_counter(Activation& a, Call& c, Redirect& redirect, int popped) {
    PyTypeObject* type = names().counter;
    for (const char* name : {"__new__", "__getitem__", "__setitem__", "__len__", "__iter__", "__contains__", "get", "items"}) {
        PyObject* found = _PyType_Lookup(type, interned(name));
        if (found != _PyType_Lookup(&PyDict_Type, interned(name))) return stop(a, "a Counter that was changed", "");
        guard_type_attribute(type, interned(name), found);
    }
    PyObject *init = _PyType_Lookup(type, interned("__init__")), *missing = _PyType_Lookup(type, interned("__missing__"));
    for (PyObject* method : {init, missing})
        if (!method || !PyFunction_Check(method) || !names().is_library_code(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method)))) return stop(a, "a Counter that was changed", "");
    guard_type_attribute(type, interned("__init__"), init);
    guard_type_attribute(type, interned("__missing__"), missing);
    guard_type_attribute(type, interned("__bool__"), _PyType_Lookup(type, interned("__bool__")));
    const auto nothing = Owned<>::steal(PyTuple_New(0));
    PyObject* object = nothing ? type->tp_new(type, nothing.get(), nullptr) : nullptr;
    if (!object) return PyErr_Clear(), stop(a, "out of memory", "");
    return call_init(a, init, fresh(NewObject::dict, {}, type), object, c, redirect, popped);
}

/// collections._count_elements(counter, iterable), which Counter.update calls. Nothing: it is another function.
std::optional<Recording::Before> Recording::count_elements(Activation& a, PyObject* function, const Call& c) {
    if (!PyCFunction_CheckExact(function) || c.args.size() != 2 || c.kwnames) return std::nullopt;
    auto* f = reinterpret_cast<PyCFunctionObject*>(function);
    if (std::strcmp(f->m_ml->ml_name, "_count_elements") != 0 || !f->m_module || PyUnicode_CompareWithASCIIString(f->m_module, "_collections") != 0) return std::nullopt;
    const ShadowId self = canonical(c.args[0]);
    PyObject* from = c.values[1];
    if (!know(c.args[1], from)) return stop_refused(a);
    if (!made_dict(self) || shadows_[self].type != names().counter || !(PyList_CheckExact(from) || PyTuple_CheckExact(from) || PyUnicode_CheckExact(from))) return stop(a, "a Counter of run-time values", "");
    const auto items = items_of(c.args[1], from);
    if (!items) return stop_refused(a);
    if (items->size() > 4096) return stop(a, "a sequence of more than 4,096 items", "");
    std::vector<std::pair<ShadowId, ShadowId>> stores; // none is made before all are known
    std::unordered_map<PyObject*, Owned<>> counts;
    for (size_t k = 0; k < items->size(); k++) {
        const ShadowId item = canonical((*items)[k]);
        PyObject* key = key_of(item, PyUnicode_CheckExact(from) ? at(item).real : PySequence_Fast_GET_ITEM(from, static_cast<Py_ssize_t>(k)));
        if (!key || !is_immutable(key)) return stop(a, "a Counter of run-time values", "");
        key = canonical_key(key);
        auto [count, first] = counts.try_emplace(key);
        if (first) {
            const ShadowId known = fresh_dict_item(self, key);
            PyObject* before = known ? at(known).real : nullptr;
            if (known && (at(known).kind != Shadow::constant || !before || !PyLong_CheckExact(before))) return stop(a, "a Counter of run-time values", "");
            count->second = known ? Owned<>::borrow(before) : Owned<>::steal(PyLong_FromLong(0));
        }
        const auto one = Owned<>::steal(PyLong_FromLong(1));
        count->second = Owned<>::steal(PyNumber_Add(count->second.get(), one.get()));
        if (!count->second) return PyErr_Clear(), stop(a, "a Counter of run-time values", "");
        stores.emplace_back(item, constant(count->second.get()));
    }
    for (const auto& [key, value] : stores) set_fresh_dict_item(self, key, value);
    return pend_fixed(constant(Py_None));
}

// ------------------------------------------------------------------------------------------------ deque
Recording::Before Recording::make_deque(Activation& a, const Call& c) {
    ShadowId iterable = 0;
    PyObject *from = nullptr, *most = nullptr;
    for (size_t k = 0; k < c.args.size(); k++) {
        PyObject* name = k < c.nargs ? nullptr : PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs));
        if (name ? PyUnicode_CompareWithASCIIString(name, "iterable") == 0 : k == 0) iterable = canonical(c.args[k]), from = c.values[k];
        else if (name ? PyUnicode_CompareWithASCIIString(name, "maxlen") == 0 : k == 1) most = key_of(c.args[k], c.values[k]);
        else return stop(a, "a deque of an unusual call", "");
        if (!from && !most) return stop(a, "a deque of an unusual call", "");
    }
    const bool bounded = most && most != Py_None;
    const Py_ssize_t bound = bounded && PyLong_CheckExact(most) ? PyLong_AsSsize_t(most) : -1;
    if (bounded && bound < 0) return PyErr_Clear(), stop(a, "a deque of an unusual call", "");
    std::vector<ShadowId> parts;
    if (iterable) {
        auto items = items_left(iterable, from);
        if (!items) return stop_refused(a);
        parts = std::move(*items);
        if (bounded && static_cast<Py_ssize_t>(parts.size()) > bound) parts.erase(parts.begin(), parts.end() - bound);
    }
    const ShadowId deque = fresh(NewObject::list, std::move(parts), names().deque);
    bounds_[deque] = bound;
    return pend_fixed(deque);
}

/// Adds one item to a deque, which drops one at the other end where it is full.
void Recording::push_to_deque(ShadowId deque, ShadowId value, bool left) {
    std::vector<ShadowId>& parts = shadows_[deque].parts;
    parts.insert(left ? parts.begin() : parts.end(), canonical(value));
    const int64_t bound = bounds_.at(deque);
    if (bound >= 0 && static_cast<int64_t>(parts.size()) > bound) parts.erase(left ? parts.end() - 1 : parts.begin());
    shadows_[deque].changes++;
}

/// The place in a deque that a key says; -1: it is none.
Py_ssize_t Recording::place_in_deque(ShadowId deque, ShadowId key_id, PyObject* key) {
    PyObject* k = key_of(key_id, key);
    if (!k || !PyLong_CheckExact(k)) return -1;
    const auto length = static_cast<Py_ssize_t>(shadows_[deque].parts.size());
    Py_ssize_t place = PyLong_AsSsize_t(k);
    if (PyErr_Occurred()) return PyErr_Clear(), -1;
    if (place < 0) place += length;
    return place < length ? std::max<Py_ssize_t>(place, -1) : -1;
}

Recording::Before Recording::deque_method(Activation& a, const Call& c, const char* name, Redirect& redirect, int popped) {
    const ShadowId self = canonical(c.args[0]);
    const size_t n = c.args.size() - 1;
    auto is = [&](const char* one) { return std::strcmp(name, one) == 0; };
    const auto none = [&] { return pend_fixed(constant(Py_None)); };
    if (!made_deque(self) || c.kwnames) return stop(a, std::string("the deque method ") + name, "");
    std::vector<ShadowId>& parts = shadows_[self].parts;
    if ((is("append") || is("appendleft")) && n == 1) return push_to_deque(self, c.args[1], is("appendleft")), none();
    if ((is("extend") || is("extendleft")) && n == 1) {
        if (!know(c.args[1], c.values[1])) return stop_refused(a);
        if (PyObject* function = is("extend") && is_generator(c.args[1]) ? consumer("extend") : nullptr) {
            identity_object(function);
            return redirect_to(a, function, c.args, c.values, popped, Redirect::identity, redirect);
        }
        const auto items = items_left(c.args[1], c.values[1]);
        if (!items) return stop_refused(a);
        for (ShadowId item : *items) push_to_deque(self, item, is("extendleft"));
        return none();
    }
    if ((is("pop") || is("popleft")) && n == 0) {
        if (parts.empty()) return pend_raise(a, "pop() of an empty deque");
        const ShadowId item = is("pop") ? parts.back() : parts.front();
        parts.erase(is("pop") ? parts.end() - 1 : parts.begin());
        shadows_[self].changes++;
        return pend_fixed(item);
    }
    if (is("copy") && n == 0) {
        const ShadowId copy = fresh(NewObject::list, std::vector<ShadowId>(parts), names().deque);
        bounds_[copy] = bounds_.at(self);
        return pend_fixed(copy);
    }
    if (is("reverse") && n == 0) return std::reverse(parts.begin(), parts.end()), shadows_[self].changes++, none();
    if (is("clear") && n == 0) return parts.clear(), shadows_[self].changes++, none();
    if (is("rotate") && n <= 1) {
        PyObject* by = n ? key_of(c.args[1], c.values[1]) : nullptr;
        const Py_ssize_t steps = n ? (by && PyLong_CheckExact(by) ? PyLong_AsSsize_t(by) : PY_SSIZE_T_MAX) : 1;
        const auto length = static_cast<Py_ssize_t>(parts.size());
        if (PyErr_Occurred() || steps == PY_SSIZE_T_MAX) return PyErr_Clear(), stop(a, std::string("the deque method ") + name, "");
        shadows_[self].changes++;
        if (length > 1) std::rotate(parts.begin(), parts.begin() + (length - ((steps % length) + length) % length) % length, parts.end());
        return none();
    }
    return stop(a, std::string("the deque method ") + name, "");
}

} // namespace dyno::capture
