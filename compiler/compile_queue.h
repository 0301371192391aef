// The compile jobs: graphs wait here, a thread of idle priority turns them into code, and whoever holds the GIL installs.
#pragma once
#include "compiler/capture/segment.h"
#include "compiler/pipeline.h"
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dyno {

/// One job from recording to installation. The segment's Python objects are touched under the GIL only.
struct CompileJob {
    capture::Segment segment;
    Owned<> code;                  // weak reference to the key's code object
    graph::Graph graph;            // what the worker compiles
    std::optional<CompileProduct> product;
    std::string bug;               // what went wrong in us, if something did
    std::chrono::steady_clock::time_point queued;
};

class CompileQueue {
  public:
    CompileQueue();
    ~CompileQueue();
    void push(std::unique_ptr<CompileJob> job);
    /// True when finished jobs wait for installation: one load.
    bool any_done() const { return done_count_.load(std::memory_order_acquire) > 0; }
    /// A finished job, or null. GIL.
    std::unique_ptr<CompileJob> take_done();
    /// Blocks until no job is queued or being compiled. Without the GIL.
    void wait_idle();
    /// The same, level 2 included.
    void wait_improved();
    /// Whether installed code is still to be replaced by better code: one load.
    bool improving() const { return improving_.load(std::memory_order_relaxed) > 0; }
    /// Level 2 of an installed product, when the thread has nothing else to do.
    void improve_later(std::shared_ptr<void> keep, CompileProduct* product);
    /// No thread starts any more and the running job is the last (fork, exit).
    void stop();
    /// In the child of a fork: no thread, nothing is compiled.
    void forget_thread();
    void on_done(void (*call)(void*), void* context) { done_call_ = call, done_context_ = context; }

  private:
    struct State;
    std::unique_ptr<State> state_;
    std::atomic<int> done_count_{0}, improving_{0};
    void (*done_call_)(void*) = nullptr;
    void* done_context_ = nullptr;
    std::vector<std::shared_ptr<void>> doomed_; // guarded by the state's mutex
    void run();
};

} // namespace dyno
