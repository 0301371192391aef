// The recorder's answer to each instruction: before() chooses the family, after() names the result.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/versions.h"

namespace dyno::capture {
using bytecode::Op;

namespace {
PyObject* name_at(const Activation& a, uint32_t index) { return PyTuple_GET_ITEM(a.code->co_names, index); }
} // namespace

/// MAKE_CELL put a cell around a value: the cell is made here.
ShadowId Recording::cell(Activation& a, int slot, ShadowId content) {
    if (finished_) return 0;
    const ShadowId id = fresh(NewObject::cell, {content}, &PyCell_Type);
    by_object_[a.locals[slot]] = id;
    kept_.try_emplace(a.locals[slot], Owned<>::borrow(a.locals[slot]));
    return id;
}

/// The cells of the function's closure, before COPY_FREE_VARS puts them into the last slots. `function` 0: the outermost's.
void Recording::free_variables(Activation& a, ShadowId function) {
    const int free = a.code->co_nfreevars, first = a.code->co_nlocalsplus - free;
    PyObject* closure = frame::function_of(a.frame)->func_closure;
    if (!free || !closure) return;
    for (int k = 0; k < free; k++) {
        PyObject* cell = PyTuple_GET_ITEM(closure, k);
        ShadowId id = 0;
        if (!function || shadows_[function].kind == Shadow::object) {
            const uint32_t base = function ? shadows_[function].source : source(Source::function, 0, 0, nullptr);
            id = raw(source(Source::closure, base, static_cast<uint32_t>(k), nullptr), cell);
            if (!know(id, cell)) id = 0;
        } else if (shadows_[function].kind == Shadow::fresh && shadows_[function].parts.size() > 5 && shadows_[function].parts[5]) {
            // The tuple may have been made before the recording began.
            const ShadowId cells = shadows_[function].parts[5];
            if (auto items = know(cells, closure) ? items_of(cells, closure) : std::nullopt; items && static_cast<size_t>(k) < items->size()) id = (*items)[static_cast<size_t>(k)];
            if (id && !know(id, cell)) id = 0;
        }
        a.shadows[first + k] = id;
    }
}

Recording::Before Recording::before(Activation& a, const Instruction& i, Redirect& redirect) {
    if (finished_) return Before::stop;
    instructions_++;
    here_ = &a;
    pending_ = PendingKind::none;
    pending_shadow_ = 0;
    foreign_ = own_python_ = raising_ = changes_private_ = false;
    lookup_ = {};
    making_record_ = nullptr;
    refusal_.clear();
    hint_.clear();
    if (builder_.size() > limits_.nodes) return stop(a, "the function is longer than 4,096 operations", "split it");
    if (effort() > limits_.effort && !goes_on()) return Before::stop;
    if (limits_.break_everywhere && tensor_nodes_ > 0 && i.op != Op::return_value && i.op != Op::return_const)
        return stop(a, "debug_break_everywhere", "");
    const Before answer = dispatch(a, i, redirect);
    if (answer != Before::stop) seen(a);
    if (pending_ == PendingKind::call) op_start_ = std::chrono::steady_clock::now();
    return answer;
}

Recording::Before Recording::dispatch(Activation& a, const Instruction& i, Redirect& redirect) {
    switch (i.op) {
    case Op::load_const: {
        PyObject* value = PyTuple_GET_ITEM(a.code->co_consts, i.arg);
        if (is_immutable(value)) return pend_fixed(constant(value));
        if (PyCode_Check(value)) return pend_fixed(constant_code(value));
        return stop(a, "a constant of an unusual type", "");
    }
    case Op::load_global: return load_global(a, i);
    case Op::load_name: return load_name(a, i);
    case Op::load_deref: return load_deref(a, i);
    case Op::store_deref: return store_deref(a, i);
    case Op::store_name: return store_name(a, i, false);
    case Op::store_global: return store_name(a, i, true);
    case Op::load_attr: return load_attribute(a, i, redirect, false);
    case Op::load_method: return load_attribute(a, i, redirect, true);
    case Op::store_attr: return store_attribute(a, i, redirect);
    case Op::binary: return binary(a, i, redirect);
    case Op::compare: return compare(a, i, redirect);
    case Op::negative: case Op::positive: case Op::invert: case Op::logical_not: case Op::to_bool: return unary(a, i, redirect);
    case Op::is_same: return is_op(a, i);
    case Op::contains: return contains(a, i, redirect);
    case Op::subscript: return subscript(a, i, redirect);
    case Op::store_subscript: return store_subscript(a, i);
    case Op::delete_subscript: return delete_subscript(a);
    case Op::delete_attr: return delete_attribute(a, name_at(a, i.arg));
    case Op::build_tuple: case Op::build_list: case Op::build_map: case Op::build_const_map: case Op::build_slice: case Op::build_set:
        return build(a, i);
    case Op::build_string: case Op::format_value: case Op::format_simple: case Op::format_spec: case Op::convert: return format_value(a, i);
    case Op::list_append: case Op::set_add: case Op::list_extend: case Op::list_to_tuple: case Op::map_add: case Op::dict_merge: case Op::dict_update:
        return extend(a, i, redirect);
    case Op::unpack: case Op::unpack_ex: return unpack(a, i, redirect);
    case Op::get_iter: return get_iter(a, i, redirect);
    case Op::for_iter: return for_iter(a, i, redirect);
    case Op::jump: return Before::perform;
    case Op::jump_back: return jump_back(a, i);
    case Op::jump_false: case Op::jump_true: case Op::jump_none: case Op::jump_not_none: case Op::jump_false_or_pop: case Op::jump_true_or_pop:
        return jump(a, i);
    case Op::call: case Op::call_kw: return call(a, i, redirect);
    case Op::call_ex: return call_ex(a, i, redirect);
    case Op::make_function: return make_function(a, i);
    case Op::import_name: case Op::import_from: return import_name(a, i);
    case Op::load_assertion_error: return pend_fixed(0);
    case Op::return_value: case Op::return_const: return Before::perform;
    case Op::get_len: return pend_constant();
    case Op::push_exc: handlers_++; return Before::perform;
    case Op::pop_except: // of a handler that was open before, the thread's state is not ours to change
        if (handlers_ == 0) return stop(a, "the handler of an exception ends", "");
        handlers_--;
        return Before::perform;
    case Op::check_exc: return know(a.shadow(a.sp - 1), a.sp[-1]) ? pend_constant() : stop_refused(a);
    case Op::reraise: return pend_raise(a, "an exception is raised");
    case Op::raise: {
        const ShadowId raised = i.arg >= 1 ? canonical(a.shadow(a.sp - static_cast<int>(i.arg))) : 0;
        const bool plain = raised && (shadows_[raised].kind == Shadow::derived || shadows_[raised].identity) && (i.arg == 1 || a.sp[-1] == Py_None);
        return plain ? pend_raise(a, "an exception is raised") : stop(a, "an exception is raised", "");
    }
    case Op::with_start: return with_start(a, redirect);
    case Op::leave_frame:
        if (!calls_.empty() && calls_.back().generator && calls_.back().caller == a.up) return Before::perform;
        return stop(a, "a generator yields", "");
    case Op::get_yield_from_iter: return get_iter(a, i, redirect);
    case Op::send: return send(a, redirect);
    case Op::end_send: return Before::perform;
    default: return stop(a, "the instruction " + bytecode::name_of(i.raw) + " is not captured", "");
    }
}

ShadowId Recording::after(Activation& a, const Instruction& i, PyObject* result, ShadowId callee) {
    if (finished_) return 0;
    if (!calls_.empty() && calls_.back().caller == &a) return finish_redirect(a, i, result, callee);
    if (made_function_) {
        made_function_ = false;
        by_object_[result] = pending_shadow_;
        shadows_[pending_shadow_].real = result;
        kept_.try_emplace(result, Owned<>::borrow(result));
        return pending_shadow_;
    }
    if (foreign_) {
        end_before(a, "Python code ran inside the instruction", "");
        return 0;
    }
    switch (pending_) {
    case PendingKind::none: return 0;
    case PendingKind::stored: return 0;
    case PendingKind::raises:
        end_before(a, "what should raise did not", "");
        return 0;
    case PendingKind::in_place: return finish_in_place(a, result);
    case PendingKind::in_place_call: return finish_in_place_call(a, result);
    case PendingKind::fixed: return pending_shadow_;
    case PendingKind::constant:
        if (!result) return 0;
        if (!is_immutable(result)) {
            end_before(a, std::string("a ") + Py_TYPE(result)->tp_name + " made by library code", "");
            return 0;
        }
        return constant(result);
    case PendingKind::call: {
        op_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - op_start_).count();
        return finish_call(a, result);
    }
    case PendingKind::iterator_next: return finish_iterator(result);
    case PendingKind::derived: return finish_derived(a, result);
    case PendingKind::generator: return finish_generator(result);
    case PendingKind::instance:
        if (!result) return 0;
        by_object_[result] = pending_shadow_;
        shadows_[pending_shadow_].real = result;
        return pending_shadow_;
    default: return 0;
    }
}

