// Python source that makes the samples of the proof and the switches of the ambient word. Internal to this folder.
#pragma once

namespace dyno::python {

/// Defines, when run in a namespace of its own: ready() -> bool, samples(dtype_ids, device_ids), a generator that yields one list of
/// (tensor, facts), plain_keys(device) -> [int], and switches(), a generator that yields one list of (name, on, off, required). The
/// generators put torch's state of this thread back when they are closed.
extern const char* const torch_source;

} // namespace dyno::python
