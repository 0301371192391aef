// Builtin functions and types on known values: what they return is known without running them at replay.
// What is not here is unknown native code. Methods of builtin types: methods.cpp.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {

/// The builtins that are modelled, by what is done with them; any other callable is `none`.
enum class Recording::Builtin : uint8_t {
    none,
    ambient, // answers from torch's state, which the ambient word holds
    len, isinstance, type, callable, getattr, hasattr, super, // about a value
    range, zip, enumerate, reversed, iter, // iterators
    next,                                  // of one
    tuple, list, dict, set, collection, // containers
    int_, float_, bool_, abs, min, max, pow, round, // numbers
    slice,
    grad_mode, // torch._C._set_grad_enabled
    same, // hands its argument back, where that is a plain tensor
    constant_fold, // known where every argument is a constant; math's and operator's also run on numbers at replay
    sum, any, all, reduce, // in Python, where they are not known
    sorted,        // of constants
};

namespace {

template <size_t n> bool among(const char* name, const char* const (&names)[n]) {
    return std::any_of(names, names + n, [&](const char* one) { return std::strcmp(name, one) == 0; });
}

/// Whether a C function tells only what the ambient word guards, or what is the same for every plain tensor.
bool tells_ambient_state(const char* module, const char* name) {
    static const char* const anywhere[] = {"_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"};
    static const char* const in_torch[] = {
        "_get_tracing_state", "is_grad_enabled", "is_inference_mode_enabled", "_is_tracing", "_is_torch_function_enabled",
        "is_autocast_enabled", "is_autocast_cpu_enabled", "get_default_dtype", "are_deterministic_algorithms_enabled",
        "_is_any_autocast_enabled", "_get_deterministic_algorithms", "_are_functorch_transforms_active", "_len_torch_dispatch_stack",
        "_len_torch_function_stack", "is_scripting", "_is_functorch_wrapped_tensor_none"
    };
    return among(name, anywhere) || (among(name, in_torch) && std::strncmp(module, "torch", 5) == 0);
}

bool has_keywords(const Recording::Call& c) { return c.kwnames && PyTuple_GET_SIZE(c.kwnames) > 0; }

/// What the C function returns now; null if it raises.
Owned<> result_of(const Recording::Call& c) {
    auto result = Owned<>::steal(PyObject_Vectorcall(c.callable, c.values.data(), c.args.size(), nullptr));
    if (!result) PyErr_Clear();
    return result;
}

} // namespace

/// What a callable is, by identity; functions of math and operator, by their module.
Recording::Builtin Recording::builtin_of(PyObject* callable) {
    static const std::pair<const char*, Builtin> spelled[] = {
        {"len", Builtin::len}, {"range", Builtin::range}, {"zip", Builtin::zip}, {"enumerate", Builtin::enumerate},
        {"isinstance", Builtin::isinstance}, {"type", Builtin::type}, {"int", Builtin::int_}, {"float", Builtin::float_},
        {"bool", Builtin::bool_}, {"abs", Builtin::abs}, {"tuple", Builtin::tuple}, {"list", Builtin::list}, {"dict", Builtin::dict}, {"set", Builtin::set},
        {"iter", Builtin::iter}, {"callable", Builtin::callable}, {"getattr", Builtin::getattr}, {"hasattr", Builtin::hasattr},
        {"min", Builtin::min}, {"max", Builtin::max}, {"reversed", Builtin::reversed}, {"super", Builtin::super}, {"pow", Builtin::pow},
        {"round", Builtin::round}, {"next", Builtin::next}, {"any", Builtin::any}, {"all", Builtin::all}, {"sum", Builtin::sum}, {"sorted", Builtin::sorted},
        {"str", Builtin::constant_fold}, {"repr", Builtin::constant_fold}, {"ord", Builtin::constant_fold},
        {"chr", Builtin::constant_fold}, {"divmod", Builtin::constant_fold}, {"issubclass", Builtin::constant_fold},
        {"slice", Builtin::slice}, {"complex", Builtin::constant_fold}, {"format", Builtin::constant_fold}, {"hash", Builtin::constant_fold}
    };
    static const auto* table = [] {
        auto* t = new std::unordered_map<PyObject*, Builtin>;
        PyObject* builtins = PyEval_GetBuiltins();
        for (const auto& [name, kind] : spelled)
            if (PyObject* f = PyDict_GetItemString(builtins, name)) (*t)[f] = kind;
        return t;
    }();
    if (auto it = table->find(callable); it != table->end()) return it->second;
    if (PyType_Check(callable))
        for (const PyTypeObject* type : {&PyODict_Type, names().defaultdict, names().counter, names().deque})
            if (callable == reinterpret_cast<const PyObject*>(type)) return Builtin::collection;
    if (!PyCFunction_CheckExact(callable)) return Builtin::none;
    auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
    const char* module = f->m_module && PyUnicode_Check(f->m_module) ? PyUnicode_AsUTF8(f->m_module) : "";
    if (std::strcmp(module, "math") == 0 || std::strcmp(module, "_operator") == 0) return Builtin::constant_fold;
    if (std::strcmp(module, "_functools") == 0 && std::strcmp(f->m_ml->ml_name, "reduce") == 0) return Builtin::reduce;
    if (std::strcmp(module, "torch._C") == 0 && std::strcmp(f->m_ml->ml_name, "_set_grad_enabled") == 0) return Builtin::grad_mode;
    if (std::strcmp(module, "torch._C._functorch") == 0 && std::strcmp(f->m_ml->ml_name, "unwrap_if_dead") == 0) return Builtin::same;
    return tells_ambient_state(module, f->m_ml->ml_name) ? Builtin::ambient : Builtin::none;
}

