// The control channel on a thread of its own. Input: requests to interrupt, shut down and describe the kernel, which must be answered
// while a cell runs. It must not run Python and must not touch the state of xeus's core, which belongs to the main thread.
#pragma once

#include <functional>
#include <thread>

#include "kernel/wire.h"

namespace dyno::kernel {

/// Serves the control socket until a shutdown request or the death of the parent process.
class Control {
  public:
    /// `stop` is called once, when the kernel has to end and the last reply is on its way; `publish` may be called from this thread.
    Control(zmq::context_t& context, const xeus::xconfiguration& config, Identity sender, Publish publish, std::function<void()> stop);

    /// Starts the thread. `kernel_info` is the ready answer to kernel_info_request.
    void start(nl::json kernel_info);
    const Channel& channel() const { return channel_; }

  private:
    void run();
    void answer(const xeus::xmessage& request);
    bool parent_is_gone() const;

    Channel channel_;
    Identity sender_;
    Publish publish_;
    std::function<void()> stop_;
    nl::json kernel_info_;
    int parent_ = 0; // process to be watched, 0: none
    bool ending_ = false;
};

} // namespace dyno::kernel
