// The commit phase: Python stores, then elements of in-place targets, then version counters. Preparation checks all that could fail or reach
// user code; the stores themselves keep what they replace, so that nothing dies before the last of them and all can be undone.
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_door.h"
#include "compiler/python/versions.h"
#include "compiler/replay/run_state.h"
#include <cstring>

namespace dyno::replay {

using capture::Effect;

namespace {

[[noreturn]] void refuse() { throw ComputeFailed(); }
void require(bool condition) {
    if (!condition) refuse();
}

/// Hashing and comparing such a key runs no user code.
bool plain_key(PyObject* key) {
    PyTypeObject* type = Py_TYPE(key);
    if (type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
            if (!plain_key(PyTuple_GET_ITEM(key, i))) return false;
        return true;
    }
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyBytes_Type || key == Py_None ||
           type->tp_hash == PyBaseObject_Type.tp_hash;
}

/// Its death would run user code at once: a finaliser, or the callback of a weak reference.
bool dies_loudly(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (type->tp_finalize || type->tp_del) return true;
    if (!type->tp_weaklistoffset) return false;
    auto* list = *reinterpret_cast<PyWeakReference**>(reinterpret_cast<char*>(object) + type->tp_weaklistoffset);
    for (; list; list = list->wr_next)
        if (list->wr_callback) return true;
    return false;
}

/// The instance's own attribute can be stored by name, past no descriptor.
bool stores_attribute(PyObject* target, PyObject* name) {
    PyTypeObject* type = Py_TYPE(target);
    if (PyType_Check(target) || !PyUnicode_CheckExact(name)) return false;
    PyObject* found = _PyType_Lookup(type, name);
    if (found && Py_TYPE(found)->tp_descr_set) return python::slot_offset(type, name) >= 0;
    return type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
}

PyObject* item_of(PyObject* dict, PyObject* key) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (!value && PyErr_Occurred()) refuse();
    return value;
}

/// What the store will replace, borrowed; null if nothing.
PyObject* present_value(const Effect& effect, PyObject* target, PyObject* key, Py_ssize_t index) {
    switch (effect.kind) {
    case Effect::dict_set: case Effect::dict_remove: return item_of(target, key);
    case Effect::list_set: return index < PyList_GET_SIZE(target) ? PyList_GET_ITEM(target, index) : nullptr;
    case Effect::attribute_set: case Effect::attribute_remove: {
        const bool in_slot = python::slot_offset(Py_TYPE(target), key) >= 0; // which goes before the dict
        return in_slot ? python::slotted_attribute(target, key) : python::instance_attribute(target, key);
    }
    case Effect::cell_set: return PyCell_GET(target);
    default: return nullptr;
    }
}

/// Of what `list` holds now, nothing that `kept` lacks dies loudly.
bool drops_quietly(PyObject* list, PyObject* kept) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
        PyObject* item = PyList_GET_ITEM(list, i);
        bool stays = !dies_loudly(item);
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(kept) && !stays; ++k) stays = PyList_GET_ITEM(kept, k) == item;
        if (!stays) return false;
    }
    return true;
}

bool is_plain_iterator(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyRangeIter_Type;
}

/// The last axis with a unit stride on both sides is copied as one piece.
void copy_elements(char* to, const char* from, const int64_t* dims, const int64_t* to_strides, const int64_t* from_strides, int ndim, int64_t element) {
    if (ndim == 0) {
        std::memcpy(to, from, static_cast<size_t>(element));
        return;
    }
    if (ndim == 1 && to_strides[0] == 1 && from_strides[0] == 1) {
        std::memcpy(to, from, static_cast<size_t>(dims[0] * element));
        return;
    }
    for (int64_t i = 0; i < dims[0]; ++i)
        copy_elements(to + i * to_strides[0] * element, from + i * from_strides[0] * element, dims + 1, to_strides + 1, from_strides + 1, ndim - 1, element);
}

std::vector<int64_t> dense_strides(const int64_t* dims, int ndim) {
    std::vector<int64_t> strides(static_cast<size_t>(ndim));
    int64_t next = 1;
    for (int i = ndim; i-- > 0; next *= dims[i]) strides[static_cast<size_t>(i)] = next;
    return strides;
}

} // namespace

Commit::~Commit() {
    for (Store& store : stores_)
        for (PyObject* object : {store.target, store.key, store.value, store.old}) Py_XDECREF(object);
}

void Commit::prepare() {
    for (const Effect& effect : run_.plan.segment.effects) {
        if (effect.kind == Effect::inplace) prepare_inplace(effect);
        else prepare_store(effect);
    }
    run_.old_values.reserve(stores_.size());
}

