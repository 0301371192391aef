// Builtin functions, types and methods of builtin types on known values: what they return is known without running them
// at replay. What is not here is unknown native code.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"
#include <algorithm>
#include <cstring>

namespace dyno::capture {
namespace {

enum class Known : uint8_t { none, len, range, zip, enumerate, isinstance, type, int_, float_, bool_, abs, tuple, list, dict, iter, callable, getattr, hasattr, min, max, reversed,
                             super, id, constant_fold, ambient, false_, pow, round, sum, any, all, sorted, divmod };

/// What a builtin callable is, by identity.
Known known(PyObject* callable) {
    static auto* table = [] {
        auto* t = new std::unordered_map<PyObject*, Known>;
        PyObject* b = PyEval_GetBuiltins();
        auto put = [&](const char* name, Known k) {
            if (PyObject* f = PyDict_GetItemString(b, name)) (*t)[f] = k;
        };
        put("len", Known::len), put("range", Known::range), put("zip", Known::zip), put("enumerate", Known::enumerate), put("isinstance", Known::isinstance);
        put("type", Known::type), put("int", Known::int_), put("float", Known::float_), put("bool", Known::bool_), put("abs", Known::abs), put("tuple", Known::tuple);
        put("list", Known::list), put("dict", Known::dict), put("iter", Known::iter), put("callable", Known::callable), put("getattr", Known::getattr);
        put("hasattr", Known::hasattr), put("min", Known::min), put("max", Known::max), put("reversed", Known::reversed), put("super", Known::super);
        put("pow", Known::pow), put("round", Known::round), put("str", Known::constant_fold), put("repr", Known::constant_fold), put("ord", Known::constant_fold);
        put("chr", Known::constant_fold), put("divmod", Known::constant_fold), put("issubclass", Known::constant_fold), put("any", Known::any), put("all", Known::all);
        put("sum", Known::sum), put("sorted", Known::sorted), put("slice", Known::constant_fold), put("complex", Known::constant_fold), put("format", Known::constant_fold);
        return t;
    }();
    if (auto it = table->find(callable); it != table->end()) return it->second;
    if (PyCFunction_CheckExact(callable)) {
        auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
        const char* name = f->m_ml->ml_name;
        const char* module = f->m_module && PyUnicode_Check(f->m_module) ? PyUnicode_AsUTF8(f->m_module) : "";
        if (std::strcmp(module, "math") == 0 || std::strcmp(module, "_operator") == 0) return Known::constant_fold;
        static const char* const false_ones[] = {"_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"};
        for (const char* n : false_ones)
            if (std::strcmp(name, n) == 0) return Known::ambient;
        static const char* const ambient[] = {"_get_tracing_state", "is_grad_enabled", "is_inference_mode_enabled", "_is_tracing", "_is_torch_function_enabled", "is_autocast_enabled",
                                              "is_autocast_cpu_enabled", "get_default_dtype", "are_deterministic_algorithms_enabled", "_is_any_autocast_enabled", "_get_deterministic_algorithms",
                                              "_are_functorch_transforms_active", "_len_torch_dispatch_stack", "_len_torch_function_stack", "is_scripting", "_is_functorch_wrapped_tensor_none"};
        for (const char* n : ambient)
            if (std::strcmp(name, n) == 0 && std::strncmp(module, "torch", 5) == 0) return Known::ambient;
        if (std::strncmp(module, "torch", 5) != 0 && f->m_ml && f->m_self == nullptr) return Known::none;
    }
    return Known::none;
}

} // namespace

bool Recording::all_constant(const Call& c) {
    for (size_t k = 0; k < c.args.size(); k++) {
        if (!know(c.args[k], c.values[k])) return false;
        const Shadow& s = at(c.args[k]);
        if (s.kind != Shadow::constant && !s.identity) return false;
    }
    return true;
}

/// Answers whether the call is dealt with; `stopped`: by ending the segment.
bool Recording::call_builtin(Activation& a, Call& c, bool& stopped) {
    const Known what = known(c.callable);
    if (what == Known::none) return false;
    auto halt = [&](std::string reason) {
        stopped = stop(a, std::move(reason), "") == Before::stop;
        return true;
    };
    auto fixed = [&](ShadowId id) {
        pend_fixed(id);
        return true;
    };
    const size_t n = c.args.size();
    const bool named = c.kwnames && PyTuple_GET_SIZE(c.kwnames) > 0;
    auto arg = [&](size_t k) -> Shadow& { return at(c.args[k]); };
    for (size_t k = 0; k < n; k++)
        if (what != Known::super && !know(c.args[k], c.values[k])) return halt(refusal_);
    switch (what) {
    case Known::ambient: pend_constant(); return true;
    case Known::len: {
        if (n != 1 || named) return halt("len() of an unusual call");
        PyObject* v = c.values[0];
        if (arg(0).kind == Shadow::tensor && PyObject_Size(v) >= 0) return pend_constant(), true;
        PyErr_Clear();
        if (arg(0).kind == Shadow::constant) return pend_constant(), true;
        if (arg(0).kind == Shadow::fresh && (PyList_CheckExact(v) || PyTuple_CheckExact(v) || PyDict_CheckExact(v))) return pend_constant(), true;
        if (arg(0).kind == Shadow::outcome && PyTuple_Check(v)) return pend_constant(), true;
        if (arg(0).kind == Shadow::object && (PyList_CheckExact(v) || PyTuple_CheckExact(v) || PyDict_CheckExact(v) || PyODict_CheckExact(v) || PyAnySet_CheckExact(v))) {
            if (!guard_length(c.args[0], v)) return halt("the length of a container that was changed");
            return pend_constant(), true;
        }
        return halt(std::string("len() of a ") + Py_TYPE(v)->tp_name);
    }
    case Known::range: {
        if (named || n < 1 || n > 3) return halt("range() of an unusual call");
        int64_t v[3] = {0, 0, 1};
        for (size_t k = 0; k < n; k++) {
            if (!PyLong_CheckExact(c.values[k]) || !concrete(c.args[k], c.values[k])) return halt("a range that depends on data");
            v[n == 1 ? 1 : k] = PyLong_AsLongLong(c.values[k]);
            if (PyErr_Occurred()) {
                PyErr_Clear();
                return halt("a range of huge integers");
            }
        }
        if (v[2] == 0) return halt("range() raises");
        IteratorShadow it;
        it.kind = IteratorShadow::range;
        it.start = v[0], it.step = v[2];
        it.length = v[2] > 0 ? (v[1] > v[0] ? (v[1] - v[0] + v[2] - 1) / v[2] : 0) : (v[0] > v[1] ? (v[0] - v[1] - v[2] - 1) / -v[2] : 0);
        return fixed(iterator(std::move(it), &PyRange_Type));
    }
    case Known::zip: case Known::enumerate: case Known::reversed: case Known::iter: {
        if (named || n == 0) return halt("an iterator of an unusual call");
        IteratorShadow it;
        if (what == Known::iter && n == 1) {
            if (arg(0).kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(c.values[0]))) return halt("iter() of an object of a class");
            const ShadowId id = iterate(c.args[0], c.values[0]);
            return id ? fixed(id) : halt(refusal_);
        }
        if (what == Known::reversed) {
            auto items = items_of(c.args[0], c.values[0]);
            if (!items) return halt(refusal_);
            it.kind = IteratorShadow::reversed;
            it.bases = {canonical(c.args[0])};
            it.items.assign(items->rbegin(), items->rend());
            it.length = static_cast<int64_t>(it.items.size());
            return fixed(iterator(std::move(it), nullptr));
        }
        it.kind = what == Known::zip ? IteratorShadow::zip : IteratorShadow::enumerate;
        if (what == Known::enumerate && n == 2) {
            if (!PyLong_CheckExact(c.values[1]) || !concrete(c.args[1], c.values[1])) return halt("enumerate() from a run-time number");
            it.start = PyLong_AsLongLong(c.values[1]);
        } else if (what != Known::zip && n != 1) return halt("an iterator of an unusual call");
        const size_t bases = what == Known::zip ? n : 1;
        for (size_t k = 0; k < bases; k++) {
            if (arg(k).kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(c.values[k]))) return halt("a loop over an object of a class");
            if (arg(k).kind == Shadow::tensor) return halt("a loop over the rows of a tensor or array");
            const ShadowId id = iterate(c.args[k], c.values[k]);
            if (!id) return halt(refusal_);
            it.bases.push_back(id);
        }
        return fixed(iterator(std::move(it), nullptr));
    }
    case Known::isinstance: {
        if (n != 2 || named) return halt("isinstance() of an unusual call");
        if (arg(1).kind != Shadow::fresh && arg(1).kind != Shadow::constant && !arg(1).identity && arg(1).kind != Shadow::object) return halt("isinstance() of an unknown class");
        auto plain = [&](PyObject* t) {
            return PyType_Check(t) && (!_PyType_Lookup(Py_TYPE(t), interned("__instancecheck__")) || Py_TYPE(t) == &PyType_Type || instance_check_is_plain(t));
        };
        bool fine = plain(c.values[1]);
        if (PyTuple_CheckExact(c.values[1])) {
            fine = true;
            auto items = items_of(c.args[1], c.values[1]);
            if (!items) return halt(refusal_);
            for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(c.values[1]); k++) fine &= plain(PyTuple_GET_ITEM(c.values[1], k)) && know((*items)[static_cast<size_t>(k)], PyTuple_GET_ITEM(c.values[1], k));
        }
        if (!fine) return halt("isinstance() of a class with rules of its own");
        return pend_constant(), true;
    }
    case Known::type:
        if (n != 1 || named) return halt("a class is made");
        return fixed(identity_object(reinterpret_cast<PyObject*>(Py_TYPE(c.values[0]))));
    case Known::callable: return pend_constant(), true;
    case Known::float_: case Known::int_: case Known::bool_: case Known::abs: {
        if (named || n != 1) {
            if (n == 0 || all_constant(c)) return pend_constant(), true;
            return halt("a conversion of an unusual call");
        }
        if (arg(0).kind == Shadow::constant) return pend_constant(), true;
        if (arg(0).kind == Shadow::number) {
            ScalarStep step{};
            step.kind = what == Known::float_ ? ScalarStep::to_float : what == Known::int_ ? ScalarStep::to_int : what == Known::bool_ ? ScalarStep::to_bool : ScalarStep::abs;
            auto result = Owned<>::steal(PyObject_CallOneArg(c.callable, c.values[0]));
            if (!result) {
                PyErr_Clear();
                return halt("the conversion raises");
            }
            return fixed(number_step(step, {c.args[0]}, result.get()));
        }
        if (arg(0).kind == Shadow::tensor && what != Known::bool_) return pend_call(a, std::move(c)) == Before::stop ? (stopped = true) : true;
        return halt("a conversion of tensor data to a Python number");
    }
    case Known::tuple: case Known::list: {
        if (named || n > 1) return halt("a list or tuple of an unusual call");
        if (n == 0) return what == Known::tuple ? (pend_constant(), true) : fixed(fresh(NewObject::list, {}, &PyList_Type));
        std::vector<ShadowId> parts;
        if (arg(0).kind == Shadow::tensor) return halt("a list of a tensor's rows");
        if (arg(0).kind == Shadow::object && names().is_plain_instance_type(Py_TYPE(c.values[0]))) return halt("a list of an object of a class");
        const ShadowId it = iterate(c.args[0], c.values[0]);
        if (!it) return halt(refusal_);
        if (turns_of(it) > 4096) return halt("a list of more than 4,096 items");
        while (auto element = next_of(it)) parts.push_back(*element);
        return fixed(fresh(what == Known::tuple ? NewObject::tuple : NewObject::list, std::move(parts), what == Known::tuple ? &PyTuple_Type : &PyList_Type));
    }
    case Known::dict: {
        const ShadowId d = fresh(NewObject::dict, {}, &PyDict_Type);
        if (c.nargs > 1) return halt("a dict of an unusual call");
        if (c.nargs == 1) {
            auto pairs = dict_items(c.args[0], c.values[0]);
            if (!pairs) return halt(refusal_);
            at(d).parts = *pairs;
        }
        for (size_t k = c.nargs; k < n; k++) {
            const ShadowId key = constant(PyTuple_GET_ITEM(c.kwnames, static_cast<Py_ssize_t>(k - c.nargs)));
            if (!set_fresh_dict_item(d, key, c.args[k])) return halt("a dict key that is not a constant");
        }
        return fixed(d);
    }
    case Known::getattr: case Known::hasattr: {
        if (named || n < 2 || !PyUnicode_CheckExact(c.values[1]) || arg(1).kind != Shadow::constant) return halt("getattr() of an unusual call");
        PyObject* name = canonical_key(c.values[1]);
        PyTypeObject* t = Py_TYPE(c.values[0]);
        if (arg(0).kind == Shadow::constant || arg(0).identity) {
            if (what == Known::hasattr && !PyModule_CheckExact(c.values[0]) && !PyType_Check(c.values[0])) return pend_constant(), true;
        }
        if (arg(0).kind == Shadow::tensor && what == Known::hasattr) return pend_constant(), true;
        if (!names().is_plain_instance_type(t)) return halt("getattr() of a library object");
        // Absent everywhere: the default. Present: as the attribute itself, when no Python code has to run for it.
        PyObject* found = _PyType_Lookup(t, name);
        PyObject* own = python::instance_attribute(c.values[0], name);
        PyObject* getattr = _PyType_Lookup(t, interned("__getattr__"));
        const ShadowId self = canonical(c.args[0]);
        if (!found && !own && !getattr && !places_.contains({self, 'a', name, 0})) {
            guard_type_attribute(t, name, nullptr);
            guard_type_attribute(t, interned("__getattr__"), nullptr);
            if (at(self).kind != Shadow::fresh && places_.try_emplace({self, 'n', name, 0}, 0).second) {
                Guard g;
                g.kind = Guard::no_attribute;
                g.source = at(self).source;
                g.expected = constant_index(name);
                guard(g);
            }
            if (what == Known::hasattr) return pend_constant(), true;
            if (n == 3) return fixed(canonical(c.args[2]));
            return halt("getattr() raises");
        }
        if (!found && !own) return halt("getattr() of an attribute made by __getattr__");
        if (found && Py_TYPE(found)->tp_descr_set) return halt("getattr() of a property");
        const Before answer = attribute_value(a, self, c.values[0], name, nullptr, false);
        if (answer == Before::stop) return stopped = true;
        if (what == Known::hasattr) pend_constant();
        return true;
    }
    case Known::super: return call_super(a, c, stopped);
    case Known::min: case Known::max: case Known::pow: case Known::round: {
        if (all_constant(c)) return pend_constant(), true;
        if (named || n < 1 || n > 2) return halt("min() or max() of run-time values");
        for (size_t k = 0; k < n; k++)
            if (arg(k).kind != Shadow::number && arg(k).kind != Shadow::constant) return halt("a builtin on values that are not numbers");
        if (what == Known::pow || n == 1) return halt("a builtin on run-time numbers");
        auto result = Owned<>::steal(PyObject_Vectorcall(c.callable, c.values.data(), n, nullptr));
        if (!result) {
            PyErr_Clear();
            return halt("the builtin raises");
        }
        ScalarStep step{};
        step.kind = ScalarStep::call;
        step.callable = anchor(c.callable);
        return fixed(n == 2 ? number_step(step, {c.args[0], c.args[1]}, result.get()) : number_step(step, {c.args[0]}, result.get()));
    }
    case Known::sum: {
        // sum() of a few tensors: a chain of additions from 0, as CPython does it.
        return halt("sum() of Python values");
    }
    case Known::constant_fold:
        if (all_constant(c)) return pend_constant(), true;
        if (!named && n >= 1 && n <= 2 && PyCFunction_CheckExact(c.callable)) {
            bool numbers = true;
            for (size_t k = 0; k < n; k++) numbers &= arg(k).kind == Shadow::number || (arg(k).kind == Shadow::constant && (PyLong_CheckExact(c.values[k]) || PyFloat_CheckExact(c.values[k])));
            if (numbers) {
                auto result = Owned<>::steal(PyObject_Vectorcall(c.callable, c.values.data(), n, nullptr));
                if (!result) {
                    PyErr_Clear();
                    return halt("the builtin raises");
                }
                if (!PyFloat_CheckExact(result.get()) && !PyLong_CheckExact(result.get())) return halt("a builtin of run-time numbers");
                ScalarStep step{};
                step.kind = ScalarStep::call;
                step.callable = anchor(c.callable);
                return fixed(n == 2 ? number_step(step, {c.args[0], c.args[1]}, result.get()) : number_step(step, {c.args[0]}, result.get()));
            }
        }
        return halt("a builtin function of run-time values");
    default: return halt("a builtin function that is not modelled");
    }
}

