// One replay in flight: values, memory and what was made so far. Made from a LaunchPlan, used again by later runs.
// Nothing here is seen by the user before commit: dropping a RunState leaves no trace. Needs the GIL, launching excepted.
#pragma once
#include "compiler/replay/launch_plan.h"
#include <exception>
#include <vector>

namespace dyno::replay {

/// Thrown inside a compute or prepare phase, and caught by run(): the segment is to run natively. Carries nothing: Python raises the error.
struct ComputeFailed : std::exception {};

/// random_state.cpp: the states of global random generators before a replay drew from them.
class RandomStates {
  public:
    /// A call that draws is next: its generator's state is kept, once.
    void before(capture::ExternTemplate::Draws draws);
    /// The replay failed: as if nothing had been drawn.
    void put_back();
    void forget() { states_[1].reset(), states_[2].reset(); }

  private:
    Owned<> states_[3]; // by Draws
};

struct RunState {
    RandomStates random;
    explicit RunState(LaunchPlan& plan);
    ~RunState();
    RunState(const RunState&) = delete;
    RunState& operator=(const RunState&) = delete;
    /// Drops everything that was made, so that the next run starts afresh. May run user code (deallocation).
    void clear();

    // ---- values.cpp. All answer borrowed references owned by this or by the sources, and throw ComputeFailed.
    PyObject* value(const ValueRef& ref);             // not for `none`
    PyObject* value_or_null(const ValueRef& ref) { return ref.kind == ValueRef::none ? nullptr : value(ref); }
    PyObject* object(uint32_t index);                 // of LaunchPlan::objects
    PyObject* scalar(uint32_t step);
    PyObject* fresh(uint32_t index);
    uint64_t scalar_bits(uint32_t graph_scalar);

    // ---- memory
    bool read_memories();                             // data pointers of inputs; false: one is no longer readable
    void* buffer(uint32_t index);                     // makes the object that owns it where needed
    void* arena_at(int64_t offset);
    void* device_arena_at(int64_t offset);            // a tensor of torch's allocator: what it held may be in use until the stream has passed

    LaunchPlan& plan;
    const Inputs* inputs = nullptr;
    std::vector<PyObject*> sources;                   // borrowed; those in plan.held counted once `holding`
    bool holding = false;
    std::vector<void*> data;                          // by memory: the first element
    std::vector<unsigned char> numbers;               // 16 bytes a memory: values of NumPy scalar inputs
    std::vector<PyObject*> objects, scalars, fresh_objects, outcomes; // owned
    std::vector<void*> buffers;
    std::vector<PyObject*> arguments;                 // of the extern that is being called
    std::vector<PyObject*> old_values;                // owned; what commit replaced, in recorded order
    void* arena = nullptr;
    int64_t arena_size = 0;
    PyObject* device_arena = nullptr;                 // owned
    uint32_t kernels = 0, externs = 0;
    uint32_t flags = 0;                               // of all launches
    bool released = false;                            // the GIL was released
};

/// compute.cpp: all steps in order. Throws ComputeFailed.
void compute(RunState& run);

/// commit.cpp: the effects, prepared and then stored. prepare() throws ComputeFailed. store() runs no user code and cannot fail, but for want of
/// memory: then it has undone everything and answers false.
class Commit {
  public:
    explicit Commit(RunState& run) : run_(run) {}
    ~Commit();
    Commit(const Commit&) = delete;
    Commit& operator=(const Commit&) = delete;
    void prepare();
    bool store();

  private:
    /// A Python store. Everything is owned; `old` is what lay there before.
    struct Store {
        const capture::Effect* effect;
        PyObject *target, *key, *value, *old;
        Py_ssize_t index;
    };
    /// Elements to be copied into a tensor or array.
    struct Copy {
        const capture::Effect* effect;
        PyObject* target; // borrowed from the sources
        char* to;
        const char* from;
        const int64_t *dims, *to_strides, *from_strides; // in elements
        int ndim;
        int64_t element;
        int device = -1;   // a GPU: both sides are dense and alike
        void* stream = nullptr;
    };
    void prepare_store(const capture::Effect& effect);
    void prepare_inplace(const capture::Effect& effect);
    bool perform(Store& store);
    void undo(size_t count);
    RunState& run_;
    std::vector<Store> stores_;
    std::vector<Copy> copies_;
    /// A value that an earlier copy would overwrite, in row-major order.
    struct Scratch {
        std::vector<char> bytes;
        std::vector<int64_t> strides;
    };
    std::vector<Scratch> scratch_;
};

/// warnings.cpp: while it lives, a warning that would be shown is raised, on this thread.
class FailOnWarnings {
  public:
    FailOnWarnings();
    ~FailOnWarnings();
    FailOnWarnings(const FailOnWarnings&) = delete;
    FailOnWarnings& operator=(const FailOnWarnings&) = delete;

  private:
    Owned<> before_, ours_;
};

/// numpy_errors.cpp: while it lives, NumPy raises where the user's errstate would warn, call, print or raise, so that nothing is shown in compute.
class RaiseNumpyErrors {
  public:
    RaiseNumpyErrors();
    ~RaiseNumpyErrors();
    RaiseNumpyErrors(const RaiseNumpyErrors&) = delete;
    RaiseNumpyErrors& operator=(const RaiseNumpyErrors&) = delete;

  private:
    Owned<> old_; // keyword arguments that bring the old state back
};

} // namespace dyno::replay
