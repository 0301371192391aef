// FrameState: frames as data, outermost first. Made by replay at an exit, turned into live frames by the evaluator.
#pragma once
#include "compiler/frame/evaluator.h"
#include "compiler/python/ref.h"
#include <vector>

namespace dyno::frame {

/// One frame of an exit. Slots are raw (cells themselves, not their contents); an empty Owned is an empty slot.
/// For every frame but the innermost, `unit` is the call instruction that is running (its operands are not on `stack`),
/// and the inner frame's result, passed through `after`, is pushed before the instruction behind it.
struct DetachedFrame {
    Owned<> function;             // what to call to make the frame; ignored for the outermost, which is live
    int unit = 0;                 // instruction start, before any EXTENDED_ARG
    std::vector<Owned<>> locals;  // localsplus
    std::vector<Owned<>> stack;
    Redirect::After after = Redirect::identity;
    Owned<> instance;             // for Redirect::instance
};

struct FrameState {
    std::vector<DetachedFrame> frames;
};

/// Overwrites the live frame's slots, stack and position with `state`, releasing the old values after all stores.
void write_frame(InterpreterFrame* f, DetachedFrame&& state);
void write_activation(Activation& a, DetachedFrame&& state);

} // namespace dyno::frame
