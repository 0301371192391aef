// Warnings of eager calls in a compute phase: what the user would be shown there fails the phase instead, so that the segment runs natively
// and the warning comes once, from the user's own line. For a while warnings.filters is a list of ours, in which every filter that shows
// something has a twin before it that raises, on this thread only. Other threads meet their own filters behind the twins.
#include "compiler/replay/run_state.h"

namespace dyno::replay {
namespace {

thread_local int computing = 0;

/// A filter's `message`: matches what the inner one does (null: anything), but only on a thread that computes.
struct Matcher {
    PyObject_HEAD
    PyObject* inner;
};
PyObject* match(PyObject* self, PyObject* text) {
    if (computing == 0) Py_RETURN_NONE;
    PyObject* inner = reinterpret_cast<Matcher*>(self)->inner;
    if (!inner) Py_RETURN_TRUE;
    if (PyUnicode_CheckExact(inner)) return PyBool_FromLong(PyUnicode_Check(text) && PyUnicode_Compare(inner, text) == 0);
    return PyObject_CallMethod(inner, "match", "O", text);
}
void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Py_XDECREF(reinterpret_cast<Matcher*>(self)->inner);
    type->tp_free(self);
    Py_DECREF(type);
}
PyMethodDef methods[] = {{"match", match, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_methods, methods}, {Py_tp_dealloc, reinterpret_cast<void*>(drop)}, {0, nullptr}};
PyType_Spec spec = {"dyno._core.WarningMatcher", sizeof(Matcher), 0, Py_TPFLAGS_DEFAULT, slots};

PyObject* matcher(PyObject* inner) {
    static auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    PyObject* made = type ? type->tp_alloc(type, 0) : nullptr;
    if (made) reinterpret_cast<Matcher*>(made)->inner = inner == Py_None ? nullptr : Py_XNewRef(inner);
    return made;
}

/// The twin of (action, message, category, module, line).
PyObject* raising(PyObject* message, PyObject* category, PyObject* module, PyObject* line) {
    auto guarded = Owned<>::steal(matcher(message));
    return guarded ? Py_BuildValue("(sOOOO)", "error", guarded.get(), category, module, line) : nullptr;
}

/// A list of filters for `filters`, or null with an error set.
PyObject* list_for(PyObject* filters) {
    auto made = Owned<>::steal(PyList_New(0));
    auto zero = Owned<>::steal(PyLong_FromLong(0));
    for (Py_ssize_t k = 0; made && k < PyList_GET_SIZE(filters); ++k) {
        PyObject* item = PyList_GET_ITEM(filters, k);
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 5) return PyErr_SetString(PyExc_TypeError, "a filter"), nullptr;
        PyObject* action = PyTuple_GET_ITEM(item, 0);
        if (!PyUnicode_Check(action)) return PyErr_SetString(PyExc_TypeError, "an action"), nullptr;
        if (PyUnicode_CompareWithASCIIString(action, "ignore") != 0) {
            auto twin = Owned<>::steal(raising(PyTuple_GET_ITEM(item, 1), PyTuple_GET_ITEM(item, 2), PyTuple_GET_ITEM(item, 3), PyTuple_GET_ITEM(item, 4)));
            if (!twin || PyList_Append(made.get(), twin.get()) < 0) return nullptr;
        }
        if (PyList_Append(made.get(), item) < 0) return nullptr;
    }
    auto last = Owned<>::steal(made && zero ? raising(nullptr, PyExc_Warning, Py_None, zero.get()) : nullptr);
    if (!last || PyList_Append(made.get(), last.get()) < 0) return nullptr;
    return made.release();
}

/// The last list made, and of what.
struct Known {
    Owned<> of, items, made; // items: a tuple of what `of` held
};
bool is_for(const Known& known, PyObject* filters) {
    if (known.of.get() != filters || !known.made || PyTuple_GET_SIZE(known.items.get()) != PyList_GET_SIZE(filters)) return false;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(filters); ++k)
        if (PyTuple_GET_ITEM(known.items.get(), k) != PyList_GET_ITEM(filters, k)) return false;
    return true;
}

PyObject* filters_name() {
    static PyObject* const name = PyUnicode_InternFromString("filters");
    return name;
}
/// The namespace of the module warnings, borrowed; null if nobody has imported it.
PyObject* warnings_dict() {
    static PyObject* const name = PyUnicode_InternFromString("warnings");
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
    return module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

} // namespace

FailOnWarnings::FailOnWarnings() {
    static auto* known = new Known;
    PyObject* dict = warnings_dict();
    PyObject* filters = dict ? PyDict_GetItemWithError(dict, filters_name()) : nullptr;
    if (filters && PyList_CheckExact(filters) && filters != known->made.get()) {
        if (!is_for(*known, filters)) {
            Known fresh{Owned<>::borrow(filters), Owned<>::steal(PyList_AsTuple(filters)), Owned<>::steal(list_for(filters))};
            if (!fresh.items || !fresh.made) throw ComputeFailed();
            *known = std::move(fresh);
        }
        before_ = Owned<>::borrow(filters);
        ours_ = Owned<>::borrow(known->made.get());
        if (PyDict_SetItem(dict, filters_name(), ours_.get()) < 0) throw ComputeFailed();
    }
    ++computing;
}

FailOnWarnings::~FailOnWarnings() {
    --computing;
    PyObject* dict = before_ ? warnings_dict() : nullptr;
    if (!dict) return;
    const python::KeepError keep;
    // Another thread may have put its own list there meanwhile; it stays.
    if (PyDict_GetItemWithError(dict, filters_name()) == ours_.get() && PyDict_SetItem(dict, filters_name(), before_.get()) < 0) PyErr_Clear();
}

} // namespace dyno::replay
