// xeus's two seams that the kernel fills: interpreter and history. Input: requests that xeus's core has taken apart. Output: what the
// Python side answers. It must not hold state: the Python side does.
#pragma once

#include <xeus/xhistory_manager.hpp>
#include <xeus-python/xinterpreter.hpp>

namespace dyno::kernel {

/// xeus-python's interpreter with everything of its own replaced: its streams, shell and comms do not work with current IPython.
class Interpreter final : public xpyt::interpreter {
  public:
    /// Calls `answer(name, arguments...)` of the given Python object, which returns JSON text.
    explicit Interpreter(pybind11::object requests);

  private:
    void configure_impl() override {}
    nl::json execute_request_impl(int, const std::string&, bool, bool, nl::json, bool) override;
    nl::json complete_request_impl(const std::string& code, int cursor) override;
    nl::json inspect_request_impl(const std::string& code, int cursor, int detail) override;
    nl::json is_complete_request_impl(const std::string& code) override;
    nl::json kernel_info_request_impl() override;
    void shutdown_request_impl() override {}

    pybind11::object requests_;
};

/// IPython's own history database in place of xeus's list.
class History final : public xeus::xhistory_manager {
  public:
    explicit History(pybind11::object requests);

  private:
    void configure_impl() override {}
    void store_inputs_impl(int, int, const std::string&, const std::string&) override {} // the shell has stored it
    nl::json get_tail_impl(int n, bool raw, bool output) const override;
    nl::json get_range_impl(int session, int start, int stop, bool raw, bool output) const override;
    nl::json search_impl(const std::string& pattern, bool raw, bool output, int n, bool unique) const override;

    pybind11::object requests_;
};

} // namespace dyno::kernel
