// See signals.h. State of the process (its signal mask, its main thread) is the one thing here that cannot be an object.
#include "kernel/signals.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <pthread.h>

#include "kernel/compiler_link.h"

namespace dyno::kernel {
namespace {

pthread_t main_thread;
std::atomic<int> open_depth{0};

sigset_t only_sigint() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

} // namespace

void take_over_signals() {
    main_thread = pthread_self();
    const sigset_t set = only_sigint();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void open_interrupts() {
    if (open_depth++ != 0) return;
    const sigset_t set = only_sigint();
    const timespec now{0, 0};
    while (sigtimedwait(&set, nullptr, &now) == SIGINT) {} // meant for an earlier cell
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
