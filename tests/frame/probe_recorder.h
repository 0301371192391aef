// A recorder for tests: gives every value a shadow and checks by identity, before each instruction, that shadows sit where
// their values are. Inlines Python calls by redirecting, stops where it is told, and takes the state of its frames as data.
#pragma once
#include "compiler/frame/frame_state.h"
#include "compiler/frame/operands.h"
#include "compiler/python/ref.h"
#include <deque>
#include <string>
#include <vector>

namespace dyno::frame::probe {

struct Counts {
    long before = 0, after = 0, redirected = 0, entered = 0, failed = 0, strangers = 0, left = 0, records = 0;
    long mismatches = 0; // a slot whose value is not its shadow's
    long unknown = 0;    // a filled slot without shadow
    std::string first_problem;
    std::string ended; // where a recording ended without being asked to
};

struct Wishes {
    bool inlines = false;
    bool checks = true;          // false: an empty recorder, for measuring
    long stop_at = 0;            // before the n-th instruction asked about
    bool everywhere = false;     // stop at every instruction, record again behind it
    PyObject* abandon = nullptr; // at the stop: keep the frames as data and call this in place of the instruction
    PyObject* only_in = nullptr; // stop_at counts in this code only
};

class ProbeRecorder : public Recorder {
  public:
    ProbeRecorder(Wishes wishes, Counts& counts) : wishes_(wishes), counts_(counts) {}
    Before before(Activation& a, const bytecode::Instruction& i, Redirect& redirect) override;
    ShadowId after(Activation& a, const bytecode::Instruction& i, PyObject* result, ShadowId callee) override;
    ShadowId cell(Activation& a, int slot, ShadowId content) override;
    void unpacked(Activation& a, const bytecode::Instruction& i, PyObject* const* items, size_t n, ShadowId* out) override;
    void jumped(Activation& a, const bytecode::Instruction& i, bool taken) override;
    bool enter(Activation& callee, const CallToken& token) override;
    ShadowId leave(Activation& a, PyObject* result, ShadowId shadow) override;
    void failed(Activation& a, const bytecode::Instruction& i) override;
    bool stranger(PyCodeObject* code, bool thrown) override;
    /// Shadows for what the frame holds already: the next before() gives them.
    void start() { fresh_ = true, skip_ = true; }
    /// The frames' state at the stop, or null.
    /// Puts back what the cells of those frames held at the stop: the run given up went on to its finally blocks.
    void restore_cells();
    FrameState* take_state() { return std::exchange(state_, nullptr); }
    bool stopped() const { return stopped_; }

  private:
    /// A call that is being inlined, innermost last.
    struct Call {
        Redirect::After after;
        Owned<> made;
        std::vector<ShadowId> shadows;
        std::vector<PyObject*> args;
        Owned<> keep, kwnames;
    };
    ShadowId shadow_for(PyObject* value);
    void check(Activation& a, const bytecode::Instruction& i);
    void problem(Activation& a, const bytecode::Instruction& i, const char* what, int slot);
    bool wants_redirect(Activation& a, const bytecode::Instruction& i, Redirect& redirect);
    bool redirect_call(Activation& a, const bytecode::Instruction& i, Redirect& redirect);
    bool redirect_special(Activation& a, const bytecode::Instruction& i, Redirect& redirect);
    bool redirect_with(Activation& a, Redirect& redirect, PyObject* function, std::vector<PyObject*> args, Redirect::After after,
                       Owned<> made = {});
    void keep_state(Activation& a);
    DetachedFrame detached(Activation& a, bool innermost, const Call* call);

    Wishes wishes_;
    Counts& counts_;
    std::vector<Owned<>> values_; // by shadow - 1: kept alive, so that an address says which
    std::deque<Call> calls_;
    FrameState* state_ = nullptr;
    std::vector<std::pair<Owned<>, Owned<>>> cells_;
    bool fresh_ = true, skip_ = false, stopped_ = false;
    long asked_ = 0;
};

} // namespace dyno::frame::probe
