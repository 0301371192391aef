"""The table of commands. A new command is one module and one row; parsing, help, completion and errors come from the row."""

from dataclasses import dataclass
from typing import Callable

from dyno.magics import bench, cells, explain, graph, guards, help, reset, status, switch, why
from dyno.magics.options import JSON, QUIET, Option


@dataclass(frozen=True)
class Command:
    """``takes`` says what stands before the options: nothing, function, call, functions (none or more), optional (none or one),
    words. ``cell`` runs the command on a cell's body."""

    name: str
    meaning: str
    takes: str
    usage: str
    example: str
    run: Callable
    options: tuple = ()
    cell: Callable | None = None
    line: bool = False  # accepts f:LINE

    def all_options(self):
        """Its own options and those of every command."""
        return (*self.options, JSON, QUIET)


COMMANDS = (
    Command("status", "what is on, what was compiled, what happened last", "nothing", "", "%dyno", status.run),
    Command("on", "compile: everything, or the functions named", "functions", "[f ...]", "%dyno on f", switch.switch_on),
    Command("off", "do not compile: anything, or the functions named", "functions", "[f ...]", "%dyno off f", switch.switch_off),
    Command(
        "explain",
        "the source line by line: fused, break, interpreted, and why",
        "function",
        "f | f(args)",
        "%dyno explain f",
        explain.run,
        (Option("--verbose", "also guards, refused fusions and a glossary", short="-v"),),
        cell=cells.explain,
    ),
    Command(
        "why", "why something was not compiled, not fused or compiled again", "function", "f | f:LINE", "%dyno why f:4", why.run, line=True
    ),
    Command(
        "graph",
        "picture and table of the captured operations",
        "function",
        "f | f(args)",
        "%dyno graph f --stage capture",
        graph.run,
        (
            Option("--stage", "capture: as recorded; fused: grouped into kernels", value="STAGE", choices=graph.STAGES),
            Option("--kernel", "only the operations of one kernel", value="N", kind=int),
            Option("--svg", "also the raw picture (image/svg+xml)"),
        ),
    ),
    Command(
        "guards",
        "the conditions of each compiled version, in words",
        "function",
        "f | f(args)",
        "%dyno guards f --entry 0",
        guards.run,
        (Option("--entry", "only one entry", value="N", kind=int), Option("--all", "also guards on modules, types and names")),
    ),
    Command(
        "bench",
        "times interpreted against compiled, and against others",
        "call",
        "f(args)",
        "%dyno bench f(x) --vs eager,torch",
        bench.run,
        (
            Option("--vs", "contestants: eager, torch, numpy, a function g, or numpy:g (tensors given as arrays)", value="LIST", many=True),
            Option("--min-time", "seconds of measuring for each contestant (default 0.5)", value="S", kind=float),
        ),
    ),
    Command("reset", "drops compiled code; says the bytes freed", "optional", "[f]", "%dyno reset f", reset.run),
    Command("help", "what the commands and their words mean", "words", "[COMMAND | words]", "%dyno help graph", help.run),
)
BY_NAME = {command.name: command for command in COMMANDS}
