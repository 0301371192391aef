// One reduction on LLVM values: its running state, how an element enters, how two states join. Internal to codegen.
// Sums of narrow floats run in f64, sums of f64 carry their rounding errors along: more accurate than eager's cascades.
#pragma once
#include "compiler/codegen/vector_emitter.h"

namespace dyno::codegen {

/// Works on states of any number of lanes: the parts of a state are vectors or scalars of equal length.
class Reducer {
  public:
    using State = llvm::SmallVector<llvm::Value*, 4>;

    /// `joins_lanes`: lanes of one vector belong to one row, and may be joined before they reach the state.
    /// `plain`: sums run in f32 (f64 for f64 operands): for short chains that a tree joins.
    Reducer(VectorEmitter& emitter, fusion::Reduction how, DType operand, bool joins_lanes, bool plain = false)
        : e_(emitter), how_(how), type_(operand), joins_lanes_(joins_lanes), plain_(plain) {}

    llvm::SmallVector<llvm::Type*, 2> types() const; // of one lane
    State identity(int lanes) const;
    /// Lanes of the state that takes in vectors of so many lanes.
    int state_lanes(int lanes) const { return compensated() && joins_lanes_ && lanes >= 8 ? lanes / 4 : lanes; }
    /// Takes in a value of `lanes` lanes, the state having state_lanes(lanes); `index` are the row positions (used by positional
    /// ones only).
    State step(const State& state, llvm::Value* value, llvm::Value* index) const;
    State merge(const State& a, const State& b) const;
    /// Joins all lanes, halves first.
    State across(State state) const;
    llvm::Value* finish(const State& state) const; // in register form
    bool positional() const { return fusion::is_positional(how_); }

  private:
    bool finds_largest() const { return how_ == fusion::Reduction::argmax || how_ == fusion::Reduction::first_max; } // of positional ones
    bool compensated() const { return how_ == fusion::Reduction::sum && type_ == DType::f64 && !plain_; }
    bool widened() const {
        return !plain_ && is_float(type_) && (how_ == fusion::Reduction::sum || how_ == fusion::Reduction::prod) && !compensated();
    }
    llvm::Value* halves_added(llvm::Value* v) const;
    llvm::Value* best(llvm::Value* a, llvm::Value* b) const;
    VectorEmitter& e_;
    fusion::Reduction how_;
    DType type_;
    bool joins_lanes_, plain_;
};

} // namespace dyno::codegen
