// Canonical bytecode: one vocabulary for CPython 3.11, 3.12 and 3.13, decoded once per code object and kept in the code's
// extra slot. Input: a code object as its compiler wrote it (specialised and instrumented forms undone). Output: Code.
// Nothing is executed here and nothing is known of frames.
#pragma once
#include <Python.h>
#include <cstdint>
#include <string>
#include <vector>

namespace dyno::bytecode {

/// 311, 312 or 313: for `if constexpr` where a table row cannot say it.
inline constexpr int python = 300 + ((PY_VERSION_HEX >> 16) & 0xff);

/// What an instruction means. `arg` is what the comment says; stack pictures have the top at the right.
enum class Op : uint8_t {
    // ---- data movement: done without asking a recorder
    skip,            // NOP, PRECALL, EXTENDED_ARG
    resume,          // arg: 0 start, 1 after yield, 2 after yield from, 3 after await
    kw_names,        // arg: constant; the names of the next call's keywords (3.11, 3.12)
    pop_top,         // v ->
    pop_two,         // v, w ->
    push_null,       // -> NULL
    copy,            // arg: depth, 1 is the top
    swap,            // arg: depth
    load_fast,       // arg: slot; also closures' cells
    load_fast_clear, // arg: slot, may be empty; empties it
    load_two,        // arg: slot << 4 | slot
    store_fast,      // arg: slot
    store_two,       // arg: slot << 4 | slot; the first takes the top
    store_load,      // arg: slot << 4 | slot
    delete_fast,     // arg: slot
    make_cell,       // arg: slot
    copy_free_vars,  // arg: how many, into the last slots
    // ---- names
    load_const,          // arg: constant
    load_global,         // arg: name << 1 | with a NULL (before it up to 3.12, after it from 3.13)
    load_name,           // arg: name
    load_deref,          // arg: slot of a cell
    load_class_deref,    // arg: slot of a cell; the class's own dict first
    load_dict_or_deref,  // arg: slot; dict -> v
    load_dict_or_global, // arg: name; dict -> v
    load_locals,
    store_global, // arg: name
    store_name,
    store_deref, // arg: slot of a cell
    delete_global,
    delete_name,
    delete_deref,
    setup_annotations,
    import_name, // arg: name; level, names -> module
    import_from, // arg: name; module -> module, v
    load_build_class,
    load_assertion_error,
    // ---- attributes and items
    load_attr,        // arg: name; owner -> v
    load_method,      // arg: name; owner -> method, self, or NULL, v (from 3.13: v, NULL)
    load_super,       // arg: name << 2 | two arguments << 1 | as method; super, class, self -> as load_attr or load_method
    store_attr,       // arg: name; value, owner ->
    delete_attr,      // arg: name; owner ->
    subscript,        // container, key -> v
    slice,            // container, from, to -> v
    store_subscript,  // value, container, key ->
    store_slice,      // value, container, from, to ->
    delete_subscript, // container, key ->
    // ---- operators
    binary,   // arg: CPython's NB_ number; a, b -> v
    compare,  // arg: Py_LT.. | to_bool_bit; a, b -> v
    is_same,  // arg: 1 inverts; a, b -> bool
    contains, // arg: 1 inverts; item, container -> bool
    negative,
    positive,
    invert,
    logical_not,
    to_bool,
    // ---- building
    build_tuple, // arg: how many
    build_list,
    build_set,
    build_map,       // arg: pairs; key, value, key, value ...
    build_const_map, // arg: values; values, tuple of keys
    build_string,
    build_slice,   // arg: 2 or 3
    list_append,   // arg: depth of the list below the value
    set_add,       // arg: depth
    map_add,       // arg: depth below the pair; key, value
    list_extend,   // arg: depth
    set_update,    // arg: depth
    dict_update,   // arg: depth
    dict_merge,    // arg: depth
    list_to_tuple, // list -> tuple
    unpack,        // arg: how many; the first item ends on top
    unpack_ex,     // arg: before | after << 8
    format_value,  // arg: conversion | 4 if a specification is on top (3.11, 3.12)
    format_simple, // 3.13
    format_spec,   // value, specification -> text
    convert,       // arg: 1 str, 2 repr, 3 ascii
    // ---- iteration and jumps; arg: target unit
    get_iter,
    get_yield_from_iter,
    for_iter, // target: where the loop goes on when exhausted, END_FOR passed; iterator -> iterator, v
    get_len,  // v -> v, length
    send,     // receiver, v -> receiver, v' (from 3.12 also at its end; 3.11 ends with -> v')
    end_send, // receiver, v -> v
    jump,
    jump_back, // polls for interrupts
    jump_false,
    jump_true,
    jump_none,
    jump_not_none,
    jump_false_or_pop,
    jump_true_or_pop,
    // ---- calls and functions
    call,    // arg: arguments, keyword values included; see frame/operands.h for the layout
    call_kw, // the same with the names on top (3.13)
    call_ex, // arg: 1 with a mapping on top
    make_function,
    set_function_attr, // arg: which; value, function -> function
    print_expr,        // v ->
    // ---- patterns
    match_mapping,  // v -> v, bool
    match_sequence, // v -> v, bool
    match_keys,     // v, keys -> v, keys, values or None
    // ---- exceptions
    push_exc,    // exception -> previous, exception
    check_exc,   // exception, type -> exception, bool
    pop_except,  // previous ->
    reraise,     // arg: depth of the saved position, 0 is none
    raise,       // arg: 0, 1 exception, 2 exception and cause
    with_start,  // manager -> exit, result of enter
    with_except, // exit, position, previous, exception -> the same, result
    // ---- the end
    return_value,
    return_const, // arg: constant (from 3.12)
    leave_frame,  // YIELD_VALUE, RETURN_GENERATOR: CPython's loop performs it
    unknown,      // handed back, with the reason of its row
};
/// In `arg` of compare: the result is turned into a bool.
inline constexpr uint32_t to_bool_bit = 0x100;

/// True for the instructions that only move values: a recorder is not asked, shadows move along.
inline bool moves_data(Op op) { return op <= Op::copy_free_vars; }

/// One instruction, found by its unit. Fields: see the comments; 8 bytes, since evaluating walks through them.
struct Instruction {
    Op op = Op::unknown;
    uint8_t size = 1;   // units, caches included
    uint8_t prefix = 0; // EXTENDED_ARG units before it; the frame can be entered only at the first of them
    uint8_t raw = 0;    // CPython's number
    uint32_t arg = 0;   // as the canonical op says
};
static_assert(sizeof(Instruction) == 8);

/// A range of the exception table, in units.
struct Handler {
    int start, end, target, depth;
    bool lasti; // the position is pushed before the exception
};

/// A loop: where it is tested, where its body starts, and the unit behind its last jump back.
struct Loop {
    int header; // FOR_ITER with its prefix, or the target of the jumps back
    int body;   // behind FOR_ITER, or the header itself
    int end;
    bool counted; // a for loop
};

/// A decoded code object. Units are CPython's code units (2 bytes); a byte offset is twice the unit.
class Code {
  public:
    std::vector<Instruction> instructions; // by unit; cache units hold Op::unknown
    std::vector<Handler> handlers;         // sorted, disjoint
    std::vector<Loop> loops;               // sorted by header
    int locals = 0;                        // co_nlocalsplus
    int max_stack = 0;                     // co_stacksize
    int slots = 0;                         // locals + max_stack
    int return_unit = -1;                  // a return instruction without prefix, -1: the code never returns
    bool uses_super = false;               // super() without arguments reads slot 0 of its caller's frame
    bool has_loops() const { return !loops.empty(); }

