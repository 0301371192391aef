// The life of a recording: shadows, sources, guards, lines, and its end before an instruction that is not for it.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/frame/layout.h"
#include "compiler/python/ambient.h"
#include "compiler/python/array.h"

namespace dyno::capture {

Recording::Recording(const SegmentKey& key, const Limits& limits) : limits_(limits), key_(key) {
    segment_.key = key;
    shadows_.emplace_back();
    alias_.push_back(0);
    keys_ = Owned<>::steal(PyDict_New());
    refresh_names(); // before the ambient word is read
    python::numpy_ready();
    python::read_ambient(segment_.ambient);
}
Recording::~Recording() = default;

void Recording::begin(Activation& root) {
    root_ = &root;
    grad_at_start_ = python::grad_enabled();
    const int locals = root.code->co_nlocalsplus;
    const auto depth = static_cast<int>(root.sp - root.base);
    for (int k = 0; k < locals + depth; k++) {
        PyObject* value = root.locals[k];
        root.shadows[k] = value ? raw(source(Source::slot, 0, static_cast<uint32_t>(k), nullptr), value) : 0;
    }
    if (root.at == 0) free_variables(root, 0);
}

// ------------------------------------------------------------------------------------------------ the table
ShadowId Recording::canonical(ShadowId id) const {
    while (alias_[id]) id = alias_[id];
    return id;
}
Shadow& Recording::at(ShadowId id) { return shadows_[canonical(id)]; }
ShadowId Recording::add(Shadow shadow) {
    shadows_.push_back(std::move(shadow));
    alias_.push_back(0);
    return static_cast<ShadowId>(shadows_.size() - 1);
}
uint32_t Recording::constant_index(PyObject* value) {
    auto [it, fresh] = constant_ids_.try_emplace(value, static_cast<uint32_t>(segment_.constants.size()));
    if (fresh) segment_.constants.push_back(Owned<>::borrow(value));
    return it->second;
}
ShadowId Recording::constant(PyObject* value) {
    Shadow s;
    s.kind = Shadow::constant;
    s.ref = {ValueRef::constant, constant_index(value)};
    s.type = Py_TYPE(value);
    s.real = value;
    return add(std::move(s));
}
uint32_t Recording::anchor(PyObject* object) {
    auto [it, fresh] = anchor_ids_.try_emplace(object, static_cast<uint32_t>(segment_.anchors.size()));
    if (fresh) segment_.anchors.push_back(Owned<>::borrow(object));
    return it->second;
}
uint32_t Recording::source(Source::Kind kind, uint32_t base, uint32_t index, PyObject* name) {
    auto [it, fresh] = source_ids_.try_emplace({kind, base, index, name}, static_cast<uint32_t>(segment_.sources.size()));
    if (fresh) segment_.sources.push_back(Source{kind, base, index, Owned<>::borrow(name)});
    return it->second;
}
ShadowId Recording::raw(uint32_t source, PyObject* value) {
    Shadow s;
    s.kind = Shadow::raw;
    s.ref = {ValueRef::source, source};
    s.source = source;
    s.type = Py_TYPE(value);
    return add(std::move(s));
}
void Recording::guard(Guard g) {
    if (here_ && !g.from.code) g.from = span_of(*here_);
    segment_.guards.push_back(g);
}
bool Recording::refuse(std::string reason, std::string hint) {
    refusal_ = std::move(reason);
    hint_ = std::move(hint);
    return false;
}
PyObject* Recording::canonical_key(PyObject* key) {
    PyObject* known = PyDict_SetDefault(keys_.get(), key, key);
    if (!known) PyErr_Clear();
    return known;
}
bool Recording::is_tensor(ShadowId id) const { return id && shadows_[canonical(id)].kind == Shadow::tensor && !shadows_[canonical(id)].unsized; }

ShadowId Recording::fresh(NewObject::Kind kind, std::vector<ShadowId> parts, PyTypeObject* type) {
    Shadow s;
    s.kind = Shadow::fresh;
    s.type = type;
    s.fresh_index = fresh_values_++;
    s.parts = std::move(parts);
    NewObject object;
    object.kind = kind;
    segment_.fresh.push_back(std::move(object));
    return add(std::move(s));
}
ShadowId Recording::iterator(IteratorShadow it, PyTypeObject* type) {
    Shadow s;
    s.kind = Shadow::iterator;
    s.type = type;
    const ShadowId id = add(std::move(s));
    iterator_of_[id] = static_cast<uint32_t>(iterators_.size());
    iterators_.push_back(std::move(it));
    return id;
}
ShadowId Recording::number_step(ScalarStep step, std::initializer_list<ShadowId> operands, PyObject* result) {
    auto it = operands.begin();
    if (it != operands.end()) step.a = ref_of(*it++);
    if (it != operands.end()) step.b = ref_of(*it++);
    step.on_data = depends_on_data(step.a) || depends_on_data(step.b);
    step.last_call = std::max(last_call(step.a), last_call(step.b));
    segment_.scalar_steps.push_back(step);
    Shadow s;
    s.kind = Shadow::number;
    s.ref = {ValueRef::scalar, static_cast<uint32_t>(segment_.scalar_steps.size() - 1)};
    s.type = Py_TYPE(result);
    return add(std::move(s));
}

SourceSpan Recording::span_of(const Activation& a) {
    if (last_code_ != a.code) {
        auto* code = reinterpret_cast<PyObject*>(a.code);
        auto [it, fresh] = code_ids_.try_emplace(code, static_cast<uint32_t>(codes_.size()));
        if (fresh) {
            segment_.codes.push_back(a.code);
            const char *file = PyUnicode_AsUTF8(a.code->co_filename), *name = PyUnicode_AsUTF8(a.code->co_qualname);
            if (!file || !name) PyErr_Clear(); // code_names: lone surrogates
            segment_.code_names.push_back({file ? file : "?", name ? name : "?"});
            codes_.push_back({a.code, a.decoded, std::vector<bool>(a.decoded->instructions.size())});
            if (a.code != segment_.key.code) anchor(code); // the key's own code owns the entry and must not be held
        }
        last_code_ = a.code;
        last_row_ = it->second;
    }
    return {static_cast<uint32_t>(last_row_ + 1), a.decoded->line_of(a.code, a.at)};
}
void Recording::seen(const Activation& a) {
    if (last_code_ != a.code) span_of(a);
    codes_[last_row_].seen[static_cast<size_t>(a.at)] = true;
}
void Recording::line_note(Activation& a, const char* status, const std::string& reason, const std::string& hint) {
    lines_.push_back({span_of(a), status, reason, hint});
}

Recording::Before Recording::stop(Activation& a, std::string reason, std::string hint) {
    end_before(a, std::move(reason), std::move(hint));
    return Before::stop;
}
void Recording::end_before(Activation& a, std::string reason, std::string hint) {
    if (finished_) return;
    refusal_.clear();
    line_note(a, "break", reason, hint);
    Exit exit;
    exit.kind = Exit::breaks;
    exit.reason = std::move(reason);
    exit.hint = std::move(hint);
    exit.at = span_of(a);
    finish(&a, std::move(exit));
    frame::detach(this);
}
bool Recording::goes_on() {
    if (limits_.goes_on && limits_.goes_on(effort())) {
        limits_.effort = effort() + effort_between_questions;
        return true;
    }
    finished_ = discarded_ = too_long_ = true;
    weak_.clear();
    by_object_.clear();
    kept_.clear();
    frame::detach(this);
    return false;
}
void Recording::failed(Activation& a, const Instruction&) {
    if (!finished_) end_before(a, "the next instruction raised or needs CPython's own words", "");
}
/// The __new__ that collections.namedtuple() writes: `lambda _cls, x, y: _tuple_new(_cls, (x, y))`. It has no effect.
static bool makes_named_tuple(PyCodeObject* code) {
    return PyUnicode_CompareWithASCIIString(code->co_filename, "<string>") == 0 && PyTuple_GET_SIZE(code->co_names) == 1 &&
           PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, 0), "_tuple_new") == 0;
}

bool Recording::stranger(PyCodeObject* code, bool thrown) {
    if (finished_) return false;
    Activation* top = frame::top_activation();
    if (making_record_ || (thrown && is_dropped_generator(code))) return true;
    if (frame::collecting() && names().is_installed_code(code)) return true; // a library's finaliser: it could have come at any other time
    const bool called = pending_ == PendingKind::call || pending_ == PendingKind::in_place_call || pending_ == PendingKind::derived || own_python_;
    if (called && (names().is_library_code(code) || makes_named_tuple(code))) return true; // the library's own Python under its call
    if (top && top->recorder == this) end_before(*top, std::string("Python code ran inside an instruction: ") + PyUnicode_AsUTF8(code->co_qualname), "");
    return false;
}

} // namespace dyno::capture
