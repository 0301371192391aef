// Lists that change. One that was made here is its parts. Of one from outside a changed item or an added one is a store of its own; what moves
// items makes the segment follow all of them, and a commit stores what the list holds in the end.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {

constexpr Py_ssize_t followed_items = 256; // more are not read one by one in each replay

/// From here on the segment knows all items of a list from outside, in parts. False: it is too long.
bool Recording::follow_list(ShadowId id, PyObject* list) {
    if (shadows_[id].followed) return true;
    if (shadows_[id].kind != Shadow::object || shadows_[id].source == Guard::none_ || !PyList_CheckExact(list)) return refuse("a list of unknown origin is changed");
    const std::vector<ShadowId> added = added_items(id);
    const Py_ssize_t given = PyList_GET_SIZE(list) - static_cast<Py_ssize_t>(added.size());
    if (given < 0 || given > followed_items) return refuse("a list of more than 256 items is changed");
    // Its length is held: one that has grown again by the next call would be recorded each time.
    if (limits_.recordings_before >= (added.empty() ? 4 : 2)) return refuse("a list that has another length each time is followed as a whole");
    if (places_.try_emplace({id, 'l', nullptr, 0}, 0).second) guard_value(id, Guard::length, static_cast<uint32_t>(given));
    std::vector<ShadowId> items;
    for (Py_ssize_t k = 0; k < given; k++) items.push_back(read_index(id, k, PyList_GET_ITEM(list, k)));
    items.insert(items.end(), added.begin(), added.end());
    shadows_[id].parts = std::move(items);
    shadows_[id].followed = true;
    given_lengths_[id] = given;
    return true;
}

/// The items that have been added to a list from outside, as long as it is not followed.
std::vector<ShadowId> Recording::added_items(ShadowId id) const {
    std::vector<ShadowId> added;
    if (shadows_[id].followed || !shadows_[id].written) return added;
    for (const WrittenEffect& w : effects_)
        if (w.effect.kind == Effect::list_append && canonical(w.target) == id) added.push_back(w.value);
    return added;
}

/// len() of a list from outside that has grown here. One that grows from call to call has another length each time: it is a number that a
/// replay asks for. Nothing: the length is guarded, or will be.
std::optional<Recording::Before> Recording::length_of_grown(ShadowId id, PyObject* list) {
    const auto added = static_cast<Py_ssize_t>(added_items(id).size());
    if (added == 0 || places_.contains({id, 'l', nullptr, 0})) return std::nullopt;
    static PyObject* const len = PyDict_GetItemString(PyEval_GetBuiltins(), "len");
    given_lengths_[id] = PyList_GET_SIZE(list) - added;
    list_of_source_[shadows_[id].source] = id;
    const auto given = Owned<>::steal(PyLong_FromSsize_t(PyList_GET_SIZE(list) - added)), more = Owned<>::steal(PyLong_FromSsize_t(added)), now = Owned<>::steal(PyLong_FromSsize_t(PyList_GET_SIZE(list)));
    ScalarStep ask{}, add{};
    ask.kind = ScalarStep::call;
    ask.callable = anchor(len);
    add.kind = ScalarStep::binary; // +
    const ShadowId first = number_step(ask, {id}, given.get());
    return pend_fixed(number_step(add, {first, constant(more.get())}, now.get()));
}

/// A number that the length of a list is in is held to its value: so is the length that the list was given with.
void Recording::hold_length(uint32_t source) {
    const auto list = list_of_source_.find(source);
    if (list != list_of_source_.end() && places_.try_emplace({list->second, 'l', nullptr, 0}, 0).second) guard_value(list->second, Guard::length, static_cast<uint32_t>(given_lengths_.at(list->second)));
}

