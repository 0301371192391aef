// Proves which bits of torch's thread-local and global state move with which switch, by turning each on and off twice.
// Output: ambient_plan. A required switch that moves nothing, or does not come back, refuses the raw way: such a state would not be seen.
#include <cstring>
#include <string>
#include <vector>

#include "compiler/python/ambient_plan.h"
#include "compiler/python/probe.h"
#include "compiler/python/ref.h"
#include "compiler/python/torch_state.h"

namespace dyno::python {
namespace {

enum Region : int { region_keys, region_autograd, region_function, region_context, region_hooks, region_count };
constexpr int region_words[region_count] = {2, 4, 5, 192, 10};

using Words = std::vector<uint64_t>;
struct Snapshot {
    Words regions[region_count]; // empty: not there or not readable
};

Snapshot snapshot() {
    const AmbientRegions& at = ambient_regions();
    const void* from[region_count] = {at.keys, at.autograd, at.function, at.context, at.hooks};
    Snapshot out;
    for (int r = 0; r < region_count; r++) {
        Words words(static_cast<size_t>(region_words[r]));
        if (from[r] && copy_if_readable(words.data(), from[r], words.size() * 8)) out.regions[r] = std::move(words);
    }
    return out;
}

/// Bits that differ between off and on the same way twice, and the words while on.
struct Moved {
    Words masks[region_count];
    Snapshot on;
    bool came_back = true;
    bool any() const {
        for (const Words& words : masks)
            for (uint64_t word : words)
                if (word) return true;
        return false;
    }
};

bool turn(PyObject* callable) {
    const Owned<> done = Owned<>::steal(PyObject_CallNoArgs(callable));
    if (!done) PyErr_Clear();
    return static_cast<bool>(done);
}

Moved move(PyObject* on, PyObject* off) {
    Moved moved;
    if (!turn(on) || !turn(off)) return moved; // the first turn may allocate what stays
    for (int round = 0; round < 2; round++) {
        const Snapshot before = snapshot();
        if (!turn(on)) return {};
        Snapshot during = snapshot();
        if (!turn(off)) return moved.came_back = false, moved;
        const Snapshot after = snapshot();
        for (int r = 0; r < region_count; r++) {
            const size_t n = before.regions[r].size();
            if (round == 0) moved.masks[r].assign(n, ~uint64_t{0});
            for (size_t i = 0; i < n; i++) {
                const bool back = before.regions[r][i] == after.regions[r][i];
                moved.masks[r][i] &= back ? before.regions[r][i] ^ during.regions[r][i] : 0;
                if (!back && r != region_hooks) moved.came_back = false;
            }
        }
        moved.on = std::move(during);
    }
    return moved;
}

/// Folds masks of several switches into one region's words to watch.
void add_masks(Words& total, const Words& masks) {
    total.resize(std::max(total.size(), masks.size()));
    for (size_t i = 0; i < masks.size(); i++) total[i] |= masks[i];
}

/// Pushes up to `most` times; `length` must answer 0, 1, 2, ... and 0 again.
template <class Length>
bool proves_stack(PyObject* push, PyObject* pop, int most, Length length) {
    bool right = length() == 0;
    int pushed = 0;
    for (; pushed < most && turn(push); pushed++) right = right && length() == pushed + 1;
    right = right && pushed == most;
    for (; pushed > 0; pushed--) turn(pop);
    return right && length() == 0;
}

class Proof {
  public:
    explicit Proof(AmbientPlan& plan) : plan_(plan) {}

    bool run(PyObject* list) {
        base_ = snapshot();
        for (int r : {region_keys, region_autograd, region_function, region_context})
            if (base_.regions[r].empty()) return refuse("a part of torch's state is not readable");
        plan_.idle.included[0] = base_.regions[region_keys][0];
        plan_.idle.excluded[0] = base_.regions[region_keys][1];
        plan_.function_enabled = base_.regions[region_function][0] & 0xFF;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
            PyObject *on, *off;
            const char* name;
            int required;
            if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sOOp", &name, &on, &off, &required)) return refuse("a switch is malformed");
            if (!take(name, on, off, required)) return false;
        }
        return choose_words();
    }

  private:
    bool refuse(const std::string& why) {
        static std::string text;
        text = why;
        plan_.refused = text.c_str();
        return false;
    }

    bool take(const std::string& name, PyObject* on, PyObject* off, bool required) {
        const Moved moved = move(on, off);
        if (!moved.any()) return required ? refuse("the switch '" + name + "' moves nothing") : true;
        if (!moved.came_back) return refuse("the switch '" + name + "' does not come back");
        const Words& keys = moved.masks[region_keys];
        auto key_bits = [&](uint64_t(&bits)[2]) {
            bits[0] |= keys[0];
            bits[1] |= keys[1];
            return (keys[0] | keys[1]) != 0 || refuse("the switch '" + name + "' does not move the key set");
        };
        add_masks(autograd_, moved.masks[region_autograd]);
        add_masks(context_, moved.masks[region_context]);
        if (name == "grad") return take_mode(moved, plan_.grad_mask, plan_.grad_on, base_);
        if (name == "inference") {
            plan_.idle.included[1] = moved.on.regions[region_keys][0];
            plan_.idle.excluded[1] = moved.on.regions[region_keys][1];
            return take_mode(moved, plan_.inference_mask, plan_.inference_on, moved.on);
        }
        if (name == "autocast") return key_bits(plan_.autocast_bits);
        if (name == "dispatch mode") return key_bits(plan_.dispatch_bits);
        if (name == "transform") return key_bits(plan_.transform_bits);
        if (name == "function mode") return take_function_modes(on, off);
        if (name == "function disabled")
            return (moved.masks[region_function][0] & 0xFF) != 0 || refuse("the disabled state is not where it was expected");
        if (name == "hooks") take_hooks(on, off);
        return true;
    }

