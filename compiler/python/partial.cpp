// The places of functools.partial's members.
#include "compiler/python/partial.h"
#include "compiler/python/ref.h"
#include <structmember.h>

namespace dyno::python {
namespace {

struct Layout {
    PyTypeObject* type = nullptr;
    Py_ssize_t offsets[3] = {-1, -1, -1};
};

const Layout& layout() {
    static Layout known;
    if (known.type) return known;
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_functools");
    const auto type = module ? Owned<>::steal(PyObject_GetAttrString(module, "partial")) : Owned<>{};
    if (!type || !PyType_Check(type.get())) return PyErr_Clear(), known;
    Layout found;
    const char* const names[] = {"func", "args", "keywords"};
    PyObject* members = reinterpret_cast<PyTypeObject*>(type.get())->tp_dict;
    for (int k = 0; k < 3; k++) {
        PyObject* descriptor = members ? PyDict_GetItemString(members, names[k]) : nullptr;
        if (!descriptor || Py_TYPE(descriptor) != &PyMemberDescr_Type) return known;
        const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
        if (member->type != T_OBJECT && member->type != T_OBJECT_EX) return known;
        found.offsets[k] = member->offset;
    }
    found.type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type.get()));
    return known = found;
}

} // namespace

PyTypeObject* partial_type() { return layout().type; }

PyObject* partial_part(PyObject* object, PartialPart part) {
    const Layout& l = layout();
    if (!l.type || !object || Py_TYPE(object) != l.type) return nullptr;
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + l.offsets[static_cast<uint32_t>(part)]);
}

} // namespace dyno::python
