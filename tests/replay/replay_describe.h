// Segments written down by hand, in Python: what the recorder would have made, for tests of replay without it.
#pragma once
#include "compiler/capture/segment.h"
#include "compiler/pipeline.h"

namespace dyno::probe {

struct Described {
    capture::Segment segment;
    CompileProduct product;
};

/// Reads the dict that tests/replay/segments.py makes. Throws std::runtime_error with the place where it is malformed.
Described describe(PyObject* description);

} // namespace dyno::probe
