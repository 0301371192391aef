// Where the program stands, for people: the user's own frames of a thread, without those of libraries. Reads only; makes no frame objects.
#pragma once
#include <Python.h>
#include <string>
#include <vector>

namespace dyno::frame {

/// A line of a function of the user's.
struct UserPlace {
    std::string file, function;
    int line = 0;
};

/// The user's frames, innermost first, at most `most`. Library code is what lies below site-packages or the standard library.
std::vector<UserPlace> user_stack(PyThreadState* thread, size_t most = 6);

} // namespace dyno::frame