/// The items of a list that the instruction is about to move, add or drop; null if they cannot be followed (refusal() is set). Whatever else
/// the instruction needs is known before: the answer lies among the shadows.
std::vector<ShadowId>* Recording::items_to_change(Activation& a, ShadowId id, PyObject* list) {
    if (shadows_[id].kind == Shadow::fresh) {
        if (static_cast<Py_ssize_t>(shadows_[id].parts.size()) == PyList_GET_SIZE(list)) return &shadows_[id].parts;
        return refuse("a list that library code has changed"), nullptr;
    }
    if (!follow_list(id, list)) return nullptr;
    if (!contents_.contains(id)) {
        const ShadowId contents = fresh(NewObject::list, {}, &PyList_Type);
        contents_[id] = contents;
        note_store(a, Effect::list_contents, id, 0, contents);
    }
    return &shadows_[id].parts;
}

/// What the followed lists hold in the end.
void Recording::complete_contents() {
    for (const auto& [id, contents] : contents_) shadows_[contents].parts = shadows_[id].parts;
}

/// Whether one of the items from `from` on to `to` would run code as it goes.
bool Recording::drops_finaliser(PyObject* list, Py_ssize_t from, Py_ssize_t to) const {
    for (Py_ssize_t k = from; k < to; k++)
        if (has_finaliser(PyList_GET_ITEM(list, k))) return true;
    return false;
}

Recording::Before Recording::list_method(Activation& a, const Call& c, const char* name, Redirect& redirect, int popped) {
    const ShadowId self = canonical(c.args[0]);
    PyObject* list = c.values[0];
    const size_t n = c.args.size() - 1;
    auto is = [&](const char* one) { return std::strcmp(name, one) == 0; };
    if (is("append") && n == 1) return list_append(a, self, canonical(c.args[1]), list);
    if (is("extend") && n == 1) {
        if (!know(c.args[1], c.values[1])) return stop_refused(a);
        if (PyObject* function = is_generator(c.args[1]) ? consumer("extend") : nullptr) {
            identity_object(function);
            return redirect_to(a, function, c.args, c.values, popped, Redirect::identity, redirect);
        }
        return extend_list(a, self, list, c.args[1], c.values[1]);
    }
    if (is("insert") && n == 2) return insert_item(a, self, list, c);
    if (is("pop") && n <= 1) return pop_list_item(a, self, list, c);
    if (is("sort") && c.nargs == 1) return sort_list(a, self, list, c);
    if (is("copy") && n == 0) {
        auto items = items_of(self, list);
        return items ? pend_fixed(fresh(NewObject::list, std::move(*items), &PyList_Type)) : stop_refused(a);
    }
    if ((is("clear") || is("reverse")) && n == 0) {
        if (is("clear") && shadows_[self].kind != Shadow::fresh && drops_finaliser(list, 0, PyList_GET_SIZE(list))) return stop(a, "the store drops an object with a finaliser", "");
        std::vector<ShadowId>* items = items_to_change(a, self, list);
        if (!items) return stop_refused(a);
        if (is("clear")) items->clear();
        else std::reverse(items->begin(), items->end());
        return pend_fixed(constant(Py_None));
    }
    return stop(a, std::string("the list method ") + name, "");
}

Recording::Before Recording::list_append(Activation& a, ShadowId self, ShadowId value, PyObject* list) {
    if (shadows_[self].kind == Shadow::fresh || shadows_[self].followed) {
        if (static_cast<Py_ssize_t>(shadows_[self].parts.size()) != PyList_GET_SIZE(list)) return stop(a, "a list that library code has changed", "");
        shadows_[self].parts.push_back(value);
    } else if (shadows_[self].kind != Shadow::object) return stop(a, "a list of unknown origin grows", "");
    if (shadows_[self].kind != Shadow::fresh && !contents_.contains(self)) note_store(a, Effect::list_append, self, 0, value);
    return pend_fixed(constant(Py_None));
}

