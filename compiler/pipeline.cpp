// THE LIST of stages and passes. Order constraints are said at each line.
#include "compiler/pipeline.h"
#include "compiler/codegen/compiled_code.h"
#include "compiler/graph/decompose.h"
#include "compiler/graph/simplify.h"
#include "compiler/graph/verify.h"
#include "compiler/support/check.h"
#include <chrono>

namespace dyno {

namespace {
/// Every pass is held to the law of graphs, in release builds too: a breach is a bug of ours that must not reach code
/// generation, and the check costs microseconds on a thread that nobody waits for.
graph::Graph checked(graph::Graph graph, const char* after) {
    graph::check(graph, after);
    return graph;
}
} // namespace

CompileProduct compile(graph::Graph graph) {
    const auto start = std::chrono::steady_clock::now();
    CompileProduct product;
    graph = checked(std::move(graph), "capture");
    graph = checked(graph::decompose(graph), "decompose"); // fusion has no composites
    graph = checked(graph::simplify(graph), "simplify");   // after decompose, which leaves chains of casts and reshapes
    product.graph = std::move(graph);
    product.schedule = fusion::schedule(product.graph);
    const codegen::Target target = codegen::host_target();
    for (const fusion::LoopNest& nest : product.schedule.nests) {
        auto executable = runtime::Executable::load(codegen::compile(nest, target, 0)); // level 0: in place soon
        DYNO_CHECK(executable, executable.reason());
        product.executables.push_back(*executable);
    }
    product.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return product;
}

void improve(CompileProduct& product) {
    const codegen::Target target = codegen::host_target();
    for (size_t k = 0; k < product.schedule.nests.size(); k++)
        product.executables[k]->replace(codegen::compile(product.schedule.nests[k], target, 2));
}

} // namespace dyno
