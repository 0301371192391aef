// Iterators and loops: over sequences, dicts, ranges, rows of tensors, and iterators over iterators.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"

namespace dyno::capture {
using bytecode::Op;

/// An iterator over a value made or read here; 0 if we do not follow it (refusal() is set).
ShadowId Recording::iterate(ShadowId given, PyObject* object) {
    const ShadowId id = canonical(given);
    IteratorShadow it;
    if (shadows_[id].kind == Shadow::iterator) {
        const IteratorShadow& mine = iterators_[iterator_of_[id]];
        if (is_of_dict(mine) || PyRange_Check(object)) {
            it = mine; // a view or a range: its iterator starts anew
            it.position = 0;
            return view_again(it) ? iterator(std::move(it), nullptr) : 0;
        }
        if (mine.kind == IteratorShadow::generator) return refuse("a generator object that library code goes through"), 0;
        return id;
    }
    if (shadows_[id].kind == Shadow::tensor) {
        if ((it.length = rows_of_tensor(id)) < 0) return refuse("the rows of a tensor of unknown size"), 0;
        it.kind = IteratorShadow::rows;
        it.bases = {id};
        return iterator(std::move(it), nullptr);
    }
    if (PyDict_CheckExact(object) || made_dict(id)) {
        auto pairs = dict_items(id, object);
        if (!pairs) return 0;
        it.kind = IteratorShadow::dict_keys;
        it.bases = {id};
        it.items = std::move(*pairs);
    } else {
        auto items = items_of(id, object);
        if (!items) return 0;
        it.kind = IteratorShadow::sequence;
        it.bases = {id};
        it.items = std::move(*items);
    }
    it.changes = shadows_[id].changes;
    return iterator(std::move(it), nullptr);
}

/// A view shows what its dict holds now. False: that is not known.
bool Recording::view_again(IteratorShadow& it) {
    if (!is_of_dict(it)) return true;
    const ShadowId base = canonical(it.bases[0]);
    if (shadows_[base].kind == Shadow::object && shadows_[base].written) return refuse("a view of a dict that was changed");
    if (shadows_[base].kind == Shadow::fresh) it.items = shadows_[base].parts;
    it.changes = shadows_[base].changes;
    return true;
}

/// How many items there are now to go through in all.
int64_t Recording::items_now(const IteratorShadow& it) const {
    if (it.kind == IteratorShadow::range || it.kind == IteratorShadow::rows) return it.length;
    if (is_of_dict(it)) return static_cast<int64_t>(it.items.size() / 2);
    const Shadow* base = it.bases.empty() ? nullptr : &shadows_[canonical(it.bases[0])];
    if (it.kind == IteratorShadow::sequence && base && base->type == &PyList_Type && (base->kind == Shadow::fresh || base->followed)) return static_cast<int64_t>(base->parts.size());
    return static_cast<int64_t>(it.items.size());
}

/// The k-th item as it is now: lists and dicts are read when it is asked for. 0: not known.
ShadowId Recording::item_now(const IteratorShadow& it, int64_t k) {
    const auto index = static_cast<size_t>(k);
    const ShadowId base = it.bases.empty() ? 0 : canonical(it.bases[0]);
    const bool list = base && shadows_[base].type == &PyList_Type && (shadows_[base].kind == Shadow::fresh || shadows_[base].kind == Shadow::object);
    if (is_of_dict(it)) {
        const ShadowId key = it.items[2 * index];
        if (it.kind == IteratorShadow::dict_keys) return key;
        ShadowId value = it.items[2 * index + 1];
        if (shadows_[base].kind == Shadow::fresh) value = shadows_[base].changes == it.changes ? shadows_[base].parts[2 * index + 1] : 0;
        else if (shadows_[base].kind == Shadow::object) value = read_item(base, at(key).real, Py_None); // has a place since the keys were read
        return it.kind == IteratorShadow::dict_values || !value ? value : fresh(NewObject::tuple, {key, value}, &PyTuple_Type);
    }
    const bool deque = base && made_deque(base);
    if (!list && !deque) return it.items[index];
    const int64_t place = it.kind == IteratorShadow::reversed ? static_cast<int64_t>(it.items.size()) - 1 - k : k;
    if (shadows_[base].kind == Shadow::object && !shadows_[base].followed) return read_index(base, place, Py_None); // likewise
    const std::vector<ShadowId>& now = shadows_[base].parts;
    if (shadows_[base].changes != it.changes) return 0; // a deque's iterator raises
    return place < static_cast<int64_t>(now.size()) ? now[static_cast<size_t>(place)] : 0;
}

/// Moves on: the next element's shadow, or nothing at the end.
std::optional<ShadowId> Recording::next_of(ShadowId given) {
    const uint32_t index = iterator_of_.at(canonical(given));
    IteratorShadow& it = iterators_[index];
    if (it.kind == IteratorShadow::reversed) own_python_ = true; // over a list of modules it asks their __len__ and __getitem__
    switch (it.kind) {
    case IteratorShadow::range: {
        if (it.position >= it.length) return std::nullopt;
        auto number = Owned<>::steal(PyLong_FromLongLong(it.start + it.position * it.step));
        it.position++;
        return constant(number.get());
    }
    case IteratorShadow::rows: {
        if (it.position >= it.length) return std::nullopt;
        const ShadowId base = it.bases[0];
        const int64_t k = it.position++;
        return row_of_tensor(base, k);
    }
    case IteratorShadow::enumerate: {
        const int64_t count = it.start + it.position;
        const ShadowId base = it.bases[0];
        auto element = next_of(base);
        if (!element) return std::nullopt;
        iterators_[index].position++;
        auto number = Owned<>::steal(PyLong_FromLongLong(count));
        const ShadowId k = constant(number.get());
        return fresh(NewObject::tuple, {k, *element}, &PyTuple_Type);
    }
    case IteratorShadow::zip: {
        std::vector<ShadowId> parts;
        for (ShadowId base : std::vector<ShadowId>(it.bases)) {
            auto element = next_of(base);
            if (!element) return std::nullopt;
            parts.push_back(*element);
        }
        if (parts.empty()) return std::nullopt;
        iterators_[index].position++;
        return fresh(NewObject::tuple, std::move(parts), &PyTuple_Type);
    }
    default: {
        if (const ShadowId base = it.bases.empty() ? 0 : canonical(it.bases[0]); base && shadows_[base].type == &PyList_Type && shadows_[base].kind == Shadow::object && !added_items(base).empty())
            follow_list(base, shadows_[base].real);
        if (it.ended || it.position >= items_now(it)) {
            it.ended = true;
            return std::nullopt;
        }
        const IteratorShadow mine = it; // what is read may make iterators
        iterators_[index].position++;
        return item_now(mine, mine.position);
    }
    }
}
int64_t Recording::turns_of(ShadowId given) {
    const IteratorShadow& it = iterators_[iterator_of_.at(canonical(given))];
    if (it.kind == IteratorShadow::enumerate) return turns_of(it.bases[0]);
    if (it.kind == IteratorShadow::zip) {
        int64_t least = INT64_MAX;
        for (ShadowId b : it.bases) least = std::min(least, turns_of(b));
        return it.bases.empty() ? 0 : least;
    }
    return it.ended ? 0 : std::max<int64_t>(0, items_now(it) - it.position);
}

Recording::Before Recording::get_iter(Activation& a, const Instruction& i, Redirect& redirect) {
    (void)i;
    PyObject* object = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 1);
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    if (is_generator(id)) return pend_fixed(id);
    if (shadows_[id].kind == Shadow::tensor) {
        own_python_ = true; // Tensor.__iter__
        const int64_t rows = rows_of_tensor(id);
        if (rows < 0 || rows > static_cast<int64_t>(limits_.unrolled_turns)) return stop(a, "a loop over the rows of a tensor or array", "");
        if (needs_autograd({id})) return stop(a, "needs autograd", "call it under torch.no_grad() to have it compiled");
    }
    if (shadows_[id].kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(object)) && !module_items(id, object) && !is_named_tuple(object)) {
        PyObject* found = _PyType_Lookup(Py_TYPE(object), interned("__iter__"));
        guard_type_attribute(Py_TYPE(object), interned("__iter__"), found);
        if (found && PyFunction_Check(found) && !(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(found))->co_flags & CO_GENERATOR)) {
            identity_object(found);
            return redirect_to(a, found, {id}, {object}, 1, Redirect::identity, redirect);
        }
        return stop(a, std::string("a loop over a ") + Py_TYPE(object)->tp_name, "");
    }
    const ShadowId it = iterate(id, object);
    return it ? pend_fixed(it) : stop_refused(a);
}

Recording::Before Recording::for_iter(Activation& a, const Instruction& i, Redirect& redirect) {
    const ShadowId id = canonical(a.shadow(a.sp - 1));
    const int header = a.at - i.prefix;
    if (!id || shadows_[id].kind != Shadow::iterator) return cut(a);
    auto& turns = header_turns_[header + static_cast<int>(reinterpret_cast<uintptr_t>(a.frame) % 1000003) * 4096];
    if (is_generator(id) && generator_of(id).state == Generator::ended) return pend_fixed(0); // it only says so again
    if (is_generator(id)) return ++turns > 256 ? cut(a) : resume(a, id, a.sp[-1], 0, redirect);
    if (turns == 0 && turns_of(id) > static_cast<int64_t>(limits_.unrolled_turns)) return cut(a);
    if (++turns > 4096) return cut(a);
    auto element = next_of(id);
    pending_ = PendingKind::iterator_next;
    pending_shadow_ = element.value_or(0);
    if (!element) header_turns_.erase(header + static_cast<int>(reinterpret_cast<uintptr_t>(a.frame) % 1000003) * 4096);
    return Before::perform;
}
ShadowId Recording::finish_iterator(PyObject* result) { return result ? pending_shadow_ : 0; }

} // namespace dyno::capture
