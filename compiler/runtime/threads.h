// Runs one function on several threads at once: in torch's own OpenMP pool where torch is loaded (a second pool would
// fight it for the cores), else in a pool of ours that starts on first use.
#pragma once

namespace dyno::runtime {

/// Calls body(data, k, n) for k in 0..n-1, n <= threads, on n threads of which this is one; returns when all are done.
/// `body` must not throw. In the child of a fork everything runs on this thread.
void run_parallel(int threads, void (*body)(void* data, int k, int n), void* data) noexcept;

/// Whether torch's pool serves now.
[[nodiscard]] bool uses_torch_pool() noexcept;

} // namespace dyno::runtime
