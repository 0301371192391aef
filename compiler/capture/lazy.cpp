// map(), filter() and itertools, and what sorts or chooses by a key. The former where the very next instruction goes through their iterator,
// as list(map(f, x)) does: the items are made at once, by a function of dyno._consumers in place of the call. Nobody can tell when each was
// made, nor see that no iterator was.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace dyno::capture {
using bytecode::Op;

const bytecode::Instruction& following(const frame::Activation& a, int others) {
    const auto& all = a.decoded->instructions;
    auto unit = static_cast<size_t>(a.next);
    for (;; unit += all[unit].size)
        if (all[unit].op != Op::skip && others-- == 0) return all[unit];
}

namespace {

struct LazyRow {
    const char* type; // tp_name
    const char* consumer;
    size_t fewest, most; // positional arguments
    bool calls;           // a function of the user's is called for the items, or an iterable of his is asked for them
    size_t counts = 0;    // arguments from this one on are numbers of items; 0: none are
    bool or_none = false; // or None
};

constexpr LazyRow rows[] = {
    {"map", "map_all", 2, 2, true}, {"map", "map_many", 3, 8, true}, {"filter", "filter_all", 2, 2, true},
    {"itertools.starmap", "starmap_all", 2, 2, true}, {"itertools.chain", "chain_all", 0, 8, true},
    {"itertools.islice", "islice_to", 2, 2, true, 1, true}, {"itertools.islice", "islice_all", 3, 4, true, 1, true},
    {"itertools.accumulate", "accumulate_all", 1, 1, true}, {"itertools.accumulate", "accumulate_by", 2, 2, true},
    {"itertools.pairwise", "pairwise_all", 1, 1, true}, {"itertools.takewhile", "takewhile_all", 2, 2, true},
    {"itertools.dropwhile", "dropwhile_all", 2, 2, true}, {"itertools.filterfalse", "filterfalse_all", 2, 2, true},
    {"itertools.compress", "compress_all", 2, 2, true},
    {"itertools.product", "product_all", 0, 8, false}, {"itertools.combinations", "combinations_all", 2, 2, false, 1}, // they read their
    {"itertools.permutations", "permutations_all", 1, 2, false, 1, true}, {"itertools.repeat", "repeat_all", 2, 2, false, 1}, // arguments in the call
};

enum class Takes : uint8_t {
    at_once,    // every item, before anything is done with one
    one_by_one, // and adds, hashes or compares it, or runs a loop's body, before it asks for the next
    otherwise,  // or not at all
};

/// How the instruction after the call goes through the iterator that the call pushes to `result`.
Takes taken_next(const frame::Activation& a, PyObject* const* result) {
    const bytecode::Instruction& next = following(a);
    if (next.op == Op::list_extend || next.op == Op::call_ex) return Takes::at_once;
    if (next.op == Op::get_iter) return Takes::one_by_one;
    if (next.op != Op::call || next.arg != 1 || result - 2 < a.base) return Takes::otherwise;
    // Below lie null and a callable or a method and its self; from 3.13 a callable and its self or null.
    PyObject* callable = bytecode::python >= 313 ? (result[-1] ? nullptr : result[-2]) : result[-2] ? result[-2] : result[-1];
    static const auto* known = [] {
        auto* table = new std::unordered_map<PyObject*, Takes>;
        PyObject* builtins = PyEval_GetBuiltins();
        for (const char* name : {"list", "tuple", "sorted"}) (*table)[PyDict_GetItemString(builtins, name)] = Takes::at_once;
        for (const char* name : {"sum", "min", "max", "set", "frozenset", "dict", "any", "all"}) (*table)[PyDict_GetItemString(builtins, name)] = Takes::one_by_one;
        (*table)[_PyType_Lookup(&PyUnicode_Type, interned("join"))] = Takes::at_once; // which makes a list of them first
        return table;
    }();
    const auto found = callable ? known->find(callable) : known->end();
    return found == known->end() ? Takes::otherwise : found->second;
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
    for (size_t k = row->counts; k > 0 && k < c.args.size(); k++) { // held, and none that is refused
        if (c.values[k] == Py_None && row->or_none) continue;
        if (!PyLong_CheckExact(c.values[k]) || PyLong_AsSsize_t(c.values[k]) < (k == 3) || !hold_numbers(c.args[k], c.values[k])) return PyErr_Clear(), std::nullopt;
    }
    const Takes takes = taken_next(a, a.sp - popped);
    // Of a library's function on tensors nobody can tell when it was called.
    const bool plain = std::strcmp(name, "map") == 0 && c.nargs == 2 && row_of(c.values[0]) && all_tensors(c.args[1], c.values[1]);
    if (takes == Takes::otherwise || (takes == Takes::one_by_one && row->calls && !plain)) return std::nullopt;
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
