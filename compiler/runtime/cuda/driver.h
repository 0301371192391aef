// The CUDA driver and nvJitLink, found at run time. The only folder that knows their functions; nothing is linked and no header of
// CUDA's is needed: what is declared here is the part of their stable C interface that we call.
#pragma once
#include "compiler/support/result.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dyno::runtime::cuda {

using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Address = unsigned long long;

/// CUlaunchConfig with one attribute, a CUlaunchAttribute.
struct LaunchAttribute {
    enum : int { cluster_dimension = 4, programmatic_stream_serialization = 6 } id = programmatic_stream_serialization;
    char padding[4] = {};
    alignas(8) char value[64] = {};
};
struct LaunchConfig {
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
    Stream stream = nullptr;
    LaunchAttribute* attributes = nullptr;
    unsigned attribute_count = 0;
};

/// Functions of libcuda.so.1. Every one answers 0 for success.
struct Driver {
    int (*init)(unsigned) = nullptr;
    int (*version)(int*) = nullptr;
    int (*device_get)(int*, int) = nullptr;
    int (*device_attribute)(int*, int, int) = nullptr;
    int (*retain)(Context*, int) = nullptr; // the device's primary context, which torch uses too
    int (*current)(Context*) = nullptr;
    int (*push)(Context) = nullptr;
    int (*pop)(Context*) = nullptr;
    int (*load)(Module*, const void*) = nullptr; // a cubin, or PTX text that the driver then assembles
    int (*unload)(Module) = nullptr;
    int (*function)(Function*, Module, const char*) = nullptr;
    int (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**) = nullptr;
    int (*launch_with)(const LaunchConfig*, Function, void**, void**) = nullptr;
    int (*copy_async)(Address, Address, size_t, Stream) = nullptr; // device to device
    int (*error_text)(int, const char**) = nullptr;
};

/// The driver, started; or why there is none, in a sentence for the user. Looked for once.
const Result<Driver>& driver();

/// What went wrong, in words.
std::string error_text(int error);

/// A device as torch numbers it: its context, retained for the life of the process, and its compute capability.
struct Device {
    Context context = nullptr;
    int major = 0, minor = 0;
};
Result<Device> device(int index);

/// Makes a device's context current on this thread while it lives.
class Entered {
  public:
    explicit Entered(Context context);
    ~Entered();
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

  private:
    bool pushed_ = false;
};

/// PTX text as machine code for a device: by nvJitLink where it is found (any number of threads at once), else the text itself, for the
/// driver to assemble. Refusal: nvJitLink refused the text.
Result<std::vector<char>> assemble(const std::vector<uint8_t>& ptx, int major, int minor);

/// Which way assemble() takes: "nvJitLink 13.0" or "the driver".
std::string assembler_name();

} // namespace dyno::runtime::cuda
