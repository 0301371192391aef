// The compute phase: kernels and eager calls in the schedule's order. Writes only memory the replay owns; a failure of any kind is ComputeFailed
// and leaves nothing behind. Without the GIL only launches run.
#include "compiler/frame/frame_state.h"
#include "compiler/python/ambient.h"
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include "compiler/python/torch_door.h"
#include "compiler/replay/interrupt.h"
#include "compiler/replay/run_state.h"
#include "compiler/support/check.h"
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <thread>

namespace dyno::replay {

std::atomic<bool> interrupt_requested{false};

namespace {

constexpr int most_parameters = 32; // of one launch, before the heap is asked

/// True once for each request.
bool interrupted() { return interrupt_requested.load(std::memory_order_relaxed) && interrupt_requested.exchange(false); }

void poll() {
    if (interrupted()) throw ComputeFailed();
}

int threads_to_use(bool parallel) {
    if (!parallel) return 1;
    const int of_torch = python::torch_num_threads();
    return of_torch > 0 ? of_torch : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// The operands of one launch, ready for a thread without the GIL.
struct Launch {
    const runtime::Executable* executable;
    void* const* buffers;
    const uint64_t* scalars;
};

/// Resolves what a launch needs: makes the objects it writes.
void gather(RunState& run, const fusion::KernelStep& step, void** buffers, uint64_t* scalars) {
    for (size_t i = 0; i < step.buffers.size(); ++i) buffers[i] = run.buffer(step.buffers[i]);
    for (size_t i = 0; i < step.scalars.size(); ++i) scalars[i] = run.scalar_bits(run.plan.scalar_of_node.at(step.scalars[i].index));
}

const fusion::KernelStep& kernel_at(const LaunchPlan& plan, uint32_t step) { return std::get<fusion::KernelStep>(plan.product.schedule.steps[step]); }

void run_kernels_holding(RunState& run, const Stretch& stretch) {
    const int threads = threads_to_use(stretch.parallel);
    for (uint32_t i = stretch.first; i < stretch.end; ++i) {
        poll();
        const fusion::KernelStep& step = kernel_at(run.plan, i);
        void* few_buffers[most_parameters];
        uint64_t few_scalars[most_parameters];
        std::vector<void*> many_buffers;
        std::vector<uint64_t> many_scalars;
        void** buffers = few_buffers;
        uint64_t* scalars = few_scalars;
        if (step.buffers.size() > most_parameters) many_buffers.resize(step.buffers.size()), buffers = many_buffers.data();
        if (step.scalars.size() > most_parameters) many_scalars.resize(step.scalars.size()), scalars = many_scalars.data();
        gather(run, step, buffers, scalars);
        run.flags |= run.plan.product.executables[step.nest]->launch(buffers, scalars, threads);
        run.kernels++;
    }
}

/// Enqueues on torch's current stream, behind what eager enqueued, and does not wait.
void run_kernels_on_device(RunState& run, const Stretch& stretch) {
    void* stream = nullptr;
    if (!python::torch_cuda_stream(run.plan.product.cuda_device, stream)) throw ComputeFailed();
    std::vector<void*> buffers;
    std::vector<uint64_t> scalars;
    for (uint32_t i = stretch.first; i < stretch.end; ++i) {
        poll();
        const fusion::KernelStep& step = kernel_at(run.plan, i);
        buffers.resize(step.buffers.size());
        scalars.resize(step.scalars.size());
        gather(run, step, buffers.data(), scalars.data());
        const runtime::cuda::Kernel& kernel = *run.plan.product.kernels[step.nest];
        void* scratch = kernel.scratch_bytes() ? run.device_arena_at(run.plan.scratch_offset) : nullptr;
        if (!kernel.launch(buffers.data(), scalars.data(), scratch, stream)) throw ComputeFailed();
        run.kernels++;
    }
}

/// All operands first, then the launches, so that other Python threads go on meanwhile.
void run_kernels_released(RunState& run, const Stretch& stretch) {
    size_t buffer_count = 0, scalar_count = 0;
    for (uint32_t i = stretch.first; i < stretch.end; ++i) {
        buffer_count += kernel_at(run.plan, i).buffers.size();
        scalar_count += kernel_at(run.plan, i).scalars.size();
    }
    std::vector<void*> buffers(buffer_count);
    std::vector<uint64_t> scalars(scalar_count);
    std::vector<Launch> launches;
    void** next_buffer = buffers.data();
    uint64_t* next_scalar = scalars.data();
    for (uint32_t i = stretch.first; i < stretch.end; ++i) {
        const fusion::KernelStep& step = kernel_at(run.plan, i);
        gather(run, step, next_buffer, next_scalar);
        launches.push_back({run.plan.product.executables[step.nest].get(), next_buffer, next_scalar});
        next_buffer += step.buffers.size();
        next_scalar += step.scalars.size();
    }
    const int threads = threads_to_use(stretch.parallel);
    bool stop = false;
    Py_BEGIN_ALLOW_THREADS;
    for (const Launch& launch : launches) {
        if ((stop = interrupted())) break;
        run.flags |= launch.executable->launch(launch.buffers, launch.scalars, threads);
        run.kernels++;
    }
    Py_END_ALLOW_THREADS;
    run.released = true;
    if (stop) throw ComputeFailed();
}

/// A size-1 axis may have any stride: no address depends on it. `scale` turns elements into the unit of `strides`.
bool same_layout(const int64_t* sizes, const int64_t* strides, int ndim, const std::vector<int64_t>& dims, const std::vector<int64_t>& expected, int64_t scale) {
    if (static_cast<size_t>(ndim) != dims.size()) return false;
    bool empty = false;
    for (int i = 0; i < ndim; ++i) {
        if (sizes[i] != dims[i]) return false;
        empty = empty || dims[i] == 0;
    }
    if (empty || expected.empty()) return true; // no layout was promised
    if (expected.size() != dims.size()) return false;
    for (int i = 0; i < ndim; ++i)
        if (dims[i] != 1 && strides[i] != expected[i] * scale) return false;
    return true;
}

/// The recorded layout is what every consumer was compiled for.
bool as_recorded(PyObject* object, const graph::Type& type, const std::vector<int64_t>& strides) {
    if (type.domain == graph::Domain::torch) {
        python::TensorView view;
        return python::read_tensor(object, view) && view.dtype == type.dtype && same_layout(view.sizes, view.strides, view.ndim, type.dims, strides, 1);
    }
    python::ArrayView view;
    return python::read_array(object, view) && view.dtype == type.dtype &&
           same_layout(view.shape, view.strides, view.ndim, type.dims, strides, size_of(type.dtype));
}

/// Takes an object (borrowed) that an eager call returned for entry `place` of the plan's objects.
void accept_object(RunState& run, uint32_t place, PyObject* object, const std::vector<int64_t>& strides) {
    const NodeObject& node = run.plan.objects[place];
    const graph::Type& type = run.plan.product.graph[node.node].type;
    if (!node.numpy_scalar) {
        if (!as_recorded(object, type, strides)) throw ComputeFailed();
    } else {
        alignas(16) unsigned char value[16];
        if (python::read_numpy_scalar(object, value) != type.dtype) throw ComputeFailed();
        if (node.returned != nowhere) std::memcpy(run.buffer(node.returned), value, static_cast<size_t>(size_of(type.dtype)));
    }
    Py_XSETREF(run.objects[place], Py_NewRef(object));
}

/// Takes over a part of a call's result (borrowed) as the outcome it was recorded as.
void accept(RunState& run, uint32_t index, PyObject* object) {
    const capture::Outcome& outcome = run.plan.segment.outcomes[index];
    if (outcome.type && Py_TYPE(object) != outcome.type) throw ComputeFailed();
    if (outcome.version >= 0 && python::version_of(object) != static_cast<uint32_t>(outcome.version)) throw ComputeFailed();
    const uint32_t place = outcome.node.valid() ? run.plan.object_of_original(outcome.node.index) : nowhere;
    if (place != nowhere) accept_object(run, place, object, outcome.strides);
    Py_XSETREF(run.outcomes[index], Py_NewRef(object));
}

/// The step's own node, where no outcome named it: the result of a twin, or the first of several results.
void accept_step_value(RunState& run, uint32_t place, const capture::ExternTemplate& call, PyObject* result) {
    if (place == nowhere || run.objects[place]) return;
    const NodeObject& node = run.plan.objects[place];
    if (!call.results.empty()) {
        PyObject* first = run.outcomes[call.results.front()];
        if (first && node.returned != nowhere) Py_XSETREF(run.objects[place], Py_NewRef(first));
        return;
    }
    const auto& buffers = run.plan.product.schedule.buffers;
    accept_object(run, place, result, node.returned == nowhere ? std::vector<int64_t>() : buffers[node.returned].strides);
}

/// A call that made its result and now hands an operand back is another call: what is changed in the one would change the other.
bool hands_back_operand(const RunState& run, const capture::ExternTemplate& call, std::span<PyObject* const> args, PyObject* result) {
    if (std::find(args.begin(), args.end(), result) == args.end() || call.results.empty() || PyLong_Check(result) || PyFloat_Check(result)) return false;
    return std::none_of(call.results.begin(), call.results.end(), [&](uint32_t index) { return run.plan.segment.outcomes[index].is_view; });
}

void run_extern(RunState& run, const Stretch& stretch) {
    const auto& step = std::get<fusion::ExternStep>(run.plan.product.schedule.steps[stretch.first]);
    poll();
    const capture::ExternTemplate& call = run.plan.segment.externs.at(step.extern_index);
    run.random.before(call.draws);
    PyObject** args = run.arguments.data() + 1; // the place before is the callee's to use
    for (size_t i = 0; i < call.args.size(); ++i) args[i] = run.value(call.args[i]);
    const size_t named = call.kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(call.kwnames.get())) : 0;
    std::optional<python::GradMode> mode;
    if (call.grad_mode >= 0) mode.emplace(call.grad_mode != 0);
    auto result = Owned<>::steal(
        PyObject_Vectorcall(call.callable.get(), args, (call.args.size() - named) | PY_VECTORCALL_ARGUMENTS_OFFSET, call.kwnames.get()));
    mode.reset();
    run.externs++;
    if (!result) throw ComputeFailed();
    if (hands_back_operand(run, call, {args, call.args.size()}, result.get())) throw ComputeFailed();
    // A sequence was recorded with all its items: one of another length is another result.
    const auto item_of = [&](uint32_t index) { return run.plan.segment.outcomes.at(index).item; };
    const auto items = std::count_if(call.results.begin(), call.results.end(), [&](uint32_t index) { return item_of(index) >= 0; });
    const bool sequence = PyTuple_Check(result.get()) || PyList_Check(result.get());
    if (items && (!sequence || PySequence_Fast_GET_SIZE(result.get()) != items)) throw ComputeFailed();
    for (uint32_t index : call.results) accept(run, index, item_of(index) < 0 ? result.get() : PySequence_Fast_GET_ITEM(result.get(), item_of(index)));
    accept_step_value(run, stretch.object, call, result.get());
}

/// Floating-point flags that NumPy would have warned or raised about.
bool errstate_minds(uint32_t flags) {
    const uint64_t state = python::numpy_errstate();
    auto minds = [&](uint32_t flag, int shift) { return (flags & flag) && (state >> shift & 7); };
    return minds(runtime::divide_by_zero, 0) || minds(runtime::overflow, 3) || minds(runtime::underflow, 6) || minds(runtime::invalid, 9);
}

} // namespace

void compute(RunState& run) {
    const LaunchPlan& plan = run.plan;
    std::optional<FailOnWarnings> silent;
    if (plan.extern_count) silent.emplace();
    std::optional<RaiseNumpyErrors> quiet;
    if (plan.segment.numpy_externs && plan.extern_count) quiet.emplace();
    std::optional<frame::Quiet> alone; // the Python of a library that is called as a whole is none to compile
    if (plan.extern_count) alone.emplace();
    for (const Stretch& stretch : plan.stretches) {
        if (stretch.first == stretch.end) run_extern(run, stretch);
        else if (stretch.on_device) run_kernels_on_device(run, stretch);
        else if (stretch.releases) run_kernels_released(run, stretch);
        else run_kernels_holding(run, stretch);
    }
    poll();
    // A number nobody used yet would have raised in eager all the same.
    for (uint32_t i = 0; i < run.scalars.size(); ++i) run.scalar(i);
    if (run.flags & runtime::integer_zero_division) throw ComputeFailed();
    if (plan.segment.numpy_flags && run.flags && errstate_minds(run.flags)) throw ComputeFailed();
}

} // namespace dyno::replay
