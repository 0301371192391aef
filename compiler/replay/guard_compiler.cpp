// Compiling guards: from the sources and guards of a Segment to a GuardProgram. Runs once per installed segment, under the GIL.
#include "compiler/python/partial.h"
#include "compiler/python/versions.h"
#include "compiler/replay/guard_program.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <map>

namespace dyno::replay {

using capture::Guard;
using capture::Segment;
using capture::Source;
using capture::ValueRef;

MemoryFacts memory_facts(const capture::ArrayFacts& facts) {
    MemoryFacts made;
    made.numpy = !python::is_tensor_class(facts.type);
    const int64_t element = size_of(facts.dtype);
    bool empty = false;
    for (size_t i = 0; i < facts.sizes.size(); ++i) {
        const int64_t reach = (facts.sizes[i] - 1) * facts.strides[i] * element;
        empty = empty || facts.sizes[i] == 0;
        (reach < 0 ? made.low : made.high) += reach;
    }
    made.high += element;
    if (empty) made.low = made.high = 0;
    if (!made.numpy) {
        made.tensor = {facts.type, facts.key_set, facts.dtype, facts.device_type, facts.device_index, facts.requires_grad, facts.sizes, facts.strides};
        return made;
    }
    made.shape = facts.sizes;
    for (int64_t stride : facts.strides) made.byte_strides.push_back(stride * element);
    // The vectors' memory stays where it is when MemoryFacts is moved.
    made.array = {facts.dtype, facts.writeable, static_cast<int>(made.shape.size()), made.shape.data(), made.byte_strides.data()};
    return made;
}

/// Emits checks; lives for one compile().
class GuardCompiler {
  public:
    GuardCompiler(const Segment& segment, const Anchors& anchors, const std::vector<bool>& wanted)
        : segment_(segment), anchors_(anchors.objects()), keep_(anchors), wanted_(wanted), read_(segment.sources.size()), emitted_(segment.guards.size()) {
        wanted_.resize(segment.sources.size());
        blame_.assign(segment.sources.size(), missing_value);
    }
    GuardProgram compile();

  private:
    using GroupKey = std::pair<DictGroup::Of, uint32_t>;
    void mark_wanted();
    bool groups_with(const Source& source, GroupKey& key) const;
    void read(uint32_t source, uint32_t guard);
    void emit_group(const GroupKey& key, uint32_t guard);
    void group_guards_of(uint32_t source);
    bool memoizable(const Guard& guard) const;
    void emit_guard(uint32_t index);
    Check check_of(uint32_t index) const;
    /// An anchor whose address alone is to prove something.
    PyObject* relied_on(uint32_t anchor) const {
        if (keep_.fragile(anchor)) segment_.stale->store(true, std::memory_order_release);
        return anchors_[anchor];
    }
    void emit_types(uint32_t index);
    void push(const Check& check) { (in_group_ ? program_.grouped_ : program_.checks_).push_back(check); }

