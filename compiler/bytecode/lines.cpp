// Lines of instructions: the location table of a code object, read once.
// Format: Objects/locations.md of CPython 3.11 to 3.13.
#include "compiler/bytecode/code.h"

namespace dyno::bytecode {
namespace {

struct Reader {
    const unsigned char* at;
    const unsigned char* end;
    bool done() const { return at >= end; }
    /// Six bits a byte, the lowest first; bit 6 says that more follow.
    int number() {
        unsigned value = 0;
        for (int shift = 0; !done(); shift += 6) {
            const unsigned byte = *at++;
            value |= (byte & 63) << shift;
            if (!(byte & 64)) break;
        }
        return static_cast<int>(value);
    }
    int signed_number() {
        const int value = number();
        return value & 1 ? -(value >> 1) : value >> 1;
    }
    void next_entry() {
        while (!done() && !(*at & 128)) at++;
    }
};

enum Kind { one_line_0 = 10, one_line_2 = 12, no_columns = 13, long_form = 14, no_location = 15 };

} // namespace

std::vector<int> lines_of(PyCodeObject* code) {
    std::vector<int> lines(static_cast<size_t>(Py_SIZE(code)), -1);
    const auto* bytes = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_linetable));
    Reader reader{bytes, bytes + PyBytes_GET_SIZE(code->co_linetable)};
    int line = code->co_firstlineno;
    for (size_t unit = 0; !reader.done() && unit < lines.size();) {
        const unsigned head = *reader.at++;
        const unsigned kind = (head >> 3) & 15, units = (head & 7) + 1;
        if (kind == long_form || kind == no_columns) line += reader.signed_number();
        else if (kind >= one_line_0 && kind <= one_line_2) line += static_cast<int>(kind) - one_line_0;
        for (unsigned k = 0; k < units && unit < lines.size(); k++) lines[unit++] = kind == no_location ? -1 : line;
        reader.next_entry();
    }
    return lines;
}

int Code::line_of(PyCodeObject* code, int unit) const {
    if (lines_.empty()) lines_ = lines_of(code);
    return static_cast<size_t>(unit) < lines_.size() ? lines_[static_cast<size_t>(unit)] : -1;
}

} // namespace dyno::bytecode
