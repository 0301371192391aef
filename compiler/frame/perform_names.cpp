// Names, namespaces, imports and attributes. What CPython refuses in words of its own is left to it.
#include "compiler/frame/perform.h"
#include "compiler/python/ref.h"

namespace dyno::frame::perform {
namespace {

using bytecode::Op;

/// A look-up in exact dicts, one after the other; in_pythons_words() where none has the name.
PyObject* look_up(std::initializer_list<PyObject*> scopes, PyObject* name) {
    for (PyObject* scope : scopes) {
        PyObject* v = PyDict_GetItemWithError(scope, name);
        if (v) return Py_NewRef(v);
        if (PyErr_Occurred()) return nullptr;
    }
    return in_pythons_words();
}

/// The name in a class's or module's namespace: done() where it has none.
PyObject* in_scope(PyObject* scope, PyObject* name) {
    if (PyDict_CheckExact(scope)) {
        PyObject* v = PyDict_GetItemWithError(scope, name);
        return v ? Py_NewRef(v) : PyErr_Occurred() ? nullptr : Py_NewRef(done());
    }
    PyObject* v = PyObject_GetItem(scope, name);
    if (v || !PyErr_ExceptionMatches(PyExc_KeyError)) return v;
    PyErr_Clear();
    return Py_NewRef(done());
}

} // namespace

PyObject* load_global(InterpreterFrame* f, PyObject* name) {
    PyObject *globals = globals_of(f), *builtins = builtins_of(f);
    if (!PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return in_pythons_words();
    return look_up({globals, builtins}, name);
}

PyObject* load_name(InterpreterFrame* f, PyObject* name) {
    PyObject* scope = namespace_of(f);
    if (!scope || !PyDict_CheckExact(scope)) return in_pythons_words();
    return load_dict_or_global(f, scope, name);
}

PyObject* load_dict_or_global(InterpreterFrame* f, PyObject* scope, PyObject* name) {
    PyObject *globals = globals_of(f), *builtins = builtins_of(f);
    if (!PyDict_CheckExact(scope) || !PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return in_pythons_words();
    return look_up({scope, globals, builtins}, name);
}

PyObject* load_dict_or_cell(PyObject* scope, PyObject* name, PyObject* cell) {
    if (!scope || !PyDict_CheckExact(scope)) return in_pythons_words();
    PyObject* v = PyDict_GetItemWithError(scope, name);
    if (!v && PyErr_Occurred()) return nullptr;
    if (!v) v = PyCell_GET(cell);
    return v ? Py_NewRef(v) : in_pythons_words();
}

PyObject* store_name(InterpreterFrame* f, PyObject* name, PyObject* value) {
    PyObject* scope = namespace_of(f);
    if (!scope) return in_pythons_words();
    return done_if(PyDict_CheckExact(scope) ? PyDict_SetItem(scope, name, value) : PyObject_SetItem(scope, name, value));
}

PyObject* delete_name(const Instruction& i, InterpreterFrame* f, PyObject* name) {
    PyObject* scope = i.op == Op::delete_global ? globals_of(f) : namespace_of(f);
    if (!scope || !PyDict_CheckExact(scope)) return in_pythons_words();
    const int present = PyDict_Contains(scope, name);
    if (present < 0) return nullptr;
    return present ? done_if(PyDict_DelItem(scope, name)) : in_pythons_words();
}

PyObject* setup_annotations(InterpreterFrame* f) {
    static PyObject* const name = PyUnicode_InternFromString("__annotations__");
    PyObject* scope = namespace_of(f);
    if (!scope) return in_pythons_words();
    const auto found = Owned<>::steal(in_scope(scope, name));
    if (!found) return nullptr;
    if (found.get() != done()) return done();
    const auto annotations = Owned<>::steal(PyDict_New());
    if (!annotations) return nullptr;
    return done_if(PyObject_SetItem(scope, name, annotations.get()));
}

PyObject* import_name(InterpreterFrame* f, PyObject* name, PyObject** operands) {
    PyObject* import = builtin(f, "__import__");
    if (import == in_pythons_words()) return import;
    const auto function = Owned<>::steal(import);
    PyObject* scope = namespace_of(f);
    PyObject* args[5] = {name, globals_of(f), scope ? scope : Py_None, operands[1], operands[0]};
    return PyObject_Vectorcall(function.get(), args, 5, nullptr);
}

PyObject* import_from(PyObject* module, PyObject* name) {
    PyObject* v = PyObject_GetAttr(module, name);
    if (v || !PyErr_ExceptionMatches(PyExc_AttributeError)) return v;
    PyErr_Clear(); // CPython tries sys.modules and words the error
    return in_pythons_words();
}

PyObject* builtin(InterpreterFrame* f, const char* name) {
    PyObject* scope = builtins_of(f);
    PyObject* v = PyDict_CheckExact(scope) ? PyDict_GetItemString(scope, name) : nullptr;
    return v ? Py_NewRef(v) : in_pythons_words();
}

PyObject* load_super(const Instruction& i, PyObject* name, PyObject** operands) {
    const auto super = Owned<>::steal(PyObject_Vectorcall(operands[0], operands + 1, i.arg & 2, nullptr));
    return super ? PyObject_GetAttr(super.get(), name) : nullptr;
}

void tell_attribute_error(PyObject* object, PyObject* name) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    auto* error = reinterpret_cast<PyAttributeErrorObject*>(value);
    if (PyErr_GivenExceptionMatches(value, PyExc_AttributeError) && !error->name && !error->obj) {
        error->name = Py_NewRef(name);
        error->obj = Py_NewRef(object);
    }
    PyErr_Restore(type, value, trace);
}

} // namespace dyno::frame::perform
