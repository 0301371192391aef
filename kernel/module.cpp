// The extension module dyno.kernel._kernel. Input: a connection file and the Python module that answers requests. Output: the running
// kernel, and the few functions by which Python drives it. It must not decide anything: policy is in Python, transport in server.cpp.
#include <chrono>
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>
#include <thread>

#include <pybind11/pybind11.h>
#include <xeus/xhelper.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xmessage.hpp>
#include <xeus/xmiddleware.hpp>

#include "kernel/capture.h"
#include "kernel/compiler_link.h"
#include "kernel/interpreter.h"
#include "kernel/server.h"
#include "kernel/signals.h"

namespace py = pybind11;
namespace nl = nlohmann;
using namespace dyno::kernel;

namespace {

/// The one kernel of this process, made by run() and never destroyed: the process leaves by _exit, with threads on the sockets.
Server* running = nullptr;

Server& server() {
    if (!running) throw std::runtime_error("the kernel is not running");
    return *running;
}

std::unique_ptr<xeus::xserver> make_server(xeus::xcontext& context, const xeus::xconfiguration& config, nl::json::error_handler_t) {
    auto made = std::make_unique<Server>(context.get_wrapped_context<zmq::context_t>(), config);
    running = made.get();
    return made;
}

py::object loads(const nl::json& value) { return py::module_::import("json").attr("loads")(value.dump(-1, ' ', false, nl::json::error_handler_t::replace)); }

nl::json comm_answer(const py::object& requests, const std::string& type, const xeus::xmessage& message) {
    py::list buffers;
    for (const auto& buffer : message.buffers()) buffers.append(py::bytes(buffer.data(), buffer.size()));
    const py::object answer = requests.attr("comm")(type, loads(message.header()), loads(message.content()), loads(message.metadata()), buffers);
    return answer.is_none() ? nl::json() : nl::json::parse(answer.cast<std::string>());
}

Handlers handlers_of(const py::object& requests) {
    Handlers handlers;
    handlers.set_parent = [=](const std::string& header) { requests.attr("set_parent")(header); };
    handlers.execute = [=](const std::string& content, const std::string& metadata) { requests.attr("execute")(content, metadata); };
    handlers.comm = [=](const std::string& type, const xeus::xmessage& message) { return comm_answer(requests, type, message); };
    handlers.check_signals = [] {
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    };
    handlers.serve = [=] { requests.attr("serve")(); };
    handlers.kernel_info = nl::json::parse(requests.attr("kernel_info")().cast<std::string>());
    handlers.kernel_info["protocol_version"] = xeus::get_protocol_version();
    return handlers;
}

/// Starts the kernel on a connection file; returns after a shutdown request, for the caller to leave the process.
void run(const std::string& connection_file, const py::object& requests) {
    take_over_signals();
    const xeus::xconfiguration config = xeus::load_configuration(connection_file);
    auto* kernel = new xeus::xkernel(config, xeus::get_user_name(), xeus::make_context<zmq::context_t>(),
                                     std::make_unique<Interpreter>(requests), &make_server, std::make_unique<History>(requests));
    server().set_handlers(handlers_of(requests));
    wake_on_event([] { server().wake(); });
    kernel->start();
}

void publish(const std::string& type, const std::string& content, const std::string& metadata, const std::string& parent, const py::list& buffers) {
    xeus::buffer_sequence copies;
    for (const auto& buffer : buffers) {
        const std::string bytes = py::bytes(py::reinterpret_borrow<py::object>(buffer));
        copies.emplace_back(bytes.begin(), bytes.end());
    }
    const py::gil_scoped_release others_run; // another thread may hold the socket's lock and want the GIL
    server().publish_now(type, nl::json::parse(content), nl::json::parse(metadata), nl::json::parse(parent), std::move(copies));
}

void publish_stream(const std::string& name, const std::string& text, const std::string& parent) {
    const py::gil_scoped_release others_run;
    server().publish_now("stream", {{"name", name}, {"text", text}}, nl::json::object(), nl::json::parse(parent), {});
}

/// run_cell(code, globals, key), without pybind11 around the cell: its exception goes through untouched.
PyObject* run_cell_directly(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 3 || !PyCode_Check(arguments[0]) || !PyDict_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "run_cell(code, globals, content_key)");
        return nullptr;
    }
    const char* key = PyUnicode_AsUTF8(arguments[2]);
    return key ? run_cell(arguments[0], arguments[1], key) : nullptr;
}
PyMethodDef run_cell_definition{"run_cell", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run_cell_directly)), METH_FASTCALL,
                                "Runs one module code object: compiled where possible, else as plain Python."};

/// Descriptors 1 and 2; made once, never destroyed: they hold for the rest of the process.
OutputCapture* captured[2];

py::tuple capture_output() {
    static const char* const names[] = {"stdout", "stderr"};
    std::fflush(nullptr); // what libraries printed so far belongs to the log
    for (int i = 0; i < 2; ++i)
        captured[i] = new OutputCapture(i + 1, [name = names[i]](const std::string& text) {
            server().publish_now("stream", {{"name", name}, {"text", text}}, nl::json::object(), server().latest_parent(), {});
        });
    return py::make_tuple(captured[0]->original(), captured[1]->original());
}

/// Brings what C code and finished child processes printed to the front end.
void settle_output() {
    const py::gil_scoped_release others_run;
    std::fflush(nullptr);
    for (const OutputCapture* capture : captured)
        if (capture) capture->settle();
}

py::list events() {
    py::list taken;
    for (const auto& event : take_events()) taken.append(event);
    return taken;
}

/// True if the dynamic linker finds the library. Nothing stays loaded.
bool has_library(const std::string& name) {
    void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle) dlclose(handle);
    return handle != nullptr;
}

} // namespace

PYBIND11_MODULE(_kernel, module) {
    module.attr("version") = DYNO_VERSION;
    module.def("run", &run);
    module.def("step", [] { return server().step(); });
    module.def("pending", [] { return server().pending(); });
    module.def("done", [] { return server().done(); });
    module.def("stop", [] { server().stop_now(); });
    // zmq_ctx_term would wait for threads that never end; the messages are in the hands of ZeroMQ's own thread, which needs a moment
    module.def("linger", [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, py::call_guard<py::gil_scoped_release>());
    module.def("descriptors", [] { return py::make_tuple(server().shell_descriptor(), server().wake_descriptor()); });
    module.def("finish_cell", [](const std::string& reply) { server().finish_cell(nl::json::parse(reply)); });
    module.def("ask", [](const std::string& prompt, bool password) { return server().ask(prompt, password); });
    module.def("publish", &publish);
    module.def("publish_stream", &publish_stream);
    module.def("open_interrupts", &open_interrupts);
    module.def("close_interrupts", &close_interrupts);
    module.def("connect_compiler", &connect_compiler);
    module.def("disconnect_compiler", &disconnect_compiler);
    module.add_object("run_cell", py::reinterpret_steal<py::object>(PyCFunction_New(&run_cell_definition, nullptr)));
    module.def("events", &events);
    module.def("capture_output", &capture_output);
    module.def("settle_output", &settle_output);
    module.def("has_library", &has_library);
}
