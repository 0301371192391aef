// Generators that are made and consumed in one segment: their frames are recorded as they go on, yield by yield, as inlined calls are.
// A replay makes no generator. One that is alive at an exit, or whose frame a break stands in, has no recipe: nothing comes of such a
// recording, and the next one breaks where that generator is made.
#include "compiler/capture/names.h"
#include "compiler/capture/recording.h"
#include "compiler/frame/layout.h"
#include "compiler/python/versions.h"
#include <algorithm>

namespace dyno::capture {

namespace {
/// Code of generators that a recording ended in nothing for. Only compared: an address that comes again costs a break. GIL.
std::unordered_set<PyCodeObject*>& avoided() {
    static auto* const set = new std::unordered_set<PyCodeObject*>;
    return *set;
}

/// Not what 3.12 and later put around a generator's whole body, which turns StopIteration into RuntimeError.
bool has_handlers(PyCodeObject* code) {
    const bytecode::Code* decoded = bytecode::code_of(code);
    if (!decoded) return PyErr_Clear(), true;
    return std::any_of(decoded->handlers.begin(), decoded->handlers.end(), [&](const bytecode::Handler& h) {
        return decoded->instructions[static_cast<size_t>(h.target)].op == bytecode::Op::push_exc;
    });
}
} // namespace

void Recording::avoid(PyCodeObject* generator) {
    avoided().insert(generator);
    avoids_ = true;
}

bool Recording::is_generator(ShadowId given) const {
    const ShadowId id = canonical(given);
    if (!id || shadows_[id].kind != Shadow::iterator) return false;
    return iterators_[iterator_of_.at(id)].kind == IteratorShadow::generator;
}

Recording::Generator& Recording::generator_of(ShadowId given) { return generators_[iterators_[iterator_of_.at(canonical(given))].made_by]; }

/// A call of a generator function runs none of its code: it is made as CPython does. Nothing: such a generator is not followed.
std::optional<Recording::Before> Recording::make_generator(Activation& a, PyObject* function, Call& c) {
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    if (!(code->co_flags & CO_GENERATOR) || !limits_.inline_functions || avoided().contains(code)) return std::nullopt;
    for (size_t k = 0; k < c.args.size(); k++)
        if (!c.args[k]) return stop(a, "an argument of unknown origin", "");
    Generator g;
    g.function = function;
    g.code = code;
    g.args = c.args;
    g.nargs = c.nargs;
    g.kwnames = Owned<>::borrow(c.kwnames);
    identity_object(function);
    generators_.push_back(std::move(g));
    pending_ = PendingKind::generator;
    return Before::perform;
}

ShadowId Recording::finish_generator(PyObject* result) {
    if (!result || !PyGen_CheckExact(result)) return generators_.pop_back(), 0; // a hook that wraps generators
    IteratorShadow it{IteratorShadow::generator};
    it.made_by = static_cast<uint32_t>(generators_.size()) - 1;
    return iterator(std::move(it), nullptr);
}

/// The next value of a generator that is not at its end, in place of the instruction's own work.
Recording::Before Recording::resume(Activation& a, ShadowId given, PyObject* object, int popped, Redirect& redirect) {
    const ShadowId id = canonical(given);
    if (generator_of(id).state == Generator::running) return stop(a, "a generator that is running", "");
    if (calls_.size() >= limits_.inlined_depth) return stop(a, "recursion deeper than 50 calls", "");
    redirect_ids_ = {id};
    redirect.generator = object;
    redirect.shadows = redirect_ids_.data();
    Inlined call{&a, popped, Redirect::identity, 0};
    call.generator = id;
    calls_.push_back(call);
    pending_ = PendingKind::called;
    return Before::redirect;
}

/// Its frame goes on: what its slots held when it yielded, and the None that is sent to it.
bool Recording::enter_generator(Activation& callee, ShadowId given) {
    IteratorShadow& it = iterators_[iterator_of_.at(given)];
    const uint32_t index = it.made_by;
    if (generators_[index].state == Generator::made) {
        const Generator& g = generators_[index];
        const std::vector<ShadowId> args = g.args;
        const auto names_kept = g.kwnames.share();
        bind_arguments(callee, g.function, args.data(), g.nargs, names_kept.get());
        for (int k = 0; k < callee.code->co_nlocalsplus; k++) // what MAKE_CELL did before the frame was left for the first time
            if (frame::is_cell_variable(callee.code, k)) callee.shadows[k] = cell(callee, k, callee.shadows[k]);
    } else {
        const std::vector<ShadowId>& saved = it.items;
        std::copy(saved.begin(), saved.end(), callee.shadows);
    }
    if (callee.sp > callee.base) callee.shadow(callee.sp - 1) = constant(callee.sp[-1]);
    generators_[index].state = Generator::running;
    return true;
}

ShadowId Recording::yields(Activation& a, PyObject* value, ShadowId shadow) {
    if (finished_) return 0;
    IteratorShadow& it = iterators_[iterator_of_.at(calls_.back().generator)];
    it.items.assign(a.shadows, a.shadows + (a.sp - 1 - a.locals));
    generators_[it.made_by].state = Generator::suspended;
    if (!shadow && is_immutable(value)) return constant(value);
    return shadow;
}

/// The frame that runs now, thrown a GeneratorExit, is that of a generator that was dropped: where it has no handlers it only goes away.
bool Recording::is_dropped_generator(PyCodeObject* code) const {
    if (has_handlers(code)) return false;
    for (const Generator& g : generators_)
        if (g.code == code && g.state != Generator::running) return true;
    return false;
}

/// At the end of a segment: a generator that was dropped half-way ran its finally blocks, which a replay has no generator for.
void Recording::avoid_unfinished() {
    for (const Generator& g : generators_) {
        if (g.state == Generator::made || g.state == Generator::ended || !has_handlers(g.code)) continue;
        discard("a generator with a finally or except block was left half-way");
        avoid(g.code);
    }
}

/// `yield from`: SEND of None to a generator, or to another iterator.
Recording::Before Recording::send(Activation& a, Redirect& redirect) {
    PyObject* receiver = a.sp[-2];
    const ShadowId id = canonical(a.shadow(a.sp - 2));
    if (!id || shadows_[id].kind != Shadow::iterator || a.sp[-1] != Py_None) return stop(a, "a value is sent", "");
    if (is_generator(id)) {
        if (generator_of(id).state == Generator::ended) return stop(a, "a generator that is at its end", "");
        return resume(a, id, receiver, 0, redirect);
    }
    auto element = next_of(id);
    return pend_fixed(element ? *element : constant(Py_None));
}

/// next(generator), next(iterator) with or without a default.
Recording::Before Recording::call_next(Activation& a, const Call& c, Redirect& redirect, int popped) {
    if (c.args.empty() || c.args.size() > 2 || c.kwnames) return stop(a, "next() of an unusual call", "");
    const ShadowId id = canonical(c.args[0]);
    if (shadows_[id].kind != Shadow::iterator || shadows_[id].type) return stop(a, std::string("the next item of a ") + Py_TYPE(c.values[0])->tp_name, "");
    if (is_generator(id)) {
        if (generator_of(id).state == Generator::ended) return c.args.size() == 2 ? pend_fixed(canonical(c.args[1])) : stop(a, "next() at the end of a generator", "");
        const Before answer = resume(a, id, c.values[0], popped, redirect);
        if (answer == Before::redirect && c.args.size() == 2) {
            redirect.made = Py_NewRef(c.values[1]);
            calls_.back().instance = canonical(c.args[1]);
        }
        return answer;
    }
    if (turns_of(id) <= 0) return c.args.size() == 2 ? pend_fixed(canonical(c.args[1])) : stop(a, "next() at the end of an iterator", "");
    return pend_fixed(*next_of(id));
}

} // namespace dyno::capture
