// What a library's Python or C code answers about values whose answer the guards fix already: methods of named tuples, NumPy's questions about
// types and shapes. The call itself runs while recording and not in a replay.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/array.h"
#include <algorithm>
#include <cstring>
#include <utility>

namespace dyno::capture {
namespace {

bool is_code_named(PyObject* function, const char* qualname) {
    if (!function || !PyFunction_Check(function)) return false;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    return PyUnicode_CompareWithASCIIString(code->co_qualname, qualname) == 0 && names().is_library_code(code);
}

/// The tuple of names that collections.namedtuple() gave the methods of the class it made; borrowed, null if there is none.
PyObject* field_names(PyObject* method) {
    PyObject* cells = PyFunction_GET_CLOSURE(method);
    const auto free = Owned<>::steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method))));
    if (!free) return PyErr_Clear(), nullptr;
    for (Py_ssize_t k = 0; cells && k < PyTuple_GET_SIZE(free.get()) && k < PyTuple_GET_SIZE(cells); k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(free.get(), k), "field_names") == 0) return PyCell_GET(PyTuple_GET_ITEM(cells, k));
    return nullptr;
}

/// Whether NumPy's answer about types hangs on no values: from 2.0.
bool numpy_is_new() {
    static const bool found = [] {
        PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
        const auto version = Owned<>::steal(numpy ? PyObject_GetAttrString(numpy, "__version__") : nullptr);
        const char* text = version && PyUnicode_Check(version.get()) ? PyUnicode_AsUTF8(version.get()) : nullptr;
        PyErr_Clear();
        return text && text[0] >= '2';
    }();
    return found;
}

} // namespace

/// p._replace(x=1) and p._asdict() of a named tuple. Nothing: it is another function, or the class has its own.
std::optional<Recording::Before> Recording::named_tuple_method(Activation&, PyObject* function, const Call& c) {
    const bool replaces = is_code_named(function, "namedtuple.<locals>._replace");
    if (!replaces && !is_code_named(function, "namedtuple.<locals>._asdict")) return std::nullopt;
    if (c.nargs != 1 || (!replaces && c.args.size() != 1) || !know(c.args[0], c.values[0]) || !is_named_tuple(c.values[0])) return std::nullopt;
    PyTypeObject* type = Py_TYPE(c.values[0]);
    PyObject* made_by = _PyType_Lookup(type, interned(replaces ? "_make" : "_fields"));
    PyObject* fields = made_by;
    if (replaces) {
        const auto make = Owned<>::steal(made_by && Py_TYPE(made_by) == &PyClassMethod_Type ? PyObject_GetAttrString(made_by, "__func__") : nullptr);
        if (!make || !is_code_named(make.get(), "namedtuple.<locals>._make")) return PyErr_Clear(), std::nullopt;
        fields = field_names(function);
    }
    const auto items = items_of(c.args[0], c.values[0]);
    if (!items || !fields || !PyTuple_CheckExact(fields) || PyTuple_GET_SIZE(fields) != static_cast<Py_ssize_t>(items->size())) return std::nullopt;
    guard_type_attribute(type, interned(replaces ? "_make" : "_fields"), made_by);
    if (const Shadow& f = at(identity_object(function)); f.source != Guard::none_) { // which may be given other code
        Guard same_code{Guard::is};
        same_code.source = source(Source::code_of, f.source, 0, nullptr);
        same_code.expected = anchor(PyFunction_GET_CODE(function));
        guard(same_code);
    }
    own_python_ = true;
    if (!replaces) {
        const ShadowId made = fresh(NewObject::dict, {}, &PyDict_Type);
        for (size_t k = 0; k < items->size(); k++) set_fresh_dict_item(made, constant(PyTuple_GET_ITEM(fields, static_cast<Py_ssize_t>(k))), canonical((*items)[k]));
        return pend_fixed(made);
    }
    std::vector<ShadowId> parts = *items;
    for (size_t k = c.nargs; k < c.args.size(); k++) {
        const int at_field = static_cast<int>(PySequence_Index(fields, PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs))));
        if (at_field < 0) return PyErr_Clear(), std::nullopt; // it raises
        parts[static_cast<size_t>(at_field)] = canonical(c.args[k]);
    }
    return pend_fixed(fresh(NewObject::tuple, std::move(parts), type));
}

/// NumPy's functions whose answer follows from types, shapes and constants.
bool Recording::states_numpy_fact(const Call& c) {
    if (!c.name.starts_with("numpy.")) return false; // every library call comes by here
    static const char* const of_types[] = {"numpy.result_type", "numpy.can_cast", "numpy.promote_types"};
    static const char* const of_arrays[] = {"numpy.ndim", "numpy.shape", "numpy.size", "numpy.iscomplexobj", "numpy.isrealobj", "numpy.isscalar"};
    const auto among = [&](const auto& names) { return std::any_of(std::begin(names), std::end(names), [&](const char* one) { return c.name == one; }); };
    const bool types = among(of_types);
    if (!types && !among(of_arrays)) return false;
    for (size_t k = 0; k < c.args.size(); k++) {
        const Shadow& s = at(c.args[k]);
        if (s.kind == Shadow::constant || s.identity) continue;
        if (s.kind == Shadow::number && (c.name == "numpy.isscalar" || concrete(c.args[k], c.values[k]))) continue;
        const bool array = is_tensor(c.args[k]) && (Py_TYPE(c.values[k]) == names().ndarray || python::numpy_scalar_dtype(c.values[k]) != DType::none);
        if (!array || (types && !numpy_is_new() && builder_.type(s.node).dims.empty())) return false;
    }
    return true;
}

} // namespace dyno::capture
