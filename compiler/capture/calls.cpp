// Calls: Python functions are inlined by token, classes are instantiated, builtins on known values are modelled, library
// functions become nodes; everything else is unknown native code and ends the segment.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/partial.h"
#include "compiler/python/torch_door.h"
#include "compiler/python/versions.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {
using bytecode::Op;

Recording::Before Recording::call(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject* kw = i.op == Op::call_kw ? a.sp[-1] : a.kwnames;
    PyObject** end = a.sp - (i.op == Op::call_kw ? 1 : 0);
    PyObject** first = end - i.arg;
    PyObject *callable, *self;
    PyObject** callable_slot;
    PyObject** self_slot = nullptr;
    if (bytecode::python >= 313) callable_slot = first - 2, self_slot = first[-1] ? first - 1 : nullptr;
    else if (first[-2]) callable_slot = first - 2, self_slot = first - 1;
    else callable_slot = first - 1;
    callable = *callable_slot;
    self = self_slot ? *self_slot : nullptr;
    Call c;
    c.callable = callable;
    c.kwnames = kw;
    const size_t named = kw ? static_cast<size_t>(PyTuple_GET_SIZE(kw)) : 0;
    if (self) c.args.push_back(canonical(a.shadow(self_slot))), c.values.push_back(self);
    for (PyObject** p = first; p < end; p++) c.args.push_back(canonical(a.shadow(p))), c.values.push_back(*p);
    c.nargs = c.args.size() - named;
    for (ShadowId id : c.args)
        if (!id) return stop(a, "an argument of unknown origin", "");
    const int popped = static_cast<int>(a.sp - (first - 2));
    return call_value(a, a.shadow(callable_slot), callable, std::move(c), redirect, popped);
}

Recording::Before Recording::call_ex(Activation& a, const Instruction& i, Redirect& redirect) {
    PyObject** kw_slot = i.arg & 1 ? a.sp - 1 : nullptr;
    PyObject** tuple_slot = a.sp - 1 - (i.arg & 1);
    PyObject** callable_slot = bytecode::python >= 313 ? tuple_slot - 2 : tuple_slot - 1;
    Call c;
    c.callable = *callable_slot;
    if (!know(a.shadow(tuple_slot), *tuple_slot)) return stop_refused(a);
    const int popped = static_cast<int>(a.sp - callable_slot) + (bytecode::python < 313 ? 1 : 0);
    if (PyObject* function = is_generator(a.shadow(tuple_slot)) ? consumer("call") : nullptr) {
        if (kw_slot && PyObject_Size(*kw_slot) > 0) return stop(a, "a generator's values and keywords are arguments", "");
        if (!a.shadow(callable_slot)) return stop(a, "a function of unknown origin is called", "");
        identity_object(function);
        return redirect_to(a, function, {canonical(a.shadow(callable_slot)), canonical(a.shadow(tuple_slot))}, {*callable_slot, *tuple_slot}, popped, Redirect::identity, redirect);
    }
    auto items = items_of(a.shadow(tuple_slot), *tuple_slot);
    if (!items) return stop_refused(a);
    if (!PyTuple_Check(*tuple_slot) && !PyList_Check(*tuple_slot)) return stop(a, "the items of an iterator are arguments", "");
    for (size_t k = 0; k < items->size(); k++) c.args.push_back((*items)[k]), c.values.push_back(PySequence_Fast_GET_ITEM(*tuple_slot, static_cast<Py_ssize_t>(k)));
    c.nargs = c.args.size();
    if (kw_slot && PyObject_Size(*kw_slot) > 0) {
        if (!know(a.shadow(kw_slot), *kw_slot)) return stop_refused(a);
        auto pairs = dict_items(a.shadow(kw_slot), *kw_slot);
        if (!pairs) return stop_refused(a);
        auto names_tuple = Owned<>::steal(PyTuple_New(static_cast<Py_ssize_t>(pairs->size() / 2)));
        for (size_t k = 0; k + 1 < pairs->size(); k += 2) {
            PyObject* name = at((*pairs)[k]).real;
            PyObject* value = name && PyUnicode_CheckExact(name) ? PyDict_GetItemWithError(*kw_slot, name) : nullptr;
            if (!value) return stop(a, "keyword names that are not known", "");
            PyTuple_SET_ITEM(names_tuple.get(), static_cast<Py_ssize_t>(k / 2), Py_NewRef(name));
            c.args.push_back((*pairs)[k + 1]);
            c.values.push_back(value);
        }
        c.kwnames = names_tuple.get();
        call_names_ = std::move(names_tuple);
    }
    for (ShadowId id : c.args)
        if (!id) return stop(a, "an argument of unknown origin", "");
    return call_value(a, a.shadow(callable_slot), *callable_slot, std::move(c), redirect, popped);
}

