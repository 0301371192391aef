// See control.h.
#include "kernel/control.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <unistd.h>

#include "kernel/signals.h"

namespace dyno::kernel {

using std::chrono::milliseconds;

Control::Control(zmq::context_t& context, const xeus::xconfiguration& config, Identity sender, Publish publish, std::function<void()> stop)
    : channel_(context, zmq::socket_type::router, config, config.m_control_port), sender_(std::move(sender)), publish_(std::move(publish)),
      stop_(std::move(stop)) {
    // Jupyter names the process that started us; a kernel started by hand outlives its shell.
    if (std::getenv("JPY_PARENT_PID")) parent_ = getppid();
}

void Control::start(nl::json kernel_info) {
    kernel_info_ = std::move(kernel_info);
    std::thread([this] { run(); }).detach(); // the process leaves by _exit
}

bool Control::parent_is_gone() const { return parent_ > 1 && getppid() != parent_; }

void Control::run() {
    zmq::pollitem_t readable{channel_.socket(), 0, ZMQ_POLLIN, 0};
    while (!ending_ && !parent_is_gone()) {
        try {
            zmq::poll(&readable, 1, milliseconds(1000));
            zmq::multipart_t frames;
            if ((readable.revents & ZMQ_POLLIN) && channel_.receive(frames)) answer(channel_.open(frames));
        } catch (const std::exception& error) {
            std::cerr << "xdyno: control channel: " << error.what() << std::endl;
        }
    }
    stop_();
    for (int i = 0; i < 50; ++i) { // a cell may swallow an interrupt, but not keep us alive
        interrupt_cell();
        std::this_thread::sleep_for(milliseconds(100));
    }
    _exit(1);
}

void Control::answer(const xeus::xmessage& request) {
    const std::string type = type_of(request);
    if (type != "interrupt_request" && type != "shutdown_request" && type != "kernel_info_request") return refuse(request, sender_, channel_, publish_);
    const auto status = [&](const char* state) {
        publish_("status", {{"execution_state", state}}, nl::json::object(), request.header(), {});
    };
    status("busy");
    if (type == "kernel_info_request") channel_.reply(request, sender_, "kernel_info_reply", kernel_info_);
    if (type == "interrupt_request") {
        interrupt_cell();
        channel_.reply(request, sender_, "interrupt_reply", {{"status", "ok"}});
    }
    if (type == "shutdown_request") {
        ending_ = true;
        channel_.reply(request, sender_, "shutdown_reply", {{"status", "ok"}, {"restart", request.content().value("restart", false)}});
    }
    status("idle");
}

} // namespace dyno::kernel