/// list.extend() and +=; the latter gives the list itself.
Recording::Before Recording::extend_list(Activation& a, ShadowId self, PyObject* list, ShadowId given, PyObject* from) {
    const auto items = items_left(given, from);
    if (!items) return stop_refused(a);
    for (ShadowId item : *items)
        if (!item) return stop(a, "a value of unknown origin is stored", "");
    if (shadows_[self].kind == Shadow::object && !shadows_[self].followed) { // as so many appends
        for (ShadowId item : *items) note_store(a, Effect::list_append, self, 0, item);
        return pend_fixed(constant(Py_None));
    }
    std::vector<ShadowId>* parts = items_to_change(a, self, list);
    if (!parts) return stop_refused(a);
    parts->insert(parts->end(), items->begin(), items->end());
    return pend_fixed(constant(Py_None));
}

Recording::Before Recording::insert_item(Activation& a, ShadowId self, PyObject* list, const Call& c) {
    PyObject* key = key_of(c.args[1], c.values[1]);
    if (!key || !PyLong_CheckExact(key)) return stop(a, "a list index that is not known before run time", "");
    const Py_ssize_t length = PyList_GET_SIZE(list);
    Py_ssize_t at = PyLong_AsSsize_t(key);
    if (PyErr_Occurred()) return PyErr_Clear(), stop(a, "a list index that is not known before run time", "");
    if (at < 0) at += length;
    std::vector<ShadowId>* items = items_to_change(a, self, list);
    if (!items) return stop_refused(a);
    items->insert(items->begin() + std::clamp<Py_ssize_t>(at, 0, length), canonical(c.args[2]));
    return pend_fixed(constant(Py_None));
}

Recording::Before Recording::pop_list_item(Activation& a, ShadowId self, PyObject* list, const Call& c) {
    const Py_ssize_t length = PyList_GET_SIZE(list);
    PyObject* key = c.args.size() == 1 ? nullptr : key_of(c.args[1], c.values[1]);
    if (c.args.size() > 1 && (!key || !PyLong_CheckExact(key))) return stop(a, "a list index that is not known before run time", "");
    Py_ssize_t at = key ? PyLong_AsSsize_t(key) : -1;
    if (PyErr_Occurred()) return PyErr_Clear(), stop(a, "a list index that is not known before run time", "");
    if (at < 0) at += length;
    if (at < 0 || at >= length) return stop(a, "pop() of an index that a list does not have", "");
    if (shadows_[self].kind != Shadow::fresh && has_finaliser(PyList_GET_ITEM(list, at))) return stop(a, "the store drops an object with a finaliser", "");
    std::vector<ShadowId>* items = items_to_change(a, self, list);
    if (!items) return stop_refused(a);
    const ShadowId item = (*items)[static_cast<size_t>(at)];
    items->erase(items->begin() + at);
    return pend_fixed(item);
}

/// list.sort() of what sorted() knows to sort.
Recording::Before Recording::sort_list(Activation& a, ShadowId self, PyObject* list, const Call& c) {
    for (size_t k = c.nargs; k < c.args.size(); k++) {
        PyObject* name = PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs));
        if (PyUnicode_CompareWithASCIIString(name, "reverse") != 0 || !know(c.args[k], c.values[k]) || !PyBool_Check(c.values[k]) || at(c.args[k]).kind != Shadow::constant) return stop(a, "sort() by a key", "");
    }
    const auto items = items_of(self, list);
    if (!items) return stop_refused(a);
    static PyObject* const sorted = PyDict_GetItemString(PyEval_GetBuiltins(), "sorted");
    auto order = sorted_items(a, *items, list, sorted, c);
    if (!order) return Before::stop;
    std::vector<ShadowId>* parts = items_to_change(a, self, list);
    if (!parts) return stop_refused(a);
    *parts = std::move(*order);
    return pend_fixed(constant(Py_None));
}

