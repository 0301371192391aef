// See signals.h. State of the process (its signal mask, its main thread) is the one thing here that cannot be an object.
#include "kernel/signals.h"

#include <atomic>
#include <csignal>
#include <pthread.h>

#include "kernel/compiler_link.h"

namespace dyno::kernel {
namespace {

pthread_t main_thread;
std::atomic<int> open_depth{0};
void (*python_handler)(int) = nullptr;

sigset_t only_sigint() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

/// Threads that a cell has started (OpenMP's, say) have SIGINT open, and the system may choose any of them: it is handed to the main thread
/// if a cell runs, and dropped if none does.
void handle(int signal) {
    if (pthread_equal(pthread_self(), main_thread)) return python_handler(signal);
    if (open_depth > 0) pthread_kill(main_thread, signal);
}

/// What was sent while nothing ran is dropped, also where a thread has not come to take it yet: ignoring a signal empties all queues.
/// signal.signal() installs Python's handler anew, so ours is put before it each time.
void drop_pending_and_install() {
    struct sigaction ignore = {}, action = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &action);
    if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN && action.sa_handler != handle) {
        python_handler = action.sa_handler;
        action.sa_handler = handle;
    }
    sigaction(SIGINT, &action, nullptr);
}

} // namespace

void take_over_signals() {
    main_thread = pthread_self();
    const sigset_t set = only_sigint();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    drop_pending_and_install();
}

void open_interrupts() {
    if (open_depth++ != 0) return;
    drop_pending_and_install();
    const sigset_t set = only_sigint();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void close_interrupts() {
    if (--open_depth != 0) return;
    const sigset_t set = only_sigint();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool interrupts_are_open() { return open_depth > 0; }

void interrupt_cell() {
    if (!interrupts_are_open()) return;
    interrupt_compiled_code();
    pthread_kill(main_thread, SIGINT);
}

} // namespace dyno::kernel
