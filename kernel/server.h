// The kernel's sockets and its main loop's unit of work. Input: messages of the shell channel. Output: cells and comms go to the
// Python side through Handlers; everything else goes to xeus's core, on the main thread only, because the core keeps one parent
// header without a lock. It must not know what a cell is.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include <xeus/xcontrol_messenger.hpp>
#include <xeus/xserver.hpp>

#include "kernel/control.h"
#include "kernel/wire.h"

namespace dyno::kernel {

/// What the server calls on the main thread, with the GIL held. Texts are JSON.
struct Handlers {
    /// The header of the request whose turn it is.
    std::function<void(const std::string& header)> set_parent;
    /// A cell: must lead to one Server::finish_cell, now or later.
    std::function<void(const std::string& content, const std::string& metadata)> execute;
    /// A comm message; returns the content of the reply where the type is a request.
    std::function<nl::json(const std::string& type, const xeus::xmessage& message)> comm;
    /// Raises what a pending signal raises.
    std::function<void()> check_signals;
    /// Runs the main loop until Server::done().
    std::function<void()> serve;
    nl::json kernel_info;
};

/// xeus's server with our own sockets and threads. Its listeners are not virtual, so only an own server can look at a message first.
class Server final : public xeus::xserver {
  public:
    Server(zmq::context_t& context, const xeus::xconfiguration& config);

    void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }

    /// Serves at most one message; false if there was none or a cell is still awaiting. Main thread, GIL held.
    bool step();
    /// True if step() would find something. Also takes the wake-up back. Main thread.
    bool pending();
    /// True once the kernel has to leave its loop.
    bool done() const { return stopped_; }
    /// Becomes readable when a shell message may have arrived (edge-triggered: ask pending() before waiting on it).
    int shell_descriptor();
    /// Becomes readable on wake().
    int wake_descriptor() const { return wake_; }
    /// Makes done() true and interrupts a running cell. Any thread.
    void stop_now() { stop_impl(); }
    /// Wakes the main loop. Any thread.
    void wake();

    /// Puts a message on iopub. Any thread.
    void publish_now(const std::string& type, nl::json content, nl::json metadata, nl::json parent, xeus::buffer_sequence buffers);
    /// The header of the request whose turn it is or was last. Any thread.
    nl::json latest_parent();
    /// Answers the running cell; aborts the waiting cells where the request asked for that. Main thread.
    void finish_cell(nl::json reply);
    /// Asks the front end for a line and waits for it, interruptible. Main thread, GIL held (given up while waiting).
    std::string ask(const std::string& prompt, bool password);

  private:
    struct Cell {
        xeus::xmessage::guid_list identities;
        nl::json header;
        bool stop_on_error = true;
    };
    struct Messenger final : xeus::xcontrol_messenger {
        nl::json send_to_shell_impl(const nl::json&) override { return nl::json::object(); } // only a debugger sends
    };

    void dispatch(xeus::xmessage message);
    void set_parent(const nl::json& header);
    void start_cell(const xeus::xmessage& message);
    void serve_comm(const xeus::xmessage& message, const std::string& type);
    void status(const char* state, const nl::json& parent);
    /// Takes the cells that wait behind a failed one; all else keeps its place.
    std::vector<xeus::xmessage> take_waiting_cells();
    void run_heartbeat();

    void start_impl(xeus::xpub_message message) override;
    void publish_impl(xeus::xpub_message message, xeus::channel channel) override;
    void send_shell_impl(xeus::xmessage message) override { shell_.send(std::move(message)); }
    void send_control_impl(xeus::xmessage) override {} // the control thread answers itself
    void send_stdin_impl(xeus::xmessage message) override { stdin_.send(std::move(message)); }
    void abort_queue_impl(const listener&, long) override {} // finish_cell() does it
    void stop_impl() override;
    void update_config_impl(xeus::xconfiguration& config) const override;
    xeus::xcontrol_messenger& get_control_messenger_impl() override { return messenger_; }

    Identity sender_;
    Channel shell_, stdin_, iopub_;
    zmq::socket_t heartbeat_;
    Control control_;
    Messenger messenger_;
    Handlers handlers_;
    std::mutex publishing_; // guards iopub_ and parent_
    nl::json parent_ = nl::json::object();
    std::deque<zmq::multipart_t> deferred_;
    std::optional<Cell> cell_;
    std::atomic<bool> stopped_{false};
    int wake_;
};

} // namespace dyno::kernel
