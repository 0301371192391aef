// See wire.h.
#include "kernel/wire.h"

#include <xeus/xmiddleware.hpp>

namespace dyno::kernel {

Channel::Channel(zmq::context_t& context, zmq::socket_type type, const xeus::xconfiguration& config, const std::string& port)
    : socket_(context, type), signature_(xeus::make_xauthentication(config.m_signature_scheme, config.m_key)) {
    if (type == zmq::socket_type::pub)
        socket_.set(zmq::sockopt::sndhwm, 0); // output is never dropped
    else
        socket_.set(zmq::sockopt::router_handover, 1); // a client that comes back keeps its name
    xeus::init_socket(socket_, config.m_transport, config.m_ip, port);
}

bool Channel::receive(zmq::multipart_t& frames) {
    try {
        return frames.recv(socket_, ZMQ_DONTWAIT);
    } catch (const zmq::error_t& error) {
        if (error.num() == EINTR) return false;
        throw;
    }
}

void Channel::send(xeus::xmessage message) {
    // "replace": text that is not UTF-8 must not cost the message
    xeus::xzmq_serializer::serialize(std::move(message), *signature_, nl::json::error_handler_t::replace).send(socket_);
}

void Channel::send(xeus::xpub_message message) {
    xeus::xzmq_serializer::serialize_iopub(std::move(message), *signature_, nl::json::error_handler_t::replace).send(socket_);
}

void Channel::reply(const xeus::xmessage& request, const Identity& sender, const std::string& type, nl::json content) {
    send(xeus::xmessage(request.identities(), sender.header(type), nl::json(request.header()), nl::json::object(), std::move(content), {}));
}

std::string type_of(const xeus::xmessage& message) { return message.header().value("msg_type", ""); }

void refuse(const xeus::xmessage& request, const Identity& sender, Channel& channel, const Publish& publish) {
    const std::string type = type_of(request);
    const auto status = [&](const char* state) {
        publish("status", {{"execution_state", state}}, nl::json::object(), request.header(), {});
    };
    status("busy");
    const auto suffix = type.rfind("_request");
    if (suffix != std::string::npos)
        channel.reply(request, sender, type.substr(0, suffix) + "_reply",
                      {{"status", "error"},
                       {"ename", "NotImplementedError"},
                       {"evalue", type + " is not supported by this kernel"},
                       {"traceback", nl::json::array()}});
    status("idle");
}

} // namespace dyno::kernel
