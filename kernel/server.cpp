// See server.h.
#include "kernel/server.h"

#include <array>
#include <chrono>
#include <iostream>
#include <pybind11/pybind11.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <xeus/xguid.hpp>
#include <xeus/xkernel.hpp>
#include <xeus/xmiddleware.hpp>

#include "kernel/signals.h"

namespace dyno::kernel {
namespace {

using std::chrono::milliseconds;

/// Requests that xeus's core hands to the interpreter.
constexpr std::array core_requests{"complete_request",    "inspect_request",     "history_request",
                                   "is_complete_request", "kernel_info_request", "shutdown_request"};

Identity new_identity() { return {xeus::get_user_name(), std::string(xeus::new_xguid().c_str())}; }

nl::json error_reply(const std::string& message) {
    return {{"status", "error"}, {"ename", "KernelError"}, {"evalue", message}, {"traceback", {message}}, {"execution_count", 0}};
}

} // namespace

Server::Server(zmq::context_t& context, const xeus::xconfiguration& config)
    : sender_(new_identity()), shell_(context, zmq::socket_type::router, config, config.m_shell_port),
      stdin_(context, zmq::socket_type::router, config, config.m_stdin_port),
      iopub_(context, zmq::socket_type::pub, config, config.m_iopub_port), heartbeat_(context, zmq::socket_type::router),
      control_(
          context, config, sender_,
          [this](auto& type, nl::json content, nl::json metadata, nl::json parent, xeus::buffer_sequence buffers) {
              publish_now(type, std::move(content), std::move(metadata), std::move(parent), std::move(buffers));
          },
          [this] { stop_impl(); }),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    xeus::init_socket(heartbeat_, config.m_transport, config.m_ip, config.m_hb_port);
}

void Server::start_impl(xeus::xpub_message message) {
    publish_impl(std::move(message), xeus::channel::SHELL);
    std::thread([this] { run_heartbeat(); }).detach();
    control_.start(handlers_.kernel_info);
    handlers_.serve();
}

void Server::run_heartbeat() {
    for (;;) {
        try {
            zmq::multipart_t beat;
            if (beat.recv(heartbeat_)) beat.send(heartbeat_);
        } catch (const zmq::error_t&) {} // EINTR
    }
}

bool Server::step() {
    if (stopped_ || cell_) return false;
    zmq::multipart_t frames;
    if (deferred_.empty()) {
        if (!shell_.receive(frames)) return false;
    } else {
        frames = std::move(deferred_.front());
        deferred_.pop_front();
    }
    try {
        dispatch(shell_.open(frames));
    } catch (const std::exception& error) {
        std::cerr << "xdyno: shell channel: " << error.what() << std::endl;
    }
    return true;
}

bool Server::pending() {
    uint64_t count;
    while (read(wake_, &count, sizeof count) > 0) {}
    return !stopped_ && !cell_ && (!deferred_.empty() || (shell_.socket().get(zmq::sockopt::events) & ZMQ_POLLIN));
}

int Server::shell_descriptor() { return shell_.socket().get(zmq::sockopt::fd); }

void Server::wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake_, &one, sizeof one);
}

void Server::dispatch(xeus::xmessage message) {
    const std::string type = type_of(message);
    if (type == "execute_request") return start_cell(message);
    set_parent(message.header());
    if (type.starts_with("comm_")) return serve_comm(message, type);
    for (const char* known : core_requests)
        if (type == known) return notify_shell_listener(std::move(message));
    refuse(message, sender_, shell_, [this](auto& kind, nl::json content, nl::json metadata, nl::json parent, xeus::buffer_sequence buffers) {
        publish_now(kind, std::move(content), std::move(metadata), std::move(parent), std::move(buffers));
    });
}

void Server::set_parent(const nl::json& header) {
    {
        const std::lock_guard lock(publishing_);
        parent_ = header;
    }
    handlers_.set_parent(header.dump());
}

nl::json Server::latest_parent() {
    const std::lock_guard lock(publishing_);
    return parent_;
}

void Server::status(const char* state, const nl::json& parent) {
    publish_now("status", {{"execution_state", state}}, nl::json::object(), parent, {});
}

void Server::start_cell(const xeus::xmessage& message) {
    const nl::json& content = message.content();
    cell_ = Cell{message.identities(), message.header(), content.value("stop_on_error", true)};
    status("busy", message.header());
    try {
        set_parent(message.header());
        handlers_.execute(content.dump(), message.metadata().dump());
    } catch (const std::exception& error) { // a fault of ours; the client must not wait for ever
        nl::json reply = error_reply(error.what());
        publish_now("error", {{"ename", reply["ename"]}, {"evalue", reply["evalue"]}, {"traceback", reply["traceback"]}}, nl::json::object(),
                    message.header(), {});
        finish_cell(std::move(reply));
    }
}

