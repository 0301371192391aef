"""What the real core reports about real functions: statuses, reasons, places, recompiles, memory and events."""
import json
import re
from pathlib import Path

import dyno
import pytest
import torch
from dyno import _backend
from twice import BREAKS, NO_HITS

pytestmark = pytest.mark.skipif(BREAKS or NO_HITS, reason="other parts are made there")


def called(function, *arguments, times=3):
    compiled = dyno.compile(function)
    for _ in range(times):
        compiled(*arguments)
        dyno.wait()
    return compiled


def report(function, kind="explain", **options):
    return json.loads(_backend.core.report(kind, function, json.dumps(options)))


def rows(found, function):
    """Line relative to the def -> row."""
    return {row["line"] - function.__code__.co_firstlineno: row for row in found["lines"]}


def below(x):
    y = x * 2
    print(end="")
    return y + 1


def middle(x):
    return below(x) - 1


def above(a, b):
    c = a + b
    d = middle(c)
    return d.relu()


def whole(x):
    return (x * 2).relu() + 1


def outer(a):
    b = a - 1
    c = whole(b)
    return c * c


def test_a_break_below_is_told_at_every_call_above_it():
    called(above, torch.ones(5), torch.ones(5))
    line = below.__code__.co_firstlineno + 2
    for function, at in ((above, 2), (middle, 1)):
        row = rows(report(function), function)[at]
        assert row["status"] == "break" and f"in below, line {line}: print writes text" in row["reason"], row
    own = rows(report(below), below)
    assert own[1]["status"] == "fused" and own[2]["status"] == "break" and own[3]["status"] == "fused"
    assert own[2]["hint"]


def test_a_call_that_joined_is_compiled_and_its_lines_say_so():
    called(outer, torch.ones(5))
    assert [row["status"] for row in report(outer)["lines"]] == [None, "fused", "compiled", "fused"]
    inner = report(whole)
    assert [row["status"] for row in inner["lines"]] == [None, "fused"]
    (entry,) = inner["entries"]
    assert entry["of"]["name"] == "outer" and inner["function"]["note"]
    places = {node["at"]["function"] for node in entry["graph"]["nodes"] if node.get("line") is None and node.get("at")}
    assert places == {"outer"}


def test_plain_statements_of_a_part_are_compiled():
    def f(x, table):
        table["n"] = 1
        if x.ndim > 5:
            return x
        y = x + 1
        return y

    called(f, torch.ones(3), {"n": 0})
    assert [row["status"] for row in report(f)["lines"]] == [None, "compiled", "compiled", None, "fused", "compiled"]


def test_every_guard_has_a_kind_and_a_line():
    called(outer, torch.ones(6))
    guards = [guard for entry in report(outer)["entries"] for guard in entry["guards"]]
    assert len(guards) >= 4
    assert all(guard["kind"] and guard["line"] for guard in guards), guards
    assert {guard["at"]["function"] for guard in guards if guard.get("at")} == {"whole"}


def test_no_guard_speaks_of_internals():
    called(outer, torch.ones(6))
    text = " | ".join(guard["text"] for entry in report(outer)["entries"] for guard in entry["guards"])
    assert not re.search(r"__code__|descriptor|slot|anchor|\bobject\b", text), text


def test_recompiles_tell_guard_values_line_and_caller():
    def f(a):
        b = a + 1
        return b * 2

    compiled = called(f, torch.ones(4))
    compiled(torch.ones(7)); line = here()
    dyno.wait()
    (again,) = report(f)["recompiles"]
    assert (again["guard"], again["was"], again["now"]) == ("a.shape[0] == 4", "4", "7")
    assert again["line"] == f.__code__.co_firstlineno + 1
    assert again["stack"][0]["line"] == line and again["stack"][0]["file"] == __file__


def here():
    import sys

    return sys._getframe(1).f_lineno


def test_recompiles_stand_at_the_function_that_needs_them():
    scope = {"torch": torch}
    exec(compile("SCALE = 2\ndef needs(x):\n    return x * SCALE\ndef caller(x):\n    return needs(x + 1)\n", "scope.py", "exec"), scope)
    compiled = called(scope["caller"], torch.ones(4))
    scope["SCALE"] = 2.5
    compiled(torch.ones(4))
    dyno.wait()
    (inner,), (own,) = report(scope["needs"])["recompiles"], report(scope["caller"])["recompiles"]
    assert inner["guard"] == own["guard"] == "type(SCALE) is int" and inner["line"] == 3
    assert own["line"] is None and own["at"] == {"file": "scope.py", "function": "needs", "line": 3}


def test_a_redefined_callee_is_a_reason():
    scope = {}
    exec("def inner(x):\n    return x * 2\ndef user(x):\n    return inner(x) + 1\n", scope)
    compiled = called(scope["user"], torch.ones(4))
    exec("def inner(x):\n    return x * 3\n", scope)
    assert compiled(torch.ones(4)).tolist() == [4.0] * 4
    dyno.wait()
    (again,) = report(scope["user"])["recompiles"]
    assert again["guard"] == "inner is unchanged" and again["now"] == "redefined or gone"


