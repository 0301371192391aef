// LaunchPlan: one installed segment, ready to run. guards and reads -> compute -> commit (law 2).
#pragma once
#include "compiler/capture/segment.h"
#include "compiler/frame/frame_state.h"
#include "compiler/frame/user_stack.h"
#include "compiler/pipeline.h"
#include <memory>
#include <string>

namespace dyno::replay {

/// The frame a replay starts from, or the arguments of a call without a frame. All borrowed.
struct Inputs {
    PyObject* const* slots;   // localsplus then stack; may hold nulls
    uint32_t slot_count;
    PyObject* function;
    PyObject* globals;
    PyObject* builtins;
};

/// Values of Outcome::guard that are no index: no guard names what is missing; the ambient word differs; something the plan relies on died or
/// was declared stale.
constexpr uint32_t missing_value = 0xfffffffd, ambient_differs = 0xfffffffe, retired = 0xffffffff;

struct Outcome {
    enum Kind : uint8_t { committed, guard_failed, compute_failed } kind;
    PyObject* result = nullptr;                  // committed with exit returns: a new reference
    std::unique_ptr<frame::FrameState> state;    // committed with exit breaks or cut
    uint32_t guard = 0;                          // guard_failed: which (index into the segment's guards)
    uint32_t kernels = 0, externs = 0;           // run
};

class LaunchPlan; // opaque: plan.cpp

/// Joins a segment with its compiled product. GIL held. Takes over both. ValueRef::node and Outcome::node mean nodes of segment.graph if that
/// was kept, else of product.graph; inputs, scalars, outputs and externs tie the two graphs together. Anchors are let go: from here on they are
/// kept weakly where they can die. A segment with an anchor that can neither be watched nor kept gets its stale flag set.
std::shared_ptr<LaunchPlan> build(capture::Segment&& segment, CompileProduct&& product);
/// One replay. GIL held on entry and exit; never leaves an exception set. On compute_failed nothing happened.
/// The caller keeps `plan` alive; user code may run after the commit, when old values are released.
Outcome run(LaunchPlan& plan, const Inputs& inputs);
/// Whether run() would get past the guards on these inputs. Changes nothing.
bool guards_hold(LaunchPlan& plan, const Inputs& inputs);
/// run(), and between compute and commit every output is compared with the eager calls (twins) that recording kept: a difference
/// is told in `mismatch` and ends as compute_failed. Outputs without twins are not compared.
struct Checked {
    Outcome outcome;
    std::string mismatch;
    uint32_t compared = 0; // outputs that were compared
};
Checked run_checked(LaunchPlan& plan, const Inputs& inputs);
/// The segment it was made from (graph moved to product()).
const capture::Segment& segment_of(const LaunchPlan& plan);
const CompileProduct& product_of(const LaunchPlan& plan);
CompileProduct& mutable_product_of(LaunchPlan& plan);
/// Whether no kernel of the plan is still to be replaced by better code.
bool runs_best_code(const LaunchPlan& plan);
/// The failed guard in words, with old and new value: "a.shape[0] == 8", "8", "11". Reads the inputs again.
struct GuardFailure {
    std::string guard, was, now;
    SourceSpan from;
    uint32_t source;   // which source moved
    capture::Guard::Kind kind;
    std::vector<frame::UserPlace> stack; // where the call came from, innermost first
    uint64_t order = 0;                  // counts on over all plans
};
/// The plan remembers it: reports tell the last ones.
GuardFailure describe_failure(LaunchPlan& plan, uint32_t guard, const Inputs& inputs);
/// The failures described so far that differ, oldest first; at most eight.
const std::vector<GuardFailure>& failures_of(const LaunchPlan& plan);
/// What the plan relied on and what died or was redefined since: "inner"; empty if nothing did.
std::string died_of(const LaunchPlan& plan);
/// Memory that the plan keeps: its code and what its runs use again.
struct PlanBytes {
    size_t code = 0, buffers = 0;
};
PlanBytes bytes_of(const LaunchPlan& plan);
/// A guard in words: "a is a float32 tensor [8, 3] on cpu"; empty for trivial ones.
std::string guard_text(const capture::Segment& segment, const capture::Guard& guard);
/// A source in words: "a", "self.weight", "CONFIG['scale']".
std::string source_text(const capture::Segment& segment, uint32_t source);
/// GC support of whoever owns the plan.
int traverse(const LaunchPlan& plan, visitproc visit, void* arg);

} // namespace dyno::replay
