// Walks the thread's chain of frames. Input: a thread whose GIL is held. Output: places in words.
#include "compiler/frame/user_stack.h"
#include "compiler/frame/layout.h"
#include <cstring>

namespace dyno::frame {
namespace {

bool is_library(const char* file) {
    for (const char* part : {"-packages/", "/lib/python3", "/dyno/kernel/", "/dyno/magics/", "/dyno/_"})
        if (std::strstr(file, part)) return true;
    return std::strncmp(file, "<frozen ", 8) == 0;
}

const char* utf8(PyObject* text) {
    const char* bytes = PyUnicode_AsUTF8(text);
    if (!bytes) PyErr_Clear();
    return bytes ? bytes : "";
}

} // namespace

std::vector<UserPlace> user_stack(PyThreadState* thread, size_t most) {
    std::vector<UserPlace> found;
    for (InterpreterFrame* f = current_frame(thread); f && found.size() < most; f = f->previous) {
        if (f->owner > FRAME_OWNED_BY_FRAME_OBJECT) continue; // a marker between C and Python, not a frame
        PyCodeObject* code = code_object(f);
        const char* file = utf8(code->co_filename);
        if (!is_library(file)) found.push_back({file, utf8(code->co_qualname), PyCode_Addr2Line(code, running_unit(f, code) * 2)});
    }
    return found;
}

} // namespace dyno::frame
