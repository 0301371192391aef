"""Stands in for the extension ``dyno._core`` where it may not or cannot run.

Input: the same calls. Output: the same shapes of answers, with everything run by plain Python. It must not compile, cache or
count anything: its numbers are true zeros, and every report says why.
"""

import json

CAPABLE = False
reason = "the compiler is switched off"

TOTALS = ("captures", "hits", "graph_breaks", "kernels", "extern_calls", "recompiles", "dropped")


class GraphBreak(RuntimeError):
    """Raised by ``dyno.compile(fn, strict=True)`` when ``fn`` did not become one graph."""


class Compiled:
    """The type that ``dyno.compile`` returns where the compiler runs; never made here."""


def compile(fn, strict, dynamic):
    if strict:
        raise GraphBreak(f"nothing is compiled: {reason}")
    return fn


def install():
    pass


def uninstall():
    pass


def off_enter():
    pass


def off_exit():
    pass


def wait():
    pass


def wait_until_in_place():
    pass


def reset(target):
    return 0


def stats():
    return json.dumps({**{name: 0 for name in TOTALS}, "by_function": {}})


def report(kind, target, options_json):
    answer = {"schema": "dyno.report/1", "kind": kind}
    if kind == "status":
        answer.update(
            state="unavailable", reason=reason, device={"cpu": None, "cuda": None}, functions=[], totals=json.loads(stats()), events=[]
        )
        del answer["totals"]["by_function"]
        return json.dumps(answer)
    code = getattr(getattr(target, "__func__", target), "__code__", None)
    function = {"name": getattr(target, "__name__", type(target).__name__), "state": "interpreted", "reason": reason}
    if code is not None:
        last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
        function.update(file=code.co_filename, first_line=code.co_firstlineno, last_line=last)
    answer.update(
        function=function,
        lines=[],
        entries=[],
        recompiles=[],
        reasons=[{"line": None, "kind": "interpreted", "text": reason, "hint": None}],
    )
    return json.dumps(answer)


def control(command, target, options_json):
    return json.dumps({"ok": False, "text": f"nothing to do: {reason}"})


def run_cell(code, globals, key):
    return exec(code, globals)


def set_config(name, value):
    pass


def get_config():
    return "{}"


def draw_svg(dot):
    return None
