// The word that asks running replays to stop: set from any thread, polled between the steps of a compute phase.
#pragma once
#include <atomic>

namespace dyno::replay {

/// While true, every replay that has not begun to commit answers compute_failed. Whoever sets it clears it, once the user's
/// KeyboardInterrupt is on its way.
extern std::atomic<bool> interrupt_requested;

} // namespace dyno::replay
