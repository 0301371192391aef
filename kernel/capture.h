// Output that does not go through sys.stdout: C code and child processes write on file descriptor 1 or 2. Input: the descriptor.
// Output: its text, on a thread without Python, so that C code that prints while it holds the GIL cannot block the kernel.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace dyno::kernel {

/// Puts a pipe in the descriptor's place for the rest of the process.
class OutputCapture {
  public:
    /// `on_text` gets whole UTF-8 characters; it is called on the capture's thread. Throws std::system_error if the pipe fails.
    OutputCapture(int descriptor, std::function<void(const std::string& text)> on_text);

    /// Where the descriptor led before: the log of the Jupyter server.
    int original() const { return original_; }
    /// Waits, at most a second, until everything written so far has been handed on.
    void settle() const;

  private:
    void pump();

    std::function<void(const std::string&)> on_text_;
    int original_, readable_;
    std::string rest_; // the beginning of a character whose end has not come yet
    std::atomic<bool> handing_on_{false};
};

/// How many bytes at the end of `text` begin a UTF-8 character that is not complete (0 to 3).
size_t incomplete_tail(const std::string& text);

} // namespace dyno::kernel
