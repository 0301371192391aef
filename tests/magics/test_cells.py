"""A shell whose cells enter through the core behaves as before: results, display, tracebacks, exits, await, frames."""

import pytest

from dyno import _cells

DEEP = "import sys, traceback\nn = len(list(traceback.walk_stack(sys._getframe())))"
CELLS = {
    "value": "x = 3\nx * 2",
    "print": "print('a')\nprint('b')\n7",
    "error": "x = 1\nx / 0",
    "error in a function": "def f():\n    raise KeyError('k')\nf()",
    "syntax": "x = = 1",
    "exit": "raise SystemExit(3)",
    "interrupt": "raise KeyboardInterrupt",
    "base": "class Odd(BaseException): pass\nraise Odd('o')",
    "await": "import asyncio\nawait asyncio.sleep(0)\n'after'",
    "async error": "import asyncio\nawait asyncio.sleep(0)\n1 / 0",
    "depth": f"import sys\n{DEEP}\nn",
    "caller": "import sys\ncode = sys._getframe(1).f_code\ncode.co_name, code.co_filename",
    "depth after await": f"import asyncio, sys\nawait asyncio.sleep(0)\n{DEEP}\nn",
    "await in depth": f"import asyncio, sys\n{DEEP}\nn + (await asyncio.sleep(0, 0))",
    "error between": "first = 1\n1 / 0\nsecond = 2\nsecond",
    "syntax found late": "x = 1\nprint(x)\nreturn 5",
    "global after use": "x = 1\nglobal x\nx",
    "future": "x = 1\nfrom __future__ import annotations\ny = 2\ny",
    "strings": "'a doc'\nx = 1\n'another'\nprint(__doc__)\nx",
    "annotation": "v: int = 3\nprint(__annotations__)",
    "decorated": "def twice(f):\n    return lambda: f() * 2\n@twice\ndef g():\n    return 4\ng()",
    "interactive loop": "for i in range(2):\n    i\ni",
    "hook": "import sys\nsys.excepthook.__name__",
    "warning": "import warnings\nwarnings.warn('w', stacklevel=1)",
    "loop": "total = 0\nfor i in range(10):\n    total += i\ntotal",
    "semicolon": "5;",
    "several": "1\n2\n[_, 3]",
    "name": "__name__",
    "globals": "a_new_name = 1\nglobals()['a_new_name'] is a_new_name, locals() is globals()",
}


def plain_shell():
    from conftest import Shell

    return Shell()


def outcome(shell, capsys, cell):
    """All that a user sees of a cell, and its success."""
    result = shell.ip.run_cell(cell, store_history=True)
    out, err = capsys.readouterr()
    error = result.error_in_exec or result.error_before_exec
    return result.success, repr(result.result), type(error).__name__, out, err, shell.ip.last_execution_succeeded


@pytest.mark.parametrize("name", CELLS)
def test_cell_behaves_as_before(core, capsys, monkeypatch, name):
    shell = plain_shell()
    before = outcome(shell, capsys, CELLS[name])
    shell = plain_shell()
    entered = []

    # The extension's run_cell is a C function, which has no frame; exec is one too, if the key is the namespace again.
    def key(code):
        entered.append(code)
        return shell.ip.user_ns

    monkeypatch.setattr(_cells, "content_key", key)
    core.run_cell = exec
    _cells.attach(shell.ip)
    try:
        after = outcome(shell, capsys, CELLS[name])
    finally:
        _cells.detach(shell.ip)
        type(shell.ip).clear_instance()
    assert after == before
    assert bool(entered) or "await" in CELLS[name] or name == "syntax"


def test_detach_gives_the_shell_back(core):
    shell = plain_shell()
    _cells.attach(shell.ip)
    _cells.attach(shell.ip)
    shell.run("1")
    entered = len(core.cells)
    _cells.detach(shell.ip)
    shell.run("2")
    assert entered == len(core.cells) == 1 and "run_ast_nodes" not in vars(shell.ip) and "run_code" not in vars(shell.ip)
    type(shell.ip).clear_instance()


def test_statements_before_the_last_expression_are_one_code_object(core):
    shell = plain_shell()
    _cells.attach(shell.ip)
    shell.run("x = 1\ny = x + 1\nz = y * 2\nz")
    assert len(core.cells) == 2
    shell.run("x = 1\ny = x + 1")
    assert len(core.cells) == 3
    _cells.detach(shell.ip)
    type(shell.ip).clear_instance()


def code(source, name="cell"):
    return compile(source, name, "exec")


def test_key_is_of_the_content():
    base = _cells.content_key(code("x = 1\ndef f(a): return a in {1, 2, 'q'}"))
    assert _cells.content_key(code("x = 1\ndef f(a): return a in {'q', 2, 1}", "other file")) == base
    for other in (
        "x = 2\ndef f(a): return a in {1, 2, 'q'}",
        "y = 1\ndef f(a): return a in {1, 2, 'q'}",
        "\nx = 1\ndef f(a): return a in {1, 2, 'q'}",
        "x = 1.0\ndef f(a): return a in {1, 2, 'q'}",
        "x = True\ndef f(a): return a in {1, 2, 'q'}",
        "x = 1\ndef f(a): return a in {1, 2, 'r'}",
    ):
        assert _cells.content_key(code(other)) != base
