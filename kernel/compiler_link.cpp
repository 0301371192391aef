// See compiler_link.h. The connection is one per process, as the compiler is.
#include "kernel/compiler_link.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "dyno/core_api.h"

namespace dyno::kernel {
namespace {

std::atomic<const dyno_core_api*> api{nullptr};

/// Events wait here from the worker that posts them until the loop takes them.
struct EventQueue {
    std::mutex mutex;
    std::deque<std::string> waiting;
    std::function<void()> wake;
};
EventQueue events;

void post_event(void*, const char* json) {
    std::function<void()> wake;
    {
        const std::lock_guard lock(events.mutex);
        events.waiting.emplace_back(json);
        wake = events.wake;
    }
    if (wake) wake();
}

/// The pending Python exception as "Type: message", cleared.
std::string pending_error() {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject* text = value ? PyObject_Str(value) : nullptr;
    const char* bytes = text ? PyUnicode_AsUTF8(text) : nullptr;
    std::string message = bytes && *bytes ? bytes : "no reason given";
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Clear();
    return message;
}

} // namespace

std::string connect_compiler() {
    // PyCapsule_Import would take the attribute path "dyno._core" from the package; importing first gives the better message.
    PyObject* core = PyImport_ImportModule("dyno._core");
    if (!core) return "the extension dyno._core could not be loaded (" + pending_error() + ")";
    PyObject* capsule = PyObject_GetAttrString(core, "api");
    Py_DECREF(core);
    if (!capsule) {
        PyErr_Clear();
        return "dyno._core has no interface for kernels";
    }
    const auto* found = static_cast<const dyno_core_api*>(PyCapsule_GetPointer(capsule, DYNO_CORE_API_CAPSULE));
    Py_DECREF(capsule); // the struct is static in dyno._core, which stays loaded
    if (!found) return "dyno._core has no interface for kernels (" + pending_error() + ")";
    if (found->abi != DYNO_CORE_API_ABI || found->size < sizeof(dyno_core_api))
        return "dyno._core speaks version " + std::to_string(found->abi) + " of the kernel interface, and this kernel needs version " +
               std::to_string(DYNO_CORE_API_ABI);
    api = found;
    if (found->on_event) found->on_event(&post_event, nullptr);
    return "";
}

PyObject* run_cell(PyObject* code, PyObject* globals, const char* content_key) {
    const dyno_core_api* compiler = api;
    return compiler ? compiler->run_cell(code, globals, content_key) : PyEval_EvalCode(code, globals, globals);
}

void interrupt_compiled_code() {
    const dyno_core_api* compiler = api;
    if (compiler && compiler->interrupt) compiler->interrupt();
}

void wake_on_event(std::function<void()> wake) {
    const std::lock_guard lock(events.mutex);
    events.wake = std::move(wake);
}

std::deque<std::string> take_events() {
    const std::lock_guard lock(events.mutex);
    return std::exchange(events.waiting, {});
}

void disconnect_compiler() {
    const dyno_core_api* compiler = api.exchange(nullptr);
    if (compiler && compiler->quiesce) compiler->quiesce();
}

} // namespace dyno::kernel
