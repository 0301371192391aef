// Checked replays: every output is computed again by the eager calls (twins) that recording kept, on the untouched inputs, and compared.
// Eager calls that the replay made itself are not repeated: their results are taken, so random numbers stay as they are.
#include "compiler/graph/op_info.h"
#include "compiler/python/ambient.h"
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include "compiler/replay/run_state.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace dyno::replay {
namespace {

using graph::Equality;
using graph::NodeId;
using graph::Op;

/// A value's elements, wherever they lie.
struct Elements {
    DType dtype = DType::none;
    const char* data = nullptr;
    std::vector<int64_t> dims, strides; // strides in bytes
    unsigned char number[16] = {};      // a NumPy scalar's own
    Owned<> host;                       // the copy that was made of a GPU's tensor
};

bool elements_of(PyObject* object, Elements& e) {
    python::TensorView tensor;
    python::ArrayView array;
    if (python::read_tensor(object, tensor)) {
        if (tensor.device_type != python::device_cpu) {
            e.host = Owned<>::steal(PyObject_CallMethod(object, "cpu", nullptr));
            if (!e.host) PyErr_Clear();
            if (!e.host || !python::read_tensor(e.host.get(), tensor) || tensor.device_type != python::device_cpu) return false;
        }
        e.dtype = tensor.dtype, e.data = static_cast<const char*>(tensor.data);
        e.dims.assign(tensor.sizes, tensor.sizes + tensor.ndim);
        for (int i = 0; i < tensor.ndim; ++i) e.strides.push_back(tensor.strides[i] * size_of(tensor.dtype));
        return true;
    }
    if (!python::numpy_ready()) return false;
    if (python::read_array(object, array)) {
        e.dtype = array.dtype, e.data = static_cast<const char*>(array.data);
        e.dims.assign(array.shape, array.shape + array.ndim);
        e.strides.assign(array.strides, array.strides + array.ndim);
        return true;
    }
    e.dtype = python::read_numpy_scalar(object, e.number);
    e.data = reinterpret_cast<const char*>(e.number);
    return e.dtype != DType::none;
}

double number_at(const char* at, DType dtype) {
    auto load = [&]<class T>(T value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    switch (dtype) {
    case DType::f16: return static_cast<double>(std::bit_cast<_Float16>(load(uint16_t{})));
    case DType::bf16: return std::bit_cast<float>(static_cast<uint32_t>(load(uint16_t{})) << 16);
    case DType::f32: return load(float{});
    default: return load(double{});
    }
}

double tolerance_of(DType dtype) {
    switch (dtype) {
    case DType::f16: return 2e-3;
    case DType::bf16: return 1.6e-2;
    case DType::f32: return 1e-5;
    default: return 1e-12;
    }
}

/// Walks all elements; calls visit(a, b) with their addresses until it answers false.
template <class Visit>
bool each_pair(const Elements& a, const Elements& b, Visit&& visit) {
    std::vector<int64_t> index(a.dims.size());
    for (int64_t d : a.dims)
        if (d == 0) return true;
    const char *x = a.data, *y = b.data;
    for (;;) {
        if (!visit(x, y)) return false;
        size_t axis = a.dims.size();
        for (; axis > 0; --axis) {
            const size_t i = axis - 1;
            x += a.strides[i], y += b.strides[i];
            if (++index[i] < a.dims[i]) break;
            x -= a.dims[i] * a.strides[i], y -= a.dims[i] * b.strides[i];
            index[i] = 0;
        }
        if (axis == 0) return true;
    }
}

std::string dims_text(const std::vector<int64_t>& dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

/// Empty if equal enough. `made` is ours, `eager` the twin's.
std::string difference(const Elements& made, const Elements& eager, bool exact) {
    if (made.dtype != eager.dtype) return std::string(name_of(made.dtype)) + " in place of " + std::string(name_of(eager.dtype));
    if (made.dims != eager.dims) return dims_text(made.dims) + " in place of " + dims_text(eager.dims);
    const auto size = static_cast<size_t>(size_of(made.dtype));
    double largest = 0;
    if (is_float(made.dtype)) {
        each_pair(made, eager, [&](const char*, const char* y) {
            const double v = std::fabs(number_at(y, made.dtype));
            if (std::isfinite(v)) largest = std::max(largest, v);
            return true;
        });
    }
    std::string text;
    const double relative = tolerance_of(made.dtype);
    each_pair(made, eager, [&](const char* x, const char* y) {
        if (std::memcmp(x, y, size) == 0) return true;
        if (!is_float(made.dtype)) return text = "an element differs", is_complex(made.dtype) && !exact;
        const double a = number_at(x, made.dtype), b = number_at(y, made.dtype);
        if (std::isnan(a) && std::isnan(b)) return true;
        if (!exact && std::fabs(a - b) <= relative * (std::fabs(b) + largest)) return true;
        text = std::to_string(a) + " in place of " + std::to_string(b);
        return false;
    });
    return text;
}

class Twins {
  public:
    explicit Twins(RunState& run) : run_(run), graph_(run.plan.original()) {}
    /// The eager value of a node, or null if no twin leads to it. Throws ComputeFailed where an eager call fails.
    PyObject* eager(NodeId node);
    /// Whether every op between the node and what eager calls made is exact.
    bool exact(NodeId node);

  private:
    PyObject* call(uint32_t twin, NodeId node);
    Owned<> argument(const ValueRef& arg);
    PyObject* made_by_call(NodeId node) {
        const uint32_t object = run_.plan.object_of_original(node.index);
        return object == nowhere ? nullptr : run_.object(object);
    }
    RunState& run_;
    const graph::Graph& graph_;
    std::unordered_map<uint32_t, Owned<>> known_;
    std::unordered_map<uint32_t, bool> exact_;
};

PyObject* Twins::eager(NodeId node) {
    const graph::Node& n = graph_[node];
    if (n.op == Op::input) {
        for (size_t i = 0; i < graph_.inputs.size(); ++i)
            if (graph_.inputs[i].node == node) return run_.sources[run_.plan.segment.input_sources[i]];
        return nullptr;
    }
    if (n.op == Op::extern_call || n.op == Op::extern_result) return made_by_call(node);
    if (auto at = known_.find(node.index); at != known_.end()) return at->second.get();
    if (n.twin < 0) return nullptr;
    auto value = Owned<>::steal(call(static_cast<uint32_t>(n.twin), node));
    return (known_[node.index] = std::move(value)).get();
}

/// An argument as eager's call had it: lists and tuples, as of torch.cat, hold what twins made. Empty if no twin leads to it.
Owned<> Twins::argument(const ValueRef& arg) {
    if (arg.kind == ValueRef::node) return Owned<>::borrow(eager({arg.index}));
    if (arg.kind != ValueRef::fresh) return Owned<>::borrow(run_.value(arg));
    const capture::NewObject& made = run_.plan.segment.fresh.at(arg.index);
    if (made.kind != capture::NewObject::list && made.kind != capture::NewObject::tuple) return Owned<>::borrow(run_.value(arg));
    auto items = Owned<>::steal(PyList_New(0));
    for (const ValueRef& part : made.parts) {
        const Owned<> item = argument(part);
        if (!item) return {};
        if (PyList_Append(items.get(), item.get()) < 0) throw ComputeFailed();
    }
    return made.kind == capture::NewObject::list ? std::move(items) : Owned<>::steal(PyList_AsTuple(items.get()));
}

PyObject* Twins::call(uint32_t twin, NodeId node) {
    const Segment& segment = run_.plan.segment;
    const capture::ExternTemplate& call = segment.externs.at(twin);
    std::vector<Owned<>> held;
    std::vector<PyObject*> args;
    for (const ValueRef& arg : call.args) {
        held.push_back(argument(arg));
        if (!held.back()) return nullptr;
        args.push_back(held.back().get());
    }
    const size_t named = call.kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(call.kwnames.get())) : 0;
    std::optional<python::GradMode> mode;
    if (call.grad_mode >= 0) mode.emplace(call.grad_mode != 0);
    auto result = Owned<>::steal(PyObject_Vectorcall(call.callable.get(), args.data(), args.size() - named, call.kwnames.get()));
    if (!result) throw ComputeFailed();
    for (uint32_t index : call.results) {
        const capture::Outcome& outcome = segment.outcomes.at(index);
        if (outcome.node == node && outcome.item >= 0) return PySequence_GetItem(result.get(), outcome.item);
    }
    return result.release();
}

bool Twins::exact(NodeId node) {
    if (auto at = exact_.find(node.index); at != exact_.end()) return at->second;
    const graph::Node& n = graph_[node];
    bool all = graph::info(n.op).equality == Equality::exact;
    if (n.op != Op::extern_call && n.op != Op::extern_result)
        for (NodeId operand : n.operands) all = exact(operand) && all;
    return exact_[node.index] = all;
}

/// Where a node's computed value lies: its object, or the memory of an in-place value.
bool computed(RunState& run, NodeId node, Elements& e) {
    const LaunchPlan& plan = run.plan;
    if (const uint32_t object = plan.object_of_original(node.index); object != nowhere) return elements_of(run.object(object), e);
    const auto& buffers = plan.product.schedule.buffers;
    for (uint32_t b = 0; b < buffers.size(); ++b) {
        if (buffers[b].node.index != plan.product_node.at(node.index) || buffers[b].kind == fusion::Buffer::input || plan.on_device[b]) continue;
        e.dtype = buffers[b].dtype, e.dims = buffers[b].dims, e.data = static_cast<const char*>(run.buffer(b));
        for (int64_t stride : buffers[b].strides) e.strides.push_back(stride * size_of(e.dtype));
        return true;
    }
    return false;
}

} // namespace

std::string compare_with_twins(RunState& run, uint32_t& compared) {
    Twins twins(run);
    const graph::Graph& graph = run.plan.original();
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
        const NodeId node = graph.outputs[i].node;
        if (graph[node].op == Op::input || graph[node].op == Op::extern_call || graph[node].op == Op::extern_result) continue;
        PyObject* eager = twins.eager(node);
        Elements made, expected;
        if (!eager || !elements_of(eager, expected) || !computed(run, node, made)) continue;
        compared++;
        const std::string text = difference(made, expected, twins.exact(node));
        if (text.empty()) continue;
        const SourceSpan from = graph[node].from;
        return std::string(graph::info(graph[node].op).name) + " at line " + std::to_string(from.line) + ": " + text;
    }
    return {};
}

} // namespace dyno::replay