bool Recording::all_constant(const Call& c) {
    for (size_t k = 0; k < c.args.size(); k++) {
        if (!know(c.args[k], c.values[k])) return false;
        const Shadow& s = at(c.args[k]);
        if (s.kind != Shadow::constant && !s.identity) return false;
    }
    return true;
}

/// Nothing: the callable is no builtin that is modelled.
std::optional<Recording::Before> Recording::call_builtin(Activation& a, Call& c, Redirect& redirect, int popped) {
    const Builtin what = builtin_of(c.callable);
    if (what == Builtin::none) return call_lazy(a, c, redirect, popped);
    return call_known_builtin(a, c, what, redirect, popped);
}

Recording::Before Recording::call_known_builtin(Activation& a, Call& c, Builtin what, Redirect& redirect, int popped) {
    if (what == Builtin::super) return call_super(a, c);
    for (size_t k = 0; k < c.args.size(); k++)
        if (!know(c.args[k], c.values[k])) return stop(a, refusal_, "");
    if (auto answer = consume(a, c, what, redirect, popped)) return *answer;
    switch (what) {
    case Builtin::ambient: case Builtin::callable: return pend_constant();
    case Builtin::len: return call_len(a, c, redirect, popped);
    case Builtin::isinstance: return call_isinstance(a, c);
    case Builtin::type:
        if (c.args.size() != 1 || has_keywords(c)) return stop(a, "a class is made", "");
        return pend_fixed(identity_object(reinterpret_cast<PyObject*>(Py_TYPE(c.values[0]))));
    case Builtin::getattr: case Builtin::hasattr: return call_getattr(a, c, what, redirect, popped);
    case Builtin::range: return call_range(a, c);
    case Builtin::zip: case Builtin::enumerate: return call_zip(a, c, what);
    case Builtin::reversed: return call_reversed(a, c);
    case Builtin::iter: return call_iter(a, c);
    case Builtin::next: return call_next(a, c, redirect, popped);
    case Builtin::tuple: case Builtin::list: return call_sequence(a, c, what);
    case Builtin::dict: return call_dict(a, c, redirect, popped);
    case Builtin::collection: return call_collection(a, c, redirect, popped);
    case Builtin::set: return call_set(a, c);
    case Builtin::grad_mode: // eager calls are made in the mode of their time, and a commit leaves the last one behind
        if (c.args.size() != 1 || has_keywords(c) || !PyBool_Check(c.values[0]) || !concrete(c.args[0], c.values[0])) return stop(a, "a grad mode that is not known before run time", "");
        return pend_constant();
    case Builtin::same: return c.args.size() == 1 && at(c.args[0]).kind == Shadow::tensor ? pend_fixed(canonical(c.args[0])) : stop(a, "a functorch wrapper", "");
    case Builtin::float_: case Builtin::int_: case Builtin::bool_: case Builtin::abs: return call_conversion(a, c, what);
    case Builtin::min: case Builtin::max:
        if (auto answer = call_by_key(a, c, what == Builtin::min ? "min_by" : "max_by", redirect, popped)) return *answer;
        [[fallthrough]];
    case Builtin::pow: case Builtin::round: return call_number_builtin(a, c, what);
    case Builtin::slice:
        for (size_t k = 0; k < c.args.size(); k++)
            if (has_keywords(c) || !key_of(c.args[k], c.values[k])) return stop(a, "a slice of run-time values", "");
        return pend_constant();
    case Builtin::constant_fold: return call_folded(a, c);
    case Builtin::sum: return stop(a, "sum() of Python values", "");
    case Builtin::sorted:
        if (auto answer = call_by_key(a, c, "sorted_by", redirect, popped)) return *answer;
        return call_sorted(a, c);
    case Builtin::reduce: return call_library(a, std::move(c));
    default: return stop(a, "a builtin function that is not modelled", "");
    }
}