// ------------------------------------------------------------------------------------------------ names
ShadowId Recording::globals_shadow(Activation& a) {
    PyObject* globals = a.frame->f_globals;
    if (auto it = by_object_.find(globals); it != by_object_.end()) return canonical(it->second);
    const ShadowId id = raw(&a == root_ ? source(Source::globals_dict, 0, 0, nullptr) : source(Source::anchored, 0, anchor(globals), nullptr), globals);
    Shadow& s = shadows_[id];
    s.kind = Shadow::object;
    s.type = &PyDict_Type;
    s.real = globals;
    s.identity = &a != root_;
    kept_.try_emplace(globals, Owned<>::borrow(globals));
    by_object_[globals] = id;
    return id;
}

/// dict[name] through the write map; 0 if it is absent now.
ShadowId Recording::look_up(ShadowId dict, PyObject* name, PyObject* value) {
    const ShadowId id = read_item(dict, name, value);
    return know(id, value) ? id : 0;
}

Recording::Before Recording::load_global_named(Activation& a, PyObject* name) {
    if (!PyDict_CheckExact(a.frame->f_globals) || !PyDict_CheckExact(a.frame->f_builtins)) return stop(a, "globals of an unusual type", "");
    const ShadowId globals = globals_shadow(a);
    PyObject* key = canonical_key(name);
    if (PyObject* value = PyDict_GetItemWithError(a.frame->f_globals, name)) {
        const ShadowId id = look_up(globals, name, value);
        return id ? pend_fixed(id) : stop_refused(a);
    }
    PyObject* value = PyDict_GetItemWithError(a.frame->f_builtins, name);
    if (!value) return stop(a, "an undefined name", "");
    guard_absent_key(globals, key);
    ShadowId& id = places_[{globals, 'b', key, 0}];
    if (!id) id = raw(source(Source::dict_item, source(Source::anchored, 0, anchor(a.frame->f_builtins), nullptr), 0, key), value);
    const ShadowId found = id;
    return know(found, value) ? pend_fixed(found) : stop_refused(a);
}