Recording::Before Recording::call_value(Activation& a, ShadowId given, PyObject* object, Call c, Redirect& redirect, int popped) {
    if (!given) return stop(a, "a function of unknown origin is called", "");
    if (!know(given, object)) return stop_refused(a);
    const ShadowId id = canonical(given);
    PyTypeObject* type = Py_TYPE(object);
    if (auto answer = derived_call(a, c)) return *answer;
    if (states_fact(object, c)) return pend_derived(std::move(c));
    if (is_remembered(object, c)) {
        making_record_ = type; // whatever Python it runs the first time
        return pend_derived(std::move(c));
    }
    if (type == &PyFunction_Type) {
        if (auto answer = named_tuple_method(a, object, c)) return *answer;
        if (library_function(object)) return call_library(a, std::move(c));
        return call_python(a, object, c, redirect, popped, Redirect::identity, 0);
    }
    const bool bound_here = shadows_[id].kind == Shadow::fresh && shadows_[id].type == &PyMethod_Type;
    if (type == &PyMethod_Type || bound_here) {
        PyObject* function = bound_here ? at(shadows_[id].parts[0]).real : PyMethod_GET_FUNCTION(object);
        PyObject* self = type == &PyMethod_Type ? PyMethod_GET_SELF(object) : self_of(object);
        if (!function || !self) return stop(a, "a bound method of an unusual type is called", "");
        ShadowId f, s;
        if (shadows_[id].kind == Shadow::fresh) f = shadows_[id].parts[0], s = shadows_[id].parts[1];
        else {
            f = raw(source(Source::method_function, shadows_[id].source, 0, nullptr), function);
            s = raw(source(Source::method_self, shadows_[id].source, 0, nullptr), self);
        }
        if (!know(f, function)) return stop_refused(a);
        c.args.insert(c.args.begin(), canonical(s));
        c.values.insert(c.values.begin(), self);
        c.nargs++;
        c.callable = function;
        return call_value(a, f, function, std::move(c), redirect, popped);
    }
    if (type == python::partial_type()) return call_partial(a, id, object, std::move(c), redirect, popped);
    static PyObject* const plain_getattribute = _PyType_Lookup(&PyBaseObject_Type, interned("__getattribute__"));
    if (object == plain_getattribute && c.args.size() == 2 && !c.kwnames && PyUnicode_CheckExact(c.values[1])) {
        // object.__getattribute__(self, name): the ordinary look-up, whatever the class says.
        if (!know(c.args[0], c.values[0])) return stop_refused(a);
        PyObject* name = attribute_name(c.args[1], c.values[1]);
        if (!name || !names().is_followed_instance_type(Py_TYPE(c.values[0]))) return stop(a, "an attribute whose name is not known before run time", "");
        lookup_.popped = popped;
        return instance_attribute_value(a, canonical(c.args[0]), c.values[0], name, &redirect, false);
    }
    static PyObject* const module_getattribute = _PyType_Lookup(&PyModule_Type, interned("__getattribute__"));
    if (object == module_getattribute && c.args.size() == 2 && !c.kwnames && PyUnicode_CheckExact(c.values[1]) && PyModule_CheckExact(c.values[0])) {
        if (!know(c.args[0], c.values[0])) return stop_refused(a);
        PyObject* name = attribute_name(c.args[1], c.values[1]);
        if (!name) return stop(a, "an attribute whose name is not known before run time", "");
        lookup_.popped = popped;
        return module_attribute(a, canonical(c.args[0]), c.values[0], name, &redirect);
    }
    static PyObject* const plain_init = _PyType_Lookup(&PyBaseObject_Type, interned("__init__"));
    if (object == plain_init && c.args.size() == 1 && !c.kwnames) return pend_constant(); // super().__init__() at the end of the line
    static PyObject* const dict_init = _PyType_Lookup(&PyDict_Type, interned("__init__"));
    if (object == dict_init && c.args.size() == 1 && !c.kwnames && made_dict(c.args[0])) return pend_constant(); // the same of a Counter
    if (PyType_Check(object)) return call_type(a, reinterpret_cast<PyTypeObject*>(object), c, redirect, popped);
    if (names().is_plain_instance_type(type)) {
        PyObject* found = _PyType_Lookup(type, interned("__call__"));
        guard_type_attribute(type, interned("__call__"), found);
        if (found && PyFunction_Check(found)) {
            identity_object(found);
            c.args.insert(c.args.begin(), id);
            c.values.insert(c.values.begin(), object);
            c.nargs++;
            return call_python(a, found, c, redirect, popped, Redirect::identity, 0);
        }
        return stop(a, std::string("a ") + type->tp_name + " object is called", "");
    }
    if (auto answer = call_tuple_new(a, object, c)) return *answer;
    Before in_place = Before::perform;
    if (in_place_method(a, c, in_place)) return in_place;
    if (auto answer = call_method(a, c, redirect, popped)) return *answer;
    if (auto answer = count_elements(a, object, c)) return *answer;
    if (auto answer = call_builtin(a, c, redirect, popped)) return *answer;
    return call_library(a, std::move(c));
}