/// any(), all() and sum(), and tuple() and list() of a generator, go through it in Python: a frame that nobody sees is recorded in place of
/// the call. Nothing: it is not one of these.
std::optional<Recording::Before> Recording::consume(Activation& a, Call& c, Builtin what, Redirect& redirect, int popped) {
    static constexpr std::pair<Builtin, const char*> spelled[] = {
        {Builtin::any, "any"}, {Builtin::all, "all"}, {Builtin::sum, "sum"}, {Builtin::tuple, "tuple"}, {Builtin::list, "list"}, {Builtin::reduce, "reduce"}};
    const auto* row = std::find_if(std::begin(spelled), std::end(spelled), [&](const auto& r) { return r.first == what; });
    if (row == std::end(spelled) || has_keywords(c) || c.args.empty()) return std::nullopt;
    if (what == Builtin::reduce) {
        if (c.args.size() < 2 || c.args.size() > 3 || !(is_generator(c.args[1]) || PyList_CheckExact(c.values[1]) || PyTuple_CheckExact(c.values[1]))) return std::nullopt;
        PyObject* function = consumer(c.args.size() == 2 ? "reduce" : "reduce_from");
        if (!function) return std::nullopt;
        identity_object(function);
        return redirect_to(a, function, c.args, c.values, popped, Redirect::identity, redirect);
    }
    const bool generator = is_generator(c.args[0]);
    if (!generator && (what == Builtin::tuple || what == Builtin::list)) return std::nullopt;
    if (c.args.size() > (what == Builtin::sum ? 2u : 1u)) return std::nullopt;
    if (what == Builtin::sum && bytecode::python >= 312) return std::nullopt; // adds up floats with what rounding lost
    if (what == Builtin::sum && c.args.size() == 2 && (PyUnicode_Check(c.values[1]) || PyBytes_Check(c.values[1]) || PyByteArray_Check(c.values[1]))) return std::nullopt;
    PyObject* function = consumer(row->second);
    if (!function) return std::nullopt;
    identity_object(function);
    return redirect_to(a, function, c.args, c.values, popped, Redirect::identity, redirect);
}

/// A function of dyno._consumers; null where there are none, or where functions are not followed.
PyObject* Recording::consumer(const char* name) const {
    PyObject* function = names().consumers && limits_.inline_functions ? PyDict_GetItemString(names().consumers, name) : nullptr;
    return function && PyFunction_Check(function) ? function : nullptr;
}

