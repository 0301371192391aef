// Decoding: a code object to canonical instructions, handlers and loops; the opcode table; the cache in the extra slot.
// Must not look at co_code_adaptive, which may hold specialised or instrumented forms.
#include "compiler/bytecode/code.h"

#include <algorithm>
#include <array>
#include <memory>
#include <opcode.h>

namespace dyno::bytecode {
namespace {

/// What the raw argument of an opcode says, where it is not the canonical one already.
enum class Arg : uint8_t { plain, forward, backward, attribute, compare, for_iter, end_for, intrinsic_1, intrinsic_2 };

struct Row {
    Op op;
    Arg arg = Arg::plain;
    std::array<uint8_t, 3> caches = {0, 0, 0};
    const char* reason = nullptr;
};

struct NamedRow {
    const char* name;
    int number; // CPython's, -1 where it has none
    Row row;
    constexpr bool handed_back() const { return row.reason != nullptr; }
};

/// The text of an opcode's macro: its digits, or its own name where this CPython does not define it.
constexpr int number_in(const char* text) {
    int value = 0;
    for (const char* c = text; *c; c++) {
        if (*c < '0' || *c > '9') return -1;
        value = value * 10 + (*c - '0');
    }
    return value < 256 ? value : -1; // above are the compiler's pseudo instructions
}

#define DYNO_TEXT_OF(x) #x
#define DYNO_EXPANDED_TEXT(x) DYNO_TEXT_OF(x)
#define OPCODE(NAME, ...) NamedRow{#NAME, number_in(DYNO_EXPANDED_TEXT(NAME)), Row{__VA_ARGS__}},
constexpr NamedRow rows[] = {
#include "compiler/bytecode/opcodes.def"
};
#undef OPCODE

constexpr int no_row = -1;
constexpr std::array<int16_t, 256> index_rows() {
    std::array<int16_t, 256> index{};
    for (auto& i : index) i = no_row;
    for (size_t r = 0; r < std::size(rows); r++)
        if (rows[r].number >= 0) index[static_cast<size_t>(rows[r].number)] = static_cast<int16_t>(r);
    return index;
}
constexpr std::array<int16_t, 256> row_of_number = index_rows();
static_assert([] {
    for (const NamedRow& r : rows)
        if ((r.row.op == Op::unknown) != r.handed_back()) return false;
    return true;
}());

int caches_of(const Row& row) { return row.caches[static_cast<size_t>(python - 311)]; }

const NamedRow* find_row(int raw) {
    const int r = raw >= 0 && raw < 256 ? row_of_number[static_cast<size_t>(raw)] : no_row;
    return r == no_row ? nullptr : &rows[r];
}

Op intrinsic_1(uint32_t which) {
    switch (which) {
    case 1:
        return Op::print_expr;
    case 5:
        return Op::positive;
    case 6:
        return Op::list_to_tuple;
    default:
        return Op::unknown;
    }
}

uint32_t compare_arg(uint32_t arg) {
    if constexpr (python >= 313) return (arg >> 5) | (arg & 16 ? to_bool_bit : 0);
    if constexpr (python == 312) return arg >> 4;
    return arg;
}

/// FOR_ITER's own target plus what CPython's loop skips there: nothing, END_FOR, END_FOR and POP_TOP.
constexpr int after_loop = python >= 313 ? 2 : python == 312 ? 1 : 0;

struct Reader {
    const unsigned char* at;
    const unsigned char* end;
    bool done() const { return at >= end; }
    /// The exception table's variable-length numbers: six bits a byte, bit 6 says that more follow.
    int number() {
        int value = *at & 63;
        while (*at & 64) value = (value << 6) | (*++at & 63);
        at++;
        return value;
    }
};

std::vector<Handler> read_handlers(PyCodeObject* code) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(code->co_exceptiontable));
    Reader reader{bytes, bytes + PyBytes_GET_SIZE(code->co_exceptiontable)};
    std::vector<Handler> handlers;
    while (!reader.done()) {
        Handler h{};
        h.start = reader.number();
        h.end = h.start + reader.number();
        h.target = reader.number();
        const int depth = reader.number();
        h.depth = depth >> 1;
        h.lasti = depth & 1;
        handlers.push_back(h);
    }
    return handlers;
}