/// `with manager:` where __enter__ and __exit__ are Python functions of its type.
Recording::Before Recording::with_start(Activation& a, Redirect& redirect) {
    PyObject* manager = a.sp[-1];
    PyTypeObject* type = Py_TYPE(manager);
    if (!know(a.shadow(a.sp - 1), manager)) return stop_refused(a);
    const ShadowId id = canonical(a.shadow(a.sp - 1));
    const Shadow::Kind kind = shadows_[id].kind;
    if ((kind != Shadow::object && kind != Shadow::fresh) || !names().is_plain_instance_type(type) || !limits_.inline_functions) return stop(a, "a with statement", "");
    PyObject* enter = _PyType_Lookup(type, interned("__enter__"));
    PyObject* exit = _PyType_Lookup(type, interned("__exit__"));
    const auto follows = [](PyObject* f) { return f && PyFunction_Check(f) && !(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f))->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)); };
    if (!follows(enter) || !follows(exit)) return stop(a, std::string("a with statement of a ") + type->tp_name, "");
    guard_type_attribute(type, interned("__enter__"), enter);
    guard_type_attribute(type, interned("__exit__"), exit);
    identity_object(enter);
    const Before answer = redirect_to(a, enter, {id}, {manager}, 1, Redirect::identity, redirect);
    if (answer == Before::redirect) calls_.back().exit = exit;
    return answer;
}

/// functools.partial: its function with its arguments before those of the call.
Recording::Before Recording::call_partial(Activation& a, ShadowId id, PyObject* object, Call c, Redirect& redirect, int popped) {
    using python::PartialPart;
    PyObject* function = python::partial_part(object, PartialPart::function);
    PyObject* first = python::partial_part(object, PartialPart::arguments);
    PyObject* named = python::partial_part(object, PartialPart::keywords);
    if (!function || !first || !named) return stop(a, "a functools.partial of an unusual kind is called", "");
    if (shadows_[id].kind != Shadow::object) return stop(a, "a functools.partial of an unusual kind is called", "");
    const auto part = [&](PartialPart p, PyObject* value) { return raw(source(Source::partial_part, shadows_[id].source, static_cast<uint32_t>(p), nullptr), value); };
    const ShadowId f = part(PartialPart::function, function), tuple = part(PartialPart::arguments, first), dict = part(PartialPart::keywords, named);
    if (!know(tuple, first) || !know(dict, named)) return stop_refused(a);
    const auto items = items_of(tuple, first);
    if (!items) return stop_refused(a);
    const auto pairs = dict_items(dict, named);
    if (!pairs) return stop_refused(a);
    Call made;
    made.args = *items;
    for (size_t k = 0; k < items->size(); k++) made.values.push_back(PyTuple_GET_ITEM(first, static_cast<Py_ssize_t>(k)));
    std::vector<std::pair<PyObject*, std::pair<ShadowId, PyObject*>>> keywords; // in the order of the merged dict
    for (size_t k = 0; k + 1 < pairs->size(); k += 2) {
        PyObject* name = at((*pairs)[k]).real;
        PyObject* value = name && PyUnicode_CheckExact(name) ? PyDict_GetItemWithError(named, name) : nullptr;
        if (!value) return stop(a, "keyword names that are not known", "");
        keywords.push_back({name, {(*pairs)[k + 1], value}});
    }
    for (size_t k = 0; k < c.nargs; k++) made.args.push_back(c.args[k]), made.values.push_back(c.values[k]);
    made.nargs = made.args.size();
    for (Py_ssize_t k = 0; c.kwnames && k < PyTuple_GET_SIZE(c.kwnames); k++) {
        PyObject* name = PyTuple_GET_ITEM(c.kwnames, k);
        const size_t at = c.nargs + static_cast<size_t>(k);
        const std::pair<ShadowId, PyObject*> value{c.args[at], c.values[at]};
        auto same = std::find_if(keywords.begin(), keywords.end(), [&](const auto& known) { return PyUnicode_Compare(known.first, name) == 0; });
        if (same != keywords.end()) same->second = value;
        else keywords.push_back({name, value});
    }
    auto kwnames = Owned<>::steal(PyTuple_New(static_cast<Py_ssize_t>(keywords.size())));
    for (size_t k = 0; k < keywords.size(); k++) {
        PyTuple_SET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(k), Py_NewRef(keywords[k].first));
        made.args.push_back(keywords[k].second.first), made.values.push_back(keywords[k].second.second);
    }
    for (ShadowId arg : made.args)
        if (!arg) return stop(a, "an argument of unknown origin", "");
    made.kwnames = keywords.empty() ? nullptr : kwnames.get();
    call_names_ = std::move(kwnames);
    made.callable = function;
    return call_value(a, f, function, std::move(made), redirect, popped);
}

