// See interpreter.h.
#include "kernel/interpreter.h"

#include <xeus/xhelper.hpp>

namespace dyno::kernel {
namespace {

/// Calls one function of the Python side; what it raises becomes an error reply, never an exception through xeus.
template <class... Arguments> nl::json ask_python(const pybind11::object& requests, const char* function, Arguments... arguments) {
    const pybind11::gil_scoped_acquire lock;
    try {
        return nl::json::parse(requests.attr(function)(arguments...).template cast<std::string>());
    } catch (const std::exception& error) { return xeus::create_error_reply("KernelError", error.what(), nl::json::array()); }
}

} // namespace

Interpreter::Interpreter(pybind11::object requests) : requests_(std::move(requests)) {
    m_redirect_output_enabled = false;
    m_release_gil_at_startup = false; // the main thread keeps the GIL; its idle loop gives it up
}

nl::json Interpreter::execute_request_impl(int, const std::string&, bool, bool, nl::json, bool) {
    return xeus::create_error_reply("KernelError", "cells do not come this way", nl::json::array()); // Server::start_cell
}

nl::json Interpreter::complete_request_impl(const std::string& code, int cursor) { return ask_python(requests_, "complete", code, cursor); }

nl::json Interpreter::inspect_request_impl(const std::string& code, int cursor, int detail) {
    return ask_python(requests_, "inspect", code, cursor, detail);
}

nl::json Interpreter::is_complete_request_impl(const std::string& code) { return ask_python(requests_, "is_complete", code); }

nl::json Interpreter::kernel_info_request_impl() { return ask_python(requests_, "kernel_info"); }

History::History(pybind11::object requests) : requests_(std::move(requests)) {}

nl::json History::get_tail_impl(int n, bool raw, bool output) const { return ask_python(requests_, "history_tail", n, raw, output); }

nl::json History::get_range_impl(int session, int start, int stop, bool raw, bool output) const {
    return ask_python(requests_, "history_range", session, start, stop, raw, output);
}

nl::json History::search_impl(const std::string& pattern, bool raw, bool output, int n, bool unique) const {
    return ask_python(requests_, "history_search", pattern, raw, output, n, unique);
}

} // namespace dyno::kernel