bool Recording::instance_check_is_plain(PyObject* type) const {
    // abc.ABCMeta and torch's own metaclass answer by the class; their __instancecheck__ runs Python only for registered classes.
    PyTypeObject* meta = Py_TYPE(type);
    return meta == &PyType_Type || names().parameter == reinterpret_cast<PyTypeObject*>(type) || names().tensor == reinterpret_cast<PyTypeObject*>(type) ||
           std::strcmp(meta->tp_name, "ABCMeta") == 0 || std::strcmp(meta->tp_name, "_TensorMeta") == 0 || std::strcmp(meta->tp_name, "_ParameterMeta") == 0;
}

bool Recording::call_super(Activation& a, Call& c, bool& stopped) {
    auto halt = [&](std::string reason) {
        stopped = stop(a, std::move(reason), "") == Before::stop;
        return true;
    };
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
        if (!cell || !PyCell_Check(cell) || !self || !self_object || PyCell_Check(self_object)) return halt("super() in an unusual place");
        start = PyCell_GET(cell);
    } else if (c.args.size() == 2) {
        if (!know(c.args[0], c.values[0]) || !at(c.args[0]).identity) return halt("super() of an unknown class");
        start = c.values[0];
        self = canonical(c.args[1]);
        self_object = c.values[1];
    } else return halt("super() of an unusual call");
    if (!start || !PyType_Check(start) || PyType_Check(self_object)) return halt("super() of a class");
    if (!know(self, self_object)) return halt(refusal_);
    Shadow s;
    s.kind = Shadow::super_;
    s.type = reinterpret_cast<PyTypeObject*>(start);
    s.real = reinterpret_cast<PyObject*>(Py_TYPE(self_object));
    s.parts = {canonical(self)};
    pend_fixed(add(std::move(s)));
    return true;
}

