// Never slower, for whole calls: code that is not one replay from start to end is run both ways for some calls, in turn, and keeps the
// faster way.
#pragma once
#include "compiler/facts.h"
#include <chrono>

namespace dyno::compiler {

/// Of one call of the code as the outermost evaluated frame.
class CallTimer {
  public:
    CallTimer(PyCodeObject* code, bool outermost);
    /// Whether this call is to run interpreted, as a sample.
    bool interpret() const;
    /// The call is over. Takes the sample, and decides when there are enough.
    void done(bool interpreted);
    /// Whether enough is known of the code to stop asking.
    static bool decided(PyCodeObject* code);
    /// A call of code that was found slower compiled is over: if it has become another kind of call, the code gets another chance.
    void watch();

  private:
    float seconds() const;
    PyCodeObject* code_;
    bool on_;
    uint64_t recordings_;
    std::chrono::steady_clock::time_point start_;
};

} // namespace dyno::compiler
