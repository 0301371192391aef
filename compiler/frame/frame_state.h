// FrameState: frames as data, outermost first. Made by replay at an exit, turned into live frames by the evaluator.
#pragma once
#include "compiler/frame/evaluator.h"
#include "compiler/python/ref.h"
#include <vector>

namespace dyno::frame {

/// One frame of an exit. Slots are raw (cells themselves, not their contents); an empty Owned is an empty slot.
/// For every frame but the innermost, `unit` is the call instruction that is running (its operands are not on `stack`),
/// and the inner frame's result, passed through this frame's `after`, completes it: is pushed, decides the jump or is dropped.
/// Still on `stack` are: the iterator of FOR_ITER, the operand of JUMP_IF_*_OR_POP, the bound __exit__ of BEFORE_WITH.
/// The innermost frame's `unit` is the next instruction; where KW_NAMES precedes a call, KW_NAMES.
struct DetachedFrame {
    Owned<> function;            // what to call to make the frame; ignored for the outermost, which is live
    int unit = 0;                // instruction start, before any EXTENDED_ARG
    std::vector<Owned<>> locals; // localsplus
    std::vector<Owned<>> stack;
    Redirect::After after = Redirect::identity;
    Owned<> instance; // for Redirect::instance
};

struct FrameState {
    std::vector<DetachedFrame> frames;
};

/// Overwrites the live frame's slots, stack and position with `state`, releasing the old values after all stores.
void write_frame(InterpreterFrame* f, DetachedFrame&& state);
void write_activation(Activation& a, DetachedFrame&& state);

} // namespace dyno::frame