Recording::Before Recording::load_global(Activation& a, const Instruction& i) { return load_global_named(a, name_at(a, i.arg >> 1)); }
Recording::Before Recording::load_name(Activation& a, const Instruction& i) {
    // Only at top level, where the locals are the globals.
    if (a.frame->f_locals != a.frame->f_globals) return stop(a, "names of a class body", "");
    return load_global_named(a, name_at(a, i.arg));
}

Recording::Before Recording::store_name(Activation& a, const Instruction& i, bool global) {
    if (!global && a.frame->f_locals != a.frame->f_globals) return stop(a, "names of a class body", "");
    if (!PyDict_CheckExact(a.frame->f_globals)) return stop(a, "globals of an unusual type", "");
    const ShadowId globals = globals_shadow(a), value = canonical(a.shadow(a.sp - 1));
    if (!value) return stop(a, "a value of unknown origin is stored", "");
    return store_item(a, globals, name_at(a, i.arg), a.frame->f_globals, value);
}

/// A store into a dict that exists (or was made here): the place, the effect, and what the old value is.
Recording::Before Recording::store_item(Activation& a, ShadowId container, PyObject* key, PyObject* dict, ShadowId id) {
    container = canonical(container);
    PyObject* k = canonical_key(key);
    if (!k) return stop(a, "a key that cannot be hashed", "");
    if (PyObject* old = PyDict_GetItemWithError(dict, key); old && has_finaliser(old)) return stop(a, "the store drops an object with a finaliser", "");
    places_[{container, 'd', k, 0}] = id;
    return note_store(a, Effect::dict_set, container, constant(k), id);
}

