// Loading and launching on a GPU. Code for unaligned buffers is made when the first such buffer comes.
#include "compiler/runtime/cuda/kernel.h"
#include "compiler/runtime/cuda/driver.h"
#include <cstring>
#include <mutex>

namespace dyno::runtime::cuda {

namespace {

struct Code {
    Module module = nullptr;
    std::vector<Function> functions; // by phase
};

/// With the device's context current.
Result<Code> load_code(const std::vector<uint8_t>& ptx, const std::vector<codegen::Phase>& phases, const Device& device) {
    auto assembled = assemble(ptx, device.major, device.minor);
    if (!assembled) return Refusal{assembled.reason()};
    Code code;
    if (const int error = driver()->load(&code.module, assembled->data())) return Refusal{"the driver does not load a kernel: " + error_text(error)};
    for (const codegen::Phase& phase : phases) {
        Function function = nullptr;
        if (driver()->function(&function, code.module, phase.symbol.c_str()) != 0) {
            driver()->unload(code.module);
            return Refusal{"a loaded module lacks its kernel"};
        }
        code.functions.push_back(function);
    }
    return code;
}

} // namespace

struct Kernel::Loaded {
    codegen::CompiledCode code;
    int index = 0;
    Device device;
    Code aligned;
    mutable Code unaligned; // made on demand under `mutex`
    mutable std::mutex mutex;

    bool make_unaligned() const noexcept {
        const std::lock_guard lock(mutex);
        if (unaligned.module) return true;
        try {
            auto made = load_code(code.unaligned(), code.phases, device);
            if (made) unaligned = *made;
            return static_cast<bool>(made);
        } catch (const std::exception&) {
            return false; // the segment runs natively
        }
    }
};

Kernel::Kernel(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
Kernel::~Kernel() {
    const Entered entered(loaded_->device.context);
    for (Module module : {loaded_->aligned.module, loaded_->unaligned.module})
        if (module) driver()->unload(module); // fails harmlessly at exit, when the driver is gone before us
}

Result<std::shared_ptr<Kernel>> Kernel::load(codegen::CompiledCode code, int index) {
    auto where = cuda::device(index);
    if (!where) return Refusal{where.reason()};
    const Entered entered(where->context);
    auto loaded = std::make_unique<Loaded>();
    auto made = load_code(code.object, code.phases, *where);
    if (!made) return Refusal{made.reason()};
    loaded->aligned = *made;
    loaded->code = std::move(code);
    loaded->index = index;
    loaded->device = *where;
    return std::shared_ptr<Kernel>(new Kernel(std::move(loaded)));
}

bool Kernel::launch(void* const* buffers, const uint64_t* scalars, void* scratch, void* stream) const noexcept {
    const Loaded& l = *loaded_;
    const Entered entered(l.device.context);
    uintptr_t bits = 0;
    void* arguments[1024];
    const uint32_t count = l.code.buffers + l.code.scalars + 1;
    if (count > 1024) return false;
    for (uint32_t k = 0; k < l.code.buffers; k++) {
        bits |= reinterpret_cast<uintptr_t>(buffers[k]);
        arguments[k] = const_cast<void**>(&buffers[k]);
    }
    for (uint32_t k = 0; k < l.code.scalars; k++) arguments[l.code.buffers + k] = const_cast<uint64_t*>(&scalars[k]);
    arguments[count - 1] = &scratch;
    const Code* code = &l.aligned;
    if (bits % 16 != 0 && l.code.unaligned) {
        if (!l.make_unaligned()) return false;
        code = &l.unaligned;
    }
    for (size_t k = 0; k < l.code.phases.size(); k++) {
        const codegen::Phase& phase = l.code.phases[k];
        if (phase.blocks == 0) continue;
        if (phase.blocks > 0x7fffffff) return false;
        if (phase.starts_early || phase.cluster > 1) {
            LaunchAttribute attribute;
            const unsigned blocks[3] = {static_cast<unsigned>(phase.cluster), 1, 1};
            const int yes = 1;
            attribute.id = phase.cluster > 1 ? LaunchAttribute::cluster_dimension : LaunchAttribute::programmatic_stream_serialization;
            phase.cluster > 1 ? std::memcpy(attribute.value, blocks, sizeof blocks) : std::memcpy(attribute.value, &yes, sizeof yes);
            LaunchConfig config;
            config.grid[0] = static_cast<unsigned>(phase.blocks), config.block[0] = static_cast<unsigned>(phase.threads);
            config.stream = static_cast<Stream>(stream);
            config.attributes = &attribute, config.attribute_count = 1;
            if (driver()->launch_with(&config, code->functions[k], arguments, nullptr) != 0) return false;
            continue;
        }
        if (driver()->launch(code->functions[k], static_cast<unsigned>(phase.blocks), 1, 1, static_cast<unsigned>(phase.threads), 1, 1, 0, static_cast<Stream>(stream),
                             arguments, nullptr) != 0)
            return false;
    }
    return true;
}

int64_t Kernel::scratch_bytes() const { return loaded_->code.shared_bytes; }
int Kernel::device() const { return loaded_->index; }

Result<codegen::Target> target_of(int index) {
    auto where = cuda::device(index);
    if (!where) return Refusal{where.reason()};
    return codegen::gpu_target(where->major, where->minor);
}

bool copy(void* to, const void* from, int64_t bytes, int index, void* stream) noexcept {
    auto where = cuda::device(index);
    if (!where || bytes == 0) return bytes == 0;
    const Entered entered(where->context);
    return driver()->copy_async(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), static_cast<size_t>(bytes), static_cast<Stream>(stream)) == 0;
}

} // namespace dyno::runtime::cuda
