// The newest events of the process. Input: what the cache did. Everything under the GIL; runs no user code.
#include "compiler/cache/events.h"

namespace dyno::cache {
namespace {

std::deque<Event>& events() {
    static std::deque<Event> kept;
    return kept;
}

std::string utf8(PyObject* text) {
    const char* bytes = PyUnicode_AsUTF8(text);
    if (!bytes) PyErr_Clear();
    return bytes ? bytes : "?";
}

} // namespace

void note_event(const char* kind, PyCodeObject* code, int line, const std::string& text) {
    events().push_back({kind, utf8(code->co_qualname) + " " + text, utf8(code->co_filename), line ? line : code->co_firstlineno});
    if (events().size() > most_events) events().pop_front();
}

const std::deque<Event>& last_events() { return events(); }

} // namespace dyno::cache