/// del dict[key], dict.pop(key) of a key that a dict from outside has. What it had is looked at, so that a replay knows that it is there.
Recording::Before Recording::remove_item(Activation& a, ShadowId container, PyObject* key, PyObject* dict, bool pops) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    const Shadow& s = shadows_[container];
    if (!value || s.kind != Shadow::object || segment_.sources[s.source].kind == Source::instance_dict) return PyErr_Clear(), stop(a, "a dict of unknown origin is changed", "");
    if (has_finaliser(value)) return stop(a, "the store drops an object with a finaliser", "");
    const ShadowId known = look_up(container, key, value);
    if (!known) return stop_refused(a);
    places_[{container, 'd', key, 0}] = 0;
    note_store(a, Effect::dict_remove, container, constant(key), 0);
    return pops ? pend_fixed(known) : pend_stored();
}

Recording::Before Recording::note_store(const Activation& a, Effect::Kind kind, ShadowId target, ShadowId key, ShadowId value, int64_t position) {
    shadows_[target].written = true;
    WrittenEffect w;
    w.effect.kind = kind;
    w.effect.from = span_of(a);
    w.effect.position = position;
    w.target = target;
    w.key = key;
    w.value = value;
    effects_.push_back(std::move(w));
    return pend_stored();
}

bool Recording::has_finaliser(PyObject* v) const {
    PyTypeObject* t = Py_TYPE(v);
    if (t->tp_del) return true;
    return t->tp_finalize && (t->tp_flags & Py_TPFLAGS_HEAPTYPE) && _PyType_Lookup(t, interned("__del__")) != nullptr;
}

// ------------------------------------------------------------------------------------------------ cells
Recording::Before Recording::load_deref(Activation& a, const Instruction& i) {
    PyObject* cell = a.locals[i.arg];
    const ShadowId id = canonical(a.shadows[i.arg]);
    if (!cell || !PyCell_Check(cell) || !id) return stop(a, "a closure variable of unknown origin", "");
    PyObject* value = PyCell_GET(cell);
    if (!value) return stop(a, "an unbound closure variable", "");
    if (!know(id, cell)) return stop_refused(a);
    const ShadowId c = canonical(id);
    if (shadows_[c].kind == Shadow::fresh) {
        const ShadowId content = shadows_[c].parts[0];
        if (!content) return stop(a, "a closure variable of unknown origin", "");
        return know(content, value) ? pend_fixed(content) : stop_refused(a);
    }
    auto [it, fresh] = places_.try_emplace({c, 'c', nullptr, 0}, 0);
    if (fresh) it->second = raw(source(Source::cell_contents, shadows_[c].source, 0, nullptr), value);
    const ShadowId content = it->second;
    return know(content, value) ? pend_fixed(content) : stop_refused(a);
}

Recording::Before Recording::store_deref(Activation& a, const Instruction& i) {
    PyObject* cell = a.locals[i.arg];
    const ShadowId id = canonical(a.shadows[i.arg]), value = canonical(a.shadow(a.sp - 1));
    if (!cell || !PyCell_Check(cell) || !id || !value) return stop(a, "a closure variable of unknown origin", "");
    if (!know(id, cell)) return stop_refused(a);
    const ShadowId c = canonical(id);
    if (shadows_[c].kind == Shadow::fresh) {
        shadows_[c].parts[0] = value;
        return pend_stored();
    }
    if (PyObject* old = PyCell_GET(cell); old && has_finaliser(old)) return stop(a, "the store drops an object with a finaliser", "");
    places_[{c, 'c', nullptr, 0}] = value;
    return note_store(a, Effect::cell_set, c, 0, value);
}

ShadowId Recording::constant_code(PyObject* code) {
    Shadow s;
    s.kind = Shadow::constant;
    s.ref = {ValueRef::constant, constant_index(code)};
    s.type = &PyCode_Type;
    s.real = code;
    return add(std::move(s));
}

// ------------------------------------------------------------------------------------------------ jumps
namespace {
/// Whose branch it is: of a builtin that runs in Python, its caller's.
PyCodeObject* judged_by(const Activation& a) { return names().is_consumer(a.code) && a.up ? a.up->code : a.code; }
} // namespace