void Server::finish_cell(nl::json reply) {
    if (!cell_) return;
    const Cell cell = std::move(*cell_);
    cell_.reset();
    std::vector<xeus::xmessage> aborted;
    if (cell.stop_on_error && reply.value("status", "") == "error") aborted = take_waiting_cells();
    shell_.send(xeus::xmessage(cell.identities, sender_.header("execute_reply"), nl::json(cell.header), nl::json::object(), std::move(reply), {}));
    status("idle", cell.header);
    for (const xeus::xmessage& request : aborted) {
        status("busy", request.header());
        shell_.reply(request, sender_, "execute_reply", {{"status", "aborted"}});
        status("idle", request.header());
    }
    wake(); // messages that arrived during an awaiting cell made no new edge
}

std::vector<xeus::xmessage> Server::take_waiting_cells() {
    zmq::pollitem_t readable{shell_.socket(), 0, ZMQ_POLLIN, 0};
    std::deque<zmq::multipart_t> kept;
    std::vector<xeus::xmessage> cells;
    for (;;) {
        zmq::multipart_t frames;
        if (!deferred_.empty()) {
            frames = std::move(deferred_.front());
            deferred_.pop_front();
        } else {
            // Cells sent together may still be on their way. This is before the failed cell's reply: what a client sends after it is run.
            zmq::poll(&readable, 1, milliseconds(5));
            if (!(readable.revents & ZMQ_POLLIN) || !shell_.receive(frames)) break;
        }
        zmq::multipart_t copy = frames.clone();
        xeus::xmessage message = shell_.open(frames);
        if (type_of(message) == "execute_request")
            cells.push_back(std::move(message));
        else
            kept.push_back(std::move(copy));
    }
    deferred_ = std::move(kept);
    return cells;
}

void Server::serve_comm(const xeus::xmessage& message, const std::string& type) {
    status("busy", message.header());
    try {
        nl::json answer = handlers_.comm(type, message);
        if (type == "comm_info_request") shell_.reply(message, sender_, "comm_info_reply", std::move(answer));
    } catch (const std::exception& error) {
        std::cerr << "xdyno: " << type << ": " << error.what() << std::endl;
    }
    status("idle", message.header());
}

std::string Server::ask(const std::string& prompt, bool password) {
    if (!cell_) throw std::runtime_error("input is possible only while a cell runs");
    zmq::multipart_t frames;
    while (stdin_.receive(frames)) frames.clear(); // an answer to a question that was interrupted
    stdin_.send(xeus::xmessage(cell_->identities, sender_.header("input_request"), nl::json(cell_->header), nl::json::object(),
                               {{"prompt", prompt}, {"password", password}}, {}));
    zmq::pollitem_t readable{stdin_.socket(), 0, ZMQ_POLLIN, 0};
    for (;;) {
        {
            const pybind11::gil_scoped_release others_run;
            try {
                zmq::poll(&readable, 1, milliseconds(200));
            } catch (const zmq::error_t&) { readable.revents = 0; } // EINTR: the signal is looked at below
        }
        handlers_.check_signals();
        if (stopped_) throw std::runtime_error("the kernel is shutting down");
        if ((readable.revents & ZMQ_POLLIN) && stdin_.receive(frames)) return stdin_.open(frames).content().value("value", "");
    }
}

void Server::publish_now(const std::string& type, nl::json content, nl::json metadata, nl::json parent, xeus::buffer_sequence buffers) {
    xeus::xpub_message message(type, sender_.header(type), std::move(parent), std::move(metadata), std::move(content), std::move(buffers));
    const std::lock_guard lock(publishing_);
    iopub_.send(std::move(message));
}

void Server::publish_impl(xeus::xpub_message message, xeus::channel channel) {
    // On this channel the core talks to xeus's own threads, which are not running here.
    if (channel == xeus::channel::CONTROL && (message.header().value("msg_type", "") == "interrupt" || message.header().value("msg_type", "") == "shutdown"))
        return;
    const std::lock_guard lock(publishing_);
    iopub_.send(std::move(message));
}

void Server::stop_impl() {
    stopped_ = true;
    interrupt_cell();
    wake();
}

void Server::update_config_impl(xeus::xconfiguration& config) const {
    config.m_control_port = xeus::get_socket_port(control_.channel().socket());
    config.m_shell_port = xeus::get_socket_port(shell_.socket());
    config.m_stdin_port = xeus::get_socket_port(stdin_.socket());
    config.m_iopub_port = xeus::get_socket_port(iopub_.socket());
    config.m_hb_port = xeus::get_socket_port(heartbeat_);
}

} // namespace dyno::kernel