/// list[k] = value.
Recording::Before Recording::store_list_item(Activation& a, ShadowId id, PyObject* list, ShadowId key_id, PyObject* key, ShadowId v, PyObject* value) {
    PyObject* k = key_of(key_id, key);
    if (k && PySlice_Check(k)) return store_list_slice(a, id, list, k, v, value);
    if (!k || !PyLong_CheckExact(k)) return stop(a, "a list index that is not known before run time", "");
    const Py_ssize_t n = PyList_GET_SIZE(list);
    Py_ssize_t at_index = PyLong_AsSsize_t(k);
    if (at_index < 0) at_index += n;
    if (at_index < 0 || at_index >= n) {
        PyErr_Clear();
        return stop(a, "a list index out of range", "");
    }
    if (shadows_[id].kind == Shadow::fresh) {
        if (static_cast<Py_ssize_t>(shadows_[id].parts.size()) != n) return stop(a, "a list that library code has changed", "");
        shadows_[id].parts[static_cast<size_t>(at_index)] = v;
        return pend_stored();
    }
    if (shadows_[id].kind != Shadow::object) return stop(a, "a list of unknown origin is changed", "");
    if (has_finaliser(PyList_GET_ITEM(list, at_index))) return stop(a, "the store drops an object with a finaliser", "");
    if (!guard_length(id, list)) return stop(a, "a list that has grown is changed", "");
    if (shadows_[id].followed) shadows_[id].parts[static_cast<size_t>(at_index)] = v;
    else places_[{id, 'i', nullptr, at_index}] = v;
    return contents_.contains(id) ? pend_stored() : note_store(a, Effect::list_set, id, 0, v, at_index);
}

/// list[from:to] = values; del list[from:to]: `value` null.
Recording::Before Recording::store_list_slice(Activation& a, ShadowId id, PyObject* list, PyObject* slice, ShadowId v, PyObject* value) {
    Py_ssize_t from, to, step;
    if (PySlice_Unpack(slice, &from, &to, &step) < 0) return PyErr_Clear(), stop(a, "a slice that is not of integers", "");
    const Py_ssize_t count = PySlice_AdjustIndices(PyList_GET_SIZE(list), &from, &to, step);
    if (step != 1) return stop(a, "a slice of a list with a step is set", "");
    std::vector<ShadowId> stored;
    if (value) {
        if (!know(v, value)) return stop_refused(a);
        auto items = PyList_CheckExact(value) || PyTuple_CheckExact(value) ? items_of(v, value) : std::nullopt;
        if (!items) return stop(a, "a slice of a list is set to other things than a list or tuple", "");
        stored = std::move(*items);
    }
    if (shadows_[id].kind != Shadow::fresh && drops_finaliser(list, from, from + count)) return stop(a, "the store drops an object with a finaliser", "");
    std::vector<ShadowId>* items = items_to_change(a, id, list);
    if (!items) return stop_refused(a);
    items->erase(items->begin() + from, items->begin() + from + count);
    items->insert(items->begin() + from, stored.begin(), stored.end());
    return pend_stored();
}

/// del list[k].
Recording::Before Recording::delete_list_item(Activation& a, ShadowId id, PyObject* list, ShadowId key_id, PyObject* key) {
    PyObject* k = key_of(key_id, key);
    if (k && PySlice_Check(k)) return store_list_slice(a, id, list, k, 0, nullptr);
    if (!k || !PyLong_CheckExact(k)) return stop(a, "del of an item that is not known before run time", "");
    const Py_ssize_t n = PyList_GET_SIZE(list);
    Py_ssize_t at_index = PyLong_AsSsize_t(k);
    if (at_index < 0) at_index += n;
    if (PyErr_Occurred() || at_index < 0 || at_index >= n) return PyErr_Clear(), stop(a, "del of an index that a list does not have", "");
    if (shadows_[id].kind != Shadow::fresh && has_finaliser(PyList_GET_ITEM(list, at_index))) return stop(a, "the store drops an object with a finaliser", "");
    std::vector<ShadowId>* items = items_to_change(a, id, list);
    if (!items) return stop_refused(a);
    items->erase(items->begin() + at_index);
    return pend_stored();
}

} // namespace dyno::capture
