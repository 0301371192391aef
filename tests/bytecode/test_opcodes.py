"""The opcode table against the running interpreter: every opcode has a row, with CPython's caches and stack effect."""
import dis
import sys
import types

import frame_probe
import programs

REAL = {name: number for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
ROWS = {name: (number, caches, reason) for name, number, caches, reason in frame_probe.rows()}


def caches_of(name):
    table = __import__("opcode")._inline_cache_entries
    return table.get(name, 0) if isinstance(table, dict) else table[REAL[name]]


def test_every_opcode_has_a_row():
    assert sorted(set(REAL) - set(ROWS)) == []
    assert {name: ROWS[name][0] for name in REAL} == REAL
    assert sorted(name for name, (number, _, _) in ROWS.items() if number >= 0 and name not in REAL) == []


def test_rows_are_sorted():
    names = [row[0] for row in frame_probe.rows()]
    assert names == sorted(names) and len(names) == len(set(names))


def test_caches():
    assert {name: ROWS[name][1] for name in REAL} == {name: caches_of(name) for name in REAL}


def arguments(name):
    if REAL[name] < dis.HAVE_ARGUMENT and sys.version_info < (3, 13):
        return [None]
    if sys.version_info >= (3, 13) and REAL[name] not in dis.hasarg:
        return [None]
    few = {"BUILD_SLICE": [2, 3], "RAISE_VARARGS": [0, 1, 2], "RERAISE": [0, 1], "CALL_FUNCTION_EX": [0, 1], "MAKE_FUNCTION": range(16), "FORMAT_VALUE": range(8),
           "UNPACK_EX": [0, 1, 2, 256, 258], "SET_FUNCTION_ATTRIBUTE": [1, 2, 4, 8], "CALL_INTRINSIC_1": [1, 5, 6], "LOAD_SUPER_ATTR": range(8), "COPY": [1, 2], "SWAP": [2, 3]}
    if sys.version_info >= (3, 13):
        few["MAKE_FUNCTION"] = [0]
    return few.get(name, [0, 1, 2, 5])


def test_stack_effects():
    # dis counts what is left on the stack along a jump differently where CPython's loop pops it behind the jump's target.
    wrong, checked = [], 0
    for name, number in REAL.items():
        if name in ("EXTENDED_ARG", "CACHE", "RESERVED", "INTERPRETER_EXIT", "PRECALL", "RETURN_GENERATOR"):
            continue
        for arg in arguments(name):
            for jump in (False, True):
                ours = frame_probe.effect(number, arg or 0, jump)
                if ours is None or (jump and name in ("FOR_ITER",) and sys.version_info >= (3, 12)):
                    continue
                theirs = dis.stack_effect(number, arg, jump=jump)
                if name == "CALL" and sys.version_info < (3, 12):
                    theirs += dis.stack_effect(REAL["PRECALL"], arg)  # 3.11 books the arguments there, before they are popped
                checked += 1
                if ours != theirs:
                    wrong.append((name, arg, jump, ours, theirs))
    assert not wrong, wrong
    assert checked > 300


def test_handed_back_rows_say_why():
    allowed = {"await", "async with", "async for", "async generator", "except*", "class pattern", "cache unit", "internal to CPython's loop", "from module import *",
               "code of CPython's own JIT", "throw() into a delegating generator", "type parameters or async generator", "type parameters or except*"}
    assert {reason for _, _, reason in ROWS.values() if reason} <= allowed


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def program_codes():
    for program in programs.all_programs():
        yield from codes(program.__code__)
    import argparse
    import json.decoder
    for function in (argparse.ArgumentParser.parse_known_args, argparse.ArgumentParser._parse_known_args, json.decoder.py_scanstring):
        yield from codes(function.__code__)


def test_instructions_and_handlers_are_those_of_dis():
    count = 0
    for code in program_codes():
        instructions, handlers, _ = frame_probe.decode(code)
        want = {i.offset: i.opcode for i in dis.get_instructions(code)}
        assert {offset: row[0] for offset, row in instructions.items()} == want
        assert [h[:3] for h in handlers] == [(e.start, e.end, e.target) for e in dis.Bytecode(code).exception_entries]
        for i in dis.get_instructions(code):
            if i.opcode in dis.hasjrel and "SEND" not in i.opname and i.opname not in ("FOR_ITER",):
                assert 2 * instructions[i.offset][4] == i.argval, i
                count += 1
    assert count > 100


def lines_by_cpython(code):
    found = [-1] * (len(code.co_code) // 2)
    for start, end, line in code.co_lines():
        found[start // 2 : end // 2] = [-1 if line is None else line] * ((end - start) // 2)
    return found


def test_lines_are_those_of_cpython():
    import asyncio.base_events
    import typing
    sources = [module.__file__ for module in (asyncio.base_events, typing, types, dis)] + [__file__]
    found = [code for path in sources for code in codes(compile(open(path, encoding="utf-8").read(), path, "exec"))]
    found += [compile("\n" * 5000 + "x = (1,\n" + "\n" * 3000 + "y)\n", "far apart", "exec"), compile("pass", "one", "exec")]
    assert len(found) > 500
    for code in found:
        assert frame_probe.lines(code) == lines_by_cpython(code), code


def test_loops():
    def two(n):
        for i in range(n):
            for j in range(i):
                n += 1
        while n:
            n -= 1

    instructions, _, loops = frame_probe.decode(two.__code__)
    assert [loop[3] for loop in loops] == [1, 1, 0]
    for header, body, end, counted in loops:
        assert header <= body < end
        if counted:
            assert dis.opname[instructions[header][0]] == "FOR_ITER"
    outer, inner, _ = loops
    assert outer[0] < inner[0] and inner[2] <= outer[2]


def slot(code, name):
    return (code.co_varnames + tuple(c for c in code.co_cellvars if c not in code.co_varnames) + code.co_freevars).index(name)


def test_liveness_of_an_example():
    def example(a, b):
        c = a + 1
        if b:
            d = c
            return d
        return a

    code = example.__code__
    offsets = [i.offset for i in dis.get_instructions(code)]
    starts = {name: slot(code, name) for name in "abcd"}
    assert frame_probe.live(code, starts["a"], 0) and frame_probe.live(code, starts["b"], 0)
    assert not frame_probe.live(code, starts["c"], 0) and not frame_probe.live(code, starts["d"], 0)
    stores_c = next(i.offset for i in dis.get_instructions(code) if i.argval == "c" and i.opname.startswith("STORE"))
    assert frame_probe.live(code, starts["c"], offsets[offsets.index(stores_c) + 1])
    last = max(i.offset for i in dis.get_instructions(code) if i.opname in ("RETURN_VALUE", "RETURN_CONST"))
    assert not any(frame_probe.live(code, n, last) for n in starts.values())


def test_dead_slots_are_never_read():
    """At every boundary of every program the dead slots are overwritten; nothing may change."""
    poisoned = 0
    for program in programs.all_programs():
        want = program()
        if program is programs.module_code:
            continue  # a class body's code reads through locals()

        def poison(code, offset, locals_, stack):
            nonlocal poisoned
            new = list(locals_)
            for n, value in enumerate(new):
                if not isinstance(value, types.CellType) and not frame_probe.live(code, n, offset):
                    new[n] = "poison"
                    poisoned += 1
            return offset, new, stack

        assert frame_probe.walk(program, every_boundary=True, point=poison) == want, program.__name__
    assert poisoned > 1000
