// map(), filter() and itertools, and what sorts or chooses by a key. The former where the very next
// instruction goes through their iterator, as list(map(f, x)) and sum(map(f, x)) do: the items are made at once, by a function of
// dyno._consumers in place of the call. Nobody can tell when each was made, nor see that no iterator was.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {
using bytecode::Op;

const bytecode::Instruction& following(const frame::Activation& a) {
    auto unit = static_cast<size_t>(a.next);
    while (a.decoded->instructions[unit].op == Op::skip) unit += a.decoded->instructions[unit].size;
    return a.decoded->instructions[unit];
}

namespace {

enum class Needs : uint8_t {
    everything, // the items come one by one from code of the user's: the next instruction must take all of them
    nothing,    // all that can be seen happens in the call itself
};

struct LazyRow {
    const char* type; // tp_name
    const char* consumer;
    size_t fewest, most; // positional arguments
    Needs needs;
};

constexpr LazyRow rows[] = {
    {"map", "map_all", 2, 2, Needs::everything}, {"map", "map_many", 3, 8, Needs::everything}, {"filter", "filter_all", 2, 2, Needs::everything},
    {"itertools.starmap", "starmap_all", 2, 2, Needs::everything}, {"itertools.chain", "chain_all", 0, 8, Needs::everything},
    {"itertools.islice", "islice_to", 2, 2, Needs::everything}, {"itertools.islice", "islice_all", 3, 4, Needs::everything},
    {"itertools.accumulate", "accumulate_all", 1, 1, Needs::everything}, {"itertools.accumulate", "accumulate_by", 2, 2, Needs::everything},
    {"itertools.pairwise", "pairwise_all", 1, 1, Needs::everything}, {"itertools.takewhile", "takewhile_all", 2, 2, Needs::everything},
    {"itertools.dropwhile", "dropwhile_all", 2, 2, Needs::everything}, {"itertools.filterfalse", "filterfalse_all", 2, 2, Needs::everything},
    {"itertools.compress", "compress_all", 2, 2, Needs::everything},
    {"itertools.product", "product_all", 0, 8, Needs::nothing}, {"itertools.combinations", "combinations_all", 2, 2, Needs::nothing},
    {"itertools.permutations", "permutations_all", 1, 2, Needs::nothing}, {"itertools.repeat", "repeat_all", 2, 2, Needs::nothing},
};

/// What is called next with the result as its only argument; null: no such call comes next.
PyObject* called_next(const frame::Activation& a, PyObject* const* result) {
    const bytecode::Instruction& next = following(a);
    if (next.op != Op::call || next.arg != 1 || result - 2 < a.base) return nullptr;
    if (bytecode::python >= 313) return result[-1] ? nullptr : result[-2]; // callable, self or null
    return result[-2] ? result[-2] : result[-1];                          // null, callable or method, self
}

/// Whether the instruction after the call takes every item and runs nothing of the user's in between.
bool takes_everything(const frame::Activation& a, PyObject* const* result) {
    const Op next = following(a).op;
    if (next == Op::list_extend || next == Op::call_ex) return true;
    PyObject* callable = called_next(a, result);
    if (!callable) return false;
    for (PyTypeObject* type : {&PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type, &PyDict_Type})
        if (callable == reinterpret_cast<PyObject*>(type)) return true;
    PyObject* builtins = PyEval_GetBuiltins();
    for (const char* name : {"sum", "sorted", "min", "max"})
        if (callable == PyDict_GetItemString(builtins, name)) return true;
    return callable == _PyType_Lookup(&PyUnicode_Type, interned("join")); // which makes a list of them first
}

} // namespace

/// A tensor, or tensors in a tuple or in a list that has no name: nobody changes it.
bool Recording::all_tensors(ShadowId given, PyObject* value) {
    if (!know(given, value)) return false;
    if (is_tensor(given)) return true;
    const auto items = (PyList_CheckExact(value) && Py_REFCNT(value) == 1) || PyTuple_CheckExact(value) ? items_of(given, value) : std::nullopt;
    if (!items || static_cast<Py_ssize_t>(items->size()) != PySequence_Fast_GET_SIZE(value)) return false;
    for (size_t k = 0; k < items->size(); k++)
        if (!know((*items)[k], PySequence_Fast_GET_ITEM(value, static_cast<Py_ssize_t>(k))) || !is_tensor((*items)[k])) return false;
    return true;
}

