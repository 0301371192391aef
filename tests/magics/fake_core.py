"""A stand-in for ``dyno._core`` that answers with hand-made reports and remembers what it was asked.

It has the extension's surface. ``by_name`` maps a function's name to a report; a call through ``compile`` moves it from
``not_called`` to what ``after_call`` holds.
"""

import json
import pathlib
import types

REPORTS = pathlib.Path(__file__).parent / "reports"


def load(name):
    """One hand-made report."""
    return json.loads((REPORTS / f"{name}.json").read_text())


class Compiled:
    """Calls through; has ``__wrapped__`` as the extension's type."""

    def __init__(self, core, fn):
        self.core = core
        self.__wrapped__ = fn

    def __call__(self, *args, **kwargs):
        name = getattr(self.__wrapped__, "__name__", "")
        if name in self.core.after_call:
            self.core.by_name[name] = self.core.after_call.pop(name)
        self.core.totals["hits"] += 1
        return self.__wrapped__(*args, **kwargs)


class FakeCore(types.SimpleNamespace):
    """The surface of ``dyno._core``."""

    Compiled = Compiled

    class GraphBreak(RuntimeError):
        pass

    def __init__(self):
        names = ("captures", "hits", "graph_breaks", "kernels", "extern_calls", "recompiles", "dropped")
        super().__init__(by_name={}, after_call={}, asked=[], settings={"check": 0}, totals=dict.fromkeys(names, 0), cells=[], depth=0)

    def compile(self, fn, strict, dynamic):
        self.asked.append(("compile", strict, dynamic))
        return fn if isinstance(fn, Compiled) else Compiled(self, fn)

    def install(self):
        self.asked.append(("install",))

    def uninstall(self):
        self.asked.append(("uninstall",))

    def off_enter(self):
        self.depth += 1

    def off_exit(self):
        self.depth -= 1

    def wait_until_in_place(self):
        pass

    def wait(self):
        self.asked.append(("wait",))

    def reset(self, target):
        self.asked.append(("reset", target))
        return 4096

    def stats(self):
        return json.dumps({**self.totals, "by_function": {}})

    def report(self, kind, target, options_json):
        self.asked.append(("report", kind, json.loads(options_json)))
        if kind == "status":
            return json.dumps(load("status"))
        while isinstance(target, Compiled):
            target = target.__wrapped__
        name = getattr(target, "__name__", None) or getattr(target, "co_name", type(target).__name__)
        report = self.by_name.get(name) or {
            **load("interpreted"),
            "function": {"name": name, "state": "interpreted", "reason": "no reason"},
        }
        return json.dumps({**report, "kind": kind})

    def control(self, command, target, options_json):
        if command == "release":
            return json.dumps({"ok": True, "bytes": 0})
        self.asked.append(("control", command, target))
        return json.dumps({"ok": True})

    def run_cell(self, code, globals, key):
        self.cells.append(key)
        return exec(code, globals)

    def set_config(self, name, value):
        self.settings[name] = value

    def get_config(self):
        return json.dumps(self.settings)

    def draw_svg(self, dot):
        return '<svg width="10pt" height="10pt"><polygon fill="#ffffff"/></svg>'