/// What a bound method of a C function is bound to; borrowed from the object.
PyObject* Recording::self_of(PyObject* bound) {
    auto self = Owned<>::steal(PyObject_GetAttrString(bound, "__self__"));
    if (!self) PyErr_Clear();
    return self.get(); // the bound method keeps it
}

Recording::Before Recording::call_python(Activation& a, PyObject* function, Call& c, Redirect& redirect, int popped, Redirect::After after, ShadowId instance) {
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        if (auto answer = make_generator(a, function, c)) return *answer;
        return stop(a, "a generator or coroutine is made", "use a list comprehension");
    }
    if (!limits_.inline_functions) return stop(a, "a function is called, which has compiled code of its own", "");
    if (reinterpret_cast<PyFunctionObject*>(function)->vectorcall == nullptr) return stop(a, "a function without vectorcall", "");
    PyObject* kwnames = c.kwnames;
    redirect_names_ = Owned<>::borrow(kwnames);
    const Before answer = redirect_to(a, function, std::move(c.args), std::move(c.values), popped, after, redirect, instance);
    if (answer == Before::redirect) {
        redirect.kwnames = kwnames;
        redirect.nargs = c.nargs;
    }
    return answer;
}

namespace {
/// torch's stand-ins for what a build lacks: making one raises RuntimeError, always.
bool always_raises(PyTypeObject* type) {
    PyObject* made = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, interned("__new__")) : nullptr;
    if (made && Py_TYPE(made) == &PyStaticMethod_Type) {
        const auto inner = Owned<>::steal(PyObject_GetAttrString(made, "__func__"));
        made = inner.get(); // the static method holds it
    }
    if (!made || !PyFunction_Check(made)) return PyErr_Clear(), false;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(made));
    return names().is_library_code(code) && PyUnicode_CompareWithASCIIString(code->co_qualname, "_dummy_type.<locals>.get_err_fn.<locals>.err_fn") == 0;
}
} // namespace

/// A class of a library's that is made of constants and holds nothing else: torch.finfo(dtype), nn.CrossEntropyLoss(), nn.Softmax(-1).
bool Recording::makes_fact(PyTypeObject* type, const Call& c) {
    const char* name = type->tp_name;
    bool takes = std::strcmp(name, "torch.finfo") == 0 || std::strcmp(name, "torch.iinfo") == 0;
    if (!takes && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dict) {
        PyObject* module = PyDict_GetItemWithError(type->tp_dict, interned("__module__"));
        for (const char* known : {"torch.nn.modules.loss", "torch.nn.modules.activation", "transformers.activations"})
            takes |= module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, known) == 0;
        for (const char* with_parameters : {"PReLU", "MultiheadAttention", "XIELUActivation"}) takes &= std::strcmp(name, with_parameters) != 0;
    }
    if (!takes) return false;
    for (size_t k = 0; k < c.args.size(); k++)
        if (!fixed_value(c.args[k], c.values[k]) || is_tensor(c.args[k])) return false;
    return true;
}