void read_instructions(std::vector<Instruction>& out, const unsigned char* bytes, int units) {
    out.assign(static_cast<size_t>(units) + 1, Instruction{});
    uint32_t high = 0;
    uint8_t prefix = 0;
    for (int u = 0; u < units;) {
        const int raw = bytes[2 * u];
        const uint32_t low = bytes[2 * u + 1];
        Instruction& i = out[static_cast<size_t>(u)];
        if (raw == EXTENDED_ARG) {
            i = Instruction{Op::skip, 1, prefix, static_cast<uint8_t>(raw), 0};
            high = (high | low) << 8;
            prefix++;
            u++;
            continue;
        }
        const NamedRow* row = find_row(raw);
        const int size = 1 + (row ? caches_of(row->row) : 0);
        i = canonical(raw, high | low, u + size);
        i.prefix = prefix;
        high = 0;
        prefix = 0;
        u += size;
    }
}

bool jumps_back_in_loop(const Instruction& i) {
    switch (i.op) {
    case Op::jump_back:
    case Op::jump_false:
    case Op::jump_true:
    case Op::jump_none:
    case Op::jump_not_none:
        return true;
    default:
        return false; // `jump` backwards is the wait of a yield from, not a loop of the program
    }
}

std::vector<Loop> find_loops(const std::vector<Instruction>& instructions) {
    std::vector<Loop> loops;
    const int units = static_cast<int>(instructions.size()) - 1;
    for (int u = 0; u < units; u += instructions[static_cast<size_t>(u)].size) {
        const Instruction& i = instructions[static_cast<size_t>(u)];
        const int target = static_cast<int>(i.arg);
        if (!jumps_back_in_loop(i) || target > u) continue;
        int test = target;
        while (instructions[static_cast<size_t>(test)].raw == EXTENDED_ARG) test++;
        const Instruction& first = instructions[static_cast<size_t>(test)];
        const bool counted = first.op == Op::for_iter;
        const Loop loop{target, counted ? test + first.size : target, u + i.size, counted};
        auto same = std::find_if(loops.begin(), loops.end(), [&](const Loop& l) { return l.header == target; });
        if (same == loops.end())
            loops.push_back(loop);
        else
            same->end = std::max(same->end, loop.end);
    }
    std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.header < b.header; });
    return loops;
}

int find_return(const std::vector<Instruction>& instructions) {
    int constant = -1;
    for (size_t u = 0; u + 1 < instructions.size(); u += instructions[u].size) {
        if (instructions[u].prefix) continue;
        if (instructions[u].op == Op::return_value) return static_cast<int>(u);
        if (instructions[u].op == Op::return_const) constant = static_cast<int>(u);
    }
    return constant;
}

/// A function that says super() has the cell `__class__` among its free variables.
bool mentions_class_cell(PyCodeObject* code) {
    for (int k = code->co_nlocalsplus - code->co_nfreevars; k < code->co_nlocalsplus; k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, k), "__class__") == 0) return true;
    return false;
}

// ---- the extra slot
void free_code(void* p) { delete static_cast<Code*>(p); }

Py_ssize_t extra_index() {
    static const Py_ssize_t index = [] {
#if PY_VERSION_HEX >= 0x030C0000
        return PyUnstable_Eval_RequestCodeExtraIndex(free_code);
#else
        return _PyEval_RequestCodeExtraIndex(free_code);
#endif
    }();
    return index;
}

