// The worker thread. It starts with the first job; it never takes the GIL.
#include "compiler/compile_queue.h"
#include "compiler/support/signals_blocked.h"
#include <condition_variable>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <stop_token>
#include <thread>
#include <unistd.h>

namespace dyno {

struct CompileQueue::State {
    std::mutex mutex;
    std::condition_variable work, idle;
    std::deque<std::unique_ptr<CompileJob>> waiting, done;
    std::deque<std::pair<std::shared_ptr<void>, CompileProduct*>> improvements;
    std::stop_source stop; // of the running job
    bool compiling = false, stopping = false, started = false, disabled = false;
    std::thread thread;
};

CompileQueue::CompileQueue() : state_(std::make_unique<State>()) {}
CompileQueue::~CompileQueue() { stop(); }

void CompileQueue::push(std::unique_ptr<CompileJob> job) {
    std::lock_guard lock(state_->mutex);
    if (state_->stopping || state_->disabled) return;
    state_->waiting.push_back(std::move(job));
    if (!state_->started) {
        state_->started = true;
        const SignalsBlocked inherited;
        state_->thread = std::thread([this] { run(); });
    }
    state_->work.notify_one();
}

void CompileQueue::run() {
    // User code goes first: the thread runs when a core has nothing else to do.
    sched_param none{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    State& s = *state_;
    std::unique_lock lock(s.mutex);
    for (;;) {
        s.work.wait(lock, [&] { return s.stopping || !s.waiting.empty() || !s.improvements.empty(); });
        if (s.stopping) return;
        if (!s.waiting.empty()) {
            auto job = std::move(s.waiting.front());
            s.waiting.pop_front();
            s.compiling = true;
            lock.unlock();
            try {
                job->product = compile(std::move(job->graph), s.stop.get_token());
            } catch (const std::exception& bug) {
                job->bug = bug.what();
            }
            lock.lock();
            s.compiling = false;
            s.done.push_back(std::move(job));
            done_count_.fetch_add(1, std::memory_order_release);
            if (done_call_) done_call_(done_context_);
        } else {
            auto [keep, product] = std::move(s.improvements.front());
            s.improvements.pop_front();
            lock.unlock();
            try {
                if (keep.use_count() > 1) improve(*product, s.stop.get_token());
            } catch (const std::exception&) {
                // level 0 stays
            }
            lock.lock();
            doomed_.push_back(std::move(keep)); // a plan holds Python objects: whoever has the GIL lets it go
            improving_.fetch_sub(1, std::memory_order_release);
        }
        if (s.waiting.empty()) s.idle.notify_all();
    }
}

std::unique_ptr<CompileJob> CompileQueue::take_done() {
    std::vector<std::shared_ptr<void>> doomed;
    std::lock_guard lock(state_->mutex);
    doomed.swap(doomed_);
    if (state_->done.empty()) return nullptr;
    auto job = std::move(state_->done.front());
    state_->done.pop_front();
    done_count_.fetch_sub(1, std::memory_order_relaxed);
    return job;
}

void CompileQueue::wait_idle() {
    std::unique_lock lock(state_->mutex);
    if (!state_->started || state_->disabled) return;
    state_->idle.wait(lock, [&] { return (state_->waiting.empty() && !state_->compiling) || state_->stopping; });
}

void CompileQueue::wait_improved() {
    std::unique_lock lock(state_->mutex);
    if (!state_->started || state_->disabled) return;
    state_->idle.wait(lock, [&] { return (state_->waiting.empty() && !state_->compiling && improving_.load() == 0) || state_->stopping; });
}

void CompileQueue::improve_later(std::shared_ptr<void> keep, CompileProduct* product) {
    std::lock_guard lock(state_->mutex);
    if (state_->stopping || state_->disabled || !state_->started) return;
    state_->improvements.emplace_back(std::move(keep), product);
    improving_.fetch_add(1, std::memory_order_relaxed);
    state_->work.notify_one();
}

void CompileQueue::stop() {
    {
        std::lock_guard lock(state_->mutex);
        if (state_->disabled) return;
        state_->stopping = true;
        state_->stop.request_stop();
        state_->work.notify_all();
        state_->idle.notify_all();
    }
    if (state_->thread.joinable()) state_->thread.join();
    improving_.store(0);
}

void CompileQueue::forget_thread() {
    // The thread does not exist in the child and its locks may be held: leave the old state where it is.
    auto* lost = state_.release();
    (void)lost;
    state_ = std::make_unique<State>();
    state_->disabled = true;
    improving_.store(0);
}

} // namespace dyno
