// The evaluator's loop: one switch over canonical instructions, in two modes. Recording tells a Recorder before and after each
// instruction and keeps shadows beside the values; walking does neither and asks the driver at loop bodies.
// The operations themselves are in perform_*.cpp. A frame is never cleared here: CPython's own loop performs the instruction
// that leaves it. Rules of the trade (why positions are stored when): design.md §5 and the comments where they bite.
#include "compiler/frame/operands.h"
#include "compiler/frame/perform.h"
#include "compiler/frame/telling.h"

#include <cstring>
#include <memory>
#include <opcode.h>

namespace dyno::frame {
namespace {

using bytecode::Instruction;
using bytecode::Op;
using perform::in_pythons_words;

bool tests_for_loop(const Instruction* instructions, int unit) {
    while (instructions[unit].raw == EXTENDED_ARG) unit++;
    return instructions[unit].op == Op::for_iter;
}

void drop_above(PyObject** sp, PyObject** to) {
    while (sp > to) {
        PyObject* v = *--sp;
        Py_XDECREF(v);
    }
}

// The loop's helpers capture by reference: out of line, they would force the stack pointer and the position into memory.
#define DYNO_INLINE __attribute__((always_inline))

// ---- the loop

/// Runs a's frame from a.at until something else has to happen; a.at and a.sp are current whenever it returns or calls out.
template <bool Recording>
Left run(Running& a) {
    PyThreadState* const ts = a.thread;
    InterpreterFrame* const f = a.frame;
    PyObject** const locals = a.locals;
    PyObject* const names = a.code->co_names;
    PyObject* const constants = a.code->co_consts;
    const Instruction* const instructions = a.decoded->instructions.data();
    CodeUnit* const units = units_of(a.code);
    ShadowId* const shadows = a.shadows;
    const bool points = driver().at_point != nullptr;
    PyObject** sp = a.sp;
    int at = a.at;
    int next = at;
    const Instruction* i = instructions + at;
    PyObject* v = nullptr;    // the instruction's result, a new reference
    int pops = 0;             // operands to drop below it
    ShadowId shadow = 0;      // of a redirected callee, then of the result
    PyObject* exit = nullptr; // BEFORE_WITH's second value, a new reference
    bool ended = false;       // the generator that was asked for a value returned

    auto name = [&](uint32_t index) DYNO_INLINE { return PyTuple_GET_ITEM(names, index); };
    auto depth = [&](uint32_t n) DYNO_INLINE -> PyObject*& { return sp[-static_cast<int>(n)]; };
    auto shadow_of = [&](PyObject** slot) DYNO_INLINE -> ShadowId& { return shadows[slot - locals]; };
    auto push = [&](PyObject* value, ShadowId id = 0) DYNO_INLINE {
        if constexpr (Recording) shadows[sp - locals] = id;
        *sp++ = value;
    };
    auto push_slot = [&](uint32_t slot) DYNO_INLINE { push(Py_NewRef(locals[slot]), Recording ? shadows[slot] : 0); };
    auto show = [&]() DYNO_INLINE { // to whoever looks at the activation from inside the instruction
        a.at = at;
        a.next = next;
        a.sp = sp;
    };
    // Dropping an old value may run a finaliser. By then the frame shows the state before the instruction that comes next.
    auto settle = [&](int unit) DYNO_INLINE {
        if constexpr (Recording) {
            a.at = unit;
            a.next = unit + instructions[unit].size;
            a.sp = sp;
        }
    };
    auto drop = [&](int n, int unit) DYNO_INLINE {
        PyObject** old = sp;
        sp -= n;
        settle(unit);
        drop_above(old, sp);
    };
    auto replace = [&](int n, PyObject* value, ShadowId id) DYNO_INLINE { // n operands by a result
        if (n == 0) {
            push(value, id);
            settle(next);
            return;
        }
        PyObject** old = sp;
        sp -= n;
        PyObject* first = *sp;
        push(value, id);
        settle(next);
        drop_above(old, sp);
        Py_XDECREF(first);
    };
    auto pop_into = [&](uint32_t slot) DYNO_INLINE {
        PyObject* old = locals[slot];
        locals[slot] = *--sp;
        if constexpr (Recording) shadows[slot] = shadow_of(sp);
        settle(next);
        Py_XDECREF(old);
    };

    if constexpr (!Recording) {
        if (a.pending) { // frames inside this one are through: their result completes the instruction that called them
            v = std::exchange(a.pending, nullptr);
            next = at + i->size;
            pops = 0;
            goto completed;
        }
        if (a.raised) {
            if (i->op != Op::for_iter || !PyErr_ExceptionMatches(PyExc_StopIteration)) goto error;
            a.raised = false; // __next__ was inlined and has no more
            PyErr_Clear();
            goto exhausted;
        }
    }

    for (;;) {
        i = instructions + at;
        next = at + i->size;
        if constexpr (!Recording) {
            if (a.want_point && i->prefix == 0 && !a.kwnames) [[unlikely]] {
                if (a.native_first) {
                    a.native_first = false;
                } else if (points) {
                    show();
                    const Left left = ask_driver(a);
                    at = a.at;
                    sp = a.sp;
                    if (left != Left::on) return left;
                    if (a.raised) goto error;
                    continue;
                } else {
                    a.want_point = false;
                }
            }
        }
        set_running(f, units + at);
        if constexpr (Recording) {
            show();
            shadow = 0;
            if (!bytecode::moves_data(i->op)) {
                Redirect redirect;
                if (ask_before(a, *i, redirect) == Recorder::Before::redirect) {
                    const Redirected r = redirected(a, *i, redirect);
                    a.kwnames = nullptr;
                    v = r.value, shadow = r.callee, exit = r.exit, ended = r.ended;
                    if (r.how == Redirected::in_pythons_words) goto hand_back;
                    if (r.how == Redirected::raised) goto error;
                    if (r.how == Redirected::exhausted) goto exhausted;
                    if (i->op == Op::send) goto sent;
                    if (i->op == Op::unpack || i->op == Op::unpack_ex) {
                        shadow = tell_after(a, *i, v, shadow);
                        shadow_of(sp - 1) = shadow;
                        std::swap(v, sp[-1]);
                        settle(at);
                        Py_DECREF(v);
                        goto moved;
                    }
                    pops = bytecode::stack_use(*i, false).pops;
                    goto completed;
                }
            }
        }
        // One line a row where an instruction is one: the switch is read as a table.
        // clang-format off
        switch (i->op) {
        // ------------------------------------------------------------ data movement
        case Op::skip: break;
        case Op::resume:
            if (i->arg < 2 && must_poll(a)) {
                show();
                if (poll_now(ts) < 0) goto error;
            }
            break;
        case Op::kw_names:
            a.kwnames = PyTuple_GET_ITEM(constants, i->arg);
            a.names_at = at;
            break;
        case Op::pop_top: drop(1, next); break;
        case Op::pop_two: drop(2, next); break;
        case Op::push_null: push(nullptr); break;
        case Op::copy: push(Py_XNewRef(depth(i->arg)), Recording ? shadow_of(&depth(i->arg)) : 0); break;
        case Op::swap:
            std::swap(depth(1), depth(i->arg));
            if constexpr (Recording) std::swap(shadow_of(&depth(1)), shadow_of(&depth(i->arg)));
            break;
        case Op::load_fast:
            if (!locals[i->arg]) goto hand_back; // CPython raises the error in its own words
            push_slot(i->arg);
            break;
        case Op::load_fast_clear:
            push(locals[i->arg], Recording ? shadows[i->arg] : 0);
            locals[i->arg] = nullptr;
            break;
        case Op::load_two:
            if (!locals[i->arg >> 4] || !locals[i->arg & 15]) goto hand_back;
            push_slot(i->arg >> 4);
            push_slot(i->arg & 15);
            break;
        case Op::store_fast: pop_into(i->arg); break;
        case Op::store_two:
            pop_into(i->arg >> 4);
            pop_into(i->arg & 15);
            break;
        case Op::store_load:
            pop_into(i->arg >> 4);
            push(Py_XNewRef(locals[i->arg & 15]), Recording ? shadows[i->arg & 15] : 0);
            break;
        case Op::delete_fast: {
            if (!locals[i->arg]) goto hand_back;
            PyObject* old = std::exchange(locals[i->arg], nullptr);
            if constexpr (Recording) shadows[i->arg] = 0;
            settle(next);
            Py_DECREF(old);
            break;
        }
        case Op::make_cell: {
            PyObject* cell = PyCell_New(locals[i->arg]);
            if (!cell) goto error;
            Py_XSETREF(locals[i->arg], cell);
            if constexpr (Recording) {
                if (a.recorder) tell(a, [&](Recorder& r) { shadows[i->arg] = r.cell(a, static_cast<int>(i->arg), shadows[i->arg]); });
            }
            break;
        }
        case Op::copy_free_vars: {
            PyObject* closure = function_of(f)->func_closure;
            PyObject** first = locals + a.decoded->locals - i->arg;
            for (uint32_t k = 0; k < i->arg; k++) first[k] = Py_NewRef(PyTuple_GET_ITEM(closure, k));
            break;
        }
        // ------------------------------------------------------------ names
        case Op::load_const: v = Py_NewRef(PyTuple_GET_ITEM(constants, i->arg)); pops = 0; goto produced;
        case Op::load_global:
            v = perform::load_global(f, name(i->arg >> 1));
            pops = 0;
            goto loaded;
        case Op::load_name: v = perform::load_name(f, name(i->arg)); pops = 0; goto produced;
        case Op::load_dict_or_global: v = perform::load_dict_or_global(f, sp[-1], name(i->arg)); pops = 1; goto produced;
        case Op::load_class_deref: {
            PyObject* cell_name = PyTuple_GET_ITEM(a.code->co_localsplusnames, i->arg);
            v = perform::load_dict_or_cell(namespace_of(f), cell_name, locals[i->arg]);
            pops = 0;
            goto produced;
        }
        case Op::load_dict_or_deref: {
            PyObject* cell_name = PyTuple_GET_ITEM(a.code->co_localsplusnames, i->arg);
            v = perform::load_dict_or_cell(sp[-1], cell_name, locals[i->arg]);
            pops = 1;
            goto produced;
        }
        case Op::load_locals:
            if (!namespace_of(f)) goto hand_back;
            v = Py_NewRef(namespace_of(f));
            pops = 0;
            goto produced;
        case Op::load_deref:
            v = Py_XNewRef(PyCell_GET(locals[i->arg]));
            if (!v) goto hand_back;
            pops = 0;
            goto produced;
        case Op::store_global: v = perform::done_if(PyDict_SetItem(globals_of(f), name(i->arg), sp[-1])); pops = 1; goto stored;
        case Op::store_name: v = perform::store_name(f, name(i->arg), sp[-1]); pops = 1; goto stored;
        case Op::store_deref: {
            PyObject* old = PyCell_GET(locals[i->arg]);
            PyCell_SET(locals[i->arg], Py_NewRef(sp[-1]));
            if constexpr (Recording) tell_after(a, *i, nullptr, 0);
            drop(1, next); // the cell holds the value too
            Py_XDECREF(old);
            break;
        }
        case Op::delete_deref: {
            PyObject* old = PyCell_GET(locals[i->arg]);
            if (!old) goto hand_back;
            PyCell_SET(locals[i->arg], nullptr);
            if constexpr (Recording) tell_after(a, *i, nullptr, 0);
            settle(next);
            Py_DECREF(old);
            break;
        }
        case Op::delete_global:
        case Op::delete_name: v = perform::delete_name(*i, f, name(i->arg)); pops = 0; goto stored;
        case Op::setup_annotations: v = perform::setup_annotations(f); pops = 0; goto stored;
        case Op::import_name: v = perform::import_name(f, name(i->arg), sp - 2); pops = 2; goto produced;
        case Op::import_from: v = perform::import_from(sp[-1], name(i->arg)); pops = 0; goto produced;
        case Op::load_build_class: v = perform::builtin(f, "__build_class__"); pops = 0; goto produced;
        case Op::load_assertion_error: v = Py_NewRef(PyExc_AssertionError); pops = 0; goto produced;
        // ------------------------------------------------------------ attributes and items
        case Op::load_attr: v = PyObject_GetAttr(sp[-1], name(i->arg)); pops = 1; goto produced;
        case Op::load_method: {
            v = nullptr;
            const int unbound = _PyObject_GetMethod(sp[-1], name(i->arg), &v);
            if (!v) goto error;
            pops = 1;
            if (!unbound) goto loaded;
            if constexpr (Recording) shadow = tell_after(a, *i, v, 0);
            PyObject* self = sp[-1];
            sp[-1] = v;
            if constexpr (Recording) std::swap(shadow, shadow_of(sp - 1));
            push(self, shadow);
            break;
        }
        case Op::load_super: v = perform::load_super(*i, name(i->arg >> 2), sp - 3); pops = 3; goto loaded;
        case Op::store_attr: v = perform::done_if(PyObject_SetAttr(sp[-1], name(i->arg), sp[-2])); pops = 2; goto stored;
        case Op::delete_attr: v = perform::done_if(PyObject_SetAttr(sp[-1], name(i->arg), nullptr)); pops = 1; goto stored;
        case Op::subscript: v = PyObject_GetItem(sp[-2], sp[-1]); pops = 2; goto produced;
        case Op::slice: v = perform::slice(sp - 3); pops = 3; goto produced;
        case Op::store_subscript: v = perform::done_if(PyObject_SetItem(sp[-2], sp[-1], sp[-3])); pops = 3; goto stored;
        case Op::store_slice: v = perform::store_slice(sp - 4); pops = 4; goto stored;
        case Op::delete_subscript: v = perform::done_if(PyObject_DelItem(sp[-2], sp[-1])); pops = 2; goto stored;
        // ------------------------------------------------------------ operators
        case Op::binary:
            if constexpr (!Recording) {
                // CPython's in-place `s += text`: without it a loop that builds a string takes quadratic time.
                const Instruction& store = instructions[next];
                if ((i->arg == 0 || i->arg == NB_INPLACE_ADD) && PyUnicode_CheckExact(sp[-2]) && PyUnicode_CheckExact(sp[-1]) &&
                    store.op == Op::store_fast && locals[store.arg] == sp[-2]) {
                    PyObject* local = std::exchange(locals[store.arg], nullptr);
                    Py_DECREF(local);
                    const int status = perform::append_text(sp - 2, sp[-1]);
                    drop(1, next);
                    if (status < 0) goto error;
                    break;
                }
            }
            v = perform::binary(i->arg, sp[-2], sp[-1]);
            pops = 2;
            goto produced;
        case Op::compare: v = perform::compare(i->arg, sp[-2], sp[-1]); pops = 2; goto produced;
        case Op::is_same: v = PyBool_FromLong((sp[-1] == sp[-2]) != (i->arg != 0)); pops = 2; goto produced;
        case Op::contains: {
            const int in = PySequence_Contains(sp[-1], sp[-2]);
            v = in < 0 ? nullptr : PyBool_FromLong((in != 0) != (i->arg != 0));
            pops = 2;
            goto produced;
        }
        case Op::negative:
        case Op::positive:
        case Op::invert:
        case Op::logical_not:
        case Op::to_bool: v = perform::unary(i->op, sp[-1]); pops = 1; goto produced;
        // ------------------------------------------------------------ building
        case Op::build_tuple:
        case Op::build_list:
        case Op::build_set:
        case Op::build_string:
        case Op::build_slice: v = perform::build(*i, sp); pops = static_cast<int>(i->arg); goto produced;
        case Op::build_map: v = perform::build(*i, sp); pops = 2 * static_cast<int>(i->arg); goto produced;
        case Op::build_const_map: v = perform::build(*i, sp); pops = static_cast<int>(i->arg) + 1; goto produced;
        case Op::list_append:
        case Op::set_add:
        case Op::list_extend:
        case Op::set_update:
        case Op::dict_update:
        case Op::dict_merge: v = perform::add_to_container(*i, sp); pops = 1; goto stored;
        case Op::map_add: v = perform::add_to_container(*i, sp); pops = 2; goto stored;
        case Op::list_to_tuple: v = PyList_AsTuple(sp[-1]); pops = 1; goto produced;
        case Op::unpack:
        case Op::unpack_ex: {
            v = perform::unpack(*i, sp[-1]);
            if (v == in_pythons_words()) goto hand_back;
            if (!v) goto error;
            const Py_ssize_t count = PyList_GET_SIZE(v);
            PyObject** items = reinterpret_cast<PyListObject*>(v)->ob_item;
            std::unique_ptr<ShadowId[]> ids;
            if constexpr (Recording) {
                ids = std::make_unique<ShadowId[]>(static_cast<size_t>(count));
                if (a.recorder) tell(a, [&](Recorder& r) { r.unpacked(a, *i, items, static_cast<size_t>(count), ids.get()); });
            }
            PyObject* from = *--sp;
            for (Py_ssize_t k = count; k-- > 0;) push(Py_NewRef(items[k]), Recording ? ids[static_cast<size_t>(k)] : 0);
            settle(next);
            Py_DECREF(v);
            Py_DECREF(from);
            break;
        }
        case Op::format_value: v = perform::format(*i, sp); pops = i->arg & 4 ? 2 : 1; goto produced;
        case Op::format_spec: v = perform::format(*i, sp); pops = 2; goto produced;
        case Op::format_simple:
        case Op::convert: v = perform::format(*i, sp); pops = 1; goto produced;
        // ------------------------------------------------------------ iteration and jumps
        case Op::get_iter: v = PyObject_GetIter(sp[-1]); pops = 1; goto produced;
        case Op::get_yield_from_iter: v = perform::yield_from_iter(sp[-1]); pops = 1; goto produced;
        case Op::for_iter:
            v = Py_TYPE(sp[-1])->tp_iternext(sp[-1]);
            if (!v && PyErr_Occurred()) {
                if (!PyErr_ExceptionMatches(PyExc_StopIteration)) goto error;
                PyErr_Clear();
            }
            if (!v) goto exhausted;
            goto iterated;
        case Op::get_len: {
            const Py_ssize_t n = PyObject_Size(sp[-1]);
            v = n < 0 ? nullptr : PyLong_FromSsize_t(n);
            pops = 0;
            goto produced;
        }
        case Op::send: {
            const PySendResult how = PyIter_Send(sp[-2], sp[-1], &v);
            if (how == PYGEN_ERROR) goto error;
            ended = how == PYGEN_RETURN;
            goto sent;
        }
        case Op::end_send: {
            PyObject* receiver = sp[-2];
            sp[-2] = sp[-1];
            if constexpr (Recording) shadow_of(sp - 2) = shadow_of(sp - 1);
            sp--;
            settle(next);
            Py_DECREF(receiver);
            break;
        }
        case Op::jump:
        case Op::jump_back:
            if constexpr (Recording) tell_after(a, *i, nullptr, 0);
            at = static_cast<int>(i->arg);
            if (i->op == Op::jump) goto moved;
            if (must_poll(a)) {
                set_running(f, units + at);
                i = instructions + at;
                next = at;
                show();
                if (poll_now(ts) < 0) goto error;
            }
            if constexpr (!Recording) {
                if (!tests_for_loop(instructions, at)) a.want_point = true;
            }
            goto moved;
        case Op::jump_false:
        case Op::jump_true: {
            int truth = sp[-1] == Py_True ? 1 : sp[-1] == Py_False ? 0 : PyObject_IsTrue(sp[-1]);
            if (truth < 0) goto error;
            v = truth ? Py_True : Py_False;
            pops = 1;
            goto decided;
        }
        case Op::jump_none:
        case Op::jump_not_none:
            v = sp[-1] == Py_None ? Py_True : Py_False;
            pops = 1;
            goto decided;
        case Op::jump_false_or_pop:
        case Op::jump_true_or_pop: {
            const int truth = PyObject_IsTrue(sp[-1]);
            if (truth < 0) goto error;
            v = truth ? Py_True : Py_False;
            pops = 1;
            goto decided;
        }
        // ------------------------------------------------------------ calls and functions
        case Op::call:
        case Op::call_kw:
            show();
            if (bytecode::python < 313 && perform::entered_without_c(call_operands(a, *i).callable)) set_running(f, units + next - 1);
            v = perform::call(a, *i);
            a.kwnames = nullptr;
            pops = static_cast<int>(i->arg) + 2 + (i->op == Op::call_kw);
            goto called;
        case Op::call_ex:
            show();
            v = perform::call_ex(a, *i);
            pops = 3 + static_cast<int>(i->arg & 1);
            goto called;
        case Op::make_function: v = perform::make_function(*i, globals_of(f), sp); pops = bytecode::stack_use(*i, false).pops; goto produced;
        case Op::set_function_attr: v = perform::set_function_attr(*i, sp); pops = 2; goto produced;
        case Op::print_expr:
            // In 3.11 an instruction of its own, an intrinsic that pushes None from 3.12 on.
            v = perform::print_expr(sp[-1]);
            pops = 1;
            if (bytecode::python == 311) goto stored;
            if (v && v != in_pythons_words()) Py_INCREF(v);
            goto produced;
        // ------------------------------------------------------------ patterns
        case Op::match_mapping: v = PyBool_FromLong(Py_TYPE(sp[-1])->tp_flags & Py_TPFLAGS_MAPPING); pops = 0; goto produced;
        case Op::match_sequence: v = PyBool_FromLong(Py_TYPE(sp[-1])->tp_flags & Py_TPFLAGS_SEQUENCE); pops = 0; goto produced;
        case Op::match_keys: v = perform::match_keys(sp[-2], sp[-1]); pops = 0; goto produced;
        // ------------------------------------------------------------ exceptions
        case Op::push_exc:
            if constexpr (Recording) {
                tell_after(a, *i, sp[-1], 0);
                shadow_of(sp) = shadow_of(sp - 1);
                shadow_of(sp - 1) = 0;
            }
            perform::push_exc(ts, sp - 1);
            sp++;
            break;
        case Op::check_exc: v = perform::check_exc(sp[-2], sp[-1]); pops = 1; goto produced;
        case Op::pop_except:
            if constexpr (Recording) tell_after(a, *i, nullptr, 0);
            v = *--sp;
            settle(next);
            perform::pop_except(ts, v);
            break;
        case Op::reraise:
            if (!a.decoded->handler_of(at)) { // CPython's own RERAISE leaves the frame
                if constexpr (Recording) {
                    tell_raised(a, *i);
                    if (a.recorder) { // the error goes on to a recorded frame that takes it
                        a.recorder = nullptr;
                        at -= i->prefix;
                        show();
                        return Left::hand_over;
                    }
                }
                goto hand_back;
            }
            if constexpr (Recording) tell_raised(a, *i);
            if (i->arg) set_running(f, units + PyLong_AsLong(sp[-static_cast<int>(i->arg) - 1]));
            perform::set_exception(*--sp);
            goto unwind;
        case Op::raise:
            if (i->arg == 0) goto hand_back;
            perform::raise(*i, sp);
            goto error;
        case Op::with_start: {
            PyObject* enter = perform::with_hooks(sp[-1], &exit);
            if (enter == in_pythons_words()) goto hand_back;
            if (!enter) goto error;
            v = PyObject_CallNoArgs(enter);
            Py_DECREF(enter);
            if (!v) Py_CLEAR(exit);
            if (!v) goto error;
            goto completed;
        }
        case Op::with_except: v = perform::with_except(sp); pops = 0; goto produced;
        // ------------------------------------------------------------ the end
        case Op::return_value:
        case Op::return_const:
            if constexpr (Recording) {
                if (a.recorder) {
                    const bool constant = i->op == Op::return_const;
                    PyObject* result = constant ? PyTuple_GET_ITEM(constants, i->arg) : sp[-1];
                    tell(a, [&](Recorder& r) { a.returned = r.leave(a, result, constant ? 0 : shadow_of(sp - 1)); });
                    a.recorder = nullptr;
                }
            }
            at -= i->prefix;
            show();
            return Left::hand_over;
        case Op::leave_frame:
            if constexpr (Recording) {
                if (a.recorder) {
                    tell(a, [&](Recorder& r) { a.returned = r.yields(a, sp[-1], shadow_of(sp - 1)); });
                    a.recorder = nullptr;
                }
            }
            goto hand_back;
        case Op::unknown: goto hand_back;
        }
        // clang-format on
        at = next;

    moved: // `at` is the next instruction
        if constexpr (Recording) {
            if (!a.recorder) {
                show();
                return Left::mode;
            }
        }
        continue;

    called: // as produced, and what CPython's loop checks after calls
        if (!v) goto error;
        if (v == in_pythons_words()) goto hand_back;
        if constexpr (Recording) shadow = tell_after(a, *i, v, shadow);
        replace(pops, v, shadow);
        at = next;
        if (observed(ts)) { // the call switched tracing on: the rest of the frame is CPython's
            i = instructions + at;
            next = at + i->size;
            goto hand_back;
        }
        if (must_poll(a) && poll_now(ts) < 0) {
            if constexpr (Recording) tell_failed(a, instructions[next]); // the call itself is done
            at = static_cast<int>(i - instructions);
            goto error;
        }
        goto moved;

    completed: // by the result of a redirected call, or of frames made from data: `v`, a reference
        switch (i->op) {
        case Op::jump_false:
        case Op::jump_true:
            Py_DECREF(v);
            goto decided; // a bool, so still alive
        case Op::jump_false_or_pop:
        case Op::jump_true_or_pop:
            Py_DECREF(v);
            pops = 1; // the operand stays on the stack in both cases
            goto decided;
        case Op::for_iter:
            goto iterated;
        case Op::contains:
        case Op::logical_not:
            if (i->op == Op::logical_not || i->arg) Py_SETREF(v, PyBool_FromLong(v != Py_True));
            goto produced;
        case Op::load_method:
        case Op::load_super:
            goto loaded;
        case Op::with_start:
            if constexpr (Recording) shadow = tell_after(a, *i, v, shadow);
            if (PyObject* manager = sp[-1]; exit) { // not where frames were made from data: `exit` is on the stack already
                sp[-1] = std::exchange(exit, nullptr);
                push(v, shadow);
                settle(next);
                Py_DECREF(manager);
            } else {
                push(v, shadow);
            }
            at = next;
            goto moved;
        case Op::call:
        case Op::call_kw:
        case Op::call_ex:
            goto called;
        default:
            if (bytecode::stack_use(*i, false).pushes == 0) goto completed_store;
            goto produced;
        }

    completed_store:
        Py_DECREF(v);
        v = perform::done();
        goto stored;

    loaded: // `v` with a NULL where the instruction asks for one
        if (!v) goto error;
        if (v == in_pythons_words()) goto hand_back;
        if constexpr (Recording) shadow = tell_after(a, *i, v, shadow);
        if (i->op != Op::load_method && !(i->arg & 1)) {
            replace(pops, v, shadow);
        } else if constexpr (bytecode::python < 313) {
            replace(pops, nullptr, 0);
            push(v, shadow);
        } else {
            replace(pops, v, shadow);
            push(nullptr);
        }
        at = next;
        goto moved;

    sent: // SEND's next value, or what its receiver returned
        if constexpr (Recording) shadow = tell_after(a, *i, v, shadow);
        if (ended) next = static_cast<int>(i->arg);
        replace(std::exchange(ended, false) && bytecode::python == 311 ? 2 : 1, v, shadow);
        at = next;
        goto moved;

    iterated: // FOR_ITER's next value; the iterator stays
        if constexpr (Recording) shadow = tell_after(a, *i, v, shadow);
        push(v, shadow);
        at = next;
        if constexpr (!Recording) a.want_point = true;
        goto moved;

    exhausted:
        if constexpr (Recording) tell_after(a, *i, nullptr, 0);
        at = static_cast<int>(i->arg);
        drop(1, at);
        goto moved;

    decided : { // a conditional jump on `v`, Py_True or Py_False, borrowed
        const bool when = i->op == Op::jump_true || i->op == Op::jump_none || i->op == Op::jump_true_or_pop;
        const bool taken = (v == Py_True) == when;
        if constexpr (Recording) {
            if (a.recorder) tell(a, [&](Recorder& r) { r.jumped(a, *i, taken); });
            tell_after(a, *i, nullptr, 0);
        }
        const bool keeps = taken && (i->op == Op::jump_false_or_pop || i->op == Op::jump_true_or_pop);
        if constexpr (!Recording) {
            if (taken && static_cast<int>(i->arg) <= at && !tests_for_loop(instructions, static_cast<int>(i->arg))) a.want_point = true;
        }
        at = taken ? static_cast<int>(i->arg) : next;
        if (!keeps) drop(pops, at);
        goto moved;
    }

    stored: // nothing is pushed
        if (!v) goto error;
        if (v == in_pythons_words()) goto hand_back;
        if constexpr (Recording) tell_after(a, *i, nullptr, shadow);
        at = next;
        drop(pops, at);
        goto moved;

    produced: // `v` takes the place of `pops` operands
        if (!v) goto error;
        if (v == in_pythons_words()) goto hand_back;
        if constexpr (Recording) shadow = tell_after(a, *i, v, shadow);
        replace(pops, v, shadow);
        at = next;
        goto moved;

    error: // the instruction at `at` raised; its operands are still there, unwinding drops them
        a.raised = false;
        a.kwnames = nullptr;
        show();
        if constexpr (Recording) tell_raised(a, *i);
        // Without a handler CPython 3.11 and 3.12 do all that follows. 3.13 would take the line of the next instruction.
        if (bytecode::python < 313 && !a.decoded->handler_of(at)) return Left::raised;
        if (at >= a.code->_co_firsttraceable || in_generator(f)) perform::add_traceback(ts);

    unwind : {
        const bytecode::Handler* handler = a.decoded->handler_of(at);
        if (!handler) {
            show();
            return Left::raised;
        }
        const int position = running_unit(f, a.code);
        drop_above(sp, a.base + handler->depth);
        sp = a.base + handler->depth;
        if (handler->lasti) push(PyLong_FromLong(position));
        push(perform::take_exception());
        at = handler->target;
        goto moved;
    }

    hand_back: // nothing of the instruction at `at` is done
        show();
        if constexpr (Recording) tell_failed(a, *i);
        if (driver().handed_back && i->op != Op::leave_frame && i->op != Op::reraise) driver().handed_back(a, *i);
        // The names of a call's keywords are not in the frame; an argument's prefix is not in the instruction.
        if (a.kwnames) at = a.names_at;
        a.kwnames = nullptr;
        at -= instructions[at].prefix;
        show();
        return Left::hand_over;
    }
}

} // namespace

Left run_walking(Running& a) { return run<false>(a); }
Left run_recording(Running& a) { return run<true>(a); }

} // namespace dyno::frame
