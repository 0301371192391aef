"""``%dyno on`` and ``%dyno off``: compilation for the whole process, or for the functions named."""

import json

from dyno import _backend
from dyno.magics.page import Listing, Page
from dyno.magics.result import Result


def switch_on(request):
    """Turns compilation on."""
    _backend.announce()
    return switched(request, "on", "install")


def switch_off(request):
    """Turns compilation off; compiled code is kept for later."""
    return switched(request, "off", "uninstall")


def switched(request, state, whole):
    """The result for the whole process or for each function, with the core's own sentence where it gives one."""
    report = {"schema": "dyno.report/1", "kind": state, "functions": []}
    if not request.targets:
        getattr(_backend.core, whole)()
        line = f"dyno is {state}" if _backend.reason is None else f"nothing is compiled: {_backend.reason}"
        return Result(report, Page(line), form="text")
    lines = []
    for target in request.targets:
        answer = json.loads(_backend.core.control(state, target.function, "{}"))
        report["functions"].append({"name": target.name, **answer})
        lines.append(answer.get("text") or f"{target.name} is {'compiled when hot' if state == 'on' else 'interpreted from now on'}")
    return Result(report, Page(lines[0], (Listing(tuple(lines[1:])),) if lines[1:] else ()), form="text")