void Commit::prepare_store(const Effect& effect) {
    PyObject* target = run_.value(effect.target);
    PyObject* key = run_.value_or_null(effect.key);
    PyObject* value = run_.value_or_null(effect.value);
    Py_ssize_t index = static_cast<Py_ssize_t>(effect.position);
    switch (effect.kind) {
    case Effect::dict_set: require(PyDict_CheckExact(target) && key && plain_key(key) && value); break;
    case Effect::dict_remove: require(PyDict_CheckExact(target) && key && plain_key(key)); break;
    case Effect::list_set:
        if (key) index = PyNumber_AsSsize_t(key, nullptr);
        require(PyList_CheckExact(target) && value && index >= 0 && !PyErr_Occurred());
        break;
    case Effect::list_append: require(PyList_CheckExact(target) && value); break;
    case Effect::list_contents: require(PyList_CheckExact(target) && value && PyList_CheckExact(value) && drops_quietly(target, value)); break;
    case Effect::attribute_set: require(key && value && stores_attribute(target, key)); break;
    case Effect::attribute_remove: require(key && stores_attribute(target, key)); break;
    case Effect::cell_set: require(PyCell_Check(target)); break;
    case Effect::bump: require(python::is_plain_tensor(target)); break;
    case Effect::iterator_advance: require(is_plain_iterator(target)); break;
    case Effect::inplace: break;
    }
    PyObject* old = present_value(effect, target, key, index);
    if (old) require(!dies_loudly(old));
    stores_.push_back({&effect, Py_NewRef(target), Py_XNewRef(key), Py_XNewRef(value), nullptr, index});
}

void Commit::prepare_inplace(const Effect& effect) {
    const LaunchPlan& plan = run_.plan;
    const uint32_t memory = plan.memory_of_source[effect.target.index];
    const InputMemory& target = plan.memories[memory];
    const capture::ArrayFacts& facts = *target.facts;
    const bool on_device = facts.device_type == python::device_cuda;
    require((facts.device_type == python::device_cpu || on_device) && (!target.numpy || facts.writeable));
    Copy copy{&effect, run_.sources[effect.target.index], static_cast<char*>(run_.data[memory]), nullptr, facts.sizes.data(), facts.strides.data(), nullptr,
              static_cast<int>(facts.sizes.size()), size_of(facts.dtype)};
    const std::vector<int64_t>*dims = nullptr, *strides = nullptr;
    bool ours = false;
    require(effect.value.kind == capture::ValueRef::node && effect.value.index < plan.product_node.size());
    const auto& buffers = plan.product.schedule.buffers;
    for (uint32_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].node.index != plan.product_node[effect.value.index]) continue;
        require(buffers[b].dtype == facts.dtype);
        copy.from = static_cast<const char*>(run_.buffer(b));
        dims = &buffers[b].dims, strides = &buffers[b].strides;
        ours = buffers[b].kind == fusion::Buffer::object || buffers[b].kind == fusion::Buffer::temporary;
        break;
    }
    if (!copy.from) { // the value of another input, as it was at entry
        for (uint32_t i = 0; i < plan.product.graph.inputs.size(); ++i) {
            if (plan.product.graph.inputs[i].node.index != plan.product_node[effect.value.index]) continue;
            const InputMemory& source = plan.memories[plan.memory_of_input[i]];
            require(source.facts && source.facts->dtype == facts.dtype && source.facts->device_type == python::device_cpu && !on_device);
            copy.from = static_cast<const char*>(run_.data[plan.memory_of_input[i]]);
            dims = &source.facts->sizes, strides = &source.facts->strides;
        }
    }
    require(copy.from && *dims == facts.sizes);
    copy.from_strides = strides->data();
    if (on_device) {
        require(ours && *strides == facts.strides && facts.strides == dense_strides(copy.dims, copy.ndim));
        copy.device = facts.device_index;
        require(python::torch_cuda_stream(copy.device, copy.stream));
    }
    if (!ours) { // an earlier copy, or this one, may write where the value lies
        int64_t bytes = copy.element;
        for (int i = 0; i < copy.ndim; ++i) bytes *= copy.dims[i];
        Scratch& scratch = scratch_.emplace_back(std::vector<char>(static_cast<size_t>(bytes)), dense_strides(copy.dims, copy.ndim));
        if (bytes) copy_elements(scratch.bytes.data(), copy.from, copy.dims, scratch.strides.data(), copy.from_strides, copy.ndim, copy.element);
        copy.from = scratch.bytes.data();
        copy.from_strides = scratch.strides.data();
    }
    copies_.push_back(copy);
}

