// What differs between CPython 3.11, 3.12 and 3.13, frames and opcodes excepted: dict and type versions, where an instance
// keeps its attributes, the state of tracing. Reads only: nothing here makes a dict, runs user code or changes a count.
// All functions need the GIL.
#pragma once
#include <Python.h>
#include <cstdint>

namespace dyno::python {

/// True where every change of a dict gives it a new version (proved once by changing dicts of our own).
/// The exception, on 3.13: a store of an attribute on an instance whose dict still shares its inline values is not seen.
bool have_dict_versions();

/// The version of an exact dict; 0 where there is none. Equal versions: same keys, same value pointers, same order.
uint64_t dict_version(PyObject* dict);

/// The type's version tag; a missing one is assigned. 0: the type has none and gets none (versions used up); never trust 0.
/// Changes when the type or one of its bases is assigned to.
uint32_t type_version(PyTypeObject* type);

/// The attribute `name` (an exact str) of the instance alone: no type, no descriptor, no `__getattr__`. Borrowed, or null if
/// the instance has none. Leaves inline values inline. Never raises.
PyObject* instance_attribute(PyObject* obj, PyObject* name);
/// Where the object's type keeps the attribute that __slots__ names, in bytes from the object; -1: it is no such attribute. GIL.
Py_ssize_t slot_offset(PyTypeObject* type, PyObject* name);
/// The attribute in that slot, borrowed; null if it is empty, or not there. GIL.
PyObject* slotted_attribute(PyObject* obj, PyObject* name);

/// The instance's dict if it exists already, borrowed; null if there is none or the values are still inline.
PyObject* instance_dict_if_any(PyObject* obj);

/// True if the attributes lie in inline values and no dict was made of them.
bool has_inline_values(PyObject* obj);

/// Where the instances of one type keep one attribute: an index into the values their shared keys describe.
struct AttributeSlot {
    const void* keys = nullptr; // the shared keys; compared, never followed unless equal
    int index = -1;             // -1: not in the shared keys
};

/// The slot of `name` for instances of obj's type; index -1 if the shared keys do not have it.
AttributeSlot find_attribute_slot(PyObject* obj, PyObject* name);

/// instance_attribute by index (2 to 5 ns): falls back to the look-up when the keys are others or the dict was made.
PyObject* read_attribute_slot(PyObject* obj, const AttributeSlot& slot, PyObject* name);

/// What traces or profiles this thread, as bits; 0 is nothing.
enum TracingBit : uint64_t {
    traced = 1,    // sys.settrace
    profiled = 2,  // sys.setprofile
    in_tracer = 4, // a trace function is running
    monitored = 8, // 3.12: some sys.monitoring tool takes part in global events
};
uint64_t tracing_state(PyThreadState* thread);

} // namespace dyno::python
