// Memory of a replay: addresses of inputs, the arena, and the life of a RunState.
#include "compiler/python/array.h"
#include "compiler/python/make_tensor.h"
#include "compiler/python/tensor.h"
#include "compiler/replay/run_state.h"
#include "compiler/support/check.h"
#include "compiler/support/fault.h"
#include <cstdlib>

namespace dyno::replay {
namespace {

/// An arena up to this size stays with the plan between runs; a larger one goes back to the bounded cache of blocks.
constexpr int64_t kept_arena_bytes = python::large_bytes;

void drop_all(std::vector<PyObject*>& list) {
    for (PyObject*& object : list)
        if (PyObject* old = std::exchange(object, nullptr)) Py_DECREF(old);
}

} // namespace

RunState::RunState(LaunchPlan& of) : plan(of) {
    sources.resize(plan.segment.sources.size());
    data.resize(plan.memories.size());
    numbers.resize(plan.memories.size() * 16);
    objects.resize(plan.objects.size());
    scalars.resize(plan.segment.scalar_steps.size());
    fresh_objects.resize(plan.segment.fresh.size());
    outcomes.resize(plan.segment.outcomes.size());
    buffers.resize(plan.product.schedule.buffers.size());
    arguments.resize(plan.most_arguments + 1);
}

RunState::~RunState() {
    clear();
    if (arena) std::free(arena);
}

void RunState::clear() {
    if (arena && arena_size > kept_arena_bytes) {
        python::give_block(arena);
        arena = nullptr;
    }
    std::fill(buffers.begin(), buffers.end(), nullptr);
    kernels = externs = flags = 0;
    Py_CLEAR(device_arena);
    released = false;
    // User code may run from here on (values dying): nothing of this state is read any more.
    drop_all(old_values);
    old_values.clear();
    drop_all(fresh_objects);
    drop_all(objects);
    drop_all(outcomes);
    drop_all(scalars);
    if (std::exchange(holding, false) && !fault(6))
        for (uint32_t source : plan.held) Py_DECREF(sources[source]);
}

bool RunState::read_memories() {
    for (size_t i = 0; i < plan.memories.size(); ++i) {
        const InputMemory& memory = plan.memories[i];
        PyObject* object = sources[memory.source];
        if (memory.number) {
            void* value = numbers.data() + 16 * i;
            if (!python::numpy_ready() || python::read_numpy_scalar(object, value) == DType::none) return false;
            data[i] = value;
        } else if (memory.numpy) {
            python::ArrayView view;
            if (!python::read_array(object, view)) return false;
            data[i] = view.data;
        } else {
            python::TensorView view;
            if (!python::read_tensor(object, view)) return false;
            data[i] = view.data;
        }
    }
    return true;
}

void* RunState::arena_at(int64_t offset) {
    if (!arena) {
        arena_size = plan.arena_bytes;
        // Both are released without a size, by the way that the size chose.
        arena = arena_size > kept_arena_bytes ? python::take_block(static_cast<size_t>(arena_size))
                                              : std::aligned_alloc(64, static_cast<size_t>((arena_size + 63) / 64 * 64));
        if (!arena) throw ComputeFailed();
    }
    return static_cast<char*>(arena) + offset;
}

void* RunState::device_arena_at(int64_t offset) {
    if (!device_arena) {
        const int64_t one = 1;
        const python::Device device{python::device_cuda, static_cast<int8_t>(plan.product.cuda_device)};
        device_arena = python::make_tensor(DType::u8, device, 1, &plan.arena_bytes, &one);
        if (!device_arena) throw ComputeFailed();
    }
    python::TensorView view;
    if (!python::read_tensor(device_arena, view)) throw ComputeFailed();
    return static_cast<char*>(view.data) + offset;
}

void* RunState::buffer(uint32_t index) {
    void*& known = buffers[index];
    if (known) return known;
    if (plan.buffer_input[index] != nowhere) return known = data[plan.memory_of_input[plan.buffer_input[index]]];
    if (plan.arena_offset[index] >= 0) return known = plan.on_device[index] ? device_arena_at(plan.arena_offset[index]) : arena_at(plan.arena_offset[index]);
    PyObject* owner = object(plan.buffer_object[index]);
    python::TensorView tensor;
    python::ArrayView array;
    if (python::read_tensor(owner, tensor)) return known = tensor.data;
    if (python::numpy_ready() && python::read_array(owner, array)) return known = array.data;
    throw ComputeFailed();
}

PlanBytes bytes_of(const LaunchPlan& plan) {
    PlanBytes bytes;
    for (const auto& executable : plan.product.executables)
        if (executable) bytes.code += executable->code_bytes();
    if (plan.spare && plan.spare->arena) bytes.buffers += static_cast<size_t>(plan.spare->arena_size);
    return bytes;
}

} // namespace dyno::replay