/// A function of the standard library that tells of another function, whose code is guarded: inspect.signature(f).
bool Recording::states_fact(PyObject* function, const Call& c) {
    if (!PyFunction_Check(function) || c.args.size() != 1 || c.kwnames) return false;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    if (PyUnicode_CompareWithASCIIString(code->co_qualname, "signature") != 0 || !names().is_library_code(code)) return false;
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (!file || !std::strstr(file, "/inspect.py")) return false;
    return (PyFunction_Check(c.values[0]) || PyMethod_Check(c.values[0])) && fixed_value(c.args[0], c.values[0]);
}

namespace {
/// torch.no_grad and torch.enable_grad, whose __new__ only tells a decorator from a manager.
bool is_grad_switch(PyTypeObject* type) {
    if (std::strcmp(type->tp_name, "no_grad") != 0 && std::strcmp(type->tp_name, "enable_grad") != 0) return false;
    PyObject* module = type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, interned("__module__")) : nullptr;
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "torch.autograd.grad_mode") == 0;
}
} // namespace

/// P(x, y) of a named tuple: its __new__, which is Python.
std::optional<Recording::Before> Recording::call_named_tuple(Activation& a, PyTypeObject* type, Call& c, Redirect& redirect, int popped) {
    PyObject* found = _PyType_Lookup(type, interned("__new__"));
    auto inner = Owned<>::steal(found && Py_TYPE(found) == &PyStaticMethod_Type ? PyObject_GetAttrString(found, "__func__") : nullptr);
    PyObject* function = inner.get();
    if (!function || !PyFunction_Check(function)) return PyErr_Clear(), std::nullopt;
    guard_type_attribute(type, interned("__new__"), found);
    guard_type_attribute(type, interned("__init__"), _PyType_Lookup(type, interned("__init__")));
    kept_.try_emplace(function, std::move(inner));
    identity_object(function);
    PyObject* object = reinterpret_cast<PyObject*>(type);
    c.args.insert(c.args.begin(), identity_object(object));
    c.values.insert(c.values.begin(), object);
    c.nargs++;
    return call_python(a, function, c, redirect, popped, Redirect::identity, 0);
}

/// tuple.__new__(P, items) for a named tuple's class: a tuple of that type.
std::optional<Recording::Before> Recording::call_tuple_new(Activation&, PyObject* object, const Call& c) {
    if (!PyCFunction_CheckExact(object) || PyCFunction_GET_SELF(object) != reinterpret_cast<PyObject*>(&PyTuple_Type) || c.args.size() != 2 || c.nargs != 2) return std::nullopt;
    if (std::strcmp(reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name, "__new__") != 0) return std::nullopt;
    if (!PyType_Check(c.values[0]) || !names().is_named_tuple(reinterpret_cast<PyTypeObject*>(c.values[0])) || !know(c.args[0], c.values[0]) || !at(c.args[0]).identity) return std::nullopt;
    if (!know(c.args[1], c.values[1]) || (!PyTuple_CheckExact(c.values[1]) && !PyList_CheckExact(c.values[1]))) return std::nullopt;
    auto items = items_of(c.args[1], c.values[1]);
    if (!items) return std::nullopt;
    return pend_fixed(fresh(NewObject::tuple, std::move(*items), reinterpret_cast<PyTypeObject*>(c.values[0])));
}