    const Segment& segment_;
    std::span<PyObject* const> anchors_;
    const Anchors& keep_;
    std::vector<bool> wanted_, read_, emitted_;
    std::vector<uint32_t> blame_;
    std::multimap<uint32_t, uint32_t> guards_on_;  // source -> guard
    std::map<GroupKey, std::vector<uint32_t>> members_; // sources read in one dict
    std::map<PyObject*, uint32_t> type_groups_;
    bool in_group_ = false, globals_emitted_ = false;
    GuardProgram program_;
};

GuardProgram GuardProgram::compile(const Segment& segment, const Anchors& anchors, const std::vector<bool>& wanted) {
    return GuardCompiler(segment, anchors, wanted).compile();
}

bool GuardCompiler::groups_with(const Source& source, GroupKey& key) const {
    switch (source.kind) {
    case Source::dict_item: key = {DictGroup::dict, source.base}; return true;
    case Source::attribute: key = {DictGroup::instance, source.base}; return true;
    case Source::global: key = {DictGroup::globals, 0}; return true;
    case Source::builtin: key = {DictGroup::builtins, 0}; return true;
    default: return false;
    }
}

/// Sources that leaves do not have a base to be read first.
static bool has_base(const Source& source) {
    switch (source.kind) {
    case Source::slot: case Source::global: case Source::builtin: case Source::function: case Source::anchored: case Source::globals_dict:
        return false;
    default: return true;
    }
}

void GuardCompiler::mark_wanted() {
    for (uint32_t g = 0; g < segment_.guards.size(); ++g) {
        const Guard& guard = segment_.guards[g];
        if (guard.kind == Guard::type_attribute || guard.kind == Guard::grad_mode) continue;
        if (guard.kind == Guard::truth) {
            if (guard.value.kind != ValueRef::source) continue;
            wanted_[guard.value.index] = true;
            guards_on_.emplace(guard.value.index, g);
            continue;
        }
        wanted_[guard.source] = true;
        guards_on_.emplace(guard.source, g);
        if (guard.kind == Guard::same || guard.kind == Guard::distinct || guard.kind == Guard::memory) wanted_[guard.other] = true;
    }
    for (size_t i = segment_.sources.size(); i-- > 0;) // a base comes before its users
        if (wanted_[i] && has_base(segment_.sources[i])) wanted_[segment_.sources[i].base] = true;
    for (uint32_t i = 0; i < segment_.sources.size(); ++i) {
        if (auto on = guards_on_.find(i); on != guards_on_.end()) blame_[i] = on->second;
        else if (has_base(segment_.sources[i])) blame_[i] = blame_[segment_.sources[i].base];
        GroupKey key;
        if (wanted_[i] && groups_with(segment_.sources[i], key)) members_[key].push_back(i);
    }
}

GuardProgram GuardCompiler::compile() {
    for (const capture::ArrayFacts& facts : segment_.facts) program_.facts_.push_back(memory_facts(facts));
    for (MemoryFacts& facts : program_.facts_) { // the moves above may have copied
        if (facts.numpy) facts.array.shape = facts.shape.data(), facts.array.strides = facts.byte_strides.data();
    }
    program_.remembered_.resize(segment_.sources.size());
    program_.slots_.resize(segment_.sources.size());
    mark_wanted();
    for (uint32_t g = 0; g < segment_.guards.size(); ++g) emit_guard(g);
    for (uint32_t i = 0; i < segment_.sources.size(); ++i)
        if (wanted_[i]) read(i, blame_[i]);
    return std::move(program_);
}

void GuardCompiler::read(uint32_t index, uint32_t guard) {
    if (read_[index]) return;
    const Source& source = segment_.sources[index];
    if (blame_[index] < guard) guard = blame_[index];
    if (has_base(source)) read(source.base, guard);
    GroupKey key;
    if (groups_with(source, key)) return emit_group(key, guard);
    read_[index] = true;
    Check check{Check::slot, index, source.base, source.index, guard, source.name.get()};
    switch (source.kind) {
    case Source::slot: check.op = Check::slot; break;
    case Source::function: check.op = Check::function; break;
    case Source::list_item: check.op = Check::list_item; break;
    case Source::tuple_item: check.op = Check::tuple_item; break;
    case Source::slot_attribute: check.op = Check::slot_attribute; break;
    case Source::instance_dict: check.op = Check::instance_dict; break;
    case Source::cell_contents: check.op = Check::cell_contents; break;
    case Source::closure: check.op = Check::closure; break;
    case Source::default_: check.op = Check::default_; break;
    case Source::kwdefault: check.op = Check::kwdefault; break;
    case Source::function_globals: check.op = Check::function_globals; break;
    case Source::code_of: check.op = Check::code_of; break;
    case Source::function_part: check.op = Check::function_part; break;
    case Source::type_attribute_: check.op = Check::type_attribute; break;
    case Source::method_self: check.op = Check::method_self; break;
    case Source::partial_part: check.op = Check::partial_part; break;
    case Source::method_function: check.op = Check::method_function; break;
    case Source::type_of: check.op = Check::type_of; break;
    case Source::module_dict: check.op = Check::module_dict; break;
    case Source::globals_dict: check.op = Check::globals; break;
    case Source::anchored: check.op = Check::anchored, check.what = relied_on(source.index); break;
    default: DYNO_CHECK(false, "a source kind without a read");
    }
    push(check);
}

/// What stays true of a value while its dict is unchanged, given that the dict then still holds the same pointer.
bool GuardCompiler::memoizable(const Guard& guard) const {
    switch (guard.kind) {
    case Guard::is: case Guard::equal: return true;
    case Guard::type: case Guard::number_type: case Guard::numpy_scalar: {
        auto* type = reinterpret_cast<PyTypeObject*>(anchors_[guard.expected]);
        // A module's and a heap instance's __class__ may be assigned.
        return PyType_Check(anchors_[guard.expected]) && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type != &PyModule_Type;
    }
    default: return false;
    }
}

void GuardCompiler::group_guards_of(uint32_t source) {
    for (auto [at, end] = guards_on_.equal_range(source); at != end; ++at) {
        if (emitted_[at->second] || !memoizable(segment_.guards[at->second])) continue;
        emitted_[at->second] = true;
        push(check_of(at->second));
    }
}

void GuardCompiler::emit_group(const GroupKey& key, uint32_t guard) {
    // `builtin` promises that the globals lack the name: the globals' group, which runs first, checks it.
    const GroupKey builtins{DictGroup::builtins, 0};
    if (key == builtins && !globals_emitted_) emit_group({DictGroup::globals, 0}, guard);
    if (key.first == DictGroup::globals) globals_emitted_ = true;
    const auto number = static_cast<uint32_t>(program_.dict_groups_.size());
    const bool nested = in_group_;
    DYNO_CHECK(!nested, "a dict group inside another");
    in_group_ = true;
    DictGroup group{key.first, key.second, guard, static_cast<uint32_t>(program_.grouped_.size())};
    for (uint32_t member : members_[key]) {
        const Source& source = segment_.sources[member];
        read_[member] = true;
        group.reads.push_back(member);
        Check check{Check::dict_item, member, source.base, 0, std::min(guard, blame_[member]), source.name.get()};
        if (key.first == DictGroup::instance) check.op = Check::attribute;
        if (key.first == DictGroup::globals || key.first == DictGroup::builtins) {
            // The dict itself stands where the value will: one place more is not needed.
            push({key.first == DictGroup::globals ? Check::globals : Check::builtins, member, 0, 0, check.guard});
            check.from = member;
        }
        push(check);
        group_guards_of(member);
    }
    if (key.first == DictGroup::globals && members_.contains(builtins)) {
        for (uint32_t member : members_[builtins]) { // the builtin's place holds the dict until its own read
            push({Check::globals, member, 0, 0, std::min(guard, blame_[member])});
            push({Check::absent, 0, member, 0, std::min(guard, blame_[member]), segment_.sources[member].name.get()});
        }
    }
    if (key.first == DictGroup::dict || key.first == DictGroup::instance) {
        for (auto [at, end] = guards_on_.equal_range(key.second); at != end; ++at) {
            const Guard& g = segment_.guards[at->second];
            const bool of_dict = g.kind == Guard::absent || g.kind == Guard::keys || g.kind == Guard::length;
            if (emitted_[at->second] || !(key.first == DictGroup::dict ? of_dict : g.kind == Guard::no_attribute)) continue;
            emitted_[at->second] = true;
            push(check_of(at->second));
        }
    }
    group.count = static_cast<uint32_t>(program_.grouped_.size()) - group.first;
    in_group_ = nested;
    program_.dict_groups_.push_back(std::move(group));
    push({Check::dict_group, 0, key.second, number, guard});
}

Check GuardCompiler::check_of(uint32_t index) const {
    const Guard& guard = segment_.guards[index];
    Check check{Check::is, 0, guard.source, guard.expected, index};
    auto constant = [&](uint32_t which) { return segment_.constants.at(which).get(); };
    switch (guard.kind) {
    case Guard::is: check.what = relied_on(guard.expected); break;
    case Guard::type: case Guard::numpy_scalar: case Guard::number_type: check.op = Check::type, check.what = relied_on(guard.expected); break;
    case Guard::equal: check.op = Check::equal, check.what = constant(guard.expected); break;
    case Guard::truth: check.op = Check::number_truth, check.from = guard.value.index, check.index = guard.expected != 0; break;
    case Guard::tensor: check.op = Check::tensor; break;
    case Guard::array: check.op = Check::array; break;
    case Guard::length: check.op = Check::length; break;
    case Guard::ordered_keys: check.op = Check::ordered_keys, check.what = constant(guard.expected); break;
    case Guard::keys: check.op = Check::keys, check.what = constant(guard.expected); break;
    case Guard::absent: check.op = Check::absent, check.what = constant(guard.expected); break;
    case Guard::no_attribute: check.op = Check::no_attribute, check.what = constant(guard.expected); break;
    case Guard::same: check.op = Check::same, check.to = guard.other; break;
    case Guard::distinct: check.op = Check::distinct, check.to = guard.other; break;
    default: DYNO_CHECK(false, "a guard kind without a check");
    }
    return check;
}

void GuardCompiler::emit_types(uint32_t index) {
    const Guard& guard = segment_.guards[index];
    PyObject* type = anchors_[guard.source];
    DYNO_CHECK(PyType_Check(type), "a type's attribute guarded on something else");
    auto [at, made] = type_groups_.try_emplace(type, static_cast<uint32_t>(program_.type_groups_.size()));
    if (made) {
        program_.type_groups_.push_back({reinterpret_cast<PyTypeObject*>(type), 0, {}});
        push({Check::type_group, 0, 0, at->second, index});
    }
    const bool absent = guard.expected == Guard::none_;
    PyObject *expected = absent ? nullptr : anchors_[guard.expected], *name = segment_.constants.at(guard.name).get();
    TypeGroup& group = program_.type_groups_[at->second];
    group.facts.push_back({name, expected, index, !absent && keep_.fragile(guard.expected)});
    // The anchors are still held, so equal addresses are equal objects: the version noted here is that of the recorded facts.
    if (_PyType_Lookup(group.type, name) != expected) segment_.stale->store(true, std::memory_order_release);
    group.version = python::type_version(group.type);
}

void GuardCompiler::emit_guard(uint32_t index) {
    const Guard& guard = segment_.guards[index];
    if (emitted_[index] || guard.kind == Guard::memory || guard.kind == Guard::grad_mode) return;
    if (guard.kind == Guard::truth && guard.value.kind != ValueRef::source) return; // needs computed numbers: run.cpp
    if (guard.kind == Guard::type_attribute) return emit_types(index);
    const uint32_t source = guard.kind == Guard::truth ? guard.value.index : guard.source;
    read(source, index);
    if (guard.kind == Guard::same || guard.kind == Guard::distinct) read(guard.other, index);
    const bool look_up = guard.kind == Guard::absent || guard.kind == Guard::keys;
    if (!emitted_[index] && (look_up || guard.kind == Guard::no_attribute)) // a group of its own, or with look-ups to come
        emit_group({look_up ? DictGroup::dict : DictGroup::instance, source}, index);
    if (emitted_[index]) return;
    emitted_[index] = true;
    push(check_of(index));
}

PyObject* read_source(const Segment& segment, uint32_t index, std::span<PyObject* const> anchors, const Inputs& inputs) {
    const Source& source = segment.sources[index];
    PyObject* base = has_base(source) ? read_source(segment, source.base, anchors, inputs) : nullptr;
    if (has_base(source) && !base) return nullptr;
    auto item = [&](PyObject* dict) -> PyObject* {
        if (!dict || !PyDict_Check(dict)) return nullptr; // the table itself: its type, which may be a subclass, is guarded
        PyObject* value = PyDict_GetItemWithError(dict, source.name.get());
        if (!value) PyErr_Clear();
        return value;
    };
    auto part = [&](PyObject* tuple) -> PyObject* {
        return tuple && PyTuple_Check(tuple) && source.index < PyTuple_GET_SIZE(tuple) ? PyTuple_GET_ITEM(tuple, source.index) : nullptr;
    };
    const bool function = base && PyFunction_Check(base), method = base && PyMethod_Check(base);
    switch (source.kind) {
    case Source::slot: return source.index < inputs.slot_count ? inputs.slots[source.index] : nullptr;
    case Source::global: return item(inputs.globals);
    case Source::builtin: return item(inputs.builtins);
    case Source::function: return inputs.function;
    case Source::dict_item: return item(base);
    case Source::list_item: return PyList_CheckExact(base) && source.index < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, source.index) : nullptr;
    case Source::tuple_item: return part(base);
    case Source::attribute: return python::instance_attribute(base, source.name.get());
    case Source::slot_attribute: return python::slotted_attribute(base, source.name.get());
    case Source::instance_dict: return python::instance_dict_if_any(base);
    case Source::cell_contents: return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case Source::closure: return function ? part(PyFunction_GET_CLOSURE(base)) : nullptr;
    case Source::default_: {
        PyObject* all = function ? PyFunction_GET_DEFAULTS(base) : nullptr;
        return all && source.index < PyTuple_GET_SIZE(all) ? PyTuple_GET_ITEM(all, PyTuple_GET_SIZE(all) - 1 - source.index) : nullptr;
    }
    case Source::kwdefault: return function ? item(PyFunction_GET_KW_DEFAULTS(base)) : nullptr;
    case Source::function_globals: return function ? PyFunction_GET_GLOBALS(base) : nullptr;
    case Source::code_of: return function ? PyFunction_GET_CODE(base) : nullptr;
    case Source::function_part: return function ? function_part(base, source.index) : nullptr;
    case Source::type_attribute_: return PyType_Check(base) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(base), source.name.get()) : nullptr;
    case Source::method_self: return method ? PyMethod_GET_SELF(base) : nullptr;
    case Source::partial_part: return python::partial_part(base, static_cast<python::PartialPart>(source.index));
    case Source::method_function: return method ? PyMethod_GET_FUNCTION(base) : nullptr;
    case Source::type_of: return reinterpret_cast<PyObject*>(Py_TYPE(base));
    case Source::module_dict: return PyModule_Check(base) ? PyModule_GetDict(base) : nullptr;
    case Source::anchored: return anchors[source.index];
    case Source::globals_dict: return inputs.globals;
    }
    return nullptr;
}

} // namespace dyno::replay
