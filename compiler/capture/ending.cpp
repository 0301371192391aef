// How a segment ends: the frames at its exit, the guards that hold for the whole of it, the outputs of its graph.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/python/ambient.h"
#include "compiler/python/array.h"
#include <algorithm>

namespace dyno::capture {

FrameRecipe Recording::recipe_of(Activation& a, PyObject** sp, int unit) {
    FrameRecipe recipe;
    recipe.unit = unit;
    recipe.at = span_of(a);
    const auto depth = sp - a.base;
    auto slot = [&](Py_ssize_t k) -> ValueRef {
        if (!a.locals[k]) return {};
        ValueRef r = ref_of(a.shadows[k]);
        if (r.kind == ValueRef::none) {
            discarded_ = true;
            if (refusal_.empty()) refusal_ = "a value of unknown origin is in use";
            why_not_ = refusal_ + (lines_.empty() || lines_.back().status != "break" ? std::string() : ", at a break: " + lines_.back().reason);
        }
        return r;
    };
    const int locals = a.code->co_nlocalsplus;
    for (int k = 0; k < locals; k++) recipe.locals.push_back(slot(k));
    for (Py_ssize_t k = 0; k < depth; k++) recipe.stack.push_back(slot(locals + k));
    return recipe;
}

void Recording::finish(Activation* innermost, Exit exit) {
    if (finished_) return;
    here_ = nullptr;
    if (innermost) {
        std::vector<Activation*> chain;
        for (Activation* a = innermost; a; a = a == root_ ? nullptr : a->up) chain.insert(chain.begin(), a);
        for (size_t k = 0; k < chain.size(); k++) {
            Activation& a = *chain[k];
            const bool inner = k + 1 == chain.size();
            const bytecode::Op op = a.decoded->instructions[static_cast<size_t>(a.at)].op;
            if (!inner && (op == bytecode::Op::with_start || op == bytecode::Op::binary || op == bytecode::Op::compare)) {
                // What completes these needs their operands, which frames made from data have no more: __exit__, the other side of ==.
                discard("a break inside a method of an operator or a manager: " + exit.reason);
            }
            if (k > 0 && frame::in_generator(a.frame)) {
                discard("a break inside a generator: " + exit.reason);
                avoid(a.code);
            }
            int unit = a.at;
            if (inner && a.decoded->instructions[static_cast<size_t>(unit)].op == bytecode::Op::call) unit = kw_names_before(*a.decoded, a.at);
            unit -= a.decoded->instructions[static_cast<size_t>(unit)].prefix;
            FrameRecipe recipe = recipe_of(a, inner ? a.sp : a.sp - calls_[k].popped, unit);
            if (!inner) { // how this frame's call is completed
                recipe.after = calls_[k].after;
                if (calls_[k].instance) recipe.instance = ref_of(calls_[k].instance);
            }
            if (k > 0) {
                auto* function = reinterpret_cast<PyObject*>(frame::function_of(a.frame));
                ShadowId f = by_object_.contains(function) ? by_object_[function] : 0;
                recipe.function = f ? ref_of(f) : ValueRef{};
                if (recipe.function.kind == ValueRef::none) {
                    discard("a break inside a function that was made in the same call");
                }
            }
            exit.frames.push_back(std::move(recipe));
        }
    }
    avoid_unfinished();
    finished_ = true;
    stopped_at_ = innermost && root_ ? root_->at : -1;
    complete_contents();
    for (WrittenEffect& w : effects_) {
        Effect e = std::move(w.effect);
        if (w.target) e.target = ref_of(w.target);
        if (w.key) e.key = ref_of(w.key);
        if (w.value) e.value = ref_of(w.value);
        if ((w.value && e.value.kind == ValueRef::none) || (w.target && e.target.kind == ValueRef::none)) {
            discard("a stored value of unknown origin");
        }
        segment_.effects.push_back(std::move(e));
    }
    for (Shadow& s : shadows_)
        if (s.kind == Shadow::tensor && s.written && s.source != Guard::none_) {
            Effect e{};
            e.kind = Effect::inplace;
            e.target = s.ref;
            e.value = {ValueRef::node, s.node.index};
            e.count = s.writes;
            segment_.effects.push_back(std::move(e));
        }
    for (const auto& [variable, values] : context_) {
        if (values.empty()) continue;
        if (values.size() == 1 && built_.contains(values.back().token)) exit.tokens.push_back(built_.at(values.back().token));
        else discard("a context variable is set at the break: " + exit.reason);
    }
    if (python::grad_enabled() != grad_at_start_) exit.grad_mode = python::grad_enabled();
    segment_.exit = std::move(exit);
    add_identity_guards();
    add_memory_guards();
    add_outputs();
    // From here on nothing of the program's is held, not even weakly: ndarray.resize looks.
    weak_.clear();
    by_object_.clear();
    kept_.clear();
    segment_.eager_seconds = op_seconds_ + static_cast<double>(instructions_) * 8e-9;
}

void Recording::add_identity_guards() {
    // For each container written, whether it is each container read: they were different objects, since one object has one shadow.
    for (ShadowId w = 1; w < shadows_.size(); w++) {
        const Shadow& written = shadows_[w];
        if (alias_[w] || !written.written || written.kind != Shadow::object) continue;
        for (ShadowId r = 1; r < shadows_.size(); r++) {
            const Shadow& read = shadows_[r];
            if (r == w || alias_[r] || read.kind != Shadow::object || read.type != written.type || read.identity) continue;
            if (read.written && r < w) continue;
            Guard g;
            g.kind = Guard::distinct;
            g.source = written.source;
            g.other = read.source;
            guard(g);
        }
    }
}
void Recording::add_memory_guards() {
    for (ShadowId w = 1; w < shadows_.size(); w++) {
        const Shadow& written = shadows_[w];
        if (alias_[w] || written.kind != Shadow::tensor || !written.written || written.source == Guard::none_) continue;
        for (ShadowId r = 1; r < shadows_.size(); r++) {
            const Shadow& read = shadows_[r];
            if (r == w || alias_[r] || read.kind != Shadow::tensor || read.source == Guard::none_ || (read.written && r < w)) continue;
            if (segment_.numpy_scalar.size() > read.node.index && segment_.numpy_scalar[read.node.index]) continue;
            Guard g;
            g.kind = Guard::memory;
            g.source = written.source;
            g.other = read.source;
            guard(g);
        }
    }
}
namespace {
/// Whether computing a node may raise a floating-point flag of NumPy's, or trap: its operands' values tell.
bool tells(const graph::Node& n) {
    using graph::Op;
    const graph::OpKind kind = graph::info(n.op).kind;
    if (kind == graph::OpKind::leaf || kind == graph::OpKind::movement || kind == graph::OpKind::extern_) return false;
    for (const Op quiet : {Op::neg, Op::abs, Op::maximum, Op::minimum, Op::where, Op::copysign, Op::amax, Op::amin})
        if (n.op == quiet) return false;
    const bool divides = n.op == Op::floor_div || n.op == Op::remainder || n.op == Op::fmod || n.op == Op::pow;
    return (n.type.domain == graph::Domain::numpy && (is_float(n.type.dtype) || divides)) || (divides && is_int(n.type.dtype));
}
} // namespace

/// A division by zero tells even where nobody uses the quotient: what can tell is computed, on all its elements, as eager did. It is
/// an output unless something that is computed as a whole reads all of it; a slice reads a part.
void Recording::want_what_tells(std::vector<bool>& wanted) {
    std::vector<bool> whole = wanted, made(builder_.size()); // made: eager made it; the rest is left over from lowerings that did not fit
    for (const graph::Node& n : builder_.graph().nodes)
        if (n.op == graph::Op::extern_call)
            for (graph::NodeId use : n.operands) whole[use.index] = true;
    for (const Outcome& o : segment_.outcomes)
        if (o.node.valid()) whole[o.node.index] = true;
    node_strides_.resize(builder_.size());
    for (uint32_t k = static_cast<uint32_t>(wanted.size()); k-- > 0;) { // operands come before their users
        const graph::Node& n = builder_[{k}];
        made[k] = made[k] || claimed_.contains(k) || whole[k];
        if (made[k] && !whole[k] && tells(n)) {
            wanted[k] = whole[k] = true;
            if (node_strides_[k].size() != n.type.dims.size()) node_strides_[k] = graph::row_major(n.type.dims); // inside a lowering: no object gave it a layout
        }
        const bool in_full = whole[k] && n.op != graph::Op::slice && n.type.numel() > 0;
        for (graph::NodeId operand : n.operands) {
            if (made[k]) made[operand.index] = true;
            if (in_full) whole[operand.index] = true;
        }
    }
}

void Recording::add_outputs() {
    std::vector<bool> wanted(builder_.size());
    std::vector<bool> seen_fresh(segment_.fresh.size());
    auto want = [&](auto& self, const ValueRef& r) -> void {
        if (r.kind == ValueRef::node) wanted[r.index] = true;
        if (r.kind == ValueRef::fresh && !seen_fresh[r.index]) {
            seen_fresh[r.index] = true;
            for (const ValueRef& p : segment_.fresh[r.index].parts) self(self, p);
        }
    };
    auto visit = [&](const ValueRef& r) { want(want, r); };
    visit(segment_.exit.result);
    for (const FrameRecipe& f : segment_.exit.frames) {
        for (const ValueRef& r : f.locals) visit(r);
        for (const ValueRef& r : f.stack) visit(r);
        visit(f.instance);
    }
    for (const Effect& e : segment_.effects) visit(e.value);
    for (const Guard& g : segment_.guards)
        if (g.kind == Guard::truth) visit(g.value);
    want_what_tells(wanted);
    // Operands of eager calls become objects too, and an object has eager's layout.
    for (const graph::Node& n : builder_.graph().nodes)
        if (n.op == graph::Op::extern_call)
            for (graph::NodeId use : n.operands) wanted[use.index] = true;
    for (const Outcome& o : segment_.outcomes) // what an eager call returns is laid out as it likes
        if (o.node.valid()) wanted[o.node.index] = true;
    node_strides_.resize(builder_.size());
    for (uint32_t k = static_cast<uint32_t>(wanted.size()); k-- > 0;) { // a view that becomes an object is made from an object
        const graph::Node& n = builder_[{k}];
        if (n.twin >= 0 && ((limits_.twins && n.type.domain == graph::Domain::torch) || (wanted[k] && builder_.graph().externs[static_cast<size_t>(n.twin)].makes_view))) // or is checked
            for (graph::NodeId use : builder_.graph().externs[static_cast<size_t>(n.twin)].uses) wanted[use.index] = true;
    }
    for (const Shadow& s : shadows_) { // made here, changed in place since, and seen outside: its version tells how often
        if (s.kind != Shadow::tensor || !s.writes || s.source != Guard::none_ || !wanted[s.node.index] || !python::is_tensor_class(s.type)) continue;
        for (Outcome& o : segment_.outcomes)
            if (o.node.valid() && s.ref == ValueRef{ValueRef::node, o.node.index}) o.version = s.made_at;
        Effect e{};
        e.kind = Effect::bump;
        e.target = {ValueRef::node, s.node.index};
        e.count = s.writes + s.made_at;
        segment_.effects.push_back(std::move(e));
    }
    for (uint32_t k = 0; k < wanted.size(); k++) {
        const graph::Op op = builder_[{k}].op;
        if (op == graph::Op::input || op == graph::Op::scalar || op == graph::Op::constant) wanted[k] = false;
    }
    for (uint32_t k = 0; k < wanted.size(); k++)
        if (wanted[k]) builder_.add_output({k}, node_strides_[k]);
}

std::optional<Segment> Recording::take() {
    if (!finished_ || discarded_) return std::nullopt;
    if (tensor_nodes_ == 0) {
        why_not_ = "no tensor or array work before " + (segment_.exit.reason.empty() ? std::string("the end") : "the break: " + segment_.exit.reason);
        return std::nullopt;
    }
    segment_.lines = lines_;
    add_covered_lines();
    segment_.graph = std::move(builder_).take();
    segment_.numpy_scalar.resize(segment_.graph.nodes.size());
    return std::move(segment_);
}

void Recording::add_covered_lines() {
    for (size_t row = 0; row < codes_.size(); row++) {
        std::vector<int> lines;
        for (size_t unit = 0; unit < codes_[row].seen.size(); unit++)
            if (codes_[row].seen[unit]) lines.push_back(codes_[row].decoded->line_of(codes_[row].code, static_cast<int>(unit)));
        std::sort(lines.begin(), lines.end());
        lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
        for (const int line : lines) segment_.lines.push_back({{static_cast<uint32_t>(row + 1), line}, "captured", "", ""});
    }
}

} // namespace dyno::capture