Recording::Before Recording::call_type(Activation& a, PyTypeObject* type, Call& c, Redirect& redirect, int popped) {
    if (auto answer = call_builtin(a, c, redirect, popped)) return *answer;
    if (is_record(type)) return make_record(a, type, c);
    if (names().is_named_tuple(type))
        if (auto answer = call_named_tuple(a, type, c, redirect, popped)) return *answer;
    if (PyExceptionClass_Check(reinterpret_cast<PyObject*>(type)) && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) { // to be raised, and caught here
        bool fixed = true;
        for (size_t k = 0; k < c.args.size(); k++) fixed &= fixed_value(c.args[k], c.values[k]);
        if (fixed) return pend_derived(std::move(c));
    }
    if (makes_fact(type, c)) {
        own_python_ = true;
        return pend_derived(std::move(c));
    }
    if (always_raises(type)) {
        guard_type_attribute(type, interned("__new__"), _PyType_Lookup(type, interned("__new__")));
        own_python_ = true; // the library's __new__
        return pend_raise(a, std::string("a call of ") + type->tp_name + ", which raises");
    }
    const bool plain_new = type->tp_new == PyBaseObject_Type.tp_new || (is_grad_switch(type) && c.args.empty());
    // Of another metaclass only what makes instances counts: ABCMeta, which adds isinstance().
    const PyTypeObject* layout = type; // the C state of its instances is that of object
    while (layout->tp_flags & Py_TPFLAGS_HEAPTYPE) layout = layout->tp_base;
    const bool plain_call = layout == &PyBaseObject_Type && Py_TYPE(type)->tp_call == PyType_Type.tp_call && !(type->tp_flags & Py_TPFLAGS_IS_ABSTRACT);
    if (!names().is_plain_instance_type(type) || !plain_call || !plain_new || type->tp_del ||
        _PyType_Lookup(type, interned("__del__")) ||
        (names().module && PyObject_IsSubclass(reinterpret_cast<PyObject*>(type), names().module) == 1))
        return call_library(a, std::move(c));
    PyObject* init = _PyType_Lookup(type, interned("__init__"));
    guard_type_attribute(type, interned("__init__"), init);
    guard_type_attribute(type, interned("__new__"), _PyType_Lookup(type, interned("__new__")));
    static PyObject* const plain_init = _PyType_Lookup(&PyBaseObject_Type, interned("__init__"));
    if (init == plain_init && c.args.empty()) {
        pending_shadow_ = fresh(NewObject::instance, {}, type);
        pending_ = PendingKind::instance;
        own_python_ = type->tp_new != PyBaseObject_Type.tp_new; // torch's __new__
        return Before::perform;
    }
    if (!init || !PyFunction_Check(init)) return stop(a, "a class without an __init__ of its own is instantiated", "");
    PyObject* object = type->tp_alloc(type, 0);
    if (!object) {
        PyErr_Clear();
        return stop(a, "out of memory", "");
    }
    const ShadowId instance = fresh(NewObject::instance, {}, type);
    shadows_[instance].real = object;
    by_object_[object] = instance;
    return call_init(a, init, instance, object, c, redirect, popped);
}

/// Goes on in the __init__ of an object just made, whose reference is taken.
Recording::Before Recording::call_init(Activation& a, PyObject* init, ShadowId instance, PyObject* object, Call& c, Redirect& redirect, int popped) {
    identity_object(init);
    c.args.insert(c.args.begin(), instance);
    c.values.insert(c.values.begin(), object);
    c.nargs++;
    const Before answer = call_python(a, init, c, redirect, popped, Redirect::instance, instance);
    if (answer == Before::redirect) {
        redirect.made = object;
    } else {
        by_object_.erase(object);
        Py_DECREF(object);
    }
    return answer;
}

// ------------------------------------------------------------------------------------------------ the callee's frame
bool Recording::enter(Activation& callee, const CallToken& token) {
    if (finished_) return false;
    const Redirect& c = *token.call;
    std::memset(callee.shadows, 0, sizeof(ShadowId) * static_cast<size_t>(callee.decoded->slots));
    if (c.generator) return enter_generator(callee, canonical(c.shadows[0]));
    bind_arguments(callee, token.function, c.shadows, c.nargs, c.kwnames);
    return true;
}

