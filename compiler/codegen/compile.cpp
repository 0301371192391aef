// compile(): nest -> plan -> LLVM module -> object bytes. The only file that knows LLVM's target machinery.
// No optimiser runs: what the emitter writes is already in the form wanted; only promotion of allocas to registers.
#include "compiler/codegen/grid_emitter.h"
#include "compiler/codegen/nest_emitter.h"
#include "compiler/support/check.h"
#include "compiler/support/fault.h"
#include <cstdlib>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils.h>
#include <map>
#include <mutex>

namespace dyno::codegen {

namespace {

void initialize() {
    static std::once_flag once;
    std::call_once(once, [] {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeNVPTXTargetInfo();
        LLVMInitializeNVPTXTarget();
        LLVMInitializeNVPTXTargetMC();
        LLVMInitializeNVPTXAsmPrinter();
        // It lifts the polynomials' constants into registers that the loop needs, which then spill. Without it code is made
        // a fifth sooner and runs as fast or faster; addresses are lifted by the pass on IR. Our copy of LLVM is private.
        const char* arguments[] = {"dyno", "-disable-machine-licm"};
        llvm::cl::ParseCommandLineOptions(2, arguments);
    });
}

/// One machine per thread and level: they are costly to make and may not be shared.
llvm::TargetMachine& machine(const Target& target, int level) {
    thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
    auto& kept = machines[std::to_string(level) + target.cpu + "," + target.features];
    if (kept) return *kept;
    initialize();
    std::string error;
    const bool gpu = target.kind == Target::nvptx;
    const std::string triple = gpu ? "nvptx64-nvidia-cuda" : "x86_64-unknown-linux-gnu";
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(triple, error);
    DYNO_CHECK(t, error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = fault(1) ? llvm::FPOpFusion::Fast : llvm::FPOpFusion::Strict;
    const auto effort = level == 0 ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default;
    const auto model = gpu ? std::optional<llvm::CodeModel::Model>() : llvm::CodeModel::Small;
    kept.reset(t->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_, model, effort));
    DYNO_CHECK(kept, "LLVM makes a machine for this CPU");
    return *kept;
}

void set_attributes(llvm::Module& module, const Target& target) {
    const std::string width = std::to_string(target.vector_bits);
    for (llvm::Function& f : module) {
        if (f.isDeclaration()) continue;
        f.addFnAttr("target-cpu", target.cpu);
        f.addFnAttr("target-features", target.features);
        f.addFnAttr("prefer-vector-width", width);
        f.addFnAttr("min-legal-vector-width", width);
    }
}

} // namespace

Target host_target() {
    static const Target host = [] {
        Target t;
        t.cpu = llvm::sys::getHostCPUName().str();
        const auto features = llvm::sys::getHostCPUFeatures();
        std::map<std::string, bool> sorted;
        for (const auto& f : features) sorted[f.getKey().str()] = f.getValue();
        for (const auto& [name, on] : sorted) t.features += (t.features.empty() ? "" : ",") + std::string(on ? "+" : "-") + name;
        t.vector_bits = sorted["avx512f"] && sorted["avx512vl"] && sorted["avx512bw"] && sorted["avx512dq"] ? 512
                        : sorted["avx2"]                                                                    ? 256
                                                                                                            : 128;
        return t;
    }();
    return host;
}

Target gpu_target(int major, int minor) {
    const int version = major * 10 + minor;
    Target t;
    t.kind = Target::nvptx;
    t.cpu = version >= 90 ? "sm_90" : version >= 89 ? "sm_89" : version >= 86 ? "sm_86" : "sm_80";
    t.features = version >= 90 ? "+ptx78" : version >= 89 ? "+ptx78" : "+ptx71";
    t.vector_bits = 128;
    return t;
}

namespace {

void complain_if_broken(const llvm::Module& module) {
#ifdef DYNO_DEBUG
    std::string message;
    llvm::raw_string_ostream complaint(message);
    DYNO_CHECK(!llvm::verifyModule(module, &complaint), message);
#endif
    if (const char* dump = std::getenv("DYNO_DUMP_IR"); dump && *dump) module.print(llvm::errs(), nullptr);
}

/// PTX text of the nest's kernels; describes them in `code`.
std::vector<uint8_t> ptx_of(const fusion::LoopNest& nest, const GridPlan& plan, const Target& target, CompiledCode& code) {
    llvm::TargetMachine& tm = machine(target, 2); // without effort no registers are allocated: all becomes memory
    llvm::LLVMContext context;
    llvm::Module module("nest", context);
    module.setDataLayout(tm.createDataLayout());
    module.setTargetTriple(tm.getTargetTriple().str());
    GridEmitter(module, nest, plan).emit(code);
    complain_if_broken(module);
    llvm::SmallVector<char, 0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    passes.add(llvm::createPromoteMemoryToRegisterPass());
    DYNO_CHECK(!tm.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile), "the machine emits PTX");
    passes.run(module);
    return {text.begin(), text.end()};
}

CompiledCode compile_for_gpu(const fusion::LoopNest& nest, const Target& target) {
    CompiledCode code;
    code.target = target;
    code.level = 2; // there is one level: the assembler optimises
    code.buffers = static_cast<uint32_t>(nest.parameters.size());
    code.scalars = static_cast<uint32_t>(nest.scalars.size());
    const bool newer = target.cpu == "sm_90";
    GridPlan plan = plan_grid(nest, true, newer);
    plan.overlaps = newer;
    code.object = ptx_of(nest, plan, target, code);
    bool pieces = false;
    for (const fusion::Access& load : nest.loads) pieces |= is_piece(nest, load, plan.lanes);
    for (const fusion::Store& store : nest.stores) pieces |= is_piece(nest, store.to, plan.lanes);
    if (pieces) {
        GridPlan narrow = plan;
        narrow.wide_memory = false;
        code.unaligned = [nest, narrow, target] {
            CompiledCode same;
            return ptx_of(nest, narrow, target, same);
        };
    }
    return code;
}

} // namespace

