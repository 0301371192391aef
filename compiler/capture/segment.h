// The product of capture: what one replay does. Data only, no behaviour. Graph + sources + guards + effects + exit.
// Made on the recording thread under the GIL; the graph goes to the worker, the rest to replay::build().
#pragma once
#include "compiler/frame/evaluator.h"
#include "compiler/graph/graph.h"
#include "compiler/python/ambient.h"
#include "compiler/python/ref.h"
#include "compiler/support/source_span.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dyno::capture {

/// Where a segment starts: a code object, an instruction, and which slots of the frame are filled.
struct SegmentKey {
    PyCodeObject* code = nullptr; // borrowed: entries die with the code object (its extra slot)
    int unit = 0;
    uint64_t shape = 0;           // hash of filled locals and of the stack's depth and empty places
    bool operator==(const SegmentKey&) const = default;
};

/// A value a replay can name.
struct ValueRef {
    enum Kind : uint8_t {
        none,     // an empty slot
        constant, // Segment::constants[index]
        source,   // the very object that sources[index] read
        node,     // the tensor, array or NumPy scalar of graph node `index`, as an object
        scalar,   // the Python number that scalar_steps[index] computed
        fresh,    // the object built from fresh[index]
        outcome,  // a non-tensor result of an extern: Segment::outcomes[index]
    } kind = none;
    uint32_t index = 0;
    bool operator==(const ValueRef&) const = default;
};

/// The path by which a replay reads a value. Reading has no side effect: slots, dict and attribute look-ups only.
struct Source {
    enum Kind : uint8_t {
        slot,           // raw slot `index` of the outermost frame (localsplus, then stack)
        global,         // f_globals[name] (the frame's own globals)
        builtin,        // f_builtins[name]; implies a guard that f_globals lacks it
        function,       // the frame's function object
        dict_item,      // base: exact dict; name: the key (any exact immutable)
        list_item,      // base: exact list; index
        tuple_item,     // base: exact tuple; index
        attribute,      // base: instance; name in its own attributes (inline values or dict), never through the type
        slot_attribute, // base: instance; name in a slot that its class names in __slots__
        instance_dict,  // base's __dict__ as an object (exists already)
        cell_contents,  // base: cell
        closure,        // base: function; index into __closure__ (the cell)
        default_,       // base: function; __defaults__[-1 - index]: a longer or shorter tuple leaves the last ones in place
        kwdefault,      // base: function; name in __kwdefaults__
        function_globals,// base: function; its __globals__ dict
        method_self,    // base: bound method
        method_function,// base: bound method
        partial_part,   // base: functools.partial; index: python::PartialPart
        type_of,        // type(base)
        module_dict,    // base: module; its __dict__
        anchored,       // anchors[index] itself (a module or type found by constant path): no guard needed while alive
        globals_dict,   // the frame's f_globals itself
        code_of,        // base: function; its __code__, which may be replaced
        function_part,  // base: function; index: which of FunctionPart
        type_attribute_, // base: type; what _PyType_Lookup finds of name, itself: descriptors are not asked
    } kind;
    enum FunctionPart : uint32_t { name_, qualname_, module_, doc_ };
    uint32_t base = 0;      // index of another source
    uint32_t index = 0;
    Owned<> name;           // interned string or immutable key
};

/// What a guard needs of a tensor or array input, exactly.
struct ArrayFacts {
    PyTypeObject* type;      // borrowed static or library type: torch.Tensor, Parameter, numpy.ndarray
    DType dtype;
    uint8_t device_type;
    int8_t device_index;
    bool requires_grad;
    uint64_t key_set;        // torch
    bool writeable;          // NumPy
    std::vector<int64_t> sizes, strides; // strides in elements (NumPy inputs whose byte strides are no multiple are refused)
};