Recording::Before Recording::jump(Activation& a, const Instruction& i) {
    PyObject* value = a.sp[-1];
    const ShadowId given = a.shadow(a.sp - 1);
    if (static_cast<int>(i.arg) <= a.at) { // a while loop's test at its end
        if (&a == root_ && key_.unit == static_cast<int>(i.arg)) return cut(a);
        if (++header_turns_[static_cast<int>(i.arg)] > static_cast<int>(limits_.unrolled_turns)) return cut(a);
    }
    if (!given) return stop(a, "a branch on a value of unknown origin", "");
    if (!know(given, value)) return stop_refused(a);
    const ShadowId id = canonical(given);
    Shadow& s = shadows_[id];
    const bool none_test = i.op == Op::jump_none || i.op == Op::jump_not_none;
    if (none_test) return Before::perform; // what is known of the value decides it: constants, numbers, objects with their type
    switch (s.kind) {
    case Shadow::constant: return Before::perform;
    case Shadow::tensor:
        if (supposes_truth(a, id, value)) return Before::perform;
        return stop(a, "the branch depends on tensor data", "use torch.where or numpy.where to keep both sides in one graph");
    case Shadow::number: {
        if (depends_on_data(s.ref) && !names().is_installed_code(judged_by(a))) return stop(a, "the branch depends on tensor data", "use torch.where or numpy.where to keep both sides in one graph");
        Guard g;
        g.kind = Guard::truth;
        g.value = s.ref;
        g.expected = PyObject_IsTrue(value) == 1;
        g.from = span_of(a);
        guard(g);
        return Before::perform;
    }
    case Shadow::derived: own_python_ = true; return Before::perform;
    case Shadow::fresh:
        if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || made_dict(id) || made_deque(id) || PyFunction_Check(value) || PyMethod_Check(value)) return Before::perform;
        break;
    case Shadow::object: {
        if (PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) || PyODict_CheckExact(value) || PyAnySet_CheckExact(value)) {
            return guard_length(id, value) ? Before::perform : stop(a, "the length of a container that was changed", "");
        }
        if (s.identity) return Before::perform;
        PyTypeObject* t = Py_TYPE(value);
        PyObject* as_bool = _PyType_Lookup(t, interned("__bool__"));
        PyObject* as_length = _PyType_Lookup(t, interned("__len__"));
        if (!as_bool && !as_length) {
            guard_type_attribute(t, interned("__bool__"), nullptr);
            guard_type_attribute(t, interned("__len__"), nullptr);
            return Before::perform;
        }
        break;
    }
    default: break;
    }
    return stop(a, std::string("the truth of a ") + Py_TYPE(value)->tp_name + " object", "");
}

/// Installed code that looks at its input before it chooses a way (is this mask all ones?): the way is supposed to stay, and a replay that
/// finds otherwise commits nothing. Not for the user's own branches, which are breaks with a reason.
bool Recording::supposes_truth(Activation& a, ShadowId id, PyObject* value) {
    const Shadow& s = shadows_[id];
    if (!names().is_installed_code(judged_by(a)) || s.source != Guard::none_ || builder_.type(s.node).numel() != 1 || builder_.type(s.node).domain != graph::Domain::torch) return false;
    const int truth = PyObject_IsTrue(value);
    if (truth < 0) return PyErr_Clear(), false;
    Guard g;
    g.kind = Guard::truth;
    g.value = ref_of(id);
    if (g.value.kind != ValueRef::node) return false;
    g.expected = truth == 1;
    g.from = span_of(a);
    guard(g);
    return true;
}

bool Recording::depends_on_data(const ValueRef& r) const {
    if (r.kind == ValueRef::outcome || r.kind == ValueRef::node) return true;
    return r.kind == ValueRef::scalar && segment_.scalar_steps[r.index].on_data;
}
void Recording::jumped(Activation&, const Instruction&, bool) {}

Recording::Before Recording::jump_back(Activation& a, const Instruction& i) {
    // A while loop is unrolled as far as the budget of turns goes, then cut at its header.
    const auto header = static_cast<int>(i.arg);
    if (a.decoded->instructions[static_cast<size_t>(header)].op == Op::for_iter) return Before::perform; // FOR_ITER decides
    if (&a == root_ && key_.unit == header) return cut(a);
    if (++header_turns_[header] > static_cast<int>(limits_.unrolled_turns)) return cut(a);
    return Before::perform;
}

/// The segment was a loop's body and reached its end.
Recording::Before Recording::cut(Activation& a) {
    if (finished_) return Before::stop;
    Exit exit;
    exit.kind = Exit::cut;
    exit.reason = "the end of a loop's body";
    exit.at = span_of(a);
    finish(&a, std::move(exit));
    frame::detach(this);
    return Before::stop;
}

