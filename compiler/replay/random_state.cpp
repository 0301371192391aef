// Numbers drawn in a compute phase from the generators of torch and NumPy that everybody shares: the state before the first draw is kept, and
// put back if the phase fails, so that the native run draws the same numbers (law 2).
#include "compiler/replay/run_state.h"

namespace dyno::replay {
namespace {

/// A bound method of a global generator, kept for the life of the process.
PyObject* method_of(const char* module_name, const char* object_name, const char* method) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), module_name); // borrowed
    auto object = Owned<>::steal(module ? PyObject_GetAttrString(module, object_name) : nullptr);
    PyObject* found = object ? PyObject_GetAttrString(object.get(), method) : nullptr;
    if (!found) PyErr_Clear();
    return found;
}
struct Generator {
    PyObject *get, *set;
};
const Generator& generator_of(capture::ExternTemplate::Draws draws) {
    static const Generator torch{method_of("torch", "default_generator", "get_state"), method_of("torch", "default_generator", "set_state")};
    if (draws == capture::ExternTemplate::torch_numbers) return torch;
    static const Generator numpy{method_of("numpy.random.mtrand", "_rand", "get_state"), method_of("numpy.random.mtrand", "_rand", "set_state")};
    return numpy;
}

} // namespace

void RandomStates::before(capture::ExternTemplate::Draws draws) {
    if (draws == capture::ExternTemplate::nothing || states_[draws]) return;
    const Generator& generator = generator_of(draws);
    if (!generator.get || !generator.set) throw ComputeFailed();
    states_[draws] = Owned<>::steal(PyObject_CallNoArgs(generator.get));
    if (!states_[draws]) throw ComputeFailed();
}

void RandomStates::put_back() {
    for (auto draws : {capture::ExternTemplate::torch_numbers, capture::ExternTemplate::numpy_numbers}) {
        if (!states_[draws]) continue;
        const python::KeepError keep;
        auto done = Owned<>::steal(PyObject_CallOneArg(generator_of(draws).set, states_[draws].get()));
        if (!done) PyErr_Clear();
        states_[draws].reset();
    }
}

} // namespace dyno::replay
