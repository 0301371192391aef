// Reads tensors by the proved offsets. Input: any object; output: a view or "not plain".
// It must not load anything before the class is known to be exactly torch's, nor touch the storage before the key set is known to be plain.
#include "compiler/python/tensor.h"

#include "compiler/python/torch_state.h"
#include "compiler/python/torch_door.h"

namespace dyno::python {
namespace {

const TorchState& state = torch_state;

bool exact_class(PyTypeObject* type) { return type && (type == state.tensor_type || type == state.parameter_type); }

/// Neither a dual tensor (forward-mode gradients) nor one whose memory is shared until the next write.
bool odd_parts(const TensorWords& words) {
    const void* meta = words.meta();
    if (meta && load<const void*>(meta, state.at.fw_grad)) return true;
    const void* storage = words.storage();
    return !storage || load<uint8_t>(storage, state.at.checked) != 0;
}

DType dtype_of_number(uint16_t number) { return number < 256 ? state.dtype_of[number] : DType::none; }

/// Nearly every tensor has the first key set; the rest of the list is a call away.
bool keys_are_plain(const TensorWords& words) {
    const uint64_t keys = words.keys();
    return keys == state.plain_keys[0] || plain_keys_known(keys, words.device_type());
}

inline bool plain(const TensorWords& words) {
    return words.impl && keys_are_plain(words) && dtype_of_number(words.dtype()) != DType::none && !odd_parts(words);
}

using Asks = bool (*)(const void*);

/// The flags of its own say yes; where they do not, a view may still require grad, as its base does: one made under no_grad().
bool grad_required(const TensorWords& words, PyObject* object) {
    const void* meta = words.meta();
    if (!meta) return false;
    if (load<uint8_t>(meta, state.at.requires_grad) || load<const void*>(meta, state.at.grad_fn)) return true;
    static const auto ask = reinterpret_cast<Asks>(torch_symbol("_ZNK3c1010TensorImpl13requires_gradEv")); // TensorImpl::requires_grad() const
    if (ask) return ask(words.impl);
    static PyObject* const name = PyUnicode_InternFromString("requires_grad");
    PyObject* said = PyObject_GetAttr(object, name);
    const bool yes = said == Py_True;
    if (!said) PyErr_Clear();
    Py_XDECREF(said);
    return yes;
}

bool row_matches(const int64_t* row, const std::vector<int64_t>& wanted) {
    for (size_t i = 0; i < wanted.size(); i++)
        if (row[i] != wanted[i] && wanted[i] != any_size) return false;
    return true;
}

bool matches_by_calls(PyObject* object, const TensorFacts& facts) {
    TensorView view;
    return Py_TYPE(object) == facts.type && read_by_calls(object, view) && view.key_set == facts.key_set && view.dtype == facts.dtype &&
           view.device_type == facts.device_type && view.device_index == facts.device_index && view.requires_grad == facts.requires_grad &&
           static_cast<size_t>(view.ndim) == facts.sizes.size() && row_matches(view.sizes, facts.sizes) &&
           row_matches(view.strides, facts.strides);
}

} // namespace

bool is_tensor_class(PyTypeObject* type) { return exact_class(type); }

bool is_plain_tensor(PyObject* object) {
    if (!exact_class(Py_TYPE(object))) return false;
    if (state.by_offsets) return plain(TensorWords(state.at, object));
    TensorView view;
    return read_by_calls(object, view);
}

bool read_tensor(PyObject* object, TensorView& view) {
    if (!exact_class(Py_TYPE(object))) return false;
    if (!state.by_offsets) return read_by_calls(object, view);
    const TensorWords words(state.at, object);
    if (!plain(words)) return false;
    const void* meta = words.meta();
    char* storage = static_cast<char*>(words.storage());
    view.dtype = dtype_of_number(words.dtype());
    view.storage_offset = words.offset();
    view.storage = storage;
    view.storage_nbytes = load<int64_t>(storage, state.at.nbytes);
    char* base = load<char*>(storage, state.at.data);
    view.data = base ? base + view.storage_offset * size_of(view.dtype) : nullptr;
    view.sizes = words.sizes();
    view.strides = words.strides();
    view.ndim = static_cast<int>(words.ndim());
    view.numel = words.numel();
    view.device_type = words.device_type();
    view.device_index = words.device_index();
    view.has_grad_fn = meta && load<const void*>(meta, state.at.grad_fn);
    view.requires_grad = grad_required(words, object);
    view.key_set = words.keys();
    view.inference = words.version() == nullptr;
    return true;
}

bool facts_of(PyObject* object, TensorFacts& facts) {
    TensorView view;
    if (!read_tensor(object, view)) return false;
    facts.type = Py_TYPE(object);
    facts.key_set = view.key_set;
    facts.dtype = view.dtype;
    facts.device_type = view.device_type;
    facts.device_index = view.device_index;
    facts.requires_grad = view.requires_grad;
    facts.sizes.assign(view.sizes, view.sizes + view.ndim);
    facts.strides.assign(view.strides, view.strides + view.ndim);
    return true;
}

bool tensor_matches(PyObject* object, const TensorFacts& facts) {
    if (Py_TYPE(object) != facts.type || !exact_class(facts.type)) return false;
    if (!state.by_offsets) return matches_by_calls(object, facts);
    const TensorWords words(state.at, object);
    if (!words.impl || words.keys() != facts.key_set) return false; // the key set first: what follows loads the storage
    if (words.dtype() != state.number_of[static_cast<int>(facts.dtype)] || words.device_type() != facts.device_type ||
        words.device_index() != facts.device_index || static_cast<size_t>(words.ndim()) != facts.sizes.size())
        return false;
    if (grad_required(words, object) != facts.requires_grad || odd_parts(words)) return false;
    return row_matches(words.sizes(), facts.sizes) && row_matches(words.strides(), facts.strides);
}

uint32_t version_of(PyObject* tensor) {
    if (state.by_offsets) {
        const uint32_t* version = TensorWords(state.at, tensor).version();
        return version ? __atomic_load_n(version, __ATOMIC_RELAXED) : 0;
    }
    return version_by_calls(tensor);
}

void bump_version(PyObject* tensor) {
    if (!state.by_offsets) return bump_by_calls(tensor);
    if (uint32_t* version = TensorWords(state.at, tensor).version()) __atomic_fetch_add(version, 1, __ATOMIC_SEQ_CST);
}

bool has_grad(PyObject* tensor) {
    if (!state.by_offsets) return has_grad_by_calls(tensor);
    const void* meta = TensorWords(state.at, tensor).meta();
    return meta && load<uint64_t>(meta, state.at.grad) != state.at.no_grad;
}

} // namespace dyno::python
