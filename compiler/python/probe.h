// The proof of the layout: which offsets explain what torch's public calls say of known tensors. Internal to this folder.
#pragma once
#include <Python.h>
#include <cstddef>

#include "compiler/python/layout.h"

namespace dyno::python {

/// `samples`: a list of (tensor, facts), facts a dict of what the public calls say (torch_source.cpp). An offset is kept only if it
/// explains all samples, the fact takes enough different values, and no other offset does; else `refused` names the fact. GIL.
Layout probe(PyObject* samples);

/// Copies n bytes if all are readable; answers false where a load would have killed the process.
bool copy_if_readable(void* to, const void* from, size_t n);

} // namespace dyno::python
