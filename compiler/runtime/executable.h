// Executable: CompiledCode loaded into memory, ready to launch. Launching takes no lock and allocates nothing in the common
// case; better code may replace the present one at any time while others launch.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include "compiler/support/result.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace dyno::runtime {

struct LoadedCode;

/// What launch() returns: floating-point flags as in MXCSR, and faults.
enum LaunchFlags : uint32_t {
    invalid = 0x01,
    divide_by_zero = 0x04,
    overflow = 0x08,               // of floats; also the smallest integer divided by -1, which wraps
    underflow = 0x10,
    integer_zero_division = 0x100, // an integer division by zero, or a negative integer power: results are not to be used
    out_of_memory = 0x200,         // scratch could not be had: nothing was computed
};

class Executable {
  public:
    /// Refusal: the object needs a symbol or relocation we do not know, or memory cannot be mapped.
    static Result<std::shared_ptr<Executable>> load(const codegen::CompiledCode& code);
    ~Executable();
    Executable(const Executable&) = delete;
    Executable& operator=(const Executable&) = delete;

    /// Runs the nest. `buffers` in the order of the nest's parameters, each at the address of the value's element with
    /// all indices zero; `scalar_bits` in the order of the nest's scalars. At most `threads` threads (1: this one only).
    /// The OR of LaunchFlags over all threads; floating-point flags only if the code reports them. Never throws.
    uint32_t launch(void* const* buffers, const uint64_t* scalar_bits, int threads) const noexcept;

    /// Installs better code of the same nest; launches already running finish on the old code, which lives as long as this.
    bool replace(const codegen::CompiledCode& code);

    int level() const;
    /// Memory that the code takes, of all levels that are loaded.
    size_t code_bytes();
    /// Estimated single-thread time of one launch.
    double estimated_nanoseconds() const;

  private:
    explicit Executable(std::unique_ptr<LoadedCode> code);
    std::atomic<const LoadedCode*> current_;
    std::mutex mutex_;                                // guards `loaded_`
    std::vector<std::unique_ptr<LoadedCode>> loaded_; // all that ever was current
};

} // namespace dyno::runtime
