// Operators, slices, building, formatting, unpacking: CPython's own operations through the C API.
// Must not touch frames; operands stay on the stack.
#include "compiler/frame/perform.h"
#include "compiler/python/ref.h"

extern "C" {
PyObject* _PyList_Extend(PyListObject*, PyObject*);
int _PySet_Update(PyObject*, PyObject*);
}

namespace dyno::frame::perform {
namespace {

using bytecode::Op;
using Binary = PyObject* (*)(PyObject*, PyObject*);

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* power_in_place(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

/// By CPython's NB_ number.
constexpr Binary binary_operations[26] = {PyNumber_Add,
                                          PyNumber_And,
                                          PyNumber_FloorDivide,
                                          PyNumber_Lshift,
                                          PyNumber_MatrixMultiply,
                                          PyNumber_Multiply,
                                          PyNumber_Remainder,
                                          PyNumber_Or,
                                          power,
                                          PyNumber_Rshift,
                                          PyNumber_Subtract,
                                          PyNumber_TrueDivide,
                                          PyNumber_Xor,
                                          PyNumber_InPlaceAdd,
                                          PyNumber_InPlaceAnd,
                                          PyNumber_InPlaceFloorDivide,
                                          PyNumber_InPlaceLshift,
                                          PyNumber_InPlaceMatrixMultiply,
                                          PyNumber_InPlaceMultiply,
                                          PyNumber_InPlaceRemainder,
                                          PyNumber_InPlaceOr,
                                          power_in_place,
                                          PyNumber_InPlaceRshift,
                                          PyNumber_InPlaceSubtract,
                                          PyNumber_InPlaceTrueDivide,
                                          PyNumber_InPlaceXor};

PyObject* build_sequence(Op op, PyObject** items, Py_ssize_t n) {
    PyObject* v = op == Op::build_tuple ? PyTuple_New(n) : PyList_New(n);
    if (!v) return nullptr;
    PyObject** into = op == Op::build_tuple ? reinterpret_cast<PyTupleObject*>(v)->ob_item : reinterpret_cast<PyListObject*>(v)->ob_item;
    for (Py_ssize_t k = 0; k < n; k++) into[k] = Py_NewRef(items[k]);
    return v;
}

PyObject* build_set(PyObject** items, Py_ssize_t n) {
    Owned<> v = Owned<>::steal(PySet_New(nullptr));
    for (Py_ssize_t k = 0; v && k < n; k++)
        if (PySet_Add(v.get(), items[k]) < 0) v.reset();
    return v.release();
}

/// Keys beside their values, or in a tuple of their own.
PyObject* build_map(PyObject* keys, PyObject** items, Py_ssize_t n) {
    Owned<> v = Owned<>::steal(PyDict_New());
    for (Py_ssize_t k = 0; v && k < n; k++) {
        PyObject* key = keys ? PyTuple_GET_ITEM(keys, k) : items[2 * k];
        PyObject* value = keys ? items[k] : items[2 * k + 1];
        if (PyDict_SetItem(v.get(), key, value) < 0) v.reset();
    }
    return v.release();
}

PyObject* build_string(PyObject** items, Py_ssize_t n) {
    static PyObject* const empty = PyUnicode_FromStringAndSize("", 0);
    Owned<> parts = Owned<>::steal(build_sequence(Op::build_tuple, items, n));
    return parts ? PyUnicode_Join(empty, parts.get()) : nullptr;
}

/// **mapping into a dict; of a call (`merge`) without duplicates. What CPython would refuse is left to it.
PyObject* update_dict(PyObject* to, PyObject* from, bool merge) {
    if (!PyDict_CheckExact(from)) return in_pythons_words();
    PyObject *key, *value;
    for (Py_ssize_t at = 0; merge && PyDict_Next(from, &at, &key, &value);) {
        if (!PyUnicode_CheckExact(key)) return in_pythons_words();
        const int present = PyDict_Contains(to, key);
        if (present < 0) return nullptr;
        if (present) return in_pythons_words();
    }
    return done_if(PyDict_Update(to, from));
}

PyObject* extend_list(PyObject* to, PyObject* from) {
    if (!Py_TYPE(from)->tp_iter && !PySequence_Check(from)) return in_pythons_words();
    PyObject* none = _PyList_Extend(reinterpret_cast<PyListObject*>(to), from);
    if (!none) return nullptr;
    Py_DECREF(none);
    return done();
}

/// CPython stops one item after the expected count; draining an endless iterator would not.
PyObject* take_items(PyObject* from, Py_ssize_t n) {
    const auto iterator = Owned<>::steal(PyObject_GetIter(from));
    if (!iterator) return nullptr;
    auto items = Owned<>::steal(PyList_New(0));
    for (Py_ssize_t k = 0; items && k <= n; k++) {
        const auto v = Owned<>::steal(PyIter_Next(iterator.get()));
        if (!v && PyErr_Occurred()) return nullptr;
        if (!v) break;
        if (PyList_Append(items.get(), v.get()) < 0) return nullptr;
    }
    return items.release();
}

} // namespace

PyObject* binary(uint32_t op, PyObject* a, PyObject* b) { return binary_operations[op](a, b); }

PyObject* compare(uint32_t arg, PyObject* a, PyObject* b) {
    PyObject* v = PyObject_RichCompare(a, b, static_cast<int>(arg & 0xff));
    if (!v || !(arg & bytecode::to_bool_bit)) return v;
    const int truth = PyObject_IsTrue(v);
    Py_DECREF(v);
    return truth < 0 ? nullptr : PyBool_FromLong(truth);
}

namespace {
PyObject* compare_after(uint32_t arg, PyObject* a, PyObject* b) {
    static constexpr int swapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
    static constexpr const char* texts[] = {"<", "<=", "==", "!=", ">", ">="};
    const uint32_t op = arg & 0xff;
    if (richcmpfunc other = Py_TYPE(b)->tp_richcompare) {
        PyObject* v = other(b, a, swapped[op]);
        if (v != Py_NotImplemented) return v;
        Py_DECREF(v);
    }
    if (op == Py_EQ || op == Py_NE) return PyBool_FromLong((a == b) == (op == Py_EQ));
    PyErr_Format(PyExc_TypeError, "'%s' not supported between instances of '%.100s' and '%.100s'", texts[op], Py_TYPE(a)->tp_name, Py_TYPE(b)->tp_name);
    return nullptr;
}

PyObject* binary_after(uint32_t op, PyObject* a, PyObject* b, bool reflected) {
    static constexpr const char* methods[] = {"__radd__", "__rand__", "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmul__", "__rmod__",
                                              "__ror__", "__rpow__", "__rrshift__", "__rsub__", "__rtruediv__", "__rxor__"};
    static constexpr const char* texts[] = {"+", "&", "//", "<<", "@", "*", "%", "|", "** or pow()", ">>", "-", "/", "^"};
    const auto name = Owned<>::steal(PyUnicode_InternFromString(methods[op]));
    PyObject* found = name && !reflected && Py_TYPE(a) != Py_TYPE(b) ? _PyType_Lookup(Py_TYPE(b), name.get()) : nullptr;
    if (found) {
        const auto kept = Owned<>::borrow(found);
        PyObject* v = PyObject_CallFunctionObjArgs(found, b, a, nullptr);
        if (v != Py_NotImplemented) return v;
        Py_DECREF(v);
    }
    PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %.100s: '%.100s' and '%.100s'", texts[op], Py_TYPE(a)->tp_name, Py_TYPE(b)->tp_name);
    return nullptr;
}
} // namespace

PyObject* after_not_implemented(const Instruction& i, PyObject* a, PyObject* b, bool reflected) {
    return i.op == Op::compare ? compare_after(i.arg, a, b) : binary_after(i.arg, a, b, reflected);
}

PyObject* unary(Op op, PyObject* v) {
    switch (op) {
    case Op::negative:
        return PyNumber_Negative(v);
    case Op::positive:
        return PyNumber_Positive(v);
    case Op::invert:
        return PyNumber_Invert(v);
    default:
        break;
    }
    const int truth = PyObject_IsTrue(v);
    return truth < 0 ? nullptr : PyBool_FromLong((truth != 0) == (op == Op::to_bool));
}

PyObject* slice(PyObject** operands) {
    const auto range = Owned<>::steal(PySlice_New(operands[1], operands[2], nullptr));
    return range ? PyObject_GetItem(operands[0], range.get()) : nullptr;
}

PyObject* store_slice(PyObject** operands) {
    const auto range = Owned<>::steal(PySlice_New(operands[2], operands[3], nullptr));
    return range ? done_if(PyObject_SetItem(operands[1], range.get(), operands[0])) : nullptr;
}

PyObject* build(const Instruction& i, PyObject** sp) {
    const auto n = static_cast<Py_ssize_t>(i.arg);
    switch (i.op) {
    case Op::build_tuple:
    case Op::build_list:
        return build_sequence(i.op, sp - n, n);
    case Op::build_set:
        return build_set(sp - n, n);
    case Op::build_map:
        return build_map(nullptr, sp - 2 * n, n);
    case Op::build_const_map:
        return build_map(sp[-1], sp - 1 - n, n);
    case Op::build_string:
        return build_string(sp - n, n);
    default:
        return n == 3 ? PySlice_New(sp[-3], sp[-2], sp[-1]) : PySlice_New(sp[-2], sp[-1], nullptr);
    }
}

PyObject* add_to_container(const Instruction& i, PyObject** sp) {
    PyObject* value = sp[-1];
    PyObject* to = sp[-1 - static_cast<int>(i.arg)];
    switch (i.op) {
    case Op::list_append:
        return done_if(PyList_Append(to, value));
    case Op::set_add:
        return done_if(PySet_Add(to, value));
    case Op::map_add:
        return done_if(PyDict_SetItem(sp[-2 - static_cast<int>(i.arg)], sp[-2], value));
    case Op::list_extend:
        return extend_list(to, value);
    case Op::set_update:
        return done_if(_PySet_Update(to, value));
    case Op::dict_update:
        return update_dict(to, value, false);
    default:
        return update_dict(to, value, true);
    }
}

PyObject* format(const Instruction& i, PyObject** sp) {
    const bool has_spec = i.op == Op::format_spec || (i.op == Op::format_value && i.arg & 4);
    const uint32_t conversion = i.op == Op::convert ? i.arg : i.op == Op::format_value ? i.arg & 3 : 0;
    PyObject* operand = sp[has_spec ? -2 : -1];
    auto v = Owned<>::borrow(operand);
    if (conversion)
        v = Owned<>::steal(conversion == 1 ? PyObject_Str(operand) : conversion == 2 ? PyObject_Repr(operand) : PyObject_ASCII(operand));
    if (!v || i.op == Op::convert || (PyUnicode_CheckExact(v.get()) && !has_spec)) return v.release();
    return PyObject_Format(v.get(), has_spec ? sp[-1] : nullptr);
}

int append_text(PyObject** target, PyObject* addition) {
    PyUnicode_Append(target, addition);
    return *target ? 0 : -1;
}

PyObject* unpack(const Instruction& i, PyObject* from) {
    const bool open = i.op == Op::unpack_ex;
    const Py_ssize_t before = open ? i.arg & 0xff : i.arg, after = open ? i.arg >> 8 : 0;
    const bool exact = PyTuple_CheckExact(from) || PyList_CheckExact(from);
    if (!exact && !Py_TYPE(from)->tp_iter && !PySequence_Check(from)) return in_pythons_words();
    if (exact) {
        const Py_ssize_t n = PySequence_Fast_GET_SIZE(from);
        if (open ? n < before + after : n != before) return in_pythons_words();
    }
    auto items = Owned<>::steal(exact || open ? PySequence_List(from) : take_items(from, before));
    if (!items) return nullptr;
    const Py_ssize_t n = PyList_GET_SIZE(items.get());
    if (n < before + after) {
        const char* text =
            open ? "not enough values to unpack (expected at least %zd, got %zd)" : "not enough values to unpack (expected %zd, got %zd)";
        PyErr_Format(PyExc_ValueError, text, before + after, n);
        return nullptr;
    }
    if (!open && n > before) {
        PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %zd)", before);
        return nullptr;
    }
    if (!open) return items.release();
    const auto middle = Owned<>::steal(PyList_GetSlice(items.get(), before, n - after));
    if (!middle || PyList_SetSlice(items.get(), before, n - after, nullptr) < 0 || PyList_Insert(items.get(), before, middle.get()) < 0) return nullptr;
    return items.release();
}

} // namespace dyno::frame::perform
