"""One use of a command, and the way from it to a result: ask the core, name the places, make the page.

Input: a parsed line. Output: a Result. The page functions that it calls are pure.
"""

import json
import sys
from dataclasses import dataclass, field

from dyno import _backend
from dyno.magics import places
from dyno.magics.errors import UsageError
from dyno.magics.result import Result
from dyno.magics.target import Target
from dyno.magics.tracebacks import begin_at_user


@dataclass(frozen=True)
class Request:
    """``targets`` are the resolved expressions in order; ``words`` what was typed besides options."""

    shell: object
    command: str
    options: dict = field(default_factory=dict)
    targets: tuple = ()
    words: tuple = ()

    @property
    def target(self) -> Target:
        """The first target."""
        return self.targets[0]


def ask(kind, target, options, shell=None, name=None):
    """The core's report with places filled in."""
    report = json.loads(_backend.core.report(kind, target, json.dumps(options)))
    return places.with_places(report, shell, name)


def describe(request, kind, page):
    """The result about one function: called first if a call was given and the function has not been called."""
    target = request.target
    options = {**request.options, **({"line": target.line} if target.line is not None else {})}
    _backend.core.wait_until_in_place()
    report = ask(kind, target.function, options, request.shell, target.name)
    if target.args is not None and report["function"]["state"] == "not_called":
        with failure_headed(request.command, request.shell):
            call_compiled(target)
        report = ask(kind, target.function, options, request.shell, target.name)
    remember(request.shell, target, report)
    return Result(report, page(report, options))


def remember(shell, target, report):
    """Marks a function as redefined if another one of this name was seen compiled. The shell holds what was seen, by name."""
    if shell is None:
        return
    seen = vars(shell).setdefault("compiled_for_dyno", {})
    function = report["function"]
    here = function.get("file"), function.get("first_line")
    if report.get("entries"):
        seen[target.name] = here
    elif function["state"] == "not_called" and seen.get(target.name, here) != here:
        function["redefined"] = True


def call_compiled(target):
    """Calls the target once with its arguments, so that it is compiled for them, and waits until it is."""
    _backend.core.compile(target.function, False, None)(*target.args, **target.kwargs)
    _backend.core.wait_until_in_place()


class failure_headed:
    """Puts one line before the user's own exception, which passes through and is shown from the user's frames on."""

    def __init__(self, command, shell):
        self.command = command
        self.shell = shell

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is not None and isinstance(error, Exception) and not isinstance(error, UsageError):
            print(f"%dyno {self.command}: the call failed", file=sys.stderr)
            begin_at_user(self.shell, error)
        return False
