// Kernel: the GPU's code of one nest, loaded on one device, ready to launch on any of its streams.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include "compiler/support/result.h"
#include <memory>
#include <string>

namespace dyno::runtime::cuda {

class Kernel {
  public:
    /// Assembles and loads. Any thread, no GIL. Refusal: no driver, no such device, or the assembler's complaint.
    static Result<std::shared_ptr<Kernel>> load(codegen::CompiledCode code, int device);
    ~Kernel();
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    /// Enqueues the nest on a stream of its device and does not wait. `buffers` and `scalars` as Executable::launch; `scratch` is device
    /// memory of scratch_bytes(). False: the driver refused (out of resources, or an earlier kernel's error): nothing was enqueued by us
    /// that a later step could use.
    bool launch(void* const* buffers, const uint64_t* scalars, void* scratch, void* stream) const noexcept;

    int64_t scratch_bytes() const;
    int device() const;

  private:
    struct Loaded;
    explicit Kernel(std::unique_ptr<Loaded> loaded);
    std::unique_ptr<Loaded> loaded_;
};

/// The code's target on a device, or why there is none.
Result<codegen::Target> target_of(int device);

/// Copies device memory on a stream, after what is enqueued there. False: the driver refused.
bool copy(void* to, const void* from, int64_t bytes, int device, void* stream) noexcept;

} // namespace dyno::runtime::cuda
