// Reads the ambient word of this thread. Input: nothing but the thread; output: twelve words.
// It must read every word each time: a word left out is a state not seen.
#include "compiler/python/ambient.h"

#include <string>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "compiler/python/ambient_plan.h"
#include "compiler/python/array.h"
#include "compiler/python/ref.h"
#include "compiler/python/torch_state.h"
#include "compiler/python/versions.h"

namespace dyno::python {

AmbientPlan ambient_plan;

namespace {

using Way = AmbientPlan::Way;
const AmbientPlan& plan = ambient_plan;

// Found once a thread. With the default model of thread-locals in a shared library, each use costs a call.
__attribute__((tls_model("initial-exec"))) thread_local AmbientRegions regions_of_thread;

constexpr uint64_t control_default = 0x1F80; // all exceptions masked, nearest, no flushing

/// Rounding, masks and flushing of this thread; not the sticky exception flags.
uint64_t floating_control() {
#if defined(__x86_64__)
    return _mm_getcsr() & 0xFFC0;
#else
    return control_default;
#endif
}

/// Asks torch._C.name(), or torch._C.name().raw_repr(); 0 on an error, which is not left set.
uint64_t ask_torch(const char* name, const char* then = nullptr) {
    const Owned<> c = Owned<>::steal(PyObject_GetAttrString(torch_state.module, "_C"));
    Owned<> value = Owned<>::steal(c ? PyObject_CallMethod(c.get(), name, nullptr) : nullptr);
    if (value && then) value = Owned<>::steal(PyObject_CallMethod(value.get(), then, nullptr));
    const uint64_t word = value ? PyLong_AsUnsignedLongLongMask(value.get()) : 0;
    if (PyErr_Occurred()) PyErr_Clear();
    return word;
}

uint64_t default_dtype_by_calls() {
    const Owned<> dtype = Owned<>::steal(PyObject_CallMethod(torch_state.module, "get_default_dtype", nullptr));
    if (!dtype) PyErr_Clear();
    return static_cast<uint64_t>(dtype_of_torch(dtype.get()));
}

bool hooks_active_by_calls() {
    const Owned<> c = Owned<>::steal(PyObject_GetAttrString(torch_state.module, "_C"));
    const Owned<> autograd = Owned<>::steal(c ? PyObject_GetAttrString(c.get(), "_autograd") : nullptr);
    const Owned<> top =
        Owned<>::steal(autograd ? PyObject_CallMethod(autograd.get(), "_top_saved_tensors_default_hooks", "O", Py_False) : nullptr);
    if (!top) PyErr_Clear();
    return top && top.get() != Py_None;
}

uint64_t hooks_bit(const AmbientRegions& at) {
    if (plan.hooks) return load<const char*>(at.hooks, hooks_first) != load<const char*>(at.hooks, hooks_last) ? function_hooks : 0;
    return hooks_active_by_calls() ? function_hooks : 0;
}

uint64_t anomaly_bit() {
    if (torch_state.call.anomaly) return *torch_state.call.anomaly ? misc_anomaly : 0;
    return ask_torch("is_anomaly_enabled") ? misc_anomaly : 0;
}

uint64_t profiler_bit() { return profiler_enabled() ? misc_profiler : 0; }

/// Torch's words by the proved places, given one by one: stored by a read, compared at once by a guard.
template <class Take>
inline void take_raw(Take take) {
    const AmbientRegions& at = ambient_regions();
    take(word_included, at.keys[0]);
    take(word_excluded, at.keys[1]);
    take(word_autograd, load<uint64_t>(at.autograd, plan.autograd.offset) & plan.autograd.mask);
    const auto modes =
        static_cast<uint64_t>(load<const char*>(at.function, modes_end) - load<const char*>(at.function, modes_begin)) / mode_bytes;
    take(word_function, load<uint8_t>(at.function, 0) | modes << 8 | hooks_bit(at));
    for (int i = 0; i < AmbientPlan::most_context; i++)
        take(word_context + i, load<uint64_t>(at.context, plan.context[i].offset) & plan.context[i].mask);
    take(word_misc, static_cast<uint8_t>(torch_state.call.default_dtype()) | anomaly_bit() | profiler_bit());
}

/// What is not torch's.
template <class Take>
inline void take_rest(Take take) {
    take(word_numpy, numpy_errstate() ^ floating_control() << 40);
    take(word_python, tracing_state(PyThreadState_Get()));
    take(word_way, static_cast<uint64_t>(plan.way));
}

void read_by_functions(uint64_t* words) {
    const TorchFunctions& f = torch_state.call;
    const AmbientRegions& at = ambient_regions();
    words[word_included] = at.keys[0];
    words[word_excluded] = at.keys[1];
    words[word_autograd] = uint64_t{f.grad_mode()} | uint64_t{f.inference_mode()} << 1;
    words[word_function] = static_cast<uint8_t>(f.function_disabled()) | static_cast<uint64_t>(f.function_modes()) << 8 |
                           (hooks_active_by_calls() ? function_hooks : 0);
    for (int i = 0; i < AmbientPlan::most_context; i++) words[word_context + i] = 0;
    words[word_misc] = static_cast<uint8_t>(f.default_dtype()) | anomaly_bit() | profiler_bit() |
                       (f.deterministic(at.context) ? misc_deterministic : 0) |
                       (f.deterministic_warn(at.context) ? misc_deterministic_warn : 0);
}

void read_by_calls(uint64_t* words) {
    KeepError keep;
    words[word_included] = ask_torch("_dispatch_tls_local_include_set", "raw_repr");
    words[word_excluded] = ask_torch("_dispatch_tls_local_exclude_set", "raw_repr");
    words[word_autograd] = ask_torch("is_grad_enabled") | ask_torch("is_inference_mode_enabled") << 1;
    words[word_function] = (ask_torch("_is_torch_function_enabled") ? plan.function_enabled : plan.function_enabled ^ 1) |
                           ask_torch("_len_torch_function_stack") << 8 | (hooks_active_by_calls() ? function_hooks : 0);
    for (int i = 0; i < AmbientPlan::most_context; i++) words[word_context + i] = 0;
    words[word_misc] = default_dtype_by_calls() | (ask_torch("is_anomaly_enabled") ? misc_anomaly : 0) | profiler_bit() |
                       (ask_torch("_get_deterministic_algorithms") ? misc_deterministic : 0) |
                       (ask_torch("_get_deterministic_algorithms_warn_only") ? misc_deterministic_warn : 0);
}

const char* torch_reason(const uint64_t* words) {
    if (words[word_way] == static_cast<uint64_t>(Way::none)) return nullptr;
    if (words[word_function] & function_hooks) return "hooks on saved tensors are active";
    if ((words[word_function] & ~function_hooks) >> 8) return "a torch function mode is active";
    if ((words[word_function] & 0xFF) != plan.function_enabled) return "torch functions are disabled";
    if (words[word_misc] & misc_anomaly) return "anomaly detection is on";
    if (words[word_misc] & misc_profiler) return "torch's profiler is on";
    const AmbientPlan::KeySets& idle = words[word_way] == static_cast<uint64_t>(Way::calls) ? plan.idle_by_calls : plan.idle;
    for (int i : {0, 1})
        if (words[word_included] == idle.included[i] && words[word_excluded] == idle.excluded[i]) return nullptr;
    // Something active; say what, by the bits that each switch was seen to move.
    const uint64_t moved[2] = {words[word_included] ^ idle.included[0], words[word_excluded] ^ idle.excluded[0]};
    auto touches = [&](const uint64_t(&bits)[2]) { return (moved[0] & bits[0]) | (moved[1] & bits[1]); };
    if (touches(plan.transform_bits)) return "a torch.func transform is active";
    if (touches(plan.dispatch_bits)) return "a torch dispatch mode is active";
    if (touches(plan.autocast_bits)) return "autocast is on";
    return "torch's dispatch state is not the usual one";
}

} // namespace

const AmbientRegions& ambient_regions() {
    AmbientRegions& at = regions_of_thread;
    if (!at.keys) [[unlikely]] {
        const TorchFunctions& f = torch_state.call;
        at.autograd = f.autograd_state ? static_cast<const char*>(f.autograd_state()) : nullptr;
        at.function = f.function_state ? static_cast<const char*>(f.function_state()) : nullptr;
        at.context = f.context ? static_cast<const char*>(f.context()) : nullptr;
        at.hooks = f.hooks_state ? static_cast<const char*>(f.hooks_state()) : nullptr;
        at.keys = static_cast<const uint64_t*>(torch_symbol("_ZN3c104impl26raw_local_dispatch_key_setE")); // dlsym answers for this thread
    }
    return at;
}

bool profiler_enabled() {
    struct Known {
        PyObject *dict = nullptr, *name = nullptr;
        uint64_t version = 0;
        bool on = false;
    };
    static Known known; // under the GIL
    if (!known.dict) [[unlikely]] {
        KeepError keep;
        const Owned<> autograd = Owned<>::steal(PyObject_GetAttrString(torch_state.module, "autograd"));
        const Owned<> module = Owned<>::steal(autograd ? PyObject_GetAttrString(autograd.get(), "profiler") : nullptr);
        PyErr_Clear();
        if (!module || !PyModule_Check(module.get())) return false;
        known.name = PyUnicode_InternFromString("_is_profiler_enabled");
        known.dict = Py_NewRef(PyModule_GetDict(module.get()));
    }
    if (const uint64_t version = have_dict_versions() ? dict_version(known.dict) : 0; !version || version != known.version) {
        known.version = version;
        known.on = PyDict_GetItemWithError(known.dict, known.name) == Py_True;
    }
    return known.on;
}

void read_ambient(Ambient& ambient) {
    uint64_t* words = ambient.words;
    auto store = [&](int at, uint64_t word) { words[at] = word; };
    switch (plan.way) {
    case Way::none:
        std::memset(words, 0, word_numpy * sizeof *words);
        break;
    case Way::raw:
        take_raw(store);
        break;
    case Way::functions:
        read_by_functions(words);
        break;
    case Way::calls:
        read_by_calls(words);
        break;
    }
    take_rest(store);
}

bool ambient_matches(const Ambient& expected) {
    if (plan.way == Way::raw) [[likely]] {
        uint64_t different = 0;
        auto compare = [&](int at, uint64_t word) { different |= word ^ expected.words[at]; };
        take_raw(compare);
        take_rest(compare);
        return !different;
    }
    Ambient now;
    read_ambient(now);
    return now == expected;
}

const char* ambient_reason(const Ambient& ambient) {
    const uint64_t python = ambient.words[word_python];
    if (python & (traced | in_tracer)) return "a tracer or debugger is active";
    if (python & profiled) return "a profiler is active";
    if (python & monitored) return "a monitoring tool is active";
    if (ambient.words[word_numpy] >> 40 != control_default) return "the floating-point control word is not the usual one";
    return torch_reason(ambient.words);
}

bool ambient_is_plain(const Ambient& ambient) { return !ambient_reason(ambient); }

bool grad_enabled() {
    if (plan.way == Way::none) return false;
    if (plan.way == Way::raw) return (load<uint64_t>(ambient_regions().autograd, plan.autograd.offset) & plan.grad_mask) == plan.grad_on;
    if (plan.way == Way::functions) return torch_state.call.grad_mode();
    KeepError keep;
    return ask_torch("is_grad_enabled");
}

bool set_grad_enabled(bool on) {
    static PyObject* const function = [] {
        const Owned<> c = Owned<>::steal(torch_state.module ? PyObject_GetAttrString(torch_state.module, "_C") : nullptr);
        PyObject* found = c ? PyObject_GetAttrString(c.get(), "_set_grad_enabled") : nullptr;
        if (!found) PyErr_Clear();
        return found;
    }();
    if (!function) return false;
    KeepError keep;
    const Owned<> done = Owned<>::steal(PyObject_CallOneArg(function, on ? Py_True : Py_False));
    if (!done) PyErr_Clear();
    return static_cast<bool>(done);
}

bool inference_mode() {
    if (plan.way == Way::none) return false;
    if (plan.way == Way::raw)
        return (load<uint64_t>(ambient_regions().autograd, plan.autograd.offset) & plan.inference_mask) == plan.inference_on;
    if (plan.way == Way::functions) return torch_state.call.inference_mode();
    KeepError keep;
    return ask_torch("is_inference_mode_enabled");
}

bool deterministic_algorithms() {
    if (plan.way == Way::none) return false;
    if (plan.way != Way::calls) return torch_state.call.deterministic(ambient_regions().context);
    KeepError keep;
    return ask_torch("_get_deterministic_algorithms");
}

const char* ambient_way() {
    static constexpr const char* names[] = {"none", "raw words", "functions", "public calls"};
    return names[static_cast<int>(plan.way)];
}

bool use_ambient_way(AmbientPlan::Way way) {
    static const AmbientPlan::Way best = plan.way; // first asked after the proof
    if (way == Way::raw && best != Way::raw) return false;
    if (way == Way::functions && best == Way::calls) return false;
    ambient_plan.way = way;
    return true;
}

} // namespace dyno::python