namespace {
/// The absolute name of `from .. import x`, as the import system works it out: a new reference, or null.
PyObject* absolute_name(PyObject* package, long level, PyObject* name) {
    Py_ssize_t end = PyUnicode_GET_LENGTH(package);
    for (long up = 1; up < level; up++) {
        end = PyUnicode_FindChar(package, '.', 0, end, -1);
        if (end < 0) return PyErr_Clear(), nullptr;
    }
    auto base = Owned<>::steal(PyUnicode_Substring(package, 0, end));
    if (!base) return PyErr_Clear(), nullptr;
    return PyUnicode_GET_LENGTH(name) == 0 ? base.release() : PyUnicode_FromFormat("%U.%U", base.get(), name);
}
} // namespace

/// An import of a module that is loaded: what __import__ would return is what sys.modules holds.
Recording::Before Recording::import_name(Activation& a, const Instruction& i) {
    if (i.op == Op::import_from) {
        if (!know(a.shadow(a.sp - 1), a.sp[-1])) return stop_refused(a);
        return attribute_value(a, canonical(a.shadow(a.sp - 1)), a.sp[-1], name_at(a, i.arg));
    }
    own_python_ = true; // the import system's
    auto unknown = [&] { return stop(a, "an import statement", "import at the top of the notebook"); };
    PyObject* name = name_at(a, i.arg);
    const long level = PyLong_AsLong(a.sp[-2]);
    PyObject* modules = PyImport_GetModuleDict();
    const uint32_t base = source(Source::anchored, 0, anchor(modules), nullptr);
    auto module_named = [&](PyObject* full) -> ShadowId {
        PyObject* module = PyDict_GetItemWithError(modules, full);
        if (!module || !PyModule_Check(module)) return 0;
        auto known = by_object_.find(module);
        const ShadowId id = known != by_object_.end() ? known->second : raw(source(Source::dict_item, base, 0, canonical_key(full)), module);
        return know(id, module) ? id : 0;
    };
    auto full = Owned<>::borrow(name);
    if (level > 0) {
        PyObject* package = PyDict_Check(a.frame->f_globals) ? PyDict_GetItemWithError(a.frame->f_globals, interned("__package__")) : nullptr;
        if (!package || !PyUnicode_CheckExact(package)) return unknown();
        if (!look_up(globals_shadow(a), interned("__package__"), package)) return stop_refused(a);
        full = Owned<>::steal(absolute_name(package, level, name));
        if (!full) return unknown();
        constant_index(full.get()); // keeps it
    }
    const ShadowId id = module_named(full.get());
    if (!id) return unknown();
    // `import a.b` gives a, `from a.b import c` gives a.b.
    const Py_ssize_t dot = PyUnicode_FindChar(full.get(), '.', 0, PyUnicode_GET_LENGTH(full.get()), 1);
    if (a.sp[-1] != Py_None || dot < 0) return pend_fixed(id);
    if (level > 0) return unknown();
    auto top = Owned<>::steal(PyUnicode_Substring(full.get(), 0, dot));
    constant_index(top.get());
    const ShadowId package = module_named(top.get());
    return package ? pend_fixed(package) : unknown();
}

// ------------------------------------------------------------------------------------------------ the return
ShadowId Recording::leave(Activation& a, PyObject* result, ShadowId shadow) {
    if (finished_) return 0;
    ShadowId id = shadow;
    if (!id && is_immutable(result)) id = constant(result); // RETURN_CONST
    if (&a != root_) {
        if (!calls_.empty() && calls_.back().generator && calls_.back().caller == a.up) generator_of(calls_.back().generator).state = Generator::ended;
        return id;
    }
    Exit exit;
    exit.kind = Exit::returns;
    exit.at = span_of(a);
    exit.result = id ? ref_of(id) : ValueRef{};
    for (int k = 0; k < a.code->co_nlocalsplus; k++) {
        const ShadowId slot = a.locals[k] ? canonical(a.shadows[k]) : 0;
        const uint32_t from = slot ? shadows_[slot].source : Guard::none_;
        exit.unchanged.push_back(from != Guard::none_ && segment_.sources[from].kind == Source::slot && segment_.sources[from].index == static_cast<uint32_t>(k));
    }
    if (exit.result.kind == ValueRef::none) {
        discard(refusal_.empty() ? "the result is of unknown origin" : refusal_);
    }
    finish(nullptr, std::move(exit));
    return id;
}

} // namespace dyno::capture
