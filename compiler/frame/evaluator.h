// The evaluator: canonical bytecode executed on the live frame, with CPython's own operations.
// Two modes. Walking: no shadows, a little slower than CPython's loop. Recording: a Recorder is told of every instruction
// before and after it is really performed and answers with the shadows of results; shadows ride beside the values.
// What the shadows mean is the recorder's business (capture/): nothing of graphs is known here.
#pragma once
#include "compiler/bytecode/code.h"
#include "compiler/frame/layout.h"
#include <Python.h>
#include <cstdint>

namespace dyno::frame {

/// What the recorder knows of a value: an index of its own. 0: nothing is known.
using ShadowId = uint32_t;

class Recorder;
struct FrameState;

/// One frame being evaluated. Lives on the C stack of evaluate(); `up` is the evaluated frame whose instruction called it.
struct Activation {
    PyThreadState* thread;
    InterpreterFrame* frame;
    PyCodeObject* code;
    const bytecode::Code* decoded;
    PyObject** locals;  // localsplus; parameters, locals, cells, free variables
    PyObject** base;    // first stack slot
    PyObject** sp;      // one past the top
    int at;             // unit of the instruction that is running or comes next
    int next;           // unit after it and its caches
    PyObject* kwnames;  // names between KW_NAMES and CALL (3.11, 3.12), borrowed
    Recorder* recorder; // null: walking
    ShadowId* shadows;  // one per slot of locals and stack, same index as locals[]; null while walking
    Activation* up;
    bool want_point; // walking: ask the driver at the next instruction boundary
    ShadowId& shadow(PyObject** slot) { return shadows[slot - locals]; }
};

/// A Python call that the recorder makes in place of, or as, the instruction's own: the callee's frame is inlined.
struct Redirect {
    enum After : uint8_t {
        identity, // the callee's result is the instruction's result
        instance, // __init__ returned None: the result is `made` (its reference is taken over)
        truth,    // PyObject_IsTrue of the result, as a bool; `in` and `not` still turn it round themselves
        nothing,  // a store: the result is dropped
        length,   // the result of __len__ as len() has it: an int that is not negative
        or_default, // getattr() with a default: `made` (its reference is taken over) if the callee raises AttributeError
        exists,     // hasattr(): True, or False if the callee raises AttributeError
    };
    PyObject* function = nullptr;      // a plain Python function, borrowed
    PyObject* const* args = nullptr;   // borrowed; may point into the stack. args[-1] need not be writable
    const ShadowId* shadows = nullptr; // of positional then keyword arguments
    size_t nargs = 0;                  // positional
    PyObject* kwnames = nullptr;       // borrowed tuple or null
    After after = identity;
    PyObject* made = nullptr; // for After::instance: the instance; for After::or_default: the default
    /// Set: no call, but this suspended generator (borrowed) goes on to its next yield; shadows[0] is its own. At its end FOR_ITER and
    /// SEND go on behind their loops, a call of next() has `made` as its result, or raises StopIteration.
    PyObject* generator = nullptr;
    // CALL_FUNCTION_EX hands its tuple and dict on unpacked, as args and kwnames.
};

/// Left by the evaluator for the frame that a Redirect makes; the first frame whose function matches takes it (law 5).
struct CallToken {
    PyThreadState* thread;
    PyObject* function;
    Recorder* recorder;
    const Redirect* call;
    Activation* caller;
    PyObject* generator = nullptr; // or this generator's frame
    ShadowId result = 0; // filled when the callee returns
    bool taken = false;
};

/// The capture side of a recording. All calls happen with the GIL, on the recording thread.
/// Data movement (LOAD_FAST, STORE_FAST, COPY, SWAP, POP_TOP, PUSH_NULL, DELETE_FAST, RESUME, NOP) is done by the
/// evaluator, shadows included, without asking.
class Recorder {
  public:
    enum class Before : uint8_t {
        perform,  // do the instruction as CPython would, then call after()
        redirect, // make the call in `redirect`, then after(). UNPACK_*: what it gives takes the operand's place, and before() is asked again
        stop,     // the segment ended before this instruction: every activation of this recorder walks on
    };
    virtual ~Recorder() = default;
    /// Recording starts on this activation, which nobody announced: a.shadows are empty, its slots show what they hold.
    virtual void begin(Activation& a) {}
    /// The instruction at a.at comes next; its operands and their shadows are on the stack. Must not change the frame.
    virtual Before before(Activation& a, const bytecode::Instruction& i, Redirect& redirect) = 0;
    /// It succeeded. `result` (borrowed) is the value it will push, null where it pushes none (stores, jumps, FOR_ITER at
    /// its end); operands are still alive and on the stack. `callee` is the shadow that a redirected call came back with.
    /// Returns the shadow of the result.
    /// More than one value pushed: LOAD_METHOD: result is the method or attribute, self keeps its shadow. BEFORE_WITH: result
    /// is what __enter__ returned, the slot of the bound __exit__ keeps the manager's shadow. Returns have leave() instead,
    /// UNPACK_* have unpacked() instead; conditional jumps have jumped() and then this.
    virtual ShadowId after(Activation& a, const bytecode::Instruction& i, PyObject* result, ShadowId callee) = 0;
    /// MAKE_CELL put a cell around what locals[slot] held; `content` is the shadow of that. Returns the slot's new shadow.
    /// Slots of free variables keep what enter() wrote there.
    virtual ShadowId cell(Activation& a, int slot, ShadowId content) { return content; }
    /// UNPACK_SEQUENCE and UNPACK_EX: the shadows of the n values, first item first (UNPACK_EX: the list in its place).
    virtual void unpacked(Activation& a, const bytecode::Instruction& i, PyObject* const* items, size_t n, ShadowId* out) = 0;
    /// A conditional jump was decided (after before() returned perform). May be used to guard the outcome.
    virtual void jumped(Activation& a, const bytecode::Instruction& i, bool taken) = 0;
    /// The callee's frame arrived: fill callee.shadows of its parameters from token.call. False: do not inline (the frame
    /// runs natively and the recorder has stopped).
    virtual bool enter(Activation& callee, const CallToken& token) = 0;
    /// The frame returns `result` with this shadow (top of stack). Called for the outermost frame too (a.up of another
    /// recorder or null), where it ends the segment.
    virtual ShadowId leave(Activation& a, PyObject* result, ShadowId shadow) = 0;
    /// The frame of a generator that a Redirect resumed yields `value`: its shadows will be asked for again by enter().
    virtual ShadowId yields(Activation& a, PyObject* value, ShadowId shadow) { return shadow; }
    /// The instruction raised (error set; the stack still shows what a.sp says, the operands' shadows are untouched), or a
    /// hand-back became necessary for words that CPython composes (no error set). The segment ends before this instruction.
    /// Also when a redirected call ran natively after all (depth limit, tracing): then the call is done and not recorded.
    virtual void failed(Activation& a, const bytecode::Instruction& i) = 0;
    /// The instruction raised (error set), or a redirected call did. True: the recorder expected it, and that a handler of a recorded
    /// frame takes it (or After::or_default, After::exists); recording goes on through the unwinding, the exception itself has no shadow.
    virtual bool raised(Activation& a, const bytecode::Instruction& i) { return failed(a, i), false; }
    /// A Python frame nobody announced (finaliser, __eq__ in a dict look-up, callback) starts. The segment ends before the
    /// instruction at `at` of the top activation: the running one, or the next one if only old values were being dropped.
    /// `thrown`: it is a generator's, which is thrown an exception: closed, most often because it was dropped.
    /// True: the frame is known to belong to the running instruction (a library's own Python); it runs natively and the recording goes on.
    virtual bool stranger(PyCodeObject* code, bool thrown) = 0;
};

/// What the driver answers at a point (after a break's instruction, at the start of a loop's body, after a call in whose
/// callee a segment ended). go_on and moved: if the driver sets a.want_point, the instruction at a.at is performed natively and
/// the driver is asked again behind it.
enum class AtPoint : uint8_t {
    go_on,     // walk on
    record,    // a.recorder was set by the driver: shadows are cleared, recording starts with the next instruction
    moved,     // a replay changed the frame by write_activation(). If `inner` is set (then the evaluator's to delete, frames[0]
               // being this frame, written already), the other frames are made and run first
    returned,  // a replay reached the frame's return: a.sp[-1] is the result, the evaluator leaves the frame with it
    hand_back, // nothing to gain ahead: CPython's loop finishes the frame
    raised,    // an error is set: it is the error of the instruction at a.at
};

/// The only way downstream: filled by compiler.cpp, installed once.
struct Driver {
    /// A frame without token arrived while the hook is on. Returns what the hook returns; hand_back(frame) to decline.
    PyObject* (*enter)(PyThreadState*, InterpreterFrame*) = nullptr;
    /// See AtPoint. Called in walking activations only.
    AtPoint (*at_point)(Activation&, FrameState*& inner) = nullptr;
    /// A recorder's callback or at_point (then `recorder` is null) threw: a bug of ours. The recording has ended, execution
    /// goes on. May be null.
    void (*bug)(Recorder* recorder, const char* what) = nullptr;
    /// CPython's loop finishes the frame from this instruction on (bytecode::reason_of(i.raw) says why, "" where CPython is
    /// to word an error). Not called for AtPoint::hand_back, returns, yields and unwinding. May be null.
    void (*handed_back)(Activation&, const bytecode::Instruction& i) = nullptr;
};
void install(const Driver& driver);

/// Counted extents of the PEP 523 hook. Off: CPython's own loop, no cost.
void hook_on();
void hook_off();
/// True while evaluate() runs on this thread with a recorder.
bool recording();

/// Evaluates the frame from where it stands to its end and leaves it. `recorder` may be null (walk). `first_native`: perform
/// the first instruction and then ask at_point (the frame stands before a break's own instruction). `inner`: as with
/// AtPoint::moved, frames[0] having been written by write_frame(); the innermost frame then performs one instruction natively.
PyObject* evaluate(PyThreadState* ts, InterpreterFrame* f, Recorder* recorder, bool first_native = false, FrameState* inner = nullptr);
/// CPython's loop finishes the frame.
PyObject* hand_back(PyThreadState* ts, InterpreterFrame* f);
/// The same without the hook until the frame is over, in all threads: CPython calls Python functions faster then.
PyObject* hand_back_unhooked(PyThreadState* ts, InterpreterFrame* f);
/// Leaves the frame at a return instruction with `result` (reference taken over).
PyObject* leave_at_return(PyThreadState* ts, InterpreterFrame* f, PyObject* result);
/// The recorder's activations go on walking, each asking the driver when it is reached again (after its running call).
void detach(Recorder* recorder);
/// While it lives, Python frames of this thread run in CPython's loop and nobody is asked about them.
class Quiet {
  public:
    Quiet();
    ~Quiet();
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
};
/// The innermost activation of this thread, or null.
Activation* top_activation();

} // namespace dyno::frame