/// Nothing: it is none of these, or its iterator lives on.
std::optional<Recording::Before> Recording::call_lazy(Activation& a, Call& c, Redirect& redirect, int popped) {
    if (!PyType_Check(c.callable) || c.kwnames) return std::nullopt;
    const char* name = reinterpret_cast<PyTypeObject*>(c.callable)->tp_name;
    if ((reinterpret_cast<PyTypeObject*>(c.callable)->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::strncmp(name, "itertools.", 10) != 0) return std::nullopt;
    const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const LazyRow& r) {
        return std::strcmp(r.type, name) == 0 && c.nargs >= r.fewest && c.nargs <= r.most;
    });
    if (row == std::end(rows)) return std::nullopt;
    PyObject* const* result = a.sp - popped;
    const bool loop = following(a).op == Op::get_iter;
    // Of a library's function on tensors, a loop's body cannot tell when it was called.
    const bool plain = loop && std::strcmp(name, "map") == 0 && c.nargs == 2 && row_of(c.values[0]) && all_tensors(c.args[1], c.values[1]);
    const bool counted = std::strncmp(row->consumer, "islice", 6) == 0 || row->needs == Needs::nothing;
    for (size_t k = 1; k < c.args.size() && counted && std::strcmp(row->consumer, "product_all") != 0; k++) { // how many: held, and none that is refused
        if (c.values[k] == Py_None && std::strcmp(row->consumer, "repeat_all") != 0) continue;
        if (!PyLong_CheckExact(c.values[k]) || PyLong_AsSsize_t(c.values[k]) < (k == 3) || !hold(c.args[k], c.values[k])) return PyErr_Clear(), std::nullopt;
    }
    if (!takes_everything(a, result) && !(loop && (row->needs == Needs::nothing || plain))) return std::nullopt;
    PyObject* function = consumer(row->consumer);
    if (!function) return std::nullopt;
    for (size_t k = 0; k < c.args.size(); k++)
        if (!know(c.args[k], c.values[k])) return stop_refused(a);
    identity_object(function);
    return redirect_to(a, function, c.args, c.values, popped, Redirect::identity, redirect);
}

/// sorted(), min() and max() by a key: the key function is called in Python. Nothing: there is none, or the call is unusual.
std::optional<Recording::Before> Recording::call_by_key(Activation& a, const Call& c, const char* consumer_name, Redirect& redirect, int popped) {
    if (!c.kwnames || c.nargs < 1) return std::nullopt;
    const bool sorts = std::strcmp(consumer_name, "sorted_by") == 0;
    ShadowId key = 0, reverse = 0;
    PyObject *key_value = nullptr, *reverse_value = Py_False;
    for (size_t k = c.nargs; k < c.args.size(); k++) {
        PyObject* name = PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs));
        if (PyUnicode_CompareWithASCIIString(name, "key") == 0) key = c.args[k], key_value = c.values[k];
        else if (sorts && PyUnicode_CompareWithASCIIString(name, "reverse") == 0 && PyBool_Check(c.values[k])) reverse = c.args[k], reverse_value = c.values[k];
        else return std::nullopt;
    }
    PyObject* function = consumer(consumer_name);
    if (!key || key_value == Py_None || !function || (sorts && c.nargs != 1)) return std::nullopt;
    identity_object(function);
    std::vector<ShadowId> ids{canonical(c.args[0]), canonical(key)};
    std::vector<PyObject*> values{c.values[0], key_value};
    if (sorts) {
        ids.push_back(reverse ? canonical(reverse) : constant(Py_False));
        values.push_back(reverse_value);
    } else if (c.nargs > 1) {
        return std::nullopt; // max(x, y, key=f)
    }
    return redirect_to(a, function, std::move(ids), std::move(values), popped, Redirect::identity, redirect);
}

} // namespace dyno::capture