struct Guard {
    enum Kind : uint8_t {
        is,             // source is anchors[expected]
        type,           // type(source) is anchors[expected]
        equal,          // exact type and value equal constants[expected]; floats by bits
        truth,          // bool(scalar value `value`) == (expected != 0)   (value: scalar, source number, or a node, looked at once computed)
        tensor,         // facts[expected]
        array,          // facts[expected]
        numpy_scalar,   // exact NumPy scalar type anchors[expected]
        length,         // len of exact list, tuple, dict, set, str == expected
        keys,           // dict keys in order are constants[expected] (a tuple)
        ordered_keys,   // the same of an OrderedDict, whose order may change without a change of its table
        absent,         // dict source has no key constants[expected]
        no_attribute,   // instance source has no own attribute constants[expected] (a name)
        type_attribute, // _PyType_Lookup(type anchors[source], constants[name]) is anchors[expected] or absent (expected == none_):
                        // checked by the type's version, re-verified when the version moved
        same,           // source and other are one object
        distinct,       // source and other are different objects
        memory,         // extents of tensors/arrays `source` and `other` are disjoint
        number_type,    // exact type of source is int, float, bool: anchors[expected]; its value is free
        grad_mode,      // torch.is_grad_enabled() == expected (part of the ambient word; for reports)
    } kind;
    uint32_t source = 0;
    uint32_t other = 0;
    uint32_t expected = 0;
    uint32_t name = 0;
    ValueRef value;
    SourceSpan from;
    static constexpr uint32_t none_ = 0xffffffff;
};

/// A number computed by Python's own arithmetic on exact int, float, bool or NumPy scalars at replay: cheap and exact.
/// A failure (overflow of a conversion, division by zero) is a failed compute phase.
struct ScalarStep {
    enum Kind : uint8_t { binary, compare, negative, positive, invert, not_, to_float, to_int, to_bool, abs, call } kind;
    int op = 0;          // binary: BINARY_OP's number; compare: Py_LT..Py_GE
    ValueRef a, b;
    uint32_t callable = 0; // call: anchors[callable](a[, b]), a pure C function of numbers (math.sqrt, min, max, round)
    // Found when the step is made: steps share operands, so that walking down to their sources takes exponential time.
    bool on_data = false;    // it hangs on what is known only once something is computed
    int64_t last_call = -1;  // the last extern it hangs on, -1: none
};

/// An object that a replay builds: an argument of an extern, part of an exit's state, or a stored value.
struct NewObject {
    enum Kind : uint8_t { tuple, list, dict, set, slice, cell, instance, function, method, range, list_iterator, tuple_iterator, range_iterator,
                          called } kind; // called: anchors[type](*parts), position -1: the result itself, else its iterator moved on so far
    std::vector<ValueRef> parts; // dict: key, value, key, value..., of a defaultdict its factory before them; cell: contents; instance: name constant, value...; method: function, self;
                                 // function: code constant, globals, name, defaults, kwdefaults, closure (refs or none), annotations
    uint32_t type = 0xffffffff;  // instance, tuples of a named tuple's class, lists and dicts that are collections': anchors[type]
    int64_t position = 0;        // iterators; a deque's maxlen, or -1
    uint32_t kwnames = 0xffffffff; // called: constants[kwnames] are the names of the last parts
};

/// How an extern of the graph (same index as Graph::externs) is called.
struct ExternTemplate {
    Owned<> callable;            // a library's C or Python callable: torch.matmul, Tensor.view
    std::vector<ValueRef> args;  // positional then keyword
    Owned<> kwnames;             // tuple or null
    int8_t grad_mode = -1;       // the grad mode in which it ran, where that was not the one at the segment's start
    bool releases = false;       // long: worth releasing the GIL (not needed for Python callables)
    enum Draws : uint8_t { nothing, torch_numbers, numpy_numbers } draws = nothing; // from a global generator, put back if the replay fails
    std::vector<uint32_t> results; // indices into outcomes
};

