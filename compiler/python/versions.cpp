// The one file that knows where CPython 3.11, 3.12 and 3.13 keep dict versions, instance values and the state of tracing.
// Input: objects; output: words and borrowed pointers. It must not make a dict of inline values, run user code or raise.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <structmember.h>
#undef HAVE_STD_ATOMIC // the internal headers' C11 atomics are not C++; they fall back on compiler builtins
extern "C" {
#include <internal/pycore_dict.h>
#include <internal/pycore_interp.h>
}

#include "compiler/python/versions.h"

#include <cstring>

#include "compiler/python/ref.h"
#include "compiler/support/fault.h"

#define DYNO_312 (PY_VERSION_HEX >= 0x030C0000)
#define DYNO_313 (PY_VERSION_HEX >= 0x030D0000)

namespace dyno::python {
namespace {

// ---- keys and values

/// A dict's or a type's keys when all of them are str; null otherwise.
bool only_strings(const PyDictKeysObject* keys) { return keys->dk_kind != DICT_KEYS_GENERAL; }

const PyDictUnicodeEntry* entries_of(const PyDictKeysObject* keys) {
    return reinterpret_cast<const PyDictUnicodeEntry*>(keys->dk_indices + (size_t{1} << keys->dk_log2_index_bytes));
}

PyDictKeysObject* shared_keys(PyTypeObject* type) {
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
    return reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys;
}

/// Equality of two str without user code; names are nearly always interned.
bool same_name(PyObject* a, PyObject* b) {
    return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) &&
                      PyUnicode_Compare(a, b) == 0);
}

/// Shared keys hold at most 30 names, so a scan by pointer beats hashing.
int index_in(const PyDictKeysObject* keys, PyObject* name) {
    const PyDictUnicodeEntry* entries = entries_of(keys);
    const int count = static_cast<int>(keys->dk_nentries);
    for (int i = 0; i < count; i++)
        if (entries[i].me_key == name) return i;
    if (PyUnicode_CHECK_INTERNED(name)) return -1; // keys of shared tables are interned
    for (int i = 0; i < count; i++)
        if (same_name(entries[i].me_key, name)) return i;
    return -1;
}

/// The inline values of an instance, if they are what its attributes are read from.
PyObject* const* inline_values(PyObject* obj) {
    PyTypeObject* type = Py_TYPE(obj);
#if DYNO_313
    if (!(type->tp_flags & Py_TPFLAGS_INLINE_VALUES)) return nullptr;
    // Right behind the object's head; a dict made of them shares them until they are declared invalid.
    auto values = reinterpret_cast<PyDictValues*>(reinterpret_cast<char*>(obj) + sizeof(PyObject));
    return values->valid ? values->values : nullptr;
#elif DYNO_312
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return nullptr;
    auto word = reinterpret_cast<const uintptr_t*>(obj)[-3]; // values with the low bit set, or the dict
    return word & 1 ? reinterpret_cast<PyDictValues*>(word + 1)->values : nullptr;
#else
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return nullptr;
    auto values = reinterpret_cast<PyDictValues**>(obj)[-4];
    return values ? values->values : nullptr;
#endif
}

PyObject* managed_dict(PyObject* obj) {
#if DYNO_312 && !DYNO_313
    auto word = reinterpret_cast<const uintptr_t*>(obj)[-3];
    return word & 1 ? nullptr : reinterpret_cast<PyObject*>(word);
#else
    return reinterpret_cast<PyObject**>(obj)[-3];
#endif
}

/// A look-up by str. A dict with other keys too is scanned, since a hash look-up could meet a user's __eq__.
PyObject* dict_value(PyObject* dict, PyObject* name) {
    if (only_strings(reinterpret_cast<PyDictObject*>(dict)->ma_keys)) return PyDict_GetItemWithError(dict, name);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        if (same_name(key, name)) return value;
    return nullptr;
}

// ---- the self-test of dict versions

bool prove_dict_versions() {
    KeepError keep;
    auto globals = Owned<>::steal(PyDict_New());
    auto dict = Owned<>::steal(PyDict_New());
    if (!globals || !dict) return false;
    PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
    PyDict_SetItemString(globals.get(), "d", dict.get());
    auto version = [&] { return dict_version(dict.get()); };
    for (const char* change : {"d.update(a=1, b=2)", "d.__setitem__('a', 3)", "d.setdefault('c', 4)", "d.pop('a')", "d.popitem()",
                               "d.__delitem__('b')", "d.update({str(i): i for i in range(40)})", "d.__ior__({'e': 1})", "d.clear()"}) {
        const uint64_t before = version();
        auto done = Owned<>::steal(PyRun_String(change, Py_eval_input, globals.get(), globals.get()));
        if (!done || !before || version() == before) return PyErr_Clear(), false;
    }
    PyDict_SetItemString(dict.get(), "a", Py_None);
    const uint64_t before = version();
    auto read = Owned<>::steal(
        PyRun_String("(d['a'], d.get('z'), list(d.items()), d == {}, d.copy())", Py_eval_input, globals.get(), globals.get()));
    return read && version() == before;
}

} // namespace