// ------------------------------------------------------------------------------------------------ about a value
Recording::Before Recording::call_len(Activation& a, const Call& c, Redirect& redirect, int popped) {
    if (c.args.size() != 1 || has_keywords(c)) return stop(a, "len() of an unusual call", "");
    PyObject* v = c.values[0];
    const Shadow::Kind kind = at(c.args[0]).kind;
    if (kind == Shadow::tensor && !at(c.args[0]).unsized && PyObject_Size(v) >= 0) {
        own_python_ = true; // Tensor.__len__
        return pend_constant();
    }
    if (kind == Shadow::tensor && at(c.args[0]).unsized && PyObject_Size(v) >= 0) { // a number that a replay asks for
        pending_call_ = c;
        pending_call_.name = "len";
        pending_ = PendingKind::call;
        return Before::perform;
    }
    PyErr_Clear();
    if ((kind == Shadow::object || kind == Shadow::derived) && module_items(c.args[0], v)) return pend_constant();
    if (kind == Shadow::derived) return pend_derived(c);
    const bool plain = PyList_CheckExact(v) || PyTuple_CheckExact(v) || PyDict_CheckExact(v) || is_named_tuple(v);
    if (kind == Shadow::constant || (kind == Shadow::fresh && (plain || made_dict(c.args[0]) || made_deque(c.args[0]))) || (kind == Shadow::outcome && PyTuple_Check(v))) return pend_constant();
    if (kind == Shadow::object && PyList_CheckExact(v))
        if (auto answer = length_of_grown(canonical(c.args[0]), v)) return *answer;
    if (kind == Shadow::object && (plain || PyODict_CheckExact(v) || PyAnySet_CheckExact(v))) {
        if (!guard_length(c.args[0], v)) return stop(a, "the length of a container that was changed", "");
        return pend_constant();
    }
    if ((kind == Shadow::object || kind == Shadow::fresh) && names().is_plain_instance_type(Py_TYPE(v)) && limits_.inline_functions) {
        PyObject* found = _PyType_Lookup(Py_TYPE(v), interned("__len__"));
        guard_type_attribute(Py_TYPE(v), interned("__len__"), found);
        if (found && PyFunction_Check(found)) {
            identity_object(found);
            return redirect_to(a, found, {canonical(c.args[0])}, {v}, popped, Redirect::length, redirect);
        }
    }
    return stop(a, std::string("len() of a ") + Py_TYPE(v)->tp_name, "");
}

bool Recording::instance_check_is_plain(PyObject* type) const {
    // abc.ABCMeta and torch's own metaclass answer by the class; their __instancecheck__ runs Python only for registered classes.
    PyTypeObject* meta = Py_TYPE(type);
    if (_PyType_Lookup(meta, interned("__instancecheck__")) == _PyType_Lookup(&PyType_Type, interned("__instancecheck__"))) return true;
    return meta == &PyType_Type || names().parameter == reinterpret_cast<PyTypeObject*>(type) ||
           names().tensor == reinterpret_cast<PyTypeObject*>(type) || std::strcmp(meta->tp_name, "ABCMeta") == 0 ||
           std::strcmp(meta->tp_name, "_TensorMeta") == 0 || std::strcmp(meta->tp_name, "_ParameterMeta") == 0;
}

Recording::Before Recording::call_isinstance(Activation& a, const Call& c) {
    if (c.args.size() != 2 || has_keywords(c)) return stop(a, "isinstance() of an unusual call", "");
    const Shadow& given = at(c.args[1]);
    if (given.kind != Shadow::fresh && given.kind != Shadow::constant && !given.identity && given.kind != Shadow::object)
        return stop(a, "isinstance() of an unknown class", "");
    auto plain = [&](PyObject* t) {
        return PyType_Check(t) && (!_PyType_Lookup(Py_TYPE(t), interned("__instancecheck__")) || instance_check_is_plain(t));
    };
    PyObject* classes = c.values[1];
    bool fine = plain(classes);
    if (PyTuple_CheckExact(classes)) {
        fine = true;
        auto items = items_of(c.args[1], classes);
        if (!items) return stop(a, refusal_, "");
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(classes); k++) {
            PyObject* one = PyTuple_GET_ITEM(classes, k);
            fine &= plain(one) && know((*items)[static_cast<size_t>(k)], one);
        }
    }
    if (!fine) return stop(a, "isinstance() of a class with rules of its own", "");
    own_python_ = true; // abc's __instancecheck__
    return pend_constant();
}

/// getattr() and hasattr(): the attribute as LOAD_ATTR has it; what is not there is the default, or False.
Recording::Before Recording::call_getattr(Activation& a, const Call& c, Builtin what, Redirect& redirect, int popped) {
    if (has_keywords(c) || c.args.size() < 2 || !PyUnicode_CheckExact(c.values[1]) || at(c.args[1]).kind != Shadow::constant)
        return stop(a, "getattr() of an unusual call", "");
    PyObject* object = c.values[0];
    PyObject* name = attribute_name(c.args[1], c.values[1]);
    const ShadowId self = canonical(c.args[0]);
    const bool asks = what == Builtin::hasattr;
    lookup_.popped = popped;
    if (asks) lookup_.after = Redirect::exists;
    else if (c.args.size() == 3) lookup_.after = Redirect::or_default, lookup_.fallback = canonical(c.args[2]), lookup_.fallback_object = c.values[2];
    const Shadow::Kind kind = at(self).kind;
    if (asks && kind == Shadow::tensor) return pend_constant();
    if (kind == Shadow::constant && !Py_TYPE(object)->tp_dictoffset && !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        if (asks) return pend_constant();
        if (!_PyType_Lookup(Py_TYPE(object), name)) return absent_attribute(a, "getattr() raises");
    }
    const Before answer = attribute_value(a, self, object, name, &redirect, false);
    return answer == Before::perform && asks && pending_ == PendingKind::fixed ? pend_constant() : answer;
}

