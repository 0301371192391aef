// functools.partial objects, read without running code: their members are at fixed places, which the type's own descriptors tell.
#pragma once
#include <Python.h>
#include <cstdint>

namespace dyno::python {

enum class PartialPart : uint32_t { function, arguments, keywords };

/// functools.partial, or null as long as nobody has imported functools. GIL.
PyTypeObject* partial_type();
/// A part of a functools.partial object, borrowed; null of any other object. GIL.
PyObject* partial_part(PyObject* object, PartialPart part);

} // namespace dyno::python
