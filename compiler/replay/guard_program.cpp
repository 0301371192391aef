// Running a guard program: see guard_program.h. The switch below is the hot path of every hit.
#include "compiler/replay/guard_program.h"
#include "compiler/python/partial.h"
#include "compiler/python/versions.h"
#include "compiler/support/fault.h"
#include <bit>
#include <cstring>

namespace dyno::replay {
namespace {

/// A look-up by an immutable key of a type with a C hash; a comparison that raised counts as "not there".
PyObject* item_of(PyObject* dict, PyObject* key) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (!value && PyErr_Occurred()) PyErr_Clear();
    return value;
}

/// A version that proves an unchanged dict, or 0. CPython 3.13 stores attributes past a dict that shares its instance's inline values.
uint64_t proving_version(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030d0000
    if (reinterpret_cast<PyDictObject*>(dict)->ma_values) return 0;
#endif
    return python::dict_version(dict);
}

bool have_length(PyObject* object, uint32_t length) {
    PyTypeObject* type = Py_TYPE(object);
    Py_ssize_t n = -1;
    if (type == &PyDict_Type || type == &PyODict_Type) n = PyDict_GET_SIZE(object);
    else if (type == &PyList_Type) n = PyList_GET_SIZE(object);
    else if (PyTuple_Check(object)) n = PyTuple_GET_SIZE(object); // its type is guarded
    else if (type == &PyUnicode_Type) n = PyUnicode_GET_LENGTH(object);
    else if (type == &PySet_Type || type == &PyFrozenSet_Type) n = PySet_GET_SIZE(object);
    else if (type == &PyBytes_Type) n = PyBytes_GET_SIZE(object);
    else if (type == &PyRange_Type) {
        n = PyObject_Length(object);
        if (n < 0) PyErr_Clear();
    }
    return n == static_cast<Py_ssize_t>(length);
}

/// An OrderedDict keeps an order beside its table's.
bool have_ordered_keys(PyObject* dict, PyObject* keys) {
    if (!PyODict_CheckExact(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
    if (PyTuple_GET_SIZE(keys) == 0) return true;
    PyObject* walk = PyObject_GetIter(dict);
    bool equal = walk != nullptr;
    for (Py_ssize_t k = 0; equal && k < PyTuple_GET_SIZE(keys); k++) {
        PyObject* key = PyIter_Next(walk);
        equal = key && equal_constants(key, PyTuple_GET_ITEM(keys, k));
        Py_XDECREF(key);
    }
    Py_XDECREF(walk);
    PyErr_Clear();
    return equal;
}

bool have_keys(PyObject* dict, PyObject* keys) {
    if (!PyDict_CheckExact(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
    Py_ssize_t at = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value))
        if (!equal_constants(key, PyTuple_GET_ITEM(keys, i++))) return false;
    return true;
}

PyObject* tuple_part(PyObject* tuple, uint32_t index) {
    if (!tuple || !PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) <= static_cast<Py_ssize_t>(index)) return nullptr;
    return PyTuple_GET_ITEM(tuple, index);
}
PyObject* tuple_part_from_end(PyObject* tuple, uint32_t index) {
    return tuple && PyTuple_CheckExact(tuple) && index < PyTuple_GET_SIZE(tuple) ? tuple_part(tuple, static_cast<uint32_t>(PyTuple_GET_SIZE(tuple)) - 1 - index) : nullptr;
}

/// Reads that need nothing but their base. Null: not there, or the base is of another kind.
PyObject* read_part(const Check& c, PyObject* base) {
    switch (c.op) {
    case Check::list_item:
        if (!PyList_CheckExact(base) || PyList_GET_SIZE(base) <= static_cast<Py_ssize_t>(c.index)) return nullptr;
        return PyList_GET_ITEM(base, c.index);
    case Check::tuple_item: return tuple_part(base, c.index);
    case Check::slot_attribute: return python::slotted_attribute(base, c.what);
    case Check::instance_dict: return python::instance_dict_if_any(base);
    case Check::cell_contents: return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case Check::closure: return PyFunction_Check(base) ? tuple_part(PyFunction_GET_CLOSURE(base), c.index) : nullptr;
    case Check::default_: return PyFunction_Check(base) ? tuple_part_from_end(PyFunction_GET_DEFAULTS(base), c.index) : nullptr;
    case Check::kwdefault: {
        PyObject* defaults = PyFunction_Check(base) ? PyFunction_GET_KW_DEFAULTS(base) : nullptr;
        return defaults && PyDict_CheckExact(defaults) ? item_of(defaults, c.what) : nullptr;
    }
    case Check::function_globals: return PyFunction_Check(base) ? PyFunction_GET_GLOBALS(base) : nullptr;
    case Check::function_part: return PyFunction_Check(base) ? function_part(base, c.index) : nullptr;
    case Check::type_attribute: return PyType_Check(base) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), c.what) : nullptr;
    case Check::code_of: return PyFunction_Check(base) ? PyFunction_GET_CODE(base) : nullptr;
    case Check::method_self: return PyMethod_Check(base) ? PyMethod_GET_SELF(base) : nullptr;
    case Check::partial_part: return python::partial_part(base, static_cast<python::PartialPart>(c.index));
    case Check::method_function: return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : nullptr;
    case Check::type_of: return reinterpret_cast<PyObject*>(Py_TYPE(base));
    case Check::module_dict: return PyModule_Check(base) ? PyModule_GetDict(base) : nullptr;
    case Check::dict_item: return PyDict_Check(base) ? item_of(base, c.what) : nullptr;
    default: return nullptr;
    }
}

} // namespace