#if PY_VERSION_HEX >= 0x030C0000
constexpr auto get_extra = PyUnstable_Code_GetExtra;
constexpr auto set_extra = PyUnstable_Code_SetExtra;
#else
constexpr auto get_extra = _PyCode_GetExtra;
constexpr auto set_extra = _PyCode_SetExtra;
#endif

} // namespace

Instruction canonical(int raw, uint32_t arg, int next) {
    Instruction i;
    i.raw = static_cast<uint8_t>(raw);
    i.arg = arg;
    const NamedRow* row = find_row(raw);
    if (!row) return i;
    i.op = row->row.op;
    i.size = static_cast<uint8_t>(1 + caches_of(row->row));
    switch (row->row.arg) {
    case Arg::plain:
        break;
    case Arg::forward:
        i.arg = static_cast<uint32_t>(next) + arg;
        break;
    case Arg::backward:
        i.arg = static_cast<uint32_t>(next) - arg;
        break;
    case Arg::for_iter:
        i.arg = static_cast<uint32_t>(next + after_loop) + arg;
        break;
    case Arg::compare:
        i.arg = compare_arg(arg);
        break;
    case Arg::attribute:
        if (python == 311) break;
        if (arg & 1) i.op = Op::load_method;
        i.arg = arg >> 1;
        break;
    case Arg::end_for:
        if (python >= 313) i.op = Op::pop_top;
        break;
    case Arg::intrinsic_1:
        i.op = intrinsic_1(arg);
        break;
    case Arg::intrinsic_2:
        break;
    }
    return i;
}

Code* decode(PyCodeObject* object) {
    PyObject* bytes = PyCode_GetCode(object);
    if (!bytes) return nullptr;
    auto code = std::make_unique<Code>();
    read_instructions(code->instructions, reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes)),
                      static_cast<int>(PyBytes_GET_SIZE(bytes) / 2));
    Py_DECREF(bytes);
    code->handlers = read_handlers(object);
    code->loops = find_loops(code->instructions);
    code->return_unit = find_return(code->instructions);
    code->uses_super = mentions_class_cell(object);
    code->locals = object->co_nlocalsplus;
    code->max_stack = object->co_stacksize;
    code->slots = code->locals + code->max_stack;
    return code.release();
}

const Code* code_of(PyCodeObject* object) {
    void* p = nullptr;
    auto* key = reinterpret_cast<PyObject*>(object);
    if (get_extra(key, extra_index(), &p) == 0 && p) return static_cast<Code*>(p);
    Code* code = decode(object);
    if (!code) return nullptr;
    if (set_extra(key, extra_index(), code) < 0) {
        delete code;
        return nullptr;
    }
    return code;
}

const Handler* Code::handler_of(int unit) const {
    auto after = std::upper_bound(handlers.begin(), handlers.end(), unit, [](int u, const Handler& h) { return u < h.start; });
    if (after == handlers.begin()) return nullptr;
    const Handler& h = *(after - 1);
    return unit < h.end ? &h : nullptr;
}

const Loop* Code::loop_around(int unit) const {
    const Loop* found = nullptr;
    for (const Loop& loop : loops)
        if (unit >= loop.header && unit < loop.end) found = &loop; // sorted by header: the last one is the innermost
    return found;
}

const Loop* Code::loop_starting_at(int unit) const {
    for (const Loop& loop : loops)
        if (loop.body == unit) return &loop;
    return nullptr;
}

std::vector<OpcodeRow> opcode_table() {
    std::vector<OpcodeRow> table;
    for (const NamedRow& r : rows) table.push_back({r.name, r.number, r.row.op, caches_of(r.row), r.row.reason});
    return table;
}

std::string reason_of(int raw) {
    const NamedRow* row = find_row(raw);
    if (!row) return "unknown opcode";
    return row->row.reason ? row->row.reason : "";
}

std::string name_of(int raw) {
    const NamedRow* row = find_row(raw);
    return row ? row->name : "?";
}

} // namespace dyno::bytecode
