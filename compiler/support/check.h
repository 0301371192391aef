// CHECK: a compiler bug is an InternalError, caught once in compiler.cpp; the frame then runs natively.
#pragma once
#include <stdexcept>
#include <string>

namespace dyno {

/// A bug of ours, never of the user's. Carries the place and what was expected.
struct InternalError : std::logic_error {
    using std::logic_error::logic_error;
};

[[noreturn]] inline void internal_error(const char* file, int line, const std::string& what) {
    throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

} // namespace dyno

#define DYNO_CHECK(condition, what)                                                                                                        \
    do {                                                                                                                                   \
        if (!(condition)) ::dyno::internal_error(__FILE__, __LINE__, std::string("expected ") + #condition + ": " + (what));               \
    } while (false)
