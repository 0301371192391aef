// Finds the driver and retains the contexts that torch made current. Nothing is created that torch would not create itself.
#include "compiler/runtime/cuda/driver.h"
#include <dlfcn.h>
#include <mutex>

namespace dyno::runtime::cuda {
namespace {

constexpr int oldest_driver = 12000; // CUDA 12.0: PTX 7.8 and what torch's own wheels ask for
constexpr int capability_major = 75, capability_minor = 76; // CUdevice_attribute

template <class F>
bool find(void* library, F& slot, const char* name) {
    slot = reinterpret_cast<F>(dlsym(library, name));
    return slot != nullptr;
}

Result<Driver> load_driver() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library) return Refusal{"no NVIDIA driver (libcuda.so.1) is installed"};
    Driver d;
    const bool all = find(library, d.init, "cuInit") && find(library, d.version, "cuDriverGetVersion") && find(library, d.device_get, "cuDeviceGet") &&
                     find(library, d.device_attribute, "cuDeviceGetAttribute") && find(library, d.retain, "cuDevicePrimaryCtxRetain") &&
                     find(library, d.current, "cuCtxGetCurrent") && find(library, d.push, "cuCtxPushCurrent_v2") && find(library, d.pop, "cuCtxPopCurrent_v2") &&
                     find(library, d.load, "cuModuleLoadData") && find(library, d.unload, "cuModuleUnload") && find(library, d.function, "cuModuleGetFunction") &&
                     find(library, d.launch, "cuLaunchKernel") && find(library, d.launch_with, "cuLaunchKernelEx") && find(library, d.copy_async, "cuMemcpyDtoDAsync_v2") && find(library, d.error_text, "cuGetErrorString");
    if (!all) return Refusal{"the NVIDIA driver lacks functions that kernels need: it is too old"};
    int version = 0;
    if (d.version(&version) != 0) return Refusal{"the NVIDIA driver does not answer"};
    if (version < oldest_driver)
        return Refusal{"the NVIDIA driver supports CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) +
                       ", and compiled kernels need 12.0 or newer: GPU code runs uncompiled"};
    if (const int error = d.init(0)) return Refusal{"the NVIDIA driver did not start (error " + std::to_string(error) + ")"};
    return d;
}

} // namespace

const Result<Driver>& driver() {
    static const Result<Driver> found = load_driver();
    return found;
}

std::string error_text(int error) {
    const char* text = nullptr;
    if (driver()) driver()->error_text(error, &text);
    return text ? text : "error " + std::to_string(error);
}

Result<Device> device(int index) {
    static std::mutex mutex;
    static std::vector<Device> known; // a context is retained once and kept: torch keeps it too
    if (!driver()) return Refusal{driver().reason()};
    const std::lock_guard lock(mutex);
    if (index < 0 || index > 255) return Refusal{"no such CUDA device"};
    if (static_cast<size_t>(index) >= known.size()) known.resize(static_cast<size_t>(index) + 1);
    Device& d = known[static_cast<size_t>(index)];
    if (d.context) return d;
    int number = 0;
    Device made;
    if (driver()->device_get(&number, index) || driver()->device_attribute(&made.major, capability_major, number) ||
        driver()->device_attribute(&made.minor, capability_minor, number))
        return Refusal{"no such CUDA device"};
    if (made.major < 8)
        return Refusal{"this GPU has compute capability " + std::to_string(made.major) + "." + std::to_string(made.minor) +
                       ", and compiled kernels need 8.0 or newer: its code runs uncompiled"};
    if (const int error = driver()->retain(&made.context, number)) return Refusal{"the GPU's context cannot be had: " + error_text(error)};
    return d = made;
}

Entered::Entered(Context context) {
    Context now = nullptr;
    if (driver()->current(&now) == 0 && now == context) return;
    pushed_ = driver()->push(context) == 0;
}
Entered::~Entered() {
    Context old;
    if (pushed_) driver()->pop(&old);
}

} // namespace dyno::runtime::cuda
