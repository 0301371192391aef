// Runs a schedule as replay would: memory for every buffer, steps in order. For tests.
#pragma once
#include "compiler/codegen/compiled_code.h"
#include "compiler/fusion/schedule.h"
#include "compiler/graph/interpret.h"
#include "compiler/runtime/executable.h"
#include <stdexcept>

namespace dyno::testing {

struct RunResult {
    std::vector<graph::HostArray> outputs; // dense, in the order of graph.outputs
    uint32_t flags = 0;
};

/// `inputs` are dense; they are laid out by the graph's strides first.
inline RunResult run_schedule(const graph::Graph& g, const fusion::Schedule& s, const std::vector<graph::HostArray>& inputs, const std::vector<scalar::Value>& scalars,
                              int level, int threads, const graph::ExternCall& call = {}) {
    using graph::HostArray;
    std::vector<std::vector<uint8_t>> memory(s.buffers.size());
    std::vector<uint8_t> arena(static_cast<size_t>(s.arena_bytes) + 64, 0xa5);
    std::vector<uint8_t*> base(s.buffers.size());
    const auto element_offset = [](const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t linear) {
        int64_t at = 0;
        for (size_t d = dims.size(); d-- > 0;) {
            at += linear % dims[d] * strides[d];
            linear /= dims[d];
        }
        return at;
    };
    const auto fill = [&](uint32_t b, const HostArray& from) {
        const int64_t size = size_of(from.dtype);
        for (int64_t k = 0; k < from.numel(); k++)
            std::copy_n(from.bytes.data() + k * size, size, base[b] + element_offset(from.dims, s.buffers[b].strides, k) * size);
    };
    const auto dense = [&](uint32_t b) {
        HostArray to(s.buffers[b].dtype, s.buffers[b].dims);
        const int64_t size = size_of(to.dtype);
        for (int64_t k = 0; k < to.numel(); k++)
            std::copy_n(base[b] + element_offset(to.dims, s.buffers[b].strides, k) * size, size, to.bytes.data() + k * size);
        return to;
    };
    std::vector<int32_t> of_node(g.nodes.size(), -1);
    for (uint32_t b = 0; b < s.buffers.size(); b++) {
        const fusion::Buffer& buffer = s.buffers[b];
        int64_t low = 0; // negative strides reach below the first element
        for (size_t d = 0; d < buffer.dims.size(); d++)
            if (buffer.strides[d] < 0) low -= buffer.strides[d] * (buffer.dims[d] - 1) * size_of(buffer.dtype);
        if (buffer.kind == fusion::Buffer::temporary) {
            if (buffer.arena_offset + buffer.bytes > s.arena_bytes) throw std::runtime_error("a temporary leaves the arena");
            base[b] = arena.data() + buffer.arena_offset;
        } else {
            memory[b].assign(static_cast<size_t>(buffer.bytes) + 64, 0xa5);
            base[b] = memory[b].data() + low;
        }
        if (of_node[buffer.node.index] < 0) of_node[buffer.node.index] = static_cast<int32_t>(b);
        if (buffer.kind == fusion::Buffer::input)
            for (size_t k = 0; k < g.inputs.size(); k++)
                if (g.inputs[k].node == buffer.node) fill(b, inputs[k]);
    }
    RunResult result;
    for (const auto& step : s.steps) {
        if (const auto* kernel = std::get_if<fusion::KernelStep>(&step)) {
            std::vector<void*> pointers;
            std::vector<uint64_t> words;
            for (uint32_t b : kernel->buffers) pointers.push_back(base[b]);
            for (graph::NodeId node : kernel->scalars)
                for (size_t k = 0; k < g.scalars.size(); k++)
                    if (g.scalars[k].node == node) {
                        HostArray one(scalars[k].dtype, {});
                        one.set(0, scalars[k]);
                        uint64_t word = 0;
                        std::copy(one.bytes.begin(), one.bytes.end(), reinterpret_cast<uint8_t*>(&word));
                        words.push_back(word);
                    }
            auto e = runtime::Executable::load(codegen::compile(s.nests[kernel->nest], codegen::host_target(), level));
            if (!e) throw std::runtime_error(e.reason());
            result.flags |= (*e)->launch(pointers.data(), words.data(), threads);
            continue;
        }
        const auto& external = std::get<fusion::ExternStep>(step);
        std::vector<HostArray> uses;
        for (graph::NodeId use : g.externs[external.extern_index].uses) uses.push_back(dense(static_cast<uint32_t>(of_node[use.index])));
        const std::vector<HostArray> made = call(external.extern_index, uses);
        for (uint32_t b = 0; b < s.buffers.size(); b++) {
            const graph::Node& node = g[s.buffers[b].node];
            if (s.buffers[b].node == external.node) fill(b, made[0]);
            else if (node.op == graph::Op::extern_result && node.operands[0] == external.node) fill(b, made[static_cast<size_t>(node.ints[0])]);
        }
    }
    for (const graph::Output& output : g.outputs) result.outputs.push_back(dense(static_cast<uint32_t>(of_node[output.node.index])));
    return result;
}

} // namespace dyno::testing