    /// The handler that catches what is raised at `unit`, or null.
    const Handler* handler_of(int unit) const;
    /// The innermost loop that contains `unit`, or null.
    const Loop* loop_around(int unit) const;
    /// The loop whose body starts at `unit`, or null.
    const Loop* loop_starting_at(int unit) const;
    /// The first unit of the instruction at `unit`: its first EXTENDED_ARG, or itself.
    int start_of(int unit) const { return unit - instructions[static_cast<size_t>(unit)].prefix; }
    /// False: whatever the slot of locals[] holds before `unit`, no instruction of this code reads it before it is
    /// overwritten. Says nothing of readers outside the code (locals(), tracebacks, debuggers). Needs the GIL.
    bool live(int slot, int unit) const;
    /// The source line of the instruction at `unit` of `code`, whose decoded form this is; -1: it has none. Needs the GIL.
    int line_of(PyCodeObject* code, int unit) const;

  private:
    friend Code* decode(PyCodeObject*);
    mutable std::vector<int> lines_; // by unit, made at the first question
    mutable std::vector<uint64_t> live_; // words per unit, made at the first question
    mutable size_t live_words_ = 0;
    void compute_liveness() const;
};

/// The source line of every code unit, -1 where there is none: PyCode_Addr2Line for all of them in one pass.
std::vector<int> lines_of(PyCodeObject* code);

/// Decodes; null with an error set when memory runs out.
Code* decode(PyCodeObject* code);
/// The decoded form, kept in the code's extra slot and freed with the code; null with an error set.
const Code* code_of(PyCodeObject* code);

/// Values an instruction takes from the stack and puts there. `jumps`: the effect along its jump.
struct StackUse {
    int pops = 0, pushes = 0;
};
StackUse stack_use(const Instruction& instruction, bool jumps);

/// A row of the opcode table, for tests and for reports. `number` is -1 where this CPython has no such opcode.
struct OpcodeRow {
    const char* name;
    int number;
    Op op;
    int caches;
    const char* reason; // why it is handed back, or null
};
std::vector<OpcodeRow> opcode_table();
/// Why the raw opcode is handed back to CPython's loop, in a few words; "" when it is not.
std::string reason_of(int raw);
/// CPython's name of the raw opcode.
std::string name_of(int raw);
/// The canonical instruction of a raw opcode and argument whose next instruction is at `next`.
Instruction canonical(int raw, uint32_t arg, int next);

} // namespace dyno::bytecode