Recording::Before Recording::call_super(Activation& a, const Call& c) {
    ShadowId self;
    PyObject *self_object, *start;
    if (c.args.empty()) {
        // super(): the first argument and the __class__ cell of this frame.
        const int locals = a.code->co_nlocalsplus;
        PyObject* cell = nullptr;
        for (int k = 0; k < locals; k++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(a.code->co_localsplusnames, k), "__class__") == 0) cell = a.locals[k];
        self = canonical(a.shadows[0]);
        self_object = a.locals[0];
        if (!cell || !PyCell_Check(cell) || !self || !self_object || PyCell_Check(self_object))
            return stop(a, "super() in an unusual place", "");
        start = PyCell_GET(cell);
    } else if (c.args.size() == 2) {
        if (!know(c.args[0], c.values[0]) || !at(c.args[0]).identity) return stop(a, "super() of an unknown class", "");
        start = c.values[0];
        self = canonical(c.args[1]);
        self_object = c.values[1];
    } else return stop(a, "super() of an unusual call", "");
    if (!start || !PyType_Check(start) || PyType_Check(self_object)) return stop(a, "super() of a class", "");
    if (!know(self, self_object)) return stop(a, refusal_, "");
    Shadow s;
    s.kind = Shadow::super_;
    s.type = reinterpret_cast<PyTypeObject*>(start);
    s.real = reinterpret_cast<PyObject*>(Py_TYPE(self_object));
    s.parts = {canonical(self)};
    return pend_fixed(add(std::move(s)));
}

// ------------------------------------------------------------------------------------------------ iterators
Recording::Before Recording::call_range(Activation& a, const Call& c) {
    const size_t n = c.args.size();
    if (has_keywords(c) || n < 1 || n > 3) return stop(a, "range() of an unusual call", "");
    int64_t v[3] = {0, 0, 1};
    for (size_t k = 0; k < n; k++) {
        if (!PyLong_CheckExact(c.values[k]) || !concrete(c.args[k], c.values[k])) return stop(a, "a range that depends on data", "");
        v[n == 1 ? 1 : k] = PyLong_AsLongLong(c.values[k]);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return stop(a, "a range of huge integers", "");
        }
    }
    const auto [start, end, step] = v;
    if (step == 0) return stop(a, "range() raises", "");
    IteratorShadow it;
    it.kind = IteratorShadow::range;
    it.start = start, it.step = step;
    if (step > 0) it.length = end > start ? (end - start + step - 1) / step : 0;
    else it.length = start > end ? (start - end - step - 1) / -step : 0;
    return pend_fixed(iterator(std::move(it), &PyRange_Type));
}

/// zip() and enumerate(): iterators over iterators.
Recording::Before Recording::call_zip(Activation& a, const Call& c, Builtin what) {
    const size_t n = c.args.size();
    const bool zip = what == Builtin::zip;
    if (has_keywords(c) || n == 0) return stop(a, "an iterator of an unusual call", "");
    IteratorShadow it;
    it.kind = zip ? IteratorShadow::zip : IteratorShadow::enumerate;
    if (!zip && n == 2) {
        if (!PyLong_CheckExact(c.values[1]) || !concrete(c.args[1], c.values[1])) return stop(a, "enumerate() from a run-time number", "");
        it.start = PyLong_AsLongLong(c.values[1]);
    } else if (!zip && n != 1) return stop(a, "an iterator of an unusual call", "");
    for (size_t k = 0; k < (zip ? n : 1); k++) {
        const Shadow::Kind kind = at(c.args[k]).kind;
        if (kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(c.values[k])) && !module_items(c.args[k], c.values[k]))
            return stop(a, "a loop over an object of a class", "");
        if (kind == Shadow::tensor && (rows_of_tensor(c.args[k]) < 0 || rows_of_tensor(c.args[k]) > static_cast<int64_t>(limits_.unrolled_turns) || needs_autograd({c.args[k]})))
            return stop(a, "a loop over the rows of a tensor or array", "");
        if (kind == Shadow::tensor) own_python_ = true; // Tensor.__iter__
        const ShadowId id = iterate(c.args[k], c.values[k]);
        if (!id) return stop(a, refusal_, "");
        it.bases.push_back(id);
    }
    return pend_fixed(iterator(std::move(it), nullptr));
}

