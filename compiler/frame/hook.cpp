// The PEP 523 hook: which frames are evaluated, which run in CPython's loop. Counted extents, announced calls, strangers,
// the depth rule. What happens in a frame is evaluator.cpp's business; what an unannounced frame means is the driver's.
#include "compiler/frame/session.h"
#include "compiler/python/ref.h"
#include "compiler/support/fault.h"

namespace dyno::frame {
namespace {

/// Nested hooks: each is a C frame, and 3.11 has no limit of its own for those.
constexpr int max_depth = 1200;
/// C frames and Python levels left to CPython for its own recursion error.
constexpr int c_reserve = 60, python_reserve = 3;

/// One per process, guarded by the GIL: a hook carries no user data, so it finds the driver here.
struct {
    Driver driver{};
    int extents = 0;
    int unhooked = 0; // frames past the depth limit now running
} hooks;

PyObject* hook(PyThreadState* ts, InterpreterFrame* f, int throwflag);

void apply() {
    const bool on = hooks.extents > 0 && hooks.unhooked == 0;
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), on ? hook : _PyEval_EvalFrameDefault);
}

PyObject* native(PyThreadState* ts, InterpreterFrame* f, int throwflag) { return _PyEval_EvalFrameDefault(ts, f, throwflag); }

bool too_deep(const Session& s, PyThreadState* ts) {
    return s.depth > max_depth || c_stack_left(ts) < c_reserve || python_recursion(ts) < python_reserve;
}

constexpr int suspendable = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

/// Calling a generator function runs a frame up to RETURN_GENERATOR: no user code.
bool only_makes_generator(InterpreterFrame* f, PyCodeObject* code) { return (code->co_flags & suspendable) && !in_generator(f); }

bool takes(const CallToken* token, const Session& s, PyThreadState* ts, InterpreterFrame* f, PyCodeObject* code) {
    if (fault(5) && token) return is_fresh(f, code) && !(code->co_flags & suspendable); // whoever comes first, and second
    if (!token || token->taken || token->thread != ts || token->caller != s.top || token->caller->recorder != token->recorder) return false;
    if (token->generator) return in_generator(f) && f == frame_of_generator(token->generator);
    return reinterpret_cast<PyObject*>(function_of(f)) == token->function && is_fresh(f, code) && !(code->co_flags & suspendable);
}

bool takes(const Rebuild* rebuild, const Session& s, InterpreterFrame* f, PyCodeObject* code) {
    return rebuild && !rebuild->taken && rebuild->caller == s.top && is_fresh(f, code) &&
           rebuild->state->frames[rebuild->index].function.get() == reinterpret_cast<PyObject*>(function_of(f));
}

/// A frame nobody announced ends the segment of the recording in whose instruction it starts.
/// True: the recorder expected it, and it runs natively.
bool announce_stranger(Session& s, PyCodeObject* code, bool thrown) {
    const python::KeepError keep; // generator.throw() arrives with its exception set
    Recorder* recorder = s.top->recorder;
    bool expected = false;
    call_recorder(s, *recorder, [&](Recorder& r) { expected = r.stranger(code, thrown); });
    if (!expected) detach(recorder);
    return expected;
}

struct Depth {
    int& depth;
    explicit Depth(int& d) : depth(d) { depth++; }
    ~Depth() { depth--; }
};

PyObject* hook(PyThreadState* ts, InterpreterFrame* f, int throwflag) {
    Session& s = session();
    PyCodeObject* code = code_object(f);
    if (s.quiet || is_polling_frame(code)) return native(ts, f, throwflag);
    if (!throwflag && takes(s.rebuild, s, f, code)) {
        const Depth depth(s.depth);
        return rebuild_frame(ts, f, *s.rebuild);
    }
    const bool announced = takes(s.token, s, ts, f, code);
    if (recording() && !announced && !only_makes_generator(f, code) && announce_stranger(s, code, throwflag != 0)) return native(ts, f, throwflag);
    if (throwflag || observed(ts) || locally_observed(code)) return native(ts, f, throwflag);
    const Depth depth(s.depth);
    if (too_deep(s, ts)) return hand_back_unhooked(ts, f); // calls make no C frames then: CPython's own limit is the only one
    if (announced) return evaluate_frame(ts, f, {.recorder = s.token->recorder, .token = s.token});
    if (!hooks.driver.enter || code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) return native(ts, f, 0);
    return hooks.driver.enter(ts, f);
}

} // namespace

PyObject* hand_back_unhooked(PyThreadState* ts, InterpreterFrame* f) {
    if (hooks.unhooked++ == 0) apply();
    PyObject* result = native(ts, f, 0);
    if (--hooks.unhooked == 0) apply();
    return result;
}

Session& session() {
    static thread_local Session s;
    return s;
}

const Driver& driver() { return hooks.driver; }

void install(const Driver& driver) { hooks.driver = driver; }

void hook_on() {
    prepare_polling();
    if (hooks.extents++ == 0) apply();
}

void hook_off() {
    if (--hooks.extents == 0) apply();
}

bool recording() {
    const Activation* top = session().top;
    return top && top->recorder;
}

Activation* top_activation() { return session().top; }

ForcedHook::ForcedHook() : unhooked_(std::exchange(hooks.unhooked, 0)) {
    hook_on();
    apply();
}

ForcedHook::~ForcedHook() {
    taken();
    hook_off();
}

void ForcedHook::taken() {
    hooks.unhooked += std::exchange(unhooked_, 0);
    apply();
}

Quiet::Quiet() { session().quiet++; }
Quiet::~Quiet() { session().quiet--; }

void detach(Recorder* recorder) {
    for (Activation* a = session().top; a; a = a->up) {
        if (a->recorder != recorder) continue;
        a->recorder = nullptr;
        a->want_point = true;
    }
}

} // namespace dyno::frame