/// A part of an extern's result.
struct Outcome {
    uint32_t external;           // index of the extern
    int item = -1;               // -1: the result itself; else item of the tuple or list result
    graph::NodeId node;          // valid: a tensor or array, whose type and strides must come out as recorded
    std::vector<int64_t> strides;
    PyTypeObject* type = nullptr; // exact type it must have (borrowed, library type)
    bool is_view = false;
    int64_t version = -1;        // a tensor's version as it comes, where the segment changes it in place; -1: any
};

struct Effect {
    enum Kind : uint8_t {
        dict_set,    // target: exact dict; key; value
        dict_remove, // target, key
        list_set,    // target: exact list; index; value
        list_append, // target: exact list; value
        list_contents, // target: exact list; value: a list of what it holds from then on
        attribute_set, // target: instance without __setattr__ and without data descriptor of that name; key: name; value
        attribute_remove,
        cell_set,    // target: cell; value (none: emptied)
        inplace,     // target: a tensor or array input; value: the node whose value replaces its elements
        bump,        // target: tensor whose version rises by `count`
        iterator_advance, // target: range, list, tuple iterator; position after
    } kind;
    ValueRef target, key, value;
    int64_t position = 0;
    uint32_t count = 1;
    SourceSpan from;
};

/// A frame at the exit, as references. The outermost comes first and is the live one.
struct FrameRecipe {
    ValueRef function;
    int unit = 0;
    SourceSpan at;                   // the line of that instruction, for people
    std::vector<ValueRef> locals, stack;
    frame::Redirect::After after = frame::Redirect::identity;
    ValueRef instance;
};

struct Exit {
    enum Kind : uint8_t { returns, breaks, cut } kind = returns;
    ValueRef result;                 // returns
    std::vector<bool> unchanged;     // returns: by local slot, it still holds what it held at the entry
    std::vector<FrameRecipe> frames; // breaks, cut: the state before instruction frames.back().unit
    std::string reason, hint;        // breaks: plain words
    SourceSpan at;
    std::vector<uint32_t> tokens;    // fresh values whose making sets a context variable: taken back if the commit fails
    int8_t grad_mode = -1;           // the grad mode that a commit leaves behind, where that is not the one at the segment's start
};

/// A line of the user's source and what became of it, for `explain`.
struct LineNote {
    SourceSpan at;
    std::string status; // "captured", "interpreted", "break"
    std::string reason, hint;
};

/// A code object in words.
struct CodeName {
    std::string file, name;
};

struct Segment {
    SegmentKey key;
    graph::Graph graph;
    std::vector<Source> sources;     // a base comes before its users
    std::vector<Guard> guards;       // in an order in which each may rely on the ones before
    std::vector<Owned<>> constants;  // immutable values only
    std::vector<Owned<>> anchors;    // identities: modules, types, functions, code; replay keeps them weakly where possible
    std::vector<std::string> anchor_names; // filled by replay::build when it lets the anchors go: what they are called, for people
    std::vector<ArrayFacts> facts;
    std::vector<uint32_t> input_sources;   // parallel to graph.inputs: the source that gives the tensor or array
    std::vector<ValueRef> scalar_values;   // parallel to graph.scalars: the number passed
    std::vector<ScalarStep> scalar_steps;
    std::vector<NewObject> fresh;
    std::vector<ExternTemplate> externs;   // parallel to graph.externs
    std::vector<Outcome> outcomes;
    std::vector<Effect> effects;
    Exit exit;
    std::vector<LineNote> lines;
    std::vector<PyCodeObject*> codes;      // SourceSpan::code - 1 -> code object; to be compared only: it may have died since
    std::vector<CodeName> code_names;      // parallel: what it was called, for people
    bool numpy_flags = false;              // some nest computes for NumPy: errstate decides about raised flags
    bool numpy_externs = false;            // some extern is NumPy's: its floating-point warnings must not appear in compute
    std::vector<bool> numpy_scalar;        // by node index: the value is a NumPy scalar object, not a 0-d array
    python::Ambient ambient;               // what must be equal at entry
    double eager_seconds = 0;
    std::shared_ptr<std::atomic<bool>> stale = std::make_shared<std::atomic<bool>>(false);
};

} // namespace dyno::capture
