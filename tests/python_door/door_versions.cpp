// Version facts and references, for test_versions.py.
#include "compiler/python/ref.h"
#include "compiler/python/versions.h"
#include "tests/python_door/door_methods.h"

namespace dyno::python {
namespace {

PyObject* or_missing(PyObject* borrowed) { return Py_NewRef(borrowed ? borrowed : Py_NotImplemented); }

PyObject* have_versions(PyObject*, PyObject*) { return PyBool_FromLong(have_dict_versions()); }
PyObject* version(PyObject*, PyObject* dict) { return PyLong_FromUnsignedLongLong(dict_version(dict)); }
PyObject* type_tag(PyObject*, PyObject* type) { return PyLong_FromUnsignedLong(type_version(reinterpret_cast<PyTypeObject*>(type))); }

PyObject* attribute(PyObject*, PyObject* args) {
    PyObject *object, *name;
    return PyArg_ParseTuple(args, "OO", &object, &name) ? or_missing(instance_attribute(object, name)) : nullptr;
}

/// slot_attribute(model, object, name): read from `object` through the slot found on `model`; also the slot's index.
PyObject* slot_attribute(PyObject*, PyObject* args) {
    PyObject *model, *object, *name;
    if (!PyArg_ParseTuple(args, "OOO", &model, &object, &name)) return nullptr;
    const AttributeSlot slot = find_attribute_slot(model, name);
    return Py_BuildValue("iN", slot.index, or_missing(read_attribute_slot(object, slot, name)));
}

PyObject* dict_if_any(PyObject*, PyObject* object) { return or_missing(instance_dict_if_any(object)); }
PyObject* is_inline(PyObject*, PyObject* object) { return PyBool_FromLong(has_inline_values(object)); }
PyObject* tracing(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(tracing_state(PyThreadState_Get())); }

/// counts(object): what Owned does to a reference count, step by step, against the start.
PyObject* counts(PyObject*, PyObject* object) {
    const Py_ssize_t start = Py_REFCNT(object);
    auto since = [&] { return static_cast<long>(Py_REFCNT(object) - start); };
    Owned<> a = Owned<>::borrow(object);
    const long borrowed = since();
    Owned<> b = std::move(a), c = b.share();
    const long shared = since();
    b = std::move(c);
    const long moved = since();
    Owned<> d = Owned<>::steal(b.release());
    const long stolen = since();
    d.reset();
    return Py_BuildValue("lllll", borrowed, shared, moved, stolen, since());
}

} // namespace

PyMethodDef version_methods[] = {
    {"have_dict_versions", have_versions, METH_NOARGS, nullptr},
    {"dict_version", version, METH_O, nullptr},
    {"type_version", type_tag, METH_O, nullptr},
    {"attribute", attribute, METH_VARARGS, nullptr},
    {"slot_attribute", slot_attribute, METH_VARARGS, nullptr},
    {"dict_if_any", dict_if_any, METH_O, nullptr},
    {"is_inline", is_inline, METH_O, nullptr},
    {"tracing", tracing, METH_NOARGS, nullptr},
    {"counts", counts, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace dyno::python
