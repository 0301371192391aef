// Sources and guards in plain words, and what exactly made a guard fail: for `explain` and `recompiles`. Reads the inputs again; runs no user code.
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include "compiler/replay/launch_plan.h"
#include <algorithm>

namespace dyno::replay {

using capture::ArrayFacts;
using capture::Guard;
using capture::Source;

namespace {

std::string utf8(PyObject* text) {
    const char* bytes = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
    if (!bytes) PyErr_Clear();
    return bytes ? bytes : "?";
}

/// "relu" of "torch.relu".
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// repr() of immutable built-in values; the kind of thing for others.
std::string shown(PyObject* value) {
    if (!value) return "nothing";
    PyTypeObject* type = Py_TYPE(value);
    bool plain = value == Py_None || value == Py_Ellipsis || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type ||
                 type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type;
    if (type == &PyTuple_Type) {
        std::string text = "(";
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) text += (i ? ", " : "") + shown(PyTuple_GET_ITEM(value, i));
        return text + (PyTuple_GET_SIZE(value) == 1 ? ",)" : ")");
    }
    plain = plain || (python::numpy_ready() && python::numpy_scalar_dtype(value) != DType::none);
    if (!plain) return name_of_object(value);
    auto repr = Owned<>::steal(PyObject_Repr(value));
    if (!repr) PyErr_Clear();
    return repr ? utf8(repr.get()) : "?";
}

std::string anchor_name(const Segment& segment, uint32_t index) {
    if (index < segment.anchor_names.size()) return segment.anchor_names[index];
    if (index < segment.anchors.size() && segment.anchors[index]) return name_of_object(segment.anchors[index].get());
    return "?";
}

const char* full_name(DType dtype) {
    switch (dtype) {
    case DType::b8: return "bool";
    case DType::u8: return "uint8";
    case DType::i8: return "int8";
    case DType::i16: return "int16";
    case DType::i32: return "int32";
    case DType::i64: return "int64";
    case DType::u16: return "uint16";
    case DType::u32: return "uint32";
    case DType::u64: return "uint64";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    case DType::c64: return "complex64";
    case DType::c128: return "complex128";
    case DType::none: break;
    }
    return "unknown";
}

std::string list_of(const int64_t* numbers, size_t count) {
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(numbers[i]);
    return text + "]";
}
std::string list_of(const std::vector<int64_t>& numbers) { return list_of(numbers.data(), numbers.size()); }

std::string device_text(uint8_t type, int8_t index) {
    if (type == python::device_cpu) return "cpu";
    const std::string name = type == python::device_cuda ? "cuda" : "device " + std::to_string(type);
    return index < 0 ? name : name + ":" + std::to_string(index);
}

bool row_major(const ArrayFacts& facts) {
    int64_t next = 1;
    for (size_t i = facts.sizes.size(); i-- > 0; next *= facts.sizes[i])
        if (facts.sizes[i] > 1 && facts.strides[i] != next) return false;
    return true;
}

std::string facts_text(const std::string& name, const ArrayFacts& facts, bool numpy) {
    const std::string dtype = full_name(facts.dtype);
    const std::string article = dtype.starts_with("i") ? "an " : "a ";
    std::string text = name + " is " + article + dtype + (numpy ? " array " : " tensor ") + list_of(facts.sizes);
    if (!numpy) text += " on " + device_text(facts.device_type, facts.device_index);
    if (!row_major(facts)) text += ", strides " + list_of(facts.strides);
    if (!numpy && facts.requires_grad) text += ", requires grad";
    if (numpy && !facts.writeable) text += ", read-only";
    return text;
}

/// Names of the frame's slots: variables by name, the stack's temporaries as such.
std::string slot_text(const Segment& segment, uint32_t index) {
    PyCodeObject* code = segment.key.code;
    if (!code) return "slot " + std::to_string(index);
    PyObject* names = code->co_localsplusnames;
    return index < PyTuple_GET_SIZE(names) ? utf8(PyTuple_GET_ITEM(names, index)) : "a temporary value";
}

std::string key_text(PyObject* key) { return "[" + shown(key) + "]"; }

/// self._modules['fc'] is written as the user does: self.fc.
std::string item_text(const Segment& segment, const Source& source) {
    const Source& base = segment.sources[source.base];
    if (base.kind == Source::attribute && source.name && PyUnicode_CheckExact(source.name.get())) {
        const std::string dict = utf8(base.name.get());
        if (dict == "_modules" || dict == "_parameters" || dict == "_buffers") {
            const std::string name = utf8(source.name.get());
            const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
            return source_text(segment, base.base) + (number ? "[" + name + "]" : "." + name);
        }
    }
    if (source.name && PyUnicode_CheckExact(source.name.get())) {
        const std::string name = utf8(source.name.get());
        if (base.kind == Source::instance_dict || base.kind == Source::module_dict) return source_text(segment, base.base) + "." + name;
        // Globals and builtins of whatever function go by their bare names.
        if (base.kind == Source::globals_dict || base.kind == Source::function_globals || base.kind == Source::anchored) return name;
    }
    return source_text(segment, source.base) + key_text(source.name.get());
}

/// A closure's cell goes by its variable, where the function is the frame's own.
std::string closure_text(const Segment& segment, const Source& source) {
    PyCodeObject* code = segment.key.code;
    if (code && segment.sources[source.base].kind == Source::function) {
        auto names = Owned<>::steal(PyCode_GetFreevars(code));
        if (names && source.index < PyTuple_GET_SIZE(names.get())) return utf8(PyTuple_GET_ITEM(names.get(), source.index));
        PyErr_Clear();
    }
    return "variable " + std::to_string(source.index) + " of the closure of " + source_text(segment, source.base);
}

std::string ordinal_default(const Segment& segment, const Source& source) {
    return "default -" + std::to_string(source.index + 1) + " of " + source_text(segment, source.base);
}

} // namespace