def test_reset_tells_the_bytes_and_status_the_memory_and_events():
    def f(a):
        return a * 3 - 1

    called(f, torch.ones(9))
    status = report(None, "status")
    assert status["memory"]["code_bytes"] > 0 and status["memory"]["buffer_bytes"] is not None
    event = status["events"][-1]
    assert event["kind"] == "capture" and "f compiled: 1 kernel" in event["text"] and event["line"] == f.__code__.co_firstlineno
    freed = dyno.reset(f)
    assert freed >= 4096 and dyno.reset(f) == 0
    before, after = (sum(memory[key] for key in ("code_bytes", "buffer_bytes")) for memory in (status["memory"], report(None, "status")["memory"]))
    assert after == before - freed
    assert not any(row["name"].endswith("and_events.<locals>.f") for row in report(None, "status")["functions"])


def test_counters_by_function_outlive_code_and_cells():
    def run(source, name):
        code = compile(source, name, "exec")
        _backend.core.run_cell(code, {"torch": torch, "x": torch.ones(50)}, name)
        dyno.wait()
        _backend.core.run_cell(code, {"torch": torch, "x": torch.ones(50)}, name)

    dyno.install()
    try:
        for name in ("cell one", "cell two"):
            run("for i in range(300):\n    x = x * 1.01\n", name)
    finally:
        dyno.uninstall()
    rows = {key: row for key, row in dyno.stats()["by_function"].items() if "(cell one" in key or "(cell two" in key}
    assert len(rows) == 2 and all(row["hits"] > 0 and row["kernels"] == 1 for row in rows.values()), rows

    def f(a):
        return a * 5

    called(f, torch.ones(3))
    key = next(key for key in dyno.stats()["by_function"] if "outlive_code_and_cells.<locals>.f" in key)
    hits = dyno.stats()["by_function"][key]["hits"]
    dyno.reset(f)
    assert hits > 0 and dyno.stats()["by_function"][key]["hits"] == hits


def test_what_was_switched_off_says_so():
    def f(a):
        return a * 2

    called(f, torch.ones(3))
    _backend.core.control("off", f, "{}")
    found = report(f)
    assert found["function"]["state"] == "interpreted" and "%dyno off" in found["function"]["reason"]
    assert not any(row["status"] == "fused" for row in found["lines"])
    _backend.core.control("on", f, "{}")
    assert report(f)["function"]["state"] == "compiled"


def test_gradients_are_the_reason_where_they_are():
    layer = torch.nn.Linear(3, 3)

    def f(x):
        return layer(x) + 1

    called(f, torch.ones(2, 3))
    function = report(f)["function"]
    assert function["state"] == "interpreted" and "gradients" in function["reason"] and "no_grad" in function["hint"]


def test_a_cells_report_is_whole():
    code = compile("import torch\nx = torch.ones(3)\nfor i in range(400):\n    x = x * 1.01\ny = 1\n", "cell", "exec")
    dyno.install()
    try:
        _backend.core.run_cell(code, {}, "key")
        dyno.wait()
        found = report(code)
    finally:
        dyno.uninstall()
    statuses = {row["line"]: row["status"] for row in found["lines"]}
    assert statuses[2] == statuses[5] == "interpreted" and statuses[4] in ("fused", "interpreted")


def test_strict_judges_the_call_itself():
    def f(x, loud):
        y = x + 1
        if loud:
            print(end="")
        return y * 2

    strict = dyno.compile(f, strict=True)
    strict(torch.ones(3), False)
    with pytest.raises(dyno.GraphBreak, match=rf"f is not one graph: print writes text.*\(line {f.__code__.co_firstlineno + 3}\)"):
        strict(torch.ones(3), True)
    strict(torch.ones(3), False)
    with pytest.raises(dyno.GraphBreak):
        strict(torch.ones(3), True)


WORDS_OF_OURS = r"\b(instruction|segment|replay|shadow|native|extern|node|unknown origin|run-time|lowered|vectorcall|captured)\b|[A-Z]+_[A-Z_]+"


def test_reasons_are_in_the_users_words():
    """Every phrase that capture can stop with, as it is told; those that name a Python thing by its name may."""
    folder = Path(__file__).resolve().parents[2] / "compiler" / "capture"
    phrases = {found for file in folder.glob("*.cpp") for found in re.findall(r'(?:stop|end_before|refuse)\((?:a, |\*top, )?"([^"]+)"', file.read_text())}
    assert len(phrases) > 60
    told = {phrase: json.loads(_backend.core.control("reason", phrase, "{}"))["text"] for phrase in phrases}
    wrong = {phrase: text for phrase, text in told.items() if re.search(WORDS_OF_OURS, text)}
    assert wrong == {}