    /// One bit (or more) of one word of AutogradState; `when` is a snapshot in which the mode is on.
    bool take_mode(const Moved& moved, uint64_t& mask, uint64_t& on, const Snapshot& when) {
        const Words& words = moved.masks[region_autograd];
        for (size_t i = 0; i < words.size(); i++) {
            if (!words[i]) continue;
            if (mask || (mode_word_ >= 0 && mode_word_ != static_cast<int>(i))) return refuse("autograd's modes lie in more than one word");
            mode_word_ = static_cast<int>(i);
            // Inference mode turns grad mode off as well; what is its own is what the grad switch does not move.
            mask = words[i] & ~plan_.grad_mask;
            on = when.regions[region_autograd][i] & mask;
        }
        return mask ? true : refuse("autograd's modes were not found");
    }

    bool take_function_modes(PyObject* push, PyObject* pop) {
        const char* at = ambient_regions().function;
        auto length = [&] {
            return static_cast<int>((load<const char*>(at, modes_end) - load<const char*>(at, modes_begin)) / mode_bytes);
        };
        if (!proves_stack(push, pop, 4, length)) return refuse("the stack of function modes is not where it was expected");
        return true;
    }

    void take_hooks(PyObject* push, PyObject* pop) {
        const char* at = ambient_regions().hooks;
        if (!at || base_.regions[region_hooks].empty()) return;
        auto length = [&] {
            return static_cast<int>((load<const char*>(at, hooks_last) - load<const char*>(at, hooks_first)) / (2 * mode_bytes));
        };
        plan_.hooks = proves_stack(push, pop, 4, length);
    }

    bool choose_words() {
        for (size_t i = 0; i < autograd_.size(); i++) {
            if (!autograd_[i]) continue;
            if (static_cast<int>(i) != mode_word_) return refuse("autograd's state lies in more than one word");
            plan_.autograd = {static_cast<int>(i) * 8, autograd_[i]};
        }
        for (size_t i = 0; i < context_.size(); i++) {
            if (!context_[i]) continue;
            if (plan_.context_count == AmbientPlan::most_context) return refuse("the context's switches lie in too many words");
            plan_.context[plan_.context_count++] = {static_cast<int>(i) * 8, context_[i]};
        }
        return plan_.context_count > 0 || refuse("the context's switches were not found");
    }

    AmbientPlan& plan_;
    Snapshot base_;
    Words autograd_, context_;
    int mode_word_ = -1;
};

bool have_functions() {
    const TorchFunctions& f = torch_state.call;
    return torch_symbol("_ZN3c104impl26raw_local_dispatch_key_setE") && f.grad_mode && f.inference_mode && f.function_modes &&
           f.function_disabled && f.default_dtype && f.context && f.deterministic && f.deterministic_warn;
}

/// The key sets of an idle thread, with and without inference mode, as a way reads them.
AmbientPlan::KeySets idle_key_sets(PyObject* list, AmbientPlan::Way way) {
    AmbientPlan::KeySets sets;
    ambient_plan.way = way;
    auto read = [&](int which) {
        Ambient now;
        read_ambient(now);
        sets.included[which] = now.words[word_included];
        sets.excluded[which] = now.words[word_excluded];
    };
    read(0);
    PyObject* inference = PyList_GET_SIZE(list) > 1 ? PyList_GET_ITEM(list, 1) : nullptr; // (name, on, off, required)
    if (!inference || !turn(PyTuple_GET_ITEM(inference, 1))) return sets;
    read(1);
    turn(PyTuple_GET_ITEM(inference, 2));
    return sets;
}

} // namespace

void prove_ambient() {
    ambient_plan = {};
    ambient_plan.way = AmbientPlan::Way::calls;
    const Owned<> generator = Owned<>::steal(PyObject_CallNoArgs(PyDict_GetItemString(torch_state.source, "switches")));
    const Owned<> list = Owned<>::steal(generator ? PyIter_Next(generator.get()) : nullptr);
    AmbientPlan plan;
    const TorchFunctions& f = torch_state.call;
    const bool readable = have_functions() && f.autograd_state && f.function_state;
    const bool switches = list && PyList_Check(list.get());
    // Also where the raw way is refused, the bits that each switch moves are wanted, for the reasons.
    const bool proved = switches && readable && Proof(plan).run(list.get());
    plan.way = !torch_state.by_offsets ? AmbientPlan::Way::calls
               : proved                ? AmbientPlan::Way::raw
               : have_functions()      ? AmbientPlan::Way::functions
                                       : AmbientPlan::Way::calls;
    if (switches) plan.idle_by_calls = idle_key_sets(list.get(), AmbientPlan::Way::calls);
    if (switches && plan.way == AmbientPlan::Way::functions) plan.idle = idle_key_sets(list.get(), plan.way);
    PyErr_Clear();
    const Owned<> closed = Owned<>::steal(generator ? PyObject_CallMethod(generator.get(), "close", nullptr) : nullptr);
    PyErr_Clear();
    ambient_plan = plan;
}

} // namespace dyno::python