Recording::Before Recording::call_reversed(Activation& a, const Call& c) {
    if (has_keywords(c) || c.args.empty()) return stop(a, "an iterator of an unusual call", "");
    auto items = items_of(c.args[0], c.values[0]);
    if (!items) return stop(a, refusal_, "");
    IteratorShadow it;
    it.kind = IteratorShadow::reversed;
    it.bases = {canonical(c.args[0])};
    it.items.assign(items->rbegin(), items->rend());
    it.changes = at(c.args[0]).changes;
    return pend_fixed(iterator(std::move(it), nullptr));
}

Recording::Before Recording::call_iter(Activation& a, const Call& c) {
    if (has_keywords(c) || c.args.size() != 1) return stop(a, "an iterator of an unusual call", "");
    if (is_generator(c.args[0])) return pend_fixed(canonical(c.args[0]));
    if (at(c.args[0]).kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(c.values[0])) && !module_items(c.args[0], c.values[0]))
        return stop(a, "iter() of an object of a class", "");
    const ShadowId id = iterate(c.args[0], c.values[0]);
    return id ? pend_fixed(id) : stop(a, refusal_, "");
}

// ------------------------------------------------------------------------------------------------ containers
Recording::Before Recording::call_sequence(Activation& a, const Call& c, Builtin what) {
    const bool tuple = what == Builtin::tuple;
    if (has_keywords(c) || c.args.size() > 1) return stop(a, "a list or tuple of an unusual call", "");
    if (c.args.empty()) return tuple ? pend_constant() : pend_fixed(fresh(NewObject::list, {}, &PyList_Type));
    const Shadow::Kind kind = at(c.args[0]).kind;
    const auto made_of = [&](std::vector<ShadowId> parts) {
        return pend_fixed(fresh(tuple ? NewObject::tuple : NewObject::list, std::move(parts), tuple ? &PyTuple_Type : &PyList_Type));
    };
    if (kind == Shadow::tensor) {
        auto rows = few_rows(canonical(c.args[0]));
        return rows ? made_of(std::move(*rows)) : stop_refused(a);
    }
    if (kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(c.values[0])) && !module_items(c.args[0], c.values[0]))
        return stop(a, "a list of an object of a class", "");
    const ShadowId it = iterate(c.args[0], c.values[0]);
    if (!it) return stop(a, refusal_, "");
    if (turns_of(it) > 4096) return stop(a, "a list of more than 4,096 items", "");
    std::vector<ShadowId> parts;
    while (auto element = next_of(it)) parts.push_back(*element);
    return made_of(std::move(parts));
}

/// sorted() of constants: the order is known.
/// Text and numbers, and tuples of such: comparing them runs nobody's code.
static bool has_own_order(PyObject* value) {
    if (!PyTuple_CheckExact(value)) return PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(value); k++)
        if (!has_own_order(PyTuple_GET_ITEM(value, k))) return false;
    return true;
}

Recording::Before Recording::call_sorted(Activation& a, const Call& c) {
    PyObject* from = c.nargs == 1 ? c.values[0] : Py_None;
    const bool sequence = PyTuple_CheckExact(from) || PyList_CheckExact(from);
    for (size_t k = c.nargs; k < c.args.size(); k++) {
        PyObject* name = PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs));
        if (PyUnicode_CompareWithASCIIString(name, "reverse") != 0 || !PyBool_Check(c.values[k]) || at(c.args[k]).kind != Shadow::constant) return stop(a, "sorted() by a key", "");
    }
    const ShadowId it = sequence || PyDict_CheckExact(from) || PyAnySet_CheckExact(from) ? iterate(c.args[0], from) : 0;
    if (!it) return stop(a, "sorted() of run-time values", "");
    std::vector<ShadowId> items;
    while (auto element = next_of(it)) items.push_back(canonical(*element));
    auto order = sorted_items(a, items, from, c.callable, c);
    return order ? pend_fixed(fresh(NewObject::list, std::move(*order), &PyList_Type)) : Before::stop;
}

