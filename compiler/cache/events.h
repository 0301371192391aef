// What happened last, for people: the few newest events of the process.
#pragma once
#include <Python.h>
#include <deque>
#include <string>

namespace dyno::cache {

struct Event {
    std::string kind; // capture, recompile, dropped
    std::string text; // one clause that begins with the function's name
    std::string file; // of the function
    int line = 0;
};

/// Keeps the event; the oldest of more than `most_events` goes. GIL held.
void note_event(const char* kind, PyCodeObject* code, int line, const std::string& text);
/// Oldest first.
const std::deque<Event>& last_events();
constexpr size_t most_events = 20;

} // namespace dyno::cache