PyObject* function_part(PyObject* function, uint32_t which) {
    auto* f = reinterpret_cast<PyFunctionObject*>(function);
    switch (which) {
    case capture::Source::name_: return f->func_name;
    case capture::Source::qualname_: return f->func_qualname;
    case capture::Source::module_: return f->func_module;
    default: return f->func_doc;
    }
}

uint32_t GuardProgram::check(const Inputs& inputs, PyObject** sources) {
    return run(checks_.data(), checks_.data() + checks_.size(), inputs, sources);
}

uint32_t GuardProgram::run(const Check* at, const Check* end, const Inputs& inputs, PyObject** s) {
    for (; at != end; ++at) {
        const Check& c = *at;
        bool holds = true;
        switch (c.op) {
        case Check::slot: holds = c.index < inputs.slot_count && (s[c.to] = inputs.slots[c.index]); break;
        case Check::function: holds = (s[c.to] = inputs.function); break;
        case Check::globals: holds = (s[c.to] = inputs.globals); break;
        case Check::builtins: holds = (s[c.to] = inputs.builtins); break;
        case Check::anchored: s[c.to] = c.what; break;
        case Check::attribute:
            if (slots_[c.to].index < 0) slots_[c.to] = python::find_attribute_slot(s[c.from], c.what);
            holds = (s[c.to] = python::read_attribute_slot(s[c.from], slots_[c.to], c.what));
            break;
        case Check::tensor: holds = python::tensor_matches(s[c.from], facts_[c.index].tensor); break;
        case Check::array: holds = python::array_matches(s[c.from], facts_[c.index].array); break;
        case Check::is: holds = s[c.from] == c.what; break;
        case Check::type: holds = reinterpret_cast<PyObject*>(Py_TYPE(s[c.from])) == c.what; break;
        case Check::equal: holds = s[c.from] == c.what || equal_constants(s[c.from], c.what); break;
        case Check::length: holds = have_length(s[c.from], c.index); break;
        case Check::ordered_keys: holds = have_ordered_keys(s[c.from], c.what); break;
        case Check::keys: holds = have_keys(s[c.from], c.what); break;
        case Check::absent: holds = PyDict_Check(s[c.from]) && !item_of(s[c.from], c.what); break;
        case Check::no_attribute: holds = !python::instance_attribute(s[c.from], c.what); break;
        case Check::same: holds = s[c.from] == s[c.to] || fault(3); break;
        case Check::distinct: holds = s[c.from] != s[c.to] || fault(3); break;
        case Check::number_truth: holds = truth_of_number(s[c.from]) == static_cast<int>(c.index); break;
        case Check::dict_group:
            if (const uint32_t failed = run_group(dict_groups_[c.index], inputs, s); failed != all_hold) return failed;
            break;
        case Check::type_group:
            if (const uint32_t failed = run_types(type_groups_[c.index]); failed != all_hold) return failed;
            break;
        default: holds = (s[c.to] = read_part(c, s[c.from])); break;
        }
        if (!holds) [[unlikely]] return c.guard;
    }
    return all_hold;
}

