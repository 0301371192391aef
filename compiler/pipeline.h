// THE LIST of stages and passes: from a graph to code, on the worker, without the GIL.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include "compiler/fusion/schedule.h"
#include "compiler/runtime/cuda/kernel.h"
#include "compiler/runtime/executable.h"
#include <memory>
#include <stop_token>
#include <vector>

namespace dyno {

/// What the worker hands to replay::build(): the schedule and one executable per nest.
struct CompileProduct {
    graph::Graph graph; // after the passes; inputs, scalars, outputs and externs keep their indices
    fusion::Schedule schedule;
    std::vector<std::shared_ptr<runtime::Executable>> executables;   // null where the nest runs on a GPU
    std::vector<std::shared_ptr<runtime::cuda::Kernel>> kernels;     // null where the nest runs on the CPU
    int cuda_device = -1;                                            // of all kernels
    std::string refusal;                                             // why nothing was compiled, if that is no bug of ours
    double seconds = 0;
};

/// Runs the passes, fusion and code generation (level 0). Throws InternalError on a bug of ours. A stop is obeyed between loop nests.
[[nodiscard]] CompileProduct compile(graph::Graph graph, const std::stop_token& stop);
/// Level 2, later: swaps better code into the product's executables.
void improve(CompileProduct& product, const std::stop_token& stop);

} // namespace dyno