CompiledCode compile(const fusion::LoopNest& nest, const Target& target, int level) {
    fusion::verify(nest);
    if (target.kind == Target::nvptx) return compile_for_gpu(nest, target);
    llvm::TargetMachine& tm = machine(target, level);
    llvm::LLVMContext context;
    llvm::Module module("nest", context);
    module.setDataLayout(tm.createDataLayout());
    module.setTargetTriple(tm.getTargetTriple().str());
    CompiledCode code;
    code.target = target;
    code.level = level;
    code.buffers = static_cast<uint32_t>(nest.parameters.size());
    code.scalars = static_cast<uint32_t>(nest.scalars.size());
    code.reports_flags = nest.reports_flags;
    const NestPlan plan = plan_nest(nest, target);
    NestEmitter(module, nest, plan).emit(code);
    set_attributes(module, target);
    complain_if_broken(module);
    llvm::SmallVector<char, 0> object;
    llvm::raw_svector_ostream stream(object);
    llvm::legacy::PassManager passes;
    passes.add(llvm::createPromoteMemoryToRegisterPass());
    if (level > 0) {
        passes.add(llvm::createEarlyCSEPass());
        passes.add(llvm::createLICMPass());
    }
    llvm::MCContext* mc = nullptr;
    DYNO_CHECK(!tm.addPassesToEmitMC(passes, mc, stream, true), "the machine emits objects");
    passes.run(module);
    code.object.assign(object.begin(), object.end());
    return code;
}

void warm_up() {
    fusion::LoopNest nest;
    nest.axes = {{fusion::Axis::parallel, 64}};
    nest.parameters = {{DType::f32, false}, {DType::f32, true}};
    nest.loads = {{0, {0, {1}}}};
    nest.body = {{fusion::Instruction::load, scalar::ScalarOp::load, fusion::Reduction::sum, DType::f32, {}, 0, 0, 0}};
    nest.stores = {{0, {1, {0, {1}}}}};
    for (int level : {0, 2}) static_cast<void>(compile(nest, host_target(), level));
}

} // namespace dyno::codegen