uint32_t GuardProgram::run_group(DictGroup& group, const Inputs& inputs, PyObject** s) {
    PyObject* dict = nullptr;
    switch (group.of) {
    case DictGroup::dict: dict = s[group.base]; break;
    case DictGroup::instance: dict = python::instance_dict_if_any(s[group.base]); break;
    case DictGroup::globals: dict = inputs.globals; break;
    case DictGroup::builtins: dict = inputs.builtins; break;
    }
    if (dict && dict == group.known && group.version && proving_version(dict) == group.version) [[likely]] {
        for (uint32_t read : group.reads) s[read] = remembered_[read];
        return all_hold;
    }
    if (group.of != DictGroup::instance && (!dict || !PyDict_Check(dict))) return group.guard;
    // The version is taken before the look-ups: a change in between can only make the next run look again.
    const uint64_t version = dict && python::have_dict_versions() ? proving_version(dict) : 0;
    group.version = 0;
    const Check* first = grouped_.data() + group.first;
    const uint32_t failed = run(first, first + group.count, inputs, s);
    if (failed != all_hold || !version) return failed;
    for (uint32_t read : group.reads) remembered_[read] = s[read];
    group.known = dict;
    group.version = version;
    return all_hold;
}

uint32_t GuardProgram::run_types(TypeGroup& group) {
    const uint32_t version = python::type_version(group.type);
    if (version && version == group.version) [[likely]] return all_hold;
    for (const TypeGroup::Fact& fact : group.facts)
        if (fact.fragile || _PyType_Lookup(group.type, fact.name) != fact.expected) return fact.guard;
    group.version = version;
    return all_hold;
}

bool equal_constants(PyObject* a, PyObject* b) {
    if (a == b) return true;
    PyTypeObject* type = Py_TYPE(a);
    if (type != Py_TYPE(b)) return false;
    if (type == &PyFloat_Type) return std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(a)) == std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(b));
    if (type == &PyComplex_Type) {
        const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    if (type == &PyTuple_Type || (PyTuple_Check(a) && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE))) { // torch.Size as well
        if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
            if (!equal_constants(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
        return true;
    }
    if (type == &PySlice_Type) {
        const auto *x = reinterpret_cast<PySliceObject*>(a), *y = reinterpret_cast<PySliceObject*>(b);
        return equal_constants(x->start, y->start) && equal_constants(x->stop, y->stop) && equal_constants(x->step, y->step);
    }
    // NumPy scalars are compared by their bytes; what is left are types whose comparison is C code; everything else is an identity.
    alignas(16) unsigned char x[16] = {}, y[16] = {};
    if (python::numpy_ready() && python::read_numpy_scalar(a, x) != DType::none && python::read_numpy_scalar(b, y) != DType::none)
        return std::memcmp(x, y, sizeof x) == 0;
    const bool built_in = type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyFrozenSet_Type || type == &PyRange_Type;
    const bool value_of_library = !(type->tp_flags & (Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_HAVE_GC)); // torch.device, dtypes
    if (!built_in && !value_of_library) return false;
    const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal > 0;
}

int truth_of_number(PyObject* number) {
    PyTypeObject* type = Py_TYPE(number);
    const bool plain = type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyComplex_Type ||
                       (python::numpy_ready() && python::numpy_scalar_dtype(number) != DType::none);
    if (!plain) return -1;
    const int truth = PyObject_IsTrue(number);
    if (truth < 0) PyErr_Clear();
    return truth;
}

} // namespace dyno::replay
