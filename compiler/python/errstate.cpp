// NumPy's errstate as one word. NumPy 2 keeps it in a capsule behind a context variable, NumPy 1.26 in a list in the thread's dict; which,
// and that the mask read is the one np.geterr speaks of, is proved once. Where neither is found, np.geterr is called when it may have
// changed.
#include <cstring>

#include "compiler/python/array.h"
#include "compiler/python/numpy_api.h"
#include "compiler/python/ref.h"

namespace dyno::python {
namespace {

constexpr uint64_t default_mask = 521; // warn for divide, overflow, invalid; ignore underflow
constexpr uint64_t callback_bit = uint64_t{1} << 32;
constexpr uint64_t unknown = ~uint64_t{0} >> 24; // not the word of any setting; leaves the bits above 40 alone
constexpr const char* capsule_name = "numpy.ufunc.extobj";

/// The start of what NumPy 2's capsule points at.
struct ErrorObject {
    int mask;
    npy_intp buffer_size;
    PyObject* callback;
};

enum class Way : uint8_t { none, context_variable, thread_dict, calls };

struct Errstate {
    Way way = Way::none;
    PyObject* variable = nullptr; // of the context
    PyObject* key = nullptr;      // in the thread's dict
};
Errstate errstate;

/// The capsule seen last, kept so that its address means it. One with a callback is not kept: the callback is the user's.
struct LastCapsule {
    PyObject* capsule = nullptr;
    uint64_t word = 0;
};
LastCapsule last_capsule; // under the GIL

uint64_t word_of(PyObject* capsule) {
    auto object =
        static_cast<const ErrorObject*>(PyCapsule_IsValid(capsule, capsule_name) ? PyCapsule_GetPointer(capsule, capsule_name) : nullptr);
    if (!object) return unknown;
    const bool callback = object->callback && object->callback != Py_None;
    return static_cast<uint32_t>(object->mask) | (callback ? callback_bit : 0);
}

uint64_t read_variable() {
    PyObject* value = nullptr;
    if (PyContextVar_Get(errstate.variable, nullptr, &value) < 0 || !value) return PyErr_Clear(), default_mask;
    const Owned<> capsule = Owned<>::steal(value);
    if (value == last_capsule.capsule) return last_capsule.word;
    const uint64_t word = word_of(value);
    if (word & callback_bit) return word;
    Py_XSETREF(last_capsule.capsule, Py_NewRef(value));
    last_capsule.word = word;
    return word;
}

uint64_t read_thread_dict() {
    PyObject* dict = PyThreadState_GetDict();
    PyObject* list = dict ? PyDict_GetItemWithError(dict, errstate.key) : nullptr; // [buffer size, mask, callback]
    if (!list) return default_mask;
    if (!PyList_Check(list) || PyList_GET_SIZE(list) != 3) return unknown;
    const auto mask = static_cast<uint32_t>(PyLong_AsUnsignedLongLongMask(PyList_GET_ITEM(list, 1)));
    return mask | (PyList_GET_ITEM(list, 2) != Py_None ? callback_bit : 0);
}

/// np.geterr() put together as the mask NumPy keeps.
uint64_t read_by_calls() {
    static constexpr const char* modes[] = {"ignore", "warn", "raise", "call", "print", "log"};
    static constexpr const char* kinds[] = {"divide", "over", "under", "invalid"};
    const Owned<> dict = Owned<>::steal(PyObject_CallMethod(numpy_state.module, "geterr", nullptr));
    const Owned<> callback = Owned<>::steal(PyObject_CallMethod(numpy_state.module, "geterrcall", nullptr));
    if (!dict || !callback || !PyDict_Check(dict.get())) return PyErr_Clear(), unknown;
    uint64_t word = callback.get() == Py_None ? 0 : callback_bit;
    for (int kind = 0; kind < 4; kind++) {
        PyObject* mode = PyDict_GetItemString(dict.get(), kinds[kind]);
        for (uint64_t m = 0; mode && PyUnicode_Check(mode) && m < 6; m++)
            if (PyUnicode_CompareWithASCIIString(mode, modes[m]) == 0) word |= m << (3 * kind);
    }
    return word;
}

uint64_t read_now() {
    switch (errstate.way) {
    case Way::none:
        return 0;
    case Way::context_variable:
        return read_variable();
    case Way::thread_dict:
        return read_thread_dict();
    case Way::calls:
        break;
    }
    KeepError keep;
    return read_by_calls();
}

PyObject* attribute_of_numpy(const char* package, const char* name) {
    const Owned<> core = Owned<>::steal(PyObject_GetAttrString(numpy_state.module, package));
    const Owned<> umath = Owned<>::steal(core ? PyObject_GetAttrString(core.get(), "umath") : nullptr);
    PyObject* found = umath ? PyObject_GetAttrString(umath.get(), name) : nullptr;
    if (!found) PyErr_Clear();
    return found;
}

/// Does the way in use say what np.geterr says, before, inside and after some settings?
bool agrees() {
    static constexpr const char* settings[][4] = {
        {"raise", "ignore", "warn", "print"}, {"ignore", "raise", "raise", "warn"}, {"log", "call", "ignore", "ignore"}};
    bool right = read_now() == read_by_calls();
    for (auto& [divide, over, under, invalid] : settings) {
        const Owned<> make = Owned<>::steal(PyObject_GetAttrString(numpy_state.module, "errstate"));
        const Owned<> none = Owned<>::steal(PyTuple_New(0));
        const Owned<> words =
            Owned<>::steal(Py_BuildValue("{s:s,s:s,s:s,s:s}", "divide", divide, "over", over, "under", under, "invalid", invalid));
        const Owned<> manager = Owned<>::steal(make && none && words ? PyObject_Call(make.get(), none.get(), words.get()) : nullptr);
        const Owned<> entered = Owned<>::steal(manager ? PyObject_CallMethod(manager.get(), "__enter__", nullptr) : nullptr);
        if (!entered) return PyErr_Clear(), false;
        right = right && read_now() == read_by_calls();
        const Owned<> left = Owned<>::steal(PyObject_CallMethod(manager.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
        right = right && left && read_now() == read_by_calls();
    }
    PyErr_Clear();
    return right;
}

} // namespace

void prove_errstate() {
    errstate.variable = attribute_of_numpy("_core", "_extobj_contextvar");
    if (errstate.variable && PyContextVar_CheckExact(errstate.variable)) {
        errstate.way = Way::context_variable;
        if (agrees()) return;
    }
    const Owned<> name = Owned<>::steal(attribute_of_numpy("core", "UFUNC_PYVALS_NAME"));
    if (name && PyUnicode_Check(name.get())) {
        errstate.key = Py_NewRef(name.get());
        errstate.way = Way::thread_dict;
        if (agrees()) return;
    }
    errstate.way = Way::calls;
}

uint64_t numpy_errstate() { return errstate.way == Way::none ? 0 : read_now(); }

uint64_t numpy_default_errstate() { return default_mask; }

} // namespace dyno::python