// ------------------------------------------------------------------------------------------------ methods of builtin types
bool Recording::call_method(Activation& a, Call& c, bool& stopped) {
    if (Py_TYPE(c.callable) != &PyMethodDescr_Type || c.args.empty()) return false;
    auto* d = reinterpret_cast<PyMethodDescrObject*>(c.callable);
    PyTypeObject* type = d->d_common.d_type;
    const char* name = d->d_method->ml_name;
    auto halt = [&](std::string reason) {
        stopped = stop(a, std::move(reason), "") == Before::stop;
        return true;
    };
    auto fixed = [&](ShadowId id) {
        pend_fixed(id);
        return true;
    };
    auto is = [&](const char* n) { return std::strcmp(name, n) == 0; };
    if (type != &PyList_Type && type != &PyDict_Type && type != &PyTuple_Type && type != &PyUnicode_Type && type != &PyLong_Type && type != &PyFloat_Type && type != names().torch_size)
        return false;
    if (!know(c.args[0], c.values[0])) return halt(refusal_);
    const ShadowId self = canonical(c.args[0]);
    PyObject* object = c.values[0];
    const size_t n = c.args.size() - 1;
    if (c.kwnames && type != &PyUnicode_Type) return halt("a method of a builtin type with keywords");
    if (type == &PyList_Type) {
        const bool made_here = shadows_[self].kind == Shadow::fresh;
        if (is("append") && n == 1) {
            if (made_here) {
                shadows_[self].parts.push_back(c.args[1]);
                pending_ = PendingKind::fixed;
                pending_shadow_ = constant(Py_None);
                return true;
            }
            if (shadows_[self].kind != Shadow::object) return halt("a list of unknown origin grows");
            shadows_[self].written = true;
            WrittenEffect w;
            w.effect.kind = Effect::list_append;
            w.effect.from = span_of(a);
            w.target = self;
            w.value = c.args[1];
            effects_.push_back(std::move(w));
            return fixed(constant(Py_None));
        }
        if (made_here && is("extend") && n == 1) {
            if (!know(c.args[1], c.values[1])) return halt(refusal_);
            auto items = items_of(c.args[1], c.values[1]);
            if (!items) return halt(refusal_);
            shadows_[self].parts.insert(shadows_[self].parts.end(), items->begin(), items->end());
            return fixed(constant(Py_None));
        }
        if (made_here && is("pop") && !shadows_[self].parts.empty() && n == 0) {
            const ShadowId last = shadows_[self].parts.back();
            shadows_[self].parts.pop_back();
            return fixed(last);
        }
        if (made_here && is("reverse")) {
            std::reverse(shadows_[self].parts.begin(), shadows_[self].parts.end());
            return fixed(constant(Py_None));
        }
        if (made_here && is("copy")) return fixed(fresh(NewObject::list, shadows_[self].parts, &PyList_Type));
        return halt(std::string("the list method ") + name);
    }
    if (type == &PyDict_Type) {
        if (is("items") || is("keys") || is("values")) {
            auto pairs = dict_items(self, object);
            if (!pairs) return halt(refusal_);
            IteratorShadow it;
            it.kind = is("items") ? IteratorShadow::dict_items : is("keys") ? IteratorShadow::dict_keys : IteratorShadow::dict_values;
            it.bases = {self};
            for (size_t k = 0; k + 1 < pairs->size(); k += 2)
                it.items.push_back(is("items") ? fresh(NewObject::tuple, {(*pairs)[k], (*pairs)[k + 1]}, &PyTuple_Type) : (*pairs)[k + (is("keys") ? 0 : 1)]);
            it.length = static_cast<int64_t>(it.items.size());
            return fixed(iterator(std::move(it), it.kind == IteratorShadow::dict_items ? &PyDictItems_Type : it.kind == IteratorShadow::dict_keys ? &PyDictKeys_Type : &PyDictValues_Type));
        }
        if (is("get") && (n == 1 || n == 2)) {
            PyObject* key = key_of(c.args[1], c.values[1]);
            if (!key || !is_immutable(key)) return halt("a dict key that is not known before run time");
            key = canonical_key(key);
            PyObject* value = PyDict_GetItemWithError(object, key);
            if (value) {
                if (shadows_[self].kind == Shadow::fresh) {
                    const ShadowId v = fresh_dict_item(self, key);
                    return v ? fixed(v) : halt("a dict item of unknown origin");
                }
                const ShadowId v = look_up(self, key, value);
                return v ? fixed(v) : halt(refusal_);
            }
            if (shadows_[self].kind == Shadow::object && places_.try_emplace({self, 'b', key, 0}, 0).second) {
                Guard g;
                g.kind = Guard::absent;
                g.source = shadows_[self].source;
                g.expected = constant_index(key);
                guard(g);
            }
            return fixed(n == 2 ? canonical(c.args[2]) : constant(Py_None));
        }
        return halt(std::string("the dict method ") + name);
    }
    if (all_constant(c)) {
        pend_constant();
        return true;
    }
    return halt(std::string("the method ") + name + " of a " + type->tp_name + " with run-time values");
}

} // namespace dyno::capture
