// The guards of a segment as a flat program: reads of sources, each before its first use, and checks of facts.
// Input: sources and guards of a Segment. Output: the values of the sources, borrowed, or the guard that failed.
// Runs no Python code, leaves no exception, allocates nothing. Must not be run without the GIL.
//
// Dicts (also the dicts of instances and of modules) are read as groups: all look-ups in one dict, with the facts that can only change with
// it, stand together and are skipped while it is the same dict at the same version. An unchanged dict holds the very pointers it held, so
// what was learnt of exact immutable values and of values of static types still holds; all else is checked each time.
#pragma once
#include "compiler/capture/segment.h"
#include "compiler/python/array.h"
#include "compiler/python/tensor.h"
#include "compiler/python/versions.h"
#include "compiler/replay/anchors.h"
#include "compiler/replay/plan.h"
#include <cstdint>
#include <span>
#include <vector>

namespace dyno::replay {

/// What check() answers when every guard holds.
constexpr uint32_t all_hold = 0xfffffff0;

/// The numbers of a guard compared by raw words; one per Segment::facts.
struct MemoryFacts {
    bool numpy = false;
    python::TensorFacts tensor;
    python::ArrayFacts array;                // its pointers lie in the two vectors below
    std::vector<int64_t> shape, byte_strides;
    int64_t low = 0, high = 0;               // bytes from the first element: the memory is [data + low, data + high)
};

/// One step: a read (`to` is filled) or a check of `from`.
struct Check {
    enum Op : uint8_t {
        slot, function, globals, builtins, list_item, tuple_item, attribute, slot_attribute, instance_dict, cell_contents, closure, default_, kwdefault,
        function_globals, code_of, function_part, type_attribute, method_self, method_function, partial_part, type_of, module_dict, anchored, dict_item, // reads
        dict_group, type_group,                                                                    // groups: index
        is, type, equal, tensor, array, length, keys, ordered_keys, absent, no_attribute, same, distinct, number_truth,
    } op;
    uint32_t to = 0, from = 0, index = 0, guard = 0;
    PyObject* what = nullptr; // key, name, expected object; borrowed from the segment or an anchor
    bool operator==(const Check&) const = default;
};

/// All look-ups in one dict.
struct DictGroup {
    enum Of : uint8_t { dict, instance, globals, builtins } of;
    uint32_t base = 0;          // dict, instance: the source
    uint32_t guard = 0;         // to blame if the base is not what it should be
    uint32_t first = 0, count = 0; // in GuardProgram::grouped_
    std::vector<uint32_t> reads;   // sources it fills
    PyObject* known = nullptr;     // the dict last seen to hold, compared only
    uint64_t version = 0;          // its version then; 0: look everything up
};

/// Facts of one type, found through its bases.
struct TypeGroup {
    struct Fact {
        PyObject* name;
        PyObject* expected; // null: absent
        uint32_t guard;
        bool fragile;       // the address proves nothing once the type has changed
    };
    PyTypeObject* type = nullptr;
    uint32_t version = 0;
    std::vector<Fact> facts;
};

class GuardProgram {
  public:
    GuardProgram() = default;
    /// Called while segment.anchors still holds its objects. `wanted`: sources that must be read although no guard asks. Sets the segment's
    /// stale flag if a guard relies on what cannot be relied on, or no longer holds of a type.
    static GuardProgram compile(const capture::Segment& segment, const Anchors& anchors, const std::vector<bool>& wanted);
    /// Fills `sources` (as many as the segment has) and answers all_hold, or the index of the guard that failed (plan.h: missing_value if no
    /// guard is to blame). Memory and computed-truth guards are not its business.
    uint32_t check(const Inputs& inputs, PyObject** sources);

  private:
    friend class GuardCompiler;
    uint32_t run(const Check* at, const Check* end, const Inputs& inputs, PyObject** sources);
    uint32_t run_group(DictGroup& group, const Inputs& inputs, PyObject** sources);
    uint32_t run_types(TypeGroup& group);
    std::vector<Check> checks_, grouped_;
    std::vector<DictGroup> dict_groups_;
    std::vector<TypeGroup> type_groups_;
    std::vector<PyObject*> remembered_; // by source: what its group gave last, compared and handed on only at equal versions
    std::vector<MemoryFacts> facts_;
    std::vector<python::AttributeSlot> slots_; // by source: where instances keep the attribute
};

/// MemoryFacts of a capture's facts.
MemoryFacts memory_facts(const capture::ArrayFacts& facts);
/// Reads one source whose base is known; null if it is not there. The slow, plain form: for descriptions.
PyObject* read_source(const capture::Segment& segment, uint32_t source, std::span<PyObject* const> anchors, const Inputs& inputs);
/// A part of a function that may be assigned (Source::FunctionPart), borrowed.
PyObject* function_part(PyObject* function, uint32_t which);
/// Equal as constants are: same exact type, same value, floats by bits, tuples and frozensets of such. Runs no user code.
bool equal_constants(PyObject* a, PyObject* b);
/// The truth of an exact int, float, bool, complex or NumPy scalar; -1 for anything else.
int truth_of_number(PyObject* number);

} // namespace dyno::replay
