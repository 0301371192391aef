// The word that asks running replays to stop: set from any thread, polled between the steps of a compute phase.
#pragma once
#include <atomic>

namespace dyno::replay {

/// Set it to stop the replay that is running: it answers compute_failed before it commits, and takes the request with it. If none is running, the
/// next one runs natively once, which harms nobody.
extern std::atomic<bool> interrupt_requested;

} // namespace dyno::replay
