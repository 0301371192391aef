// nvJitLink in process: from the libraries that torch has loaded, from its packages beside torch, or from CUDA's own folder. A process
// for the assembler would cost ten times what the assembling does.
#include "compiler/runtime/cuda/driver.h"
#include <cstring>
#include <dlfcn.h>
#include <link.h>

namespace dyno::runtime::cuda {
namespace {

using Handle = void*;
constexpr int input_ptx = 2;

struct Linker {
    int (*create)(Handle*, uint32_t, const char**) = nullptr;
    int (*destroy)(Handle*) = nullptr;
    int (*add)(Handle, int, const void*, size_t, const char*) = nullptr;
    int (*complete)(Handle) = nullptr;
    int (*size)(Handle, size_t*) = nullptr;
    int (*cubin)(Handle, void*) = nullptr;
    int (*log_size)(Handle, size_t*) = nullptr;
    int (*log)(Handle, char*) = nullptr;
    int (*version)(unsigned*, unsigned*) = nullptr;
    bool usable() const { return create && destroy && add && complete && size && cubin; }
};

/// The folders of the libraries in this process, where torch's packages keep nvJitLink's too.
std::vector<std::string> folders() {
    std::vector<std::string> found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* data) {
            auto& list = *static_cast<std::vector<std::string>*>(data);
            const std::string path = info->dlpi_name;
            const size_t name = path.rfind('/');
            if (name == std::string::npos) return 0;
            const std::string folder = path.substr(0, name);
            if (path.find("libcudart", name) != std::string::npos || path.find("libnvrtc", name) != std::string::npos) list.push_back(folder);
            if (path.find("libtorch_cuda", name) != std::string::npos)
                for (const char* part : {"/../../nvidia/cu13/lib", "/../../nvidia/nvjitlink/lib"}) list.push_back(folder + part);
            return 0;
        },
        &found);
    found.push_back("/usr/local/cuda/lib64");
    return found;
}

void* open_library() {
    const char* names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
    for (int flags : {RTLD_NOLOAD | RTLD_LAZY, RTLD_LAZY | RTLD_LOCAL})
        for (const char* name : names)
            if (void* library = dlopen(name, flags)) return library;
    for (const std::string& folder : folders())
        for (const char* name : names)
            if (void* library = dlopen((folder + "/" + name).c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
    return nullptr;
}

const Linker& linker() {
    static const Linker found = [] {
        Linker l;
        void* library = open_library();
        if (!library) return l;
        const auto find = [&](auto& slot, const char* name) { slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(dlsym(library, name)); };
        find(l.create, "nvJitLinkCreate"), find(l.destroy, "nvJitLinkDestroy"), find(l.add, "nvJitLinkAddData"), find(l.complete, "nvJitLinkComplete");
        find(l.size, "nvJitLinkGetLinkedCubinSize"), find(l.cubin, "nvJitLinkGetLinkedCubin");
        find(l.log_size, "nvJitLinkGetErrorLogSize"), find(l.log, "nvJitLinkGetErrorLog"), find(l.version, "nvJitLinkVersion");
        return l;
    }();
    return found;
}

std::string complaint(Handle handle) {
    size_t size = 0;
    if (!linker().log_size || !linker().log || linker().log_size(handle, &size) != 0 || size == 0) return "nvJitLink refused a kernel";
    std::string text(size, '\0');
    linker().log(handle, text.data());
    return "nvJitLink refused a kernel: " + std::string(text.c_str());
}

} // namespace

std::string assembler_name() {
    if (!linker().usable()) return "the driver";
    unsigned major = 0, minor = 0;
    if (linker().version) linker().version(&major, &minor);
    return "nvJitLink " + std::to_string(major) + "." + std::to_string(minor);
}

Result<std::vector<char>> assemble(const std::vector<uint8_t>& ptx, int major, int minor) {
    const auto as_text = [&] {
        std::vector<char> text(ptx.begin(), ptx.end());
        text.push_back('\0');
        return text;
    };
    if (!linker().usable()) return as_text();
    const std::string arch = "-arch=sm_" + std::to_string(major) + std::to_string(minor);
    const char* options[] = {arch.c_str(), "-O3"};
    const std::vector<char> text = as_text(); // the end is marked, or it is not taken for PTX
    Handle handle = nullptr;
    if (linker().create(&handle, 2, options) != 0) return as_text(); // an older nvJitLink than this GPU: the driver knows it
    Result<std::vector<char>> result = Refusal{"nvJitLink refused a kernel"};
    size_t size = 0;
    if (linker().add(handle, input_ptx, text.data(), text.size(), "nest") == 0 && linker().complete(handle) == 0 && linker().size(handle, &size) == 0) {
        std::vector<char> cubin(size);
        if (linker().cubin(handle, cubin.data()) == 0) result = std::move(cubin);
    } else {
        result = Refusal{complaint(handle)};
    }
    linker().destroy(&handle);
    return result;
}

} // namespace dyno::runtime::cuda
