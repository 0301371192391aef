// THE LIST of stages and passes. Order constraints are said at each line.
#include "compiler/pipeline.h"
#include "compiler/codegen/compiled_code.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/simplify.h"
#include "compiler/graph/sink_cats.h"
#include "compiler/graph/verify.h"
#include "compiler/graph/zero_signs.h"
#include "compiler/scalar/gpu_ops.h"
#include "compiler/support/check.h"
#include "compiler/support/signals_blocked.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace dyno {

namespace {
/// Every pass is held to the law of graphs, in release builds too: a breach is a bug of ours that must not reach code
/// generation, and the check costs microseconds on a thread that nobody waits for.
graph::Graph checked(graph::Graph graph, const char* after) {
    graph::check(graph, after);
    return graph;
}

/// The GPU a nest's values lie on, -1 for the CPU; a reason where they lie on several devices.
Result<int> device_of(const graph::Graph& graph, const fusion::KernelStep& step, const fusion::Schedule& schedule) {
    std::optional<int> device;
    for (uint32_t buffer : step.buffers) {
        const graph::Type& type = graph[schedule.buffers[buffer].node].type;
        const int mine = type.device == graph::DeviceKind::cuda ? type.device_index : -1;
        if (device && *device != mine) return Refusal{"values of several devices in one loop"};
        device = mine;
    }
    return device.value_or(-1);
}

const char* not_on_gpu(const fusion::LoopNest& nest) {
    for (const fusion::Instruction& i : nest.body)
        if (i.kind == fusion::Instruction::apply)
            if (const char* why = scalar::not_on_gpu(i.op, nest.body[i.operands[0]].dtype)) return why;
    return nullptr;
}

Result<std::shared_ptr<runtime::cuda::Kernel>> kernel_of(const fusion::LoopNest& nest, int device) {
    if (const char* why = not_on_gpu(nest)) return Refusal{why};
    auto target = runtime::cuda::target_of(device);
    if (!target) return Refusal{target.reason()};
    return runtime::cuda::Kernel::load(codegen::compile(nest, *target, 2), device);
}

/// GPU code is assembled slowly and by as many threads as there are.
void load_kernels(CompileProduct& product, const std::vector<int>& devices) {
    std::vector<uint32_t> wanted;
    for (uint32_t k = 0; k < devices.size(); k++)
        if (devices[k] >= 0) wanted.push_back(k);
    if (wanted.empty()) return;
    std::vector<std::string> reasons(devices.size());
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t k = next++; k < wanted.size(); k = next++) {
            const uint32_t nest = wanted[k];
            try {
                auto kernel = kernel_of(product.schedule.nests[nest], devices[nest]);
                if (kernel) product.kernels[nest] = *kernel;
                else reasons[nest] = kernel.reason();
            } catch (const std::exception& bug) {
                reasons[nest] = bug.what();
            }
        }
    };
    const size_t helpers = std::min<size_t>({wanted.size(), std::max<size_t>(1, std::thread::hardware_concurrency()), size_t{16}}) - 1;
    std::vector<std::thread> threads;
    {
        const SignalsBlocked inherited;
        for (size_t k = 0; k < helpers; k++) threads.emplace_back(work);
    }
    work();
    for (std::thread& t : threads) t.join();
    for (const std::string& reason : reasons)
        if (!reason.empty() && product.refusal.empty()) product.refusal = reason;
}
} // namespace

CompileProduct compile(graph::Graph graph, const std::stop_token& stop) {
    const auto start = std::chrono::steady_clock::now();
    CompileProduct product;
    graph = checked(std::move(graph), "capture");
    graph = checked(graph::decompose(graph), "decompose"); // fusion has no composites
    graph = checked(graph::forget_zero_signs(graph), "forget_zero_signs"); // after decompose: most users are in composites
    graph = checked(graph::sink_cats(graph), "sink_cats");
    graph = checked(graph::simplify(graph), "simplify");   // after decompose, which leaves chains of casts and reshapes
    product.graph = std::move(graph);
    product.schedule = fusion::schedule(product.graph);
    const codegen::Target target = codegen::host_target();
    product.executables.resize(product.schedule.nests.size());
    product.kernels.resize(product.schedule.nests.size());
    std::vector<int> devices(product.schedule.nests.size(), -1);
    for (const auto& step : product.schedule.steps)
        if (const auto* kernel = std::get_if<fusion::KernelStep>(&step)) {
            const auto device = device_of(product.graph, *kernel, product.schedule);
            if (!device || (*device >= 0 && product.cuda_device >= 0 && product.cuda_device != *device)) {
                product.refusal = "values of several devices in one function";
                continue;
            }
            devices[kernel->nest] = *device;
            product.cuda_device = std::max(product.cuda_device, *device);
        }
    for (size_t k = 0; k < devices.size() && product.refusal.empty(); k++) {
        if (stop.stop_requested()) product.refusal = "the process ends";
        if (devices[k] >= 0 || !product.refusal.empty()) continue;
        auto executable = runtime::Executable::load(codegen::compile(product.schedule.nests[k], target, 0)); // level 0: in place soon
        DYNO_CHECK(executable, executable.reason());
        product.executables[k] = *executable;
    }
    if (product.refusal.empty()) load_kernels(product, devices);
    product.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return product;
}

void improve(CompileProduct& product, const std::stop_token& stop) {
    const codegen::Target target = codegen::host_target();
    for (size_t k = 0; k < product.schedule.nests.size() && !stop.stop_requested(); k++)
        if (product.executables[k]) product.executables[k]->replace(codegen::compile(product.schedule.nests[k], target, 2));
}

} // namespace dyno