bool Commit::perform(Store& store) {
    const Effect& effect = *store.effect;
    const bool whole = effect.kind == Effect::list_contents;
    PyObject* old = whole ? PyList_GetSlice(store.target, 0, PyList_GET_SIZE(store.target)) : Py_XNewRef(present_value(effect, store.target, store.key, store.index));
    int failed = 0;
    switch (effect.kind) {
    case Effect::dict_set: failed = PyDict_SetItem(store.target, store.key, store.value); break;
    case Effect::dict_remove: failed = PyDict_DelItem(store.target, store.key); break;
    case Effect::list_set:
        failed = old ? 0 : -1; // beyond the end
        if (old) Py_DECREF(PyList_GET_ITEM(store.target, store.index)), PyList_SET_ITEM(store.target, store.index, Py_NewRef(store.value));
        break;
    case Effect::list_append: failed = PyList_Append(store.target, store.value); break;
    case Effect::list_contents: failed = old ? PyList_SetSlice(store.target, 0, PyList_GET_SIZE(store.target), store.value) : -1; break;
    case Effect::attribute_set: failed = PyObject_GenericSetAttr(store.target, store.key, store.value); break;
    case Effect::attribute_remove: failed = old ? PyObject_GenericSetAttr(store.target, store.key, nullptr) : -1; break;
    case Effect::cell_set:
        Py_XDECREF(PyCell_GET(store.target));
        PyCell_SET(store.target, Py_XNewRef(store.value));
        break;
    default: break;
    }
    if (failed) {
        PyErr_Clear();
        Py_XDECREF(old);
        return false;
    }
    store.old = old;
    return true;
}

void Commit::undo(size_t count) {
    while (count-- > 0) {
        Store& store = stores_[count];
        int failed = 0;
        switch (store.effect->kind) {
        case Effect::dict_set: case Effect::dict_remove:
            failed = store.old ? PyDict_SetItem(store.target, store.key, store.old) : PyDict_DelItem(store.target, store.key);
            break;
        case Effect::list_set:
            Py_DECREF(PyList_GET_ITEM(store.target, store.index));
            PyList_SET_ITEM(store.target, store.index, Py_NewRef(store.old));
            break;
        case Effect::list_append: failed = PyList_SetSlice(store.target, PyList_GET_SIZE(store.target) - 1, PyList_GET_SIZE(store.target), nullptr); break;
        case Effect::list_contents: failed = PyList_SetSlice(store.target, 0, PyList_GET_SIZE(store.target), store.old); break;
        case Effect::attribute_set: case Effect::attribute_remove: failed = PyObject_GenericSetAttr(store.target, store.key, store.old); break;
        case Effect::cell_set:
            Py_XDECREF(PyCell_GET(store.target));
            PyCell_SET(store.target, Py_XNewRef(store.old));
            break;
        default: break;
        }
        if (failed) PyErr_Clear(); // memory ran out twice: the place keeps the new value
    }
}

bool Commit::store() {
    for (size_t i = 0; i < stores_.size(); ++i) {
        if (perform(stores_[i])) continue;
        undo(i);
        return false;
    }
    for (const Store& store : stores_) {
        if (store.effect->kind != Effect::iterator_advance) continue;
        for (uint32_t i = 0; i < store.effect->count; ++i) {
            // The iterator has moved on even where no number could be made of its item.
            Py_XDECREF(Py_TYPE(store.target)->tp_iternext(store.target));
            PyErr_Clear();
        }
    }
    for (const Copy& copy : copies_) {
        bool empty = false;
        for (int i = 0; i < copy.ndim; ++i) empty = empty || copy.dims[i] == 0;
        if (!empty && copy.device >= 0) {
            int64_t bytes = copy.element;
            for (int i = 0; i < copy.ndim; ++i) bytes *= copy.dims[i];
            runtime::cuda::copy(copy.to, copy.from, bytes, copy.device, copy.stream); // refused only where the context is lost, and eager's would be too
        } else if (!empty) copy_elements(copy.to, copy.from, copy.dims, copy.to_strides, copy.from_strides, copy.ndim, copy.element);
    }
    // Versions last, as often as eager would have raised them.
    for (const Effect& effect : run_.plan.segment.effects) {
        const bool counts = effect.kind == Effect::bump || (effect.kind == Effect::inplace && !run_.plan.memories[run_.plan.memory_of_source[effect.target.index]].numpy);
        for (uint32_t i = 0; counts && i < effect.count; ++i) python::bump_version(run_.value(effect.target));
    }
    for (Store& store : stores_)
        if (PyObject* old = std::exchange(store.old, nullptr)) run_.old_values.push_back(old);
    return true;
}

} // namespace dyno::replay
