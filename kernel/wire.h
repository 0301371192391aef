// What every thread of the kernel needs to put a message on a socket. Input: the connection's key and the session's identity.
// It must not own sockets or threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <xeus/xauthentication.hpp>
#include <xeus/xkernel_configuration.hpp>
#include <xeus/xmessage.hpp>
#include <xeus/xzmq_serializer.hpp>
#include <zmq.hpp>
#include <zmq_addon.hpp>

namespace dyno::kernel {

namespace nl = nlohmann;

/// Publishes on iopub: message type, content, metadata, parent header, binary buffers. Any thread.
using Publish = std::function<void(const std::string& type, nl::json content, nl::json metadata, nl::json parent, xeus::buffer_sequence buffers)>;

/// Who sends: the same user and session in every header.
struct Identity {
    std::string user, session;
    nl::json header(const std::string& type) const { return xeus::make_header(type, user, session); }
};

/// Signs, sends and receives on one socket, for one thread: a signing context must not be shared between threads.
class Channel {
  public:
    Channel(zmq::context_t& context, zmq::socket_type type, const xeus::xconfiguration& config, const std::string& port);

    /// Receives one message's frames without waiting; false if there is none.
    bool receive(zmq::multipart_t& frames);
    /// Checks the signature and takes the frames apart; throws std::runtime_error on a foreign or damaged message.
    xeus::xmessage open(zmq::multipart_t& frames) const { return xeus::xzmq_serializer::deserialize(frames, *signature_); }
    void send(xeus::xmessage message);
    void send(xeus::xpub_message message);
    /// Answers `request` with a message of `type`.
    void reply(const xeus::xmessage& request, const Identity& sender, const std::string& type, nl::json content);

    zmq::socket_t& socket() { return socket_; }
    const zmq::socket_t& socket() const { return socket_; }

  private:
    zmq::socket_t socket_;
    std::unique_ptr<xeus::xauthentication> signature_;
};

/// The message type of a request, or "" where its header has none.
std::string type_of(const xeus::xmessage& message);

/// The answer to a request that this kernel does not know: "x_request" gets an error in an "x_reply", anything else nothing.
void refuse(const xeus::xmessage& request, const Identity& sender, Channel& channel, const Publish& publish);

} // namespace dyno::kernel