std::string source_text(const Segment& segment, uint32_t index) {
    const Source& source = segment.sources.at(index);
    auto base = [&] { return source_text(segment, source.base); };
    switch (source.kind) {
    case Source::slot: return slot_text(segment, source.index);
    case Source::global: case Source::builtin: return utf8(source.name.get());
    case Source::function: return segment.key.code ? utf8(segment.key.code->co_qualname) : "the function";
    case Source::dict_item: return item_text(segment, source);
    case Source::list_item: case Source::tuple_item: return base() + "[" + std::to_string(source.index) + "]";
    case Source::attribute: case Source::slot_attribute: return base() + "." + utf8(source.name.get());
    case Source::instance_dict: return base() + ".__dict__";
    case Source::cell_contents: return base();
    case Source::closure: return closure_text(segment, source);
    case Source::default_: return ordinal_default(segment, source);
    case Source::kwdefault: return "default " + utf8(source.name.get()) + " of " + base();
    case Source::function_globals: return "the globals of " + base();
    case Source::code_of: return base() + ".__code__";
    case Source::function_part: {
        static const char* const parts[] = {".__name__", ".__qualname__", ".__module__", ".__doc__"};
        return base() + parts[source.index];
    }
    case Source::type_attribute_: return base() + "." + utf8(source.name.get());
    case Source::method_self: return base() + ".__self__";
    case Source::partial_part: {
        static const char* const parts[] = {".func", ".args", ".keywords"};
        return base() + parts[source.index];
    }
    case Source::method_function: return base() + ".__func__";
    case Source::type_of: return "type(" + base() + ")";
    case Source::module_dict: return base() + ".__dict__";
    case Source::anchored: return anchor_name(segment, source.index);
    case Source::globals_dict: return "globals()";
    }
    return "?";
}

std::string guard_text(const Segment& segment, const Guard& guard) {
    auto name = [&] { return source_text(segment, guard.source); };
    auto constant = [&](uint32_t index) { return shown(segment.constants.at(index).get()); };
    switch (guard.kind) {
    case Guard::is: {
        const std::string what = name(), object = anchor_name(segment, guard.expected);
        const Source& source = segment.sources.at(guard.source);
        if (source.kind == Source::code_of) return "the code of " + source_text(segment, source.base) + " is unchanged";
        return last_part(what) == last_part(object) ? what + " is unchanged" : what + " is " + object;
    }
    case Guard::type: case Guard::numpy_scalar: case Guard::number_type: return "type(" + name() + ") is " + anchor_name(segment, guard.expected);
    case Guard::equal: return name() + " == " + constant(guard.expected);
    case Guard::truth: {
        const std::string what = guard.value.kind == ValueRef::source ? source_text(segment, guard.value.index) : "a condition on numbers";
        return what + (guard.expected ? " is true" : " is false");
    }
    case Guard::tensor: return facts_text(name(), segment.facts.at(guard.expected), false);
    case Guard::array: return facts_text(name(), segment.facts.at(guard.expected), true);
    case Guard::length: return "len(" + name() + ") == " + std::to_string(guard.expected);
    case Guard::keys: case Guard::ordered_keys: return "list(" + name() + ") == list(" + constant(guard.expected) + ")";
    case Guard::absent: return constant(guard.expected) + " not in " + name();
    case Guard::no_attribute: return name() + " has no own attribute " + constant(guard.expected);
    case Guard::type_attribute: {
        const std::string attribute = anchor_name(segment, guard.source) + "." + utf8(segment.constants.at(guard.name).get());
        return attribute + (guard.expected == Guard::none_ ? " is not defined" : " is unchanged");
    }
    case Guard::same: return name() + " is " + source_text(segment, guard.other);
    case Guard::distinct: return name() + " is not " + source_text(segment, guard.other);
    case Guard::memory: return name() + " and " + source_text(segment, guard.other) + " share no memory";
    case Guard::grad_mode: return guard.expected ? "gradients are on" : "gradients are off";
    }
    return {};
}

