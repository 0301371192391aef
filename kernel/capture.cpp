// See capture.h.
#include "kernel/capture.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace dyno::kernel {

OutputCapture::OutputCapture(int descriptor, std::function<void(const std::string&)> on_text) : on_text_(std::move(on_text)) {
    int ends[2];
    original_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (original_ < 0 || pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "output capture");
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20); // best effort: a smaller pipe only makes more turns
    dup2(ends[1], descriptor);
    close(ends[1]);
    readable_ = ends[0];
    std::thread([this] { pump(); }).detach();
}

void OutputCapture::pump() {
    std::string block(1 << 16, '\0');
    pollfd ready{readable_, POLLIN, 0};
    for (;;) {
        if (poll(&ready, 1, -1) < 0) continue;
        handing_on_ = true;
        const ssize_t count = read(readable_, block.data(), block.size());
        if (count > 0) {
            std::string text = rest_ + block.substr(0, static_cast<size_t>(count));
            const size_t whole = text.size() - incomplete_tail(text);
            rest_ = text.substr(whole);
            text.resize(whole);
            if (!text.empty()) on_text_(text);
        }
        handing_on_ = false;
    }
}

void OutputCapture::settle() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    for (int waiting = 0; std::chrono::steady_clock::now() < end;) {
        // in this order: the flag goes up before the pipe is emptied
        if (ioctl(readable_, FIONREAD, &waiting) != 0 || (waiting == 0 && !handing_on_)) return;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

size_t incomplete_tail(const std::string& text) {
    for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if ((byte & 0xC0) == 0x80) continue; // the middle of a character
        const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

} // namespace dyno::kernel