/// The shadows of a frame's parameters and free variables: `given` are the call's arguments, `nargs` of them positional.
void Recording::bind_arguments(Activation& callee, PyObject* function, const ShadowId* given, size_t nargs, PyObject* kwnames) {
    PyCodeObject* code = callee.code;
    const int named = code->co_argcount + code->co_kwonlyargcount;
    ShadowId* sh = callee.shadows;
    const size_t positional = std::min(nargs, static_cast<size_t>(code->co_argcount));
    for (size_t k = 0; k < positional; k++) sh[k] = given[k];
    if (code->co_flags & CO_VARARGS) {
        std::vector<ShadowId> rest(given + positional, given + nargs);
        sh[named] = fresh(NewObject::tuple, std::move(rest), &PyTuple_Type);
    }
    std::vector<ShadowId> extra;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, k);
        bool bound = false;
        for (int slot = code->co_posonlyargcount; slot < named && !bound; slot++)
            if (PyUnicode_Compare(name, PyTuple_GET_ITEM(code->co_localsplusnames, slot)) == 0) sh[slot] = given[nargs + static_cast<size_t>(k)], bound = true;
        if (!bound) extra.push_back(constant(name)), extra.push_back(given[nargs + static_cast<size_t>(k)]);
    }
    if (code->co_flags & CO_VARKEYWORDS) sh[named + ((code->co_flags & CO_VARARGS) ? 1 : 0)] = fresh(NewObject::dict, std::move(extra), &PyDict_Type);
    free_variables(callee, canonical(by_object_.contains(function) ? by_object_[function] : identity_object(function)));
    // Defaults have sources of their own: they may be replaced, and their objects may be changed in place. So may the code.
    const ShadowId f = canonical(by_object_.contains(function) ? by_object_[function] : identity_object(function));
    if (shadows_[f].kind == Shadow::object && shadows_[f].source != Guard::none_) {
        Guard same_code{Guard::is};
        same_code.source = source(Source::code_of, shadows_[f].source, 0, nullptr);
        same_code.expected = anchor(reinterpret_cast<PyObject*>(code));
        guard(same_code);
    }
    for (int slot = 0; slot < named; slot++) {
        if (sh[slot] || !callee.locals[slot]) continue;
        PyObject* value = callee.locals[slot];
        if (frame::in_generator(callee.frame) && PyCell_Check(value)) value = PyCell_GET(value);
        if (!value) continue;
        if (shadows_[f].kind == Shadow::fresh) {
            // Made in this call: its defaults are values of this call too.
            const ShadowId defaults = shadows_[f].parts.size() > 4 ? canonical(shadows_[f].parts[3]) : 0, by_name = shadows_[f].parts.size() > 4 ? canonical(shadows_[f].parts[4]) : 0;
            if (slot < code->co_argcount && defaults && know(defaults, PyFunction_GET_DEFAULTS(function))) {
                auto items = items_of(defaults, PyFunction_GET_DEFAULTS(function));
                if (items) sh[slot] = (*items)[items->size() - static_cast<size_t>(code->co_argcount - slot)];
            } else if (slot >= code->co_argcount && by_name && shadows_[by_name].kind == Shadow::fresh) {
                sh[slot] = fresh_dict_item(by_name, canonical_key(PyTuple_GET_ITEM(code->co_localsplusnames, slot)));
            }
        } else if (slot < code->co_argcount) {
            sh[slot] = raw(source(Source::default_, shadows_[f].source, static_cast<uint32_t>(code->co_argcount - 1 - slot), nullptr), value);
        } else {
            PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, slot);
            sh[slot] = raw(source(Source::kwdefault, shadows_[f].source, 0, canonical_key(name)), value);
        }
    }
}

Recording::Before Recording::make_function(Activation& a, const Instruction& i) {
    // 3.11, 3.12: defaults, kwdefaults, annotations, closure below the code object, each if its bit is set. 3.13: code only.
    PyObject** p = a.sp - 1;
    PyObject* code_object = *p;
    if (!PyCode_Check(code_object) || !know(a.shadow(p), code_object)) return stop(a, "a function of unknown code", "");
    const ShadowId code = canonical(a.shadow(p));
    ShadowId closure = 0, annotations = 0, kwdefaults = 0, defaults = 0;
    auto take = [&](uint32_t bit, ShadowId& into) {
        if (bytecode::python >= 313 || !(i.arg & bit)) return true;
        into = canonical(a.shadow(--p));
        return into != 0;
    };
    if (!take(8, closure) || !take(4, annotations) || !take(2, kwdefaults) || !take(1, defaults)) return stop(a, "a function with parts of unknown origin", "");
    if (bytecode::python >= 313) return stop(a, "a function is made", "");
    const ShadowId globals = globals_shadow(a);
    PyObject* name = reinterpret_cast<PyCodeObject*>(code_object)->co_qualname;
    const ShadowId f = fresh(NewObject::function, {code, globals, constant(name), defaults, kwdefaults, closure, annotations}, &PyFunction_Type);
    pending_ = PendingKind::called; // after() learns the object's address
    pending_shadow_ = f;
    made_function_ = true;
    return Before::perform;
}

} // namespace dyno::capture