namespace {

/// The first fact that differs, in words.
void describe_numbers(GuardFailure& failure, const std::string& name, const ArrayFacts& facts, const int64_t* sizes, const int64_t* strides, int ndim, int64_t unit) {
    const auto axes = static_cast<int>(facts.sizes.size());
    if (ndim != axes) {
        failure.guard = name + ".ndim == " + std::to_string(axes);
        failure.was = std::to_string(axes), failure.now = std::to_string(ndim);
        return;
    }
    for (int i = 0; i < ndim; ++i) {
        if (sizes[i] == facts.sizes[static_cast<size_t>(i)]) continue;
        failure.was = std::to_string(facts.sizes[static_cast<size_t>(i)]), failure.now = std::to_string(sizes[i]);
        failure.guard = name + ".shape[" + std::to_string(i) + "] == " + failure.was;
        return;
    }
    for (int i = 0; i < ndim; ++i) {
        if (strides[i] == facts.strides[static_cast<size_t>(i)] * unit) continue;
        failure.was = std::to_string(facts.strides[static_cast<size_t>(i)] * unit), failure.now = std::to_string(strides[i]);
        failure.guard = name + (unit == 1 ? ".stride(" + std::to_string(i) + ")" : ".strides[" + std::to_string(i) + "]") + " == " + failure.was;
        return;
    }
}

void set(GuardFailure& failure, const std::string& what, const std::string& was, const std::string& now) {
    failure.guard = what + " == " + was, failure.was = was, failure.now = now;
}

void describe_tensor(GuardFailure& failure, const std::string& name, const ArrayFacts& facts, PyObject* value) {
    python::TensorView view;
    if (Py_TYPE(value) != facts.type) return set(failure, "type(" + name + ")", facts.type->tp_name, Py_TYPE(value)->tp_name);
    if (!python::read_tensor(value, view)) return set(failure, name, "a plain tensor", "a special one (conjugated, sparse, transformed, ...)");
    if (view.dtype != facts.dtype) return set(failure, name + ".dtype", full_name(facts.dtype), full_name(view.dtype));
    if (view.device_type != facts.device_type || view.device_index != facts.device_index)
        return set(failure, name + ".device", device_text(facts.device_type, facts.device_index), device_text(view.device_type, view.device_index));
    if (view.requires_grad != facts.requires_grad)
        return set(failure, name + ".requires_grad", facts.requires_grad ? "True" : "False", view.requires_grad ? "True" : "False");
    if (view.key_set != facts.key_set) return set(failure, name, "an ordinary tensor", view.inference ? "an inference tensor" : "another kind of tensor");
    describe_numbers(failure, name, facts, view.sizes, view.strides, view.ndim, 1);
}

void describe_array(GuardFailure& failure, const std::string& name, const ArrayFacts& facts, PyObject* value) {
    python::ArrayView view;
    if (Py_TYPE(value) != facts.type) return set(failure, "type(" + name + ")", facts.type->tp_name, Py_TYPE(value)->tp_name);
    if (!python::read_array(value, view)) return set(failure, name, "a plain array", "one of another dtype, byte order or alignment");
    if (view.dtype != facts.dtype) return set(failure, name + ".dtype", full_name(facts.dtype), full_name(view.dtype));
    if (view.writeable != facts.writeable) return set(failure, name + ".flags.writeable", facts.writeable ? "True" : "False", view.writeable ? "True" : "False");
    describe_numbers(failure, name, facts, view.shape, view.strides, view.ndim, size_of(facts.dtype));
}

/// Facts of tensors and arrays name the number that moved; all else shows the value.
void describe_value(GuardFailure& failure, const Segment& segment, const Guard& guard, PyObject* value) {
    const std::string name = source_text(segment, guard.source);
    switch (guard.kind) {
    case Guard::tensor: return describe_tensor(failure, name, segment.facts.at(guard.expected), value);
    case Guard::array: return describe_array(failure, name, segment.facts.at(guard.expected), value);
    case Guard::equal: failure.was = shown(segment.constants.at(guard.expected).get()), failure.now = shown(value); return;
    case Guard::is: failure.was = anchor_name(segment, guard.expected), failure.now = shown(value); return;
    case Guard::type: case Guard::numpy_scalar: case Guard::number_type:
        failure.was = anchor_name(segment, guard.expected), failure.now = Py_TYPE(value)->tp_name;
        return;
    case Guard::length: {
        const Py_ssize_t length = PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value) || PyODict_CheckExact(value) || PyUnicode_CheckExact(value) ||
                                          PyAnySet_CheckExact(value) || PyBytes_CheckExact(value) || PyRange_Check(value)
                                      ? PyObject_Length(value)
                                      : -1;
        if (PyErr_Occurred()) PyErr_Clear();
        failure.was = std::to_string(guard.expected), failure.now = length < 0 ? shown(value) : std::to_string(length);
        return;
    }
    case Guard::keys: case Guard::ordered_keys: {
        auto keys = Owned<>::steal(PyDict_CheckExact(value) || PyODict_CheckExact(value) ? PySequence_Tuple(value) : nullptr);
        if (PyErr_Occurred()) PyErr_Clear();
        failure.was = shown(segment.constants.at(guard.expected).get()), failure.now = keys ? shown(keys.get()) : shown(value);
        return;
    }
    case Guard::absent: case Guard::no_attribute: failure.was = "absent", failure.now = "present"; return;
    case Guard::same: failure.was = "one object", failure.now = "two"; return;
    case Guard::distinct: failure.was = "two objects", failure.now = "one"; return;
    case Guard::memory: failure.was = "apart", failure.now = "overlapping"; return;
    case Guard::truth: case Guard::type_attribute: case Guard::grad_mode: return;
    }
}