uint64_t dict_version(PyObject* dict) {
    if (fault(8)) return 1; // as a version that does not move: the self-test would see it
    const uint64_t tag = reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#if DYNO_313
    return tag >> 12; // below: who watches the dict, and a count the interpreter's optimiser keeps
#elif DYNO_312
    return tag >> DICT_MAX_WATCHERS;
#else
    return tag;
#endif
}

bool have_dict_versions() {
    // No function-local static: the proof runs Python, so frames of its own, or of a thread that is let in meanwhile, ask again.
    enum class Proof { wanted, under_way, failed, held };
    static Proof proof = Proof::wanted; // under the GIL
    if (proof == Proof::wanted) {
        proof = Proof::under_way;
        proof = fault(8) || prove_dict_versions() ? Proof::held : Proof::failed;
    }
    return proof == Proof::held;
}

uint32_t type_version(PyTypeObject* type) {
#if DYNO_313
    // A tag is valid if it is not 0; the flag of earlier versions is not kept up.
    if (!type->tp_version_tag) PyUnstable_Type_AssignVersionTag(type);
    return type->tp_version_tag;
#else
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) {
#if DYNO_312
        PyUnstable_Type_AssignVersionTag(type);
#else
        static PyObject* const name = PyUnicode_InternFromString("__class__");
        _PyType_Lookup(type, name); // a look-up through the type cache assigns a tag
#endif
    }
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
#endif
}

PyObject* instance_dict_if_any(PyObject* obj) {
    if (Py_TYPE(obj)->tp_flags & Py_TPFLAGS_MANAGED_DICT) return managed_dict(obj);
    PyObject** slot = _PyObject_GetDictPtr(obj); // makes a dict of managed values only, which were dealt with
    return slot ? *slot : nullptr;
}

bool has_inline_values(PyObject* obj) { return inline_values(obj) && !instance_dict_if_any(obj); }

PyObject* instance_attribute(PyObject* obj, PyObject* name) {
    if (PyObject* const* values = inline_values(obj)) {
        PyDictKeysObject* keys = shared_keys(Py_TYPE(obj));
        const int index = keys ? index_in(keys, name) : -1;
        return index < 0 ? nullptr : values[index];
    }
    PyObject* dict = instance_dict_if_any(obj);
    return dict && PyDict_Check(dict) ? dict_value(dict, name) : nullptr;
}

Py_ssize_t slot_offset(PyTypeObject* type, PyObject* name) {
    constexpr int object_or_absent = 16; // T_OBJECT_EX
    PyObject* found = _PyType_Lookup(type, name);
    if (!found || Py_TYPE(found) != &PyMemberDescr_Type) return -1;
    const auto* member = reinterpret_cast<PyMemberDescrObject*>(found);
    if (member->d_member->type != object_or_absent || member->d_member->flags != 0 || !PyType_IsSubtype(type, member->d_common.d_type)) return -1;
    return member->d_member->offset;
}

PyObject* slotted_attribute(PyObject* obj, PyObject* name) {
    const Py_ssize_t offset = slot_offset(Py_TYPE(obj), name);
    return offset < 0 ? nullptr : *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(obj) + offset);
}

AttributeSlot find_attribute_slot(PyObject* obj, PyObject* name) {
    PyDictKeysObject* keys = nullptr;
    if (inline_values(obj))
        keys = shared_keys(Py_TYPE(obj));
    else if (PyObject* dict = instance_dict_if_any(obj); dict && PyDict_Check(dict) && reinterpret_cast<PyDictObject*>(dict)->ma_values)
        keys = reinterpret_cast<PyDictObject*>(dict)->ma_keys;
    if (!keys) return {};
    const int index = index_in(keys, name);
    return index < 0 ? AttributeSlot{} : AttributeSlot{keys, index};
}

PyObject* read_attribute_slot(PyObject* obj, const AttributeSlot& slot, PyObject* name) {
    if (slot.index < 0) return instance_attribute(obj, name);
    PyObject* const* values = inline_values(obj);
    PyDictKeysObject* keys = values ? shared_keys(Py_TYPE(obj)) : nullptr;
    if (!values) {
        PyObject* dict = instance_dict_if_any(obj);
        auto split = reinterpret_cast<PyDictObject*>(dict);
        if (!dict || !PyDict_Check(dict) || !split->ma_values) return instance_attribute(obj, name);
        values = split->ma_values->values;
        keys = split->ma_keys;
    }
    // The name is compared as well: freed keys of another type may have lain at the same address.
    if (keys == slot.keys && slot.index < keys->dk_nentries && entries_of(keys)[slot.index].me_key == name) return values[slot.index];
    return instance_attribute(obj, name);
}

uint64_t tracing_state(PyThreadState* thread) {
    uint64_t state = uint64_t{thread->c_tracefunc != nullptr} * traced | uint64_t{thread->c_profilefunc != nullptr} * profiled |
                     uint64_t{thread->tracing != 0} * in_tracer;
#if DYNO_312
    // A byte of tools per event, more than 8 and at most 16 of them: two loads that may overlap see all.
    const auto& tools = thread->interp->monitors.tools;
    static_assert(sizeof tools >= 8 && sizeof tools <= 16);
    uint64_t first, last;
    std::memcpy(&first, tools, 8);
    std::memcpy(&last, tools + sizeof tools - 8, 8);
    state |= uint64_t{(first | last) != 0} * monitored;
#endif
    return state;
}

} // namespace dyno::python