/// The items in the order that sorted() with the call's arguments gives. Nothing: it has stopped.
std::optional<std::vector<ShadowId>> Recording::sorted_items(Activation& a, const std::vector<ShadowId>& items, PyObject* from, PyObject* sorted, const Call& c) {
    const auto none = [&](const char* why) { return PyErr_Clear(), stop(a, why, ""), std::nullopt; };
    auto given = Owned<>::steal(PySequence_List(from));
    if (!given || PyList_GET_SIZE(given.get()) != static_cast<Py_ssize_t>(items.size())) return none("sorted() of run-time values");
    for (size_t k = 0; k < items.size(); k++) { // before anything compares them: what is compared here is no user's
        PyObject* value = PyList_GET_ITEM(given.get(), static_cast<Py_ssize_t>(k));
        if (!has_own_order(value)) return none("sorted() of values with an order of their own");
        if (!hold_numbers(items[k], value)) return none("sorted() of run-time values");
    }
    auto result = Owned<>::steal(PyObject_Vectorcall(sorted, c.values.data(), c.nargs, c.kwnames));
    if (!result) return none("sorted() raises");
    std::vector<ShadowId> order;
    std::vector<bool> taken(items.size());
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(result.get()); j++) {
        PyObject* value = PyList_GET_ITEM(result.get(), j);
        for (size_t k = 0; k < items.size(); k++) {
            if (taken[k] || PyList_GET_ITEM(given.get(), static_cast<Py_ssize_t>(k)) != value) continue;
            taken[k] = true;
            order.push_back(canonical(items[k]));
            break;
        }
    }
    if (order.size() != items.size()) return none("sorted() of run-time values");
    return order;
}

Recording::Before Recording::call_dict(Activation& a, const Call& c, Redirect& redirect, int popped) {
    if (auto answer = dict_of_pairs(a, c, "dict_of", redirect, popped)) return *answer;
    const ShadowId d = fresh(NewObject::dict, {}, &PyDict_Type);
    return fill_dict(c, d, 0) ? pend_fixed(d) : stop_refused(a);
}

// ------------------------------------------------------------------------------------------------ numbers
/// int(), float(), bool(), abs().
Recording::Before Recording::call_conversion(Activation& a, Call& c, Builtin what) {
    if (has_keywords(c) || c.args.size() != 1) {
        if (c.args.empty() || all_constant(c)) return pend_constant();
        return stop(a, "a conversion of an unusual call", "");
    }
    const Shadow::Kind kind = at(c.args[0]).kind;
    if (kind == Shadow::constant) return pend_constant();
    if (kind == Shadow::number) {
        ScalarStep step{};
        step.kind = what == Builtin::float_  ? ScalarStep::to_float
                    : what == Builtin::int_  ? ScalarStep::to_int
                    : what == Builtin::bool_ ? ScalarStep::to_bool
                                             : ScalarStep::abs;
        const auto result = result_of(c);
        if (!result) return stop(a, "the conversion raises", "");
        return pend_fixed(number_step(step, {c.args[0]}, result.get()));
    }
    if (kind == Shadow::tensor && what == Builtin::abs) {
        c.callable = operator_function("abs");
        c.row = row_of(c.callable);
        return pend_call(a, std::move(c));
    }
    if (kind == Shadow::tensor && what != Builtin::bool_) return pend_call(a, std::move(c));
    if (what == Builtin::bool_)
        if (auto answer = truth_of_container(a, canonical(c.args[0]), c.values[0])) return *answer;
    return stop(a, "a conversion of tensor data to a Python number", "");
}

/// min(), max(), pow(), round().
Recording::Before Recording::call_number_builtin(Activation& a, const Call& c, Builtin what) {
    if (all_constant(c)) return pend_constant();
    const bool extreme = what == Builtin::min || what == Builtin::max;
    if (extreme && c.args.size() == 1 && !has_keywords(c)) return call_extreme(a, c);
    const size_t n = c.args.size();
    if (what == Builtin::pow && n == 2 && !has_keywords(c) && (is_tensor(c.args[0]) || is_tensor(c.args[1]))) { // x ** y
        Call power = c;
        power.callable = operator_function("pow");
        power.row = nullptr;
        power.name.clear();
        return call_library(a, std::move(power));
    }
    if (has_keywords(c) || n < 1 || (n > 2 && !extreme)) return stop(a, "min() or max() of run-time values", "");
    for (ShadowId id : c.args)
        if (at(id).kind != Shadow::number && at(id).kind != Shadow::constant)
            return stop(a, "a builtin on values that are not numbers", "");
    if (what == Builtin::pow || n == 1) return stop(a, "a builtin on run-time numbers", "");
    if (n > 2) return pend_pairwise(a, c, c.args, c.values);
    const auto result = result_of(c);
    if (!result) return stop(a, "the builtin raises", "");
    return pend_number_call(c, result.get());
}