GuardFailure in_words(const LaunchPlan& plan, uint32_t index, const Inputs& inputs) {
    const Segment& segment = plan.segment;
    GuardFailure failure{"", "", "", {}, nowhere, Guard::is};
    if (index == retired || (index < segment.guards.size() && segment.stale->load())) {
        failure.guard = "what the code was compiled for still exists", failure.was = "alive", failure.now = "gone or changed";
        return failure;
    }
    if (index == ambient_differs) {
        python::Ambient now;
        python::read_ambient(now);
        const char* reason = python::ambient_reason(now);
        failure.guard = "the state of torch, NumPy and the thread is the one recorded", failure.was = "as recorded";
        failure.now = reason ? reason : "different (grad mode, default dtype, errstate or the like)";
        failure.kind = Guard::grad_mode;
        return failure;
    }
    if (index >= segment.guards.size()) {
        failure.guard = "every value the code reads is there", failure.was = "present", failure.now = "missing";
        return failure;
    }
    const Guard& guard = segment.guards[index];
    failure.guard = guard_text(segment, guard);
    failure.from = guard.from, failure.kind = guard.kind;
    if (guard.kind == Guard::type_attribute) {
        auto* type = reinterpret_cast<PyTypeObject*>(plan.anchors.objects()[guard.source]);
        failure.was = guard.expected == Guard::none_ ? "not defined" : anchor_name(segment, guard.expected);
        failure.now = shown(_PyType_Lookup(type, segment.constants.at(guard.name).get()));
        return failure;
    }
    failure.source = guard.kind == Guard::truth ? (guard.value.kind == ValueRef::source ? guard.value.index : nowhere) : guard.source;
    if (guard.kind == Guard::truth) {
        failure.was = guard.expected ? "true" : "false", failure.now = guard.expected ? "false" : "true";
        return failure;
    }
    PyObject* value = read_source(segment, guard.source, plan.anchors.objects(), inputs);
    failure.was = "present", failure.now = "missing";
    if (value) describe_value(failure, segment, guard, value);
    return failure;
}

constexpr size_t most_failures = 8;

} // namespace

GuardFailure describe_failure(LaunchPlan& plan, uint32_t index, const Inputs& inputs) {
    static uint64_t described = 0;
    GuardFailure failure = in_words(plan, index, inputs);
    failure.order = ++described;
    auto same = [&](const GuardFailure& f) { return f.guard == failure.guard && f.now == failure.now; };
    if (std::any_of(plan.failures.begin(), plan.failures.end(), same)) return failure;
    failure.stack = frame::user_stack(PyThreadState_Get());
    if (plan.failures.size() == most_failures) plan.failures.erase(plan.failures.begin());
    plan.failures.push_back(failure);
    return failure;
}

std::string died_of(const LaunchPlan& plan) { return plan.anchors.died(); }
const std::vector<GuardFailure>& failures_of(const LaunchPlan& plan) { return plan.failures; }

} // namespace dyno::replay
