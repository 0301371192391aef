"""Bad input: the exact sentences, as IPython's UsageError; findings are never errors."""

import pytest
from IPython.core.error import UsageError

COMMANDS = "status, on, off, explain, why, graph, guards, bench, reset, help"

SENTENCES = {
    "%dyno grpah f": f"unknown command 'grpah'. Did you mean 'graph'? Commands: {COMMANDS}",
    "%dyno zzz": f"unknown command 'zzz'. Commands: {COMMANDS}",
    "%dyno graph": "graph needs a function, for example: %dyno graph f",
    "%dyno explain": "explain needs a function, for example: %dyno explain f",
    "%dyno graph ff": "'ff' is not defined. Similar: f, f2",
    "%dyno graph zzzzzz": "'zzzzzz' is not defined.",
    "%dyno graph 3": "'3' is an int, not a function or module",
    "%dyno graph 'text'": "''text'' is a str, not a function or module",
    "%dyno graph len": "'len' is built in: it has no Python code to compile",
    "%dyno graph [].append": "'[].append' is built in: it has no Python code to compile",
    "%dyno graph int": "'int' is built in: it has no Python code to compile",
    "%dyno graph Model": "'Model' is a class, not a function or module; name one of its methods: Model.forward",
    "%dyno graph model.forwrad": "'model' has no attribute 'forwrad'. Similar: forward",
    "%dyno graph 1/0": "'1 / 0' cannot be evaluated: ZeroDivisionError: division by zero",
    "%dyno graph f f": "'f f' is not a Python expression: invalid syntax",
    "%dyno graph f(": "'(' is not closed in: graph f(",
    "%dyno graph f('a": "a string is not closed in: graph f('a",
    "%dyno graph f(zz)": "'zz' is not defined.",
    "%dyno graph f(1/0)": "the arguments cannot be evaluated: ZeroDivisionError: division by zero",
    "%dyno graph f:2": "graph takes no line; did you mean %dyno why f:2?",
    "%dyno graph f --kernel 9": "f has one kernel, 0",
    "%dyno graph step --kernel 9": "step has kernels 0-2",
    "%dyno graph f --kernel two": "--kernel takes a whole number, not 'two'",
    "%dyno graph f --kernel": "--kernel needs a value: --kernel N",
    "%dyno graph f --stage fuzed": "--stage takes capture or fused, not 'fuzed'",
    "%dyno graph f --stgae fused": "graph has no option --stgae (did you mean --stage?)",
    "%dyno graph f --svg=1": "--svg takes no value",
    "%dyno guards f --entry 4": "f has one entry, 0",
    "%dyno why f:40": "f has lines 1-5 (In [4])",
    "%dyno bench": "bench needs a call: %dyno bench f(x)",
    "%dyno bench f": "bench needs a call: %dyno bench f(x)",
    "%dyno bench step --vs eager": "bench needs a call: %dyno bench step(x)",
    "%dyno bench g() --min-time 0": "--min-time takes seconds above 0 and up to 600, not '0'",
    "%dyno bench g() --min-time soon": "--min-time takes a number, not 'soon'",
    "%dyno bench g() --vs jax": "--vs: 'jax' is neither eager, torch, numpy nor a function",
    "%dyno bench g() --vs numba:f": "--vs takes eager, torch, numpy, a function g, or numpy:g, not 'numba:f'",
    "%dyno explain f --verbos": "explain has no option --verbos (did you mean -v/--verbose?)",
    "%dyno explain f --zzz": "explain has no option --zzz; options: --verbose, --json, --quiet",
    "%dyno status f": "status takes no 'f'",
    "%dyno help grahp": f"no help on 'grahp'. Did you mean 'graph'? Topics: {COMMANDS}, words",
    "%dyno off len": "'len' is built in: it has no Python code to compile",
    "%%dyno\n1": "%%dyno needs a command: %%dyno explain",
    "%%dyno graph\n1": "graph is no cell command; as a cell: %%dyno explain",
    "%%dyno explain f\n1": "%%dyno explain takes no 'f': it explains the cell itself",
    "%%dyno explain\n   \n": "%%dyno explain needs a cell body",
    "%%dyno explain\nimport asyncio\nawait asyncio.sleep(0)": "%%dyno explain cannot run a cell that awaits at top level",
}

FINDINGS = {
    "%dyno guards h": "h has not been called yet. Call it, or give arguments: %dyno guards h(x)",
    "%dyno graph g": "g runs interpreted because it meets no tensor or array",
    "%dyno explain g": "g runs interpreted because it meets no tensor or array",
}


@pytest.fixture
def ready(shell):
    shell.run("class Model:\n    def forward(self, x):\n        return x\n    __call__ = forward\nmodel = Model()")
    return shell


@pytest.mark.parametrize("line", SENTENCES)
def test_sentence(ready, line):
    result = ready.run(line)
    assert isinstance(result.error_in_exec, UsageError)
    assert str(result.error_in_exec) == SENTENCES[line]


@pytest.mark.parametrize("line", FINDINGS)
def test_finding_is_no_error(ready, line):
    assert ready.plain(line).splitlines()[0] == FINDINGS[line]


def test_usage_error_is_one_line_on_stderr(ready, capsys):
    ready.run("%dyno grpah f")
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines() == [f"UsageError: unknown command 'grpah'. Did you mean 'graph'? Commands: {COMMANDS}"]


def test_redefinition_is_said(ready, core):
    import fake_core

    core.by_name["h"] = fake_core.load("redefined")
    assert ready.plain("%dyno explain h") == "h was redefined in In [12]; showing the new one (not called yet)"


def test_redefinition_is_seen_by_name(ready, core):
    import fake_core

    assert ready.plain("%dyno explain f").startswith("f (In [4], line 1): compiled")
    core.by_name["f"] = {
        **fake_core.load("not_called"),
        "function": {"name": "f", "state": "not_called", "file": "x", "cell": 9, "first_line": 1},
    }
    assert ready.plain("%dyno guards f") == "f was redefined in In [9]; showing the new one (not called yet)"
    core.by_name["h"] = fake_core.load("not_called")
    assert "redefined" not in ready.plain("%dyno explain h")


def test_first_finding_is_the_first_line_of_why(ready):
    assert ready.plain("%dyno graph g").splitlines()[0] == ready.plain("%dyno why g").splitlines()[0]


@pytest.mark.parametrize("line", ["%dyno bench bad(1)", "%dyno explain bad(1)"])
def test_failing_call_shows_the_users_error(ready, core, line, capsys):
    ready.run("def bad(x):\n    raise KeyError('mine')")
    core.by_name["bad"] = {"function": {"name": "bad", "state": "not_called"}}
    result = ready.run(line)
    out, err = capsys.readouterr()
    assert isinstance(result.error_in_exec, KeyError)
    assert err.splitlines()[0] == f"{line.split('(')[0].rsplit(' ', 1)[0]}: the call failed"
    assert "raise KeyError('mine')" in out and "magic.py" not in out and "run_line_magic" not in out
    assert not hasattr(result.error_in_exec, "_render_traceback_")


def test_failing_cell_body_shows_its_own_lines(ready, capsys):
    result = ready.run("%%dyno explain\nx = 1\nx / 0")
    out, _ = capsys.readouterr()
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "line 3" in out and "cells.py" not in out