/// min() or max() of the items of a list or tuple.
Recording::Before Recording::call_extreme(Activation& a, const Call& c) {
    PyObject* sequence = c.values[0];
    const auto items = PyList_CheckExact(sequence) || PyTuple_Check(sequence) ? items_of(c.args[0], sequence) : std::nullopt;
    if (!items || items->empty()) return stop(a, "min() or max() of run-time values", "");
    std::vector<PyObject*> values;
    bool constants = true;
    for (size_t k = 0; k < items->size(); k++) {
        values.push_back(PySequence_Fast_GET_ITEM(sequence, static_cast<Py_ssize_t>(k)));
        if (!know((*items)[k], values[k])) return stop_refused(a);
        const Shadow::Kind kind = at((*items)[k]).kind;
        if (kind != Shadow::number && kind != Shadow::constant) return stop(a, "a builtin on values that are not numbers", "");
        constants &= kind == Shadow::constant;
    }
    return constants ? pend_constant() : pend_pairwise(a, c, *items, values);
}

/// The builtin of two at a time, from the first on: as it goes through many.
Recording::Before Recording::pend_pairwise(Activation& a, const Call& c, const std::vector<ShadowId>& ids, const std::vector<PyObject*>& values) {
    for (PyObject* v : values)
        if (!PyLong_CheckExact(v) && !PyFloat_CheckExact(v)) return stop(a, "a builtin on values that are not numbers", "");
    ShadowId best = canonical(ids[0]);
    auto value = Owned<>::borrow(values[0]);
    for (size_t k = 1; k < ids.size(); k++) {
        PyObject* two[] = {value.get(), values[k]};
        auto next = Owned<>::steal(PyObject_Vectorcall(c.callable, two, 2, nullptr));
        if (!next) return PyErr_Clear(), stop(a, "the builtin raises", "");
        ScalarStep step{};
        step.kind = ScalarStep::call;
        step.callable = anchor(c.callable);
        best = number_step(step, {best, canonical(ids[k])}, next.get());
        kept_.try_emplace(next.get(), Owned<>::borrow(next.get()));
        value = std::move(next);
    }
    return pend_fixed(best);
}

Recording::Before Recording::call_folded(Activation& a, const Call& c) {
    const size_t n = c.args.size();
    if (all_constant(c)) return pend_constant();
    bool numbers = !has_keywords(c) && n >= 1 && n <= 2 && PyCFunction_CheckExact(c.callable);
    for (size_t k = 0; numbers && k < n; k++) {
        const Shadow::Kind kind = at(c.args[k]).kind;
        numbers = kind == Shadow::number || (kind == Shadow::constant && (PyLong_CheckExact(c.values[k]) || PyFloat_CheckExact(c.values[k])));
    }
    if (!numbers && row_of(c.callable) && !has_keywords(c)) // operator.add(x, y), as x + y
        for (ShadowId id : c.args)
            if (is_tensor(id)) return call_library(a, c);
    if (!numbers) return stop(a, "a builtin function of run-time values", "");
    const auto result = result_of(c);
    if (!result) return stop(a, "the builtin raises", "");
    if (!PyFloat_CheckExact(result.get()) && !PyLong_CheckExact(result.get())) return stop(a, "a builtin of run-time numbers", "");
    return pend_number_call(c, result.get());
}

/// A pure C function of one or two numbers: a replay calls it.
Recording::Before Recording::pend_number_call(const Call& c, PyObject* result) {
    ScalarStep step{};
    step.kind = ScalarStep::call;
    step.callable = anchor(c.callable);
    if (c.args.size() == 2) return pend_fixed(number_step(step, {c.args[0], c.args[1]}, result));
    return pend_fixed(number_step(step, {c.args[0]}, result));
}

} // namespace dyno::capture
