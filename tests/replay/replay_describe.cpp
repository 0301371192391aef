// From a dict to a Segment with a compiled product: see replay_describe.h. Every kernel step computes one elementwise node.
#include "tests/replay/replay_describe.h"
#include "compiler/graph/op_info.h"
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include <map>
#include <stdexcept>
#include <string>

namespace dyno::probe {
namespace {

using capture::Effect;
using capture::Guard;
using capture::NewObject;
using capture::ScalarStep;
using capture::Segment;
using capture::Source;
using capture::ValueRef;

[[noreturn]] void malformed(const std::string& what) { throw std::runtime_error(what); }

template <class E>
E named(const std::map<std::string, E>& names, const std::string& name) {
    auto at = names.find(name);
    if (at == names.end()) malformed("unknown kind " + name);
    return at->second;
}

/// A borrowed view of a Python value, with the few readings needed here.
struct Value {
    PyObject* p;
    Value operator[](const char* key) const { return {PyDict_GetItemString(p, key)}; }
    Value operator[](Py_ssize_t i) const {
        PyObject* item = PySequence_GetItem(p, i);
        if (!item) malformed("an item is missing");
        Py_DECREF(item); // the container keeps it
        return {item};
    }
    explicit operator bool() const { return p && p != Py_None; }
    bool is_true() const { return p && PyObject_IsTrue(p) > 0; }
    Py_ssize_t size() const { return *this ? PySequence_Size(p) : 0; }
    int64_t integer(int64_t otherwise = 0) const { return *this ? PyLong_AsLongLong(p) : otherwise; }
    uint32_t index(uint32_t otherwise = 0) const { return static_cast<uint32_t>(integer(otherwise)); }
    std::string text() const {
        const char* t = p ? PyUnicode_AsUTF8(p) : nullptr;
        if (!t) malformed("a text is missing");
        return t;
    }
    std::vector<int64_t> integers() const {
        std::vector<int64_t> all;
        for (Py_ssize_t i = 0; i < size(); ++i) all.push_back((*this)[i].integer());
        return all;
    }
    Owned<> own() const { return Owned<>::borrow(p); }
};

ValueRef ref_of(Value v) {
    static const std::map<std::string, ValueRef::Kind> kinds = {{"constant", ValueRef::constant}, {"source", ValueRef::source}, {"node", ValueRef::node},
                                                                {"scalar", ValueRef::scalar},     {"fresh", ValueRef::fresh},   {"outcome", ValueRef::outcome}};
    if (!v) return {};
    return {named(kinds, v[Py_ssize_t{0}].text()), v[1].index()};
}

std::vector<ValueRef> refs_of(Value v) {
    std::vector<ValueRef> refs;
    for (Py_ssize_t i = 0; i < v.size(); ++i) refs.push_back(ref_of(v[i]));
    return refs;
}

void add_sources(Segment& segment, Value list) {
    static const std::map<std::string, Source::Kind> kinds = {
        {"slot", Source::slot}, {"global", Source::global}, {"builtin", Source::builtin}, {"function", Source::function}, {"dict_item", Source::dict_item},
        {"list_item", Source::list_item}, {"tuple_item", Source::tuple_item}, {"attribute", Source::attribute}, {"instance_dict", Source::instance_dict},
        {"cell_contents", Source::cell_contents}, {"closure", Source::closure}, {"default", Source::default_}, {"kwdefault", Source::kwdefault},
        {"function_globals", Source::function_globals}, {"code_of", Source::code_of}, {"method_self", Source::method_self}, {"method_function", Source::method_function},
        {"type_of", Source::type_of}, {"module_dict", Source::module_dict}, {"anchored", Source::anchored}, {"globals_dict", Source::globals_dict}};
    for (Py_ssize_t i = 0; i < list.size(); ++i) {
        const Value v = list[i];
        Source source{named(kinds, v["kind"].text()), v["base"].index(), v["index"].index()};
        if (PyObject* name = v["name"].p) {
            Py_INCREF(name);
            if (PyUnicode_CheckExact(name)) PyUnicode_InternInPlace(&name);
            source.name = Owned<>::steal(name);
        }
        segment.sources.push_back(std::move(source));
    }
}

void add_guards(Segment& segment, Value list) {
    static const std::map<std::string, Guard::Kind> kinds = {
        {"is", Guard::is}, {"type", Guard::type}, {"equal", Guard::equal}, {"truth", Guard::truth}, {"tensor", Guard::tensor}, {"array", Guard::array},
        {"numpy_scalar", Guard::numpy_scalar}, {"length", Guard::length}, {"keys", Guard::keys}, {"absent", Guard::absent},
        {"no_attribute", Guard::no_attribute}, {"type_attribute", Guard::type_attribute}, {"same", Guard::same}, {"distinct", Guard::distinct},
        {"memory", Guard::memory}, {"number_type", Guard::number_type}, {"grad_mode", Guard::grad_mode}};
    for (Py_ssize_t i = 0; i < list.size(); ++i) {
        const Value v = list[i];
        Guard guard{named(kinds, v["kind"].text()), v["source"].index(), v["other"].index(), v["expected"].index(Guard::none_), v["name"].index()};
        guard.value = ref_of(v["value"]);
        guard.from.line = static_cast<int32_t>(i + 1);
        segment.guards.push_back(guard);
    }
}

capture::ArrayFacts facts_of(PyObject* object) {
    capture::ArrayFacts facts{};
    python::TensorView tensor;
    python::ArrayView array;
    facts.type = Py_TYPE(object);
    if (python::read_tensor(object, tensor)) {
        facts.dtype = tensor.dtype, facts.device_type = tensor.device_type, facts.device_index = tensor.device_index;
        facts.requires_grad = tensor.requires_grad, facts.key_set = tensor.key_set;
        facts.sizes.assign(tensor.sizes, tensor.sizes + tensor.ndim), facts.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    } else if (python::numpy_ready() && python::read_array(object, array)) {
        facts.dtype = array.dtype, facts.writeable = array.writeable;
        facts.sizes.assign(array.shape, array.shape + array.ndim);
        for (int i = 0; i < array.ndim; ++i) facts.strides.push_back(array.strides[i] / size_of(array.dtype));
    } else {
        malformed("facts of something that is no plain tensor or array");
    }
    return facts;
}

void add_values(Segment& segment, Value d) {
    for (Py_ssize_t i = 0; i < d["constants"].size(); ++i) segment.constants.push_back(d["constants"][i].own());
    for (Py_ssize_t i = 0; i < d["anchors"].size(); ++i) segment.anchors.push_back(d["anchors"][i].own());
    for (Py_ssize_t i = 0; i < d["facts"].size(); ++i) segment.facts.push_back(facts_of(d["facts"][i].p));
    for (int64_t source : d["inputs"].integers()) segment.input_sources.push_back(static_cast<uint32_t>(source));
    segment.scalar_values = refs_of(d["scalar_values"]);
    static const std::map<std::string, ScalarStep::Kind> steps = {
        {"binary", ScalarStep::binary}, {"compare", ScalarStep::compare}, {"negative", ScalarStep::negative}, {"positive", ScalarStep::positive},
        {"invert", ScalarStep::invert}, {"not", ScalarStep::not_}, {"to_float", ScalarStep::to_float}, {"to_int", ScalarStep::to_int},
        {"to_bool", ScalarStep::to_bool}, {"abs", ScalarStep::abs}, {"call", ScalarStep::call}};
    for (Py_ssize_t i = 0; i < d["scalar_steps"].size(); ++i) {
        const Value v = d["scalar_steps"][i];
        segment.scalar_steps.push_back({named(steps, v["kind"].text()), static_cast<int>(v["op"].integer()), ref_of(v["a"]), ref_of(v["b"]), v["callable"].index()});
    }
    static const std::map<std::string, NewObject::Kind> made = {
        {"tuple", NewObject::tuple}, {"list", NewObject::list}, {"dict", NewObject::dict}, {"set", NewObject::set}, {"slice", NewObject::slice},
        {"cell", NewObject::cell}, {"instance", NewObject::instance}, {"function", NewObject::function}, {"method", NewObject::method},
        {"range", NewObject::range}, {"list_iterator", NewObject::list_iterator}, {"tuple_iterator", NewObject::tuple_iterator},
        {"range_iterator", NewObject::range_iterator}};
    for (Py_ssize_t i = 0; i < d["fresh"].size(); ++i) {
        const Value v = d["fresh"][i];
        segment.fresh.push_back({named(made, v["kind"].text()), refs_of(v["parts"]), v["type"].index(0xffffffff), v["position"].integer()});
    }
}

void add_calls(Segment& segment, Value d) {
    for (Py_ssize_t i = 0; i < d["externs"].size(); ++i) {
        const Value v = d["externs"][i];
        capture::ExternTemplate call;
        call.callable = v["callable"].own();
        call.args = refs_of(v["args"]);
        if (v["kwnames"]) call.kwnames = v["kwnames"].own();
        for (int64_t result : v["results"].integers()) call.results.push_back(static_cast<uint32_t>(result));
        segment.externs.push_back(std::move(call));
    }
    for (Py_ssize_t i = 0; i < d["outcomes"].size(); ++i) {
        const Value v = d["outcomes"][i];
        capture::Outcome outcome{v["external"].index(), static_cast<int>(v["item"].integer(-1))};
        if (v["node"]) outcome.node = {v["node"].index()};
        outcome.strides = v["strides"].integers();
        outcome.type = reinterpret_cast<PyTypeObject*>(v["type"] ? v["type"].p : nullptr);
        segment.outcomes.push_back(std::move(outcome));
    }
    static const std::map<std::string, Effect::Kind> effects = {
        {"dict_set", Effect::dict_set}, {"dict_remove", Effect::dict_remove}, {"list_set", Effect::list_set}, {"list_append", Effect::list_append},
        {"attribute_set", Effect::attribute_set}, {"attribute_remove", Effect::attribute_remove}, {"cell_set", Effect::cell_set},
        {"inplace", Effect::inplace}, {"bump", Effect::bump}, {"iterator_advance", Effect::iterator_advance}};
    for (Py_ssize_t i = 0; i < d["effects"].size(); ++i) {
        const Value v = d["effects"][i];
        segment.effects.push_back({named(effects, v["kind"].text()), ref_of(v["target"]), ref_of(v["key"]), ref_of(v["value"]), v["position"].integer(), v["count"].index(1)});
    }
    segment.exit.result = ref_of(d["returns"]);
    for (Py_ssize_t i = 0; i < d["frames"].size(); ++i) {
        const Value v = d["frames"][i];
        segment.exit.kind = capture::Exit::breaks;
        segment.exit.frames.push_back({ref_of(v["function"]), static_cast<int>(v["unit"].integer()), {}, refs_of(v["locals"]), refs_of(v["stack"])});
    }
}

DType dtype_named(const std::string& name) {
    for (int i = 0; i < dtype_count; ++i)
        if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    malformed("unknown dtype " + name);
}

void add_graph(Described& made, Value d) {
    graph::Graph& graph = made.product.graph;
    for (Py_ssize_t i = 0; i < d["nodes"].size(); ++i) {
        const Value v = d["nodes"][i];
        graph::Node node{graph::op_named(v["op"].text())};
        node.type.dtype = dtype_named(v["dtype"].text());
        node.type.dims = v["dims"].integers();
        node.type.domain = v["numpy"].is_true() ? graph::Domain::numpy : graph::Domain::torch;
        for (int64_t operand : v["operands"].integers()) node.operands.push_back({static_cast<uint32_t>(operand)});
        node.ints = v["ints"].integers();
        node.twin = static_cast<int32_t>(v["twin"].integer(-1));
        const auto id = graph::NodeId{static_cast<uint32_t>(i)};
        if (node.op == graph::Op::input) graph.inputs.push_back({id, v["strides"].integers()});
        if (node.op == graph::Op::scalar) graph.scalars.push_back({id});
        if (v["output"].is_true()) graph.outputs.push_back({id, v["strides"].integers()});
        made.segment.numpy_scalar.push_back(v["numpy_scalar"].is_true());
        graph.nodes.push_back(std::move(node));
    }
    for (Py_ssize_t i = 0; i < d["externs"].size(); ++i) graph.externs.push_back({"extern", {}, false});
}

/// One buffer a node, by what the node is.
void add_buffers(Described& made, Value d) {
    const graph::Graph& graph = made.product.graph;
    fusion::Schedule& schedule = made.product.schedule;
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
        const graph::Node& node = graph.nodes[i];
        fusion::Buffer buffer{fusion::Buffer::temporary, {i}, node.type.dtype, node.type.dims, d["nodes"][i]["strides"].integers()};
        if (node.op == graph::Op::input) buffer.kind = fusion::Buffer::input;
        else if (node.op == graph::Op::extern_call || node.op == graph::Op::extern_result || d["nodes"][i]["by_twin"].is_true()) buffer.kind = fusion::Buffer::extern_;
        else if (d["nodes"][i]["output"].is_true()) buffer.kind = fusion::Buffer::object;
        int64_t extent = 1;
        for (size_t axis = 0; axis < buffer.dims.size(); ++axis) extent += std::max<int64_t>(0, buffer.dims[axis] - 1) * buffer.strides[axis];
        buffer.bytes = extent * size_of(node.type.dtype);
        if (buffer.kind == fusion::Buffer::temporary) {
            buffer.arena_offset = schedule.arena_bytes;
            schedule.arena_bytes += (buffer.bytes + 63) / 64 * 64;
        }
        schedule.buffers.push_back(std::move(buffer));
    }
}

/// An elementwise node as a nest over its own dims.
void add_kernel(Described& made, uint32_t index) {
    const graph::Graph& graph = made.product.graph;
    fusion::Schedule& schedule = made.product.schedule;
    const graph::Node& node = graph.nodes[index];
    fusion::LoopNest nest;
    fusion::KernelStep step{static_cast<uint32_t>(schedule.nests.size())};
    nest.name = std::string(graph::info(node.op).name);
    for (int64_t extent : node.type.dims) nest.axes.push_back({fusion::Axis::parallel, extent});
    if (nest.axes.empty()) nest.axes.push_back({fusion::Axis::parallel, 1});
    auto access = [&](uint32_t of, uint32_t parameter) {
        fusion::Access made_access{parameter};
        made_access.at.strides = schedule.buffers[of].strides;
        made_access.at.strides.resize(nest.axes.size());
        return made_access;
    };
    fusion::Instruction apply{fusion::Instruction::apply, scalar::scalar_op_named(nest.name)};
    apply.dtype = node.type.dtype;
    for (graph::NodeId operand : node.operands) {
        fusion::Instruction leaf{fusion::Instruction::load};
        leaf.dtype = graph[operand].type.dtype;
        if (graph[operand].op == graph::Op::scalar) {
            leaf.kind = fusion::Instruction::scalar;
            leaf.which = static_cast<uint32_t>(nest.scalars.size());
            nest.scalars.push_back(leaf.dtype);
            step.scalars.push_back(operand);
        } else {
            leaf.which = static_cast<uint32_t>(nest.loads.size());
            nest.loads.push_back(access(operand.index, static_cast<uint32_t>(nest.parameters.size())));
            nest.parameters.push_back({leaf.dtype});
            step.buffers.push_back(operand.index);
        }
        apply.operands[apply.arity++] = static_cast<fusion::ValueId>(nest.body.size());
        nest.body.push_back(leaf);
    }
    nest.body.push_back(apply);
    nest.stores.push_back({static_cast<fusion::ValueId>(nest.body.size() - 1), access(index, static_cast<uint32_t>(nest.parameters.size()))});
    nest.parameters.push_back({node.type.dtype, true});
    nest.reports_flags = node.type.domain == graph::Domain::numpy;
    step.buffers.push_back(index);
    fusion::verify(nest);
    auto loaded = runtime::Executable::load(codegen::compile(nest, codegen::host_target(), 0));
    if (!loaded) malformed(loaded.reason());
    made.product.executables.push_back(*loaded);
    schedule.nests.push_back(std::move(nest));
    schedule.steps.push_back(std::move(step));
}

} // namespace

Described describe(PyObject* description) {
    Described made;
    const Value d{description};
    Segment& segment = made.segment;
    add_sources(segment, d["sources"]);
    add_guards(segment, d["guards"]);
    add_values(segment, d);
    add_calls(segment, d);
    segment.numpy_flags = d["numpy_flags"].is_true();
    segment.numpy_externs = d["numpy_externs"].is_true();
    if (d["code"]) segment.key.code = reinterpret_cast<PyCodeObject*>(d["code"].p);
    python::read_ambient(segment.ambient);
    add_graph(made, d);
    add_buffers(made, d);
    for (Py_ssize_t i = 0; i < d["steps"].size(); ++i) {
        const Value step = d["steps"][i];
        if (step[Py_ssize_t{0}].text() == "kernel") add_kernel(made, step[1].index());
        else made.product.schedule.steps.push_back(fusion::ExternStep{step[1].index(), {step[2].index()}});
    }
    if (PyErr_Occurred()) malformed("a value of the wrong type");
    return made;
}

} // namespace dyno::probe
