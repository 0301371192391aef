// Shadows: what the recorder knows of the values in a recorded frame. They ride beside the values in the evaluator's slots
// as ids into one table; they hold no Python object that the program could miss (law 6).
#pragma once
#include "compiler/capture/segment.h"
#include <cstdint>
#include <vector>

namespace dyno::capture {

using frame::ShadowId;

/// One known value. Several slots that hold one object share one id, so what is learned or changed of an object through one
/// name is seen through all.
struct Shadow {
    enum Kind : uint8_t {
        nothing,   // id 0
        raw,       // read from a source, not looked at yet: no guard
        constant,  // an immutable value, the same in every replay
        object,    // an object from a source: type or identity guarded
        tensor,    // a tensor, array or NumPy scalar: `node`
        number,    // a Python int, float or bool whose value is free
        fresh,     // made in this segment: list, tuple, dict, instance, function, method, slice, cell
        iterator,  // made in this segment, over parts that are known
        outcome,   // a non-tensor result of an extern, with known parts
        derived,   // made here by library code from what guards hold: the same in every replay, or with known fields (Recording::Made)
        super_,    // super(): parts = {type constant's shadow unused, self}
    } kind = nothing;
    ValueRef ref;               // how a replay names it (tensor: its object)
    PyTypeObject* type = nullptr;
    bool identity = false;      // object: its identity is guarded, it is the same in every replay
    bool written = false;       // container or tensor that the segment has written
    bool viewed = false;        // tensor: something else shares its memory in a way that is not followed
    bool unsized = false;       // tensor: its size depends on data, or we have no name for its elements; only eager calls take it
    bool requires_grad = false; // tensor
    bool followed = false;      // list from outside: `parts` are its present items
    uint32_t writes = 0;        // tensor: how often it was changed in place, in the call that made it too
    uint32_t made_at = 0;       // tensor an eager call made: the version that it had then
    graph::NodeId node;         // tensor: its present value
    graph::NodeId as_object;    // tensor: the node that becomes its object, if that is another one
    uint32_t source = Guard::none_; // raw, object, number, tensor input: where it was read
    std::vector<ShadowId> parts;    // list, tuple; dict: key, value, ...; method: function, self; outcome: items
    uint32_t fresh_index = 0;   // fresh: index into Segment::fresh
    uint32_t changes = 0;       // dict made here: how often a key came or went
    PyObject* real = nullptr;   // object and constants with identity: the object, borrowed; kept alive by the recording's `kept`
};

/// Iterators made in the segment.
struct IteratorShadow {
    enum Kind : uint8_t { sequence, range, enumerate, zip, reversed, dict_keys, dict_values, dict_items, rows, generator } kind; // rows: of a tensor or array
    std::vector<ShadowId> bases; // sequence: the list or tuple; enumerate, zip: iterators; dict_*: the dict
    int64_t position = 0, start = 0, step = 1, length = 0;
    std::vector<ShadowId> items; // elements when it was made (dict_*: key, value, ...), for what can change see item_now(); generator: its frame's shadows
    uint32_t changes = 0;        // its base's, when it was made
    bool ended = false;          // it has said so, and says so ever after
    uint32_t made_by = 0;        // generator: index into Recording::generators_
};
inline bool is_of_dict(const IteratorShadow& it) {
    return it.kind == IteratorShadow::dict_keys || it.kind == IteratorShadow::dict_values || it.kind == IteratorShadow::dict_items;
}

} // namespace dyno::capture
