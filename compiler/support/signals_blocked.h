// Keeps signals that are meant for the user's threads away from ours. Threads inherit the mask of the thread that starts them: one started
// from a running cell would otherwise take the process's SIGINT, at idle priority and so perhaps only when the next cell runs.
#pragma once

#include <csignal>
#include <initializer_list>
#include <pthread.h>

namespace dyno {

/// While one lives, the calling thread and the threads it starts take no signal but those of their own faults.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t set;
        sigfillset(&set);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&set, fault);
        pthread_sigmask(SIG_BLOCK, &set, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

} // namespace dyno
