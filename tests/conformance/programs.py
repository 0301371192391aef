"""Random programs for differential tests: their form, how one is built and shrunk.

`numpy_programs.py` and `torch_programs.py` each define a `Domain`: which statements there are and how inputs are made. A program is a
function `program(...)` and a function `inputs(k)` that makes the arguments of call `k`: 0 and 1 have one signature and different values,
2 and 3 change sizes or dtypes. The same wrapped function makes all calls, so that its guards are tested too.

Inputs are small dyadic numbers, so that sums and products of them are exact in any order.  Whether a run used an
operation whose last bits a backend may choose is found out, not declared: the plain program is run again with the
results of such operations moved by one unit in the last place.  If that changes nothing, results must be equal bit
for bit; if it changes a value, the tolerance grows with the change; if it changes anything else, the program is
unstable and says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import pathlib
import random
import re
import resource
import sys
import time
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Union

import numpy as np
import torch

import facts
import harness
import judge
from backends import Backend
from case import Case, Fresh, judge_case, record_of

SEQUENCE = (0, 1, 0, 1, 0, 2, 3)  # five calls of the first signature, then other sizes, then another dtype


class TooMuch(Exception):
    """A candidate that does not end, or grows without bound."""


STALE = (NameError, SyntaxError, TooMuch)
MOST_LINES, MOST_MEMORY = 20_000, 2 << 30  # of a trial: lines of generated code, bytes


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Ends what runs too long or takes too much memory with an error; generated code catches neither."""
    lines = 0

    def count(frame: types.FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > MOST_LINES:
            raise TooMuch
        return count

    def trace(frame: types.FrameType, event: str, arg: Any) -> Any:
        return count if frame.f_code.co_filename == "<generated>" else None

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MOST_MEMORY, hard))
    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(outer)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

GLOBALS = ("STATE", "TABLE", "BOX")
ERRSTATE = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


@dataclass
class Block:
    """A statement with a body."""

    header: str
    body: list["Statement"]


Statement = Union[str, Block]


@dataclass
class Program:
    """`prelude` maps a global name to the text that defines it; `make` are the lines that make the inputs."""

    prelude: dict[str, str]
    make: list[str]
    params: list[str]
    body: list[Statement] = field(default_factory=list)
    result: list[str] = field(default_factory=list)

    def source(self, ending: str | None = None) -> str:
        """The whole program as Python."""
        lines = ["def inputs(k):", *("    " + line for line in self.make), f"    return ({', '.join(self.params)},)", ""]
        lines += [f"def program({', '.join(self.params)}):", *render(self.body, 1)]
        lines.append("    " + (ending or f"return ({', '.join(self.result)},)"))
        text = "\n".join(lines) + "\n"
        return "".join(part + "\n" for name, part in self.prelude.items() if mentions(text, name)) + text

    def with_body(self, body: list[Statement]) -> "Program":
        return dataclasses.replace(self, body=body)


def mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def render(body: list[Statement], depth: int) -> Iterator[str]:
    pad = "    " * depth
    for statement in body:
        if isinstance(statement, str):
            yield from (pad + line for line in statement.split("\n"))
        else:
            yield pad + statement.header
            yield from render(statement.body or ["pass"], depth + 1)


def load_program(source: str, scope: dict[str, Any] | None = None) -> tuple[Callable[..., Any], Callable[[int], Any]]:
    """The functions `program` and `inputs` of a source, in a namespace of their own; `scope` replaces names."""
    names: dict[str, Any] = {"__name__": "generated"}
    exec(compile(source, "<generated>", "exec"), names)
    program, inputs = names["program"], names["inputs"]
    names.update({name: value for name, value in (scope or {}).items() if name in names})
    return program, inputs


def seed_everything() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    np.seterr(**ERRSTATE)


def case_of(source: str) -> Case:
    """A program as a case: its calls, and its globals as further facts."""

    def start(names: dict[str, Any]) -> Fresh:
        fn, _ = load_program(source, names)
        _, inputs = load_program(source)  # in names of their own, which no moved run replaces
        space = fn.__globals__

        def after() -> list[facts.Fact]:
            return [fact for name in GLOBALS if name in space for fact in facts.describe(space[name], name)]

        return Fresh(fn, lambda number: (inputs(number), {}), seed_everything, after)

    return Case(start, SEQUENCE)


def split(table: str) -> list[str]:
    """The entries of a table of templates."""
    return [entry.strip() for line in table.strip().splitlines() for entry in line.split("|") if entry.strip()]


class Picks(dict):
    """Fills a template's letters with names and literals, one choice for each letter.

    `a` and `b` are arrays (`b` one that broadcasts with `a`), `f` a float array, `l` an array of int64,
    `d` and `e` dimensions of `a`, `k` a small integer, `s` a scalar, `t` a dtype, `c` a list, `v` and
    `u` new names.
    """

    array: type
    types: tuple[str, ...]

    def __init__(self, rng: random.Random, env: dict[str, Any], fresh: Callable[[], str]) -> None:
        super().__init__()
        self.rng, self.env, self.new = rng, env, fresh

    def __missing__(self, letter: str) -> str:
        self[letter] = getattr(self, f"pick_{letter}")()
        return self[letter]

    def is_float(self, value: Any) -> bool:
        raise NotImplementedError

    def is_index(self, value: Any) -> bool:
        raise NotImplementedError

    def names(self, accept: Callable[[Any], bool]) -> list[str]:
        return [name for name, value in self.env.items() if accept(value)]

    def named_array(self, accept: Callable[[Any], bool] = lambda value: True) -> str:
        """A name, of a later variable more often than of an earlier one."""
        names = self.names(lambda v: isinstance(v, self.array) and accept(v)) or ["x"]
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def pick_a(self) -> str:
        return self.named_array()

    def pick_b(self) -> str:
        shape = getattr(self.env.get(self["a"]), "shape", ())

        def fits(value: Any) -> bool:
            return all(p == q or p == 1 or q == 1 for p, q in zip(reversed(value.shape), reversed(shape)))

        return self.named_array(fits)

    def pick_f(self) -> str:
        return self.named_array(self.is_float)

    def pick_l(self) -> str:
        return self.named_array(self.is_index)

    def pick_d(self) -> str:
        shape = getattr(self.env.get(self.get("a", self.get("f", "x"))), "shape", (1,))
        return str(self.rng.randrange(-1, max(len(shape), 1)))

    pick_e = pick_d

    def pick_k(self) -> str:
        names = self.names(lambda v: type(v) is int and 0 <= v < 5)
        return self.rng.choice(names) if names and self.rng.random() < 0.4 else str(self.rng.randrange(4))

    def pick_s(self) -> str:
        names = self.names(lambda v: type(v) in (int, float) and abs(v) < 100)
        literals = ["2", "0.5", "-1", "3", "1.25", "0", "True", "-0.75"]
        return self.rng.choice(names if names and self.rng.random() < 0.4 else literals)

    def pick_t(self) -> str:
        return self.rng.choice(self.types)

    def pick_c(self) -> str:
        names = self.names(lambda v: type(v) is list)
        return self.rng.choice(names) if names else "TABLE"

    def pick_v(self) -> str:
        return self.new()

    pick_u = pick_v


class Domain:
    """What differs between NumPy programs and torch programs."""

    expressions: tuple[tuple[int, str], ...]  # weights and tables of templates of expressions
    actions: str
    conditions: str
    loops: str
    compound: list[str]
    picks: type[Picks]

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0

    def start(self) -> Program:
        """A program without statements."""
        raise NotImplementedError

    def first_row(self, value: Any) -> Any:
        """What a loop over `value` binds first."""
        raise NotImplementedError

    def statement(self, env: dict[str, Any], depth: int) -> Statement:
        """A random statement over the variables of `env`."""
        roll = self.rng.random()
        picks = self.picks(self.rng, env, self.fresh)
        if depth < 2 and roll < 0.14:
            return self.block(env, depth, picks)
        if roll < 0.30:
            return self.rng.choice(split(self.actions)).format_map(picks)
        if roll < 0.37 and not depth:
            return self.rng.choice(self.compound).format_map(picks)
        _, table = self.rng.choices(self.expressions, [weight for weight, _ in self.expressions])[0]
        value = self.rng.choice(split(table)).format_map(picks)
        return f"{picks.named_array() if depth else self.fresh()} = {value}"

    def block(self, env: dict[str, Any], depth: int, picks: Picks) -> Statement:
        if self.rng.random() < 0.5:
            return Block(f"if {self.rng.choice(split(self.conditions)).format_map(picks)}:", self.body(env, depth))
        header = self.rng.choice(split(self.loops)).format_map(picks)
        inner = dict(env)
        if "row" in header:
            inner["row"] = self.first_row(env["x"]) if isinstance(env["x"], self.picks.array) else env["x"]
        if " i" in header and "in range" in header:
            inner["i"] = 0
        return Block(header, self.body(inner, depth))

    def body(self, env: dict[str, Any], depth: int) -> list[Statement]:
        return [self.statement(env, depth + 1) for _ in range(self.rng.randint(1, 3))]

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def build(self, size: int) -> Program:
        """A program of about `size` statements; nearly all raise nothing on their first inputs."""
        program = self.start()
        for _ in range(size):
            env, error = self.trial(program)
            if error:
                break
            candidate = program.with_body([*program.body, self.statement(env, 0)])
            _, error = self.trial(candidate)
            if error is None or not isinstance(error, (*STALE, TypeError)) and self.rng.random() < 0.03:
                program = candidate
        env, _ = self.trial(program)
        names = [name for name in env if name in program.params or name[0] == "v" and self.returnable(env[name])]
        self.rng.shuffle(names)
        program.result = sorted(names[: self.rng.randint(1, 4)]) or program.params[:1]
        return program

    def returnable(self, value: Any) -> bool:
        raise NotImplementedError

    def trial(self, program: Program) -> tuple[dict[str, Any], BaseException | None]:
        """The variables at the end of the program's first call, or its exception."""
        try:
            fn, inputs = load_program(program.source("return locals()"))
            with contextlib.redirect_stdout(io.StringIO()), bounded():
                return fn(*inputs(0)), None
        except Exception as error:
            return {}, TooMuch() if isinstance(error, MemoryError) or "can't allocate memory" in str(error) else error


def smaller(body: list[Statement]) -> Iterator[list[Statement]]:
    """Bodies with one statement less, or with a block replaced by what is in it; large removals first."""
    for size in (len(body) // 2, len(body) // 4, 1):
        if size >= 1:
            for start in range(len(body) - size, -1, -1):
                yield body[:start] + body[start + size :]
    for i, statement in enumerate(body):
        if isinstance(statement, Block):
            yield body[:i] + statement.body + body[i + 1 :]
            for inner in smaller(statement.body):
                yield body[:i] + [Block(statement.header, inner)] + body[i + 1 :]


def candidates(program: Program) -> Iterator[Program]:
    for body in smaller(program.body):
        yield program.with_body(body)
    for i in range(len(program.result) if len(program.result) > 1 else 0):
        yield dataclasses.replace(program, result=program.result[:i] + program.result[i + 1 :])
    used = "\n".join([*render(program.body, 0), *program.result])
    for name in program.params:
        if not mentions(used, name) and len(program.params) > 1:
            yield dataclasses.replace(
                program,
                params=[p for p in program.params if p != name],
                make=[line for line in program.make if not re.match(rf"{name}\b", line)],
            )
    for i, line in enumerate(program.make):
        if line.partition(" ")[0].split(".")[0] in line.partition("=")[2] or ".requires_grad_" in line:
            yield dataclasses.replace(program, make=program.make[:i] + program.make[i + 1 :])


def shrink(program: Program, interesting: Callable[[Program], bool], seconds: float) -> Program:
    """Greedily the smallest program that is still interesting, within a time limit."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for candidate in candidates(program):
            if time.monotonic() > deadline:
                return program
            if interesting(candidate):
                program, progress = candidate, True
                break
    return program


def runs_plain(program: Program) -> bool:
    """Whether the plain program, cut down, still refers only to names it has."""
    try:
        seen = [call.named() for call in case_of(program.source()).run()]
    except Exception:
        return False
    return all(facts.get(("exception type", "")) not in ("NameError", "UnboundLocalError") for facts in seen)


def same(a: judge.Verdict, b: judge.Verdict) -> bool:
    """The same kind of difference; for exceptions also of the same text's beginning."""
    words = [" ".join(v.why.split()[2:6]) if v.kind == "raised" else "" for v in (a, b)]
    return a.status == b.status and a.kind == b.kind and words[0] == words[1]


def make_runner(args: argparse.Namespace, backend: Backend, domain_type: Callable[[random.Random], Domain]) -> harness.RunItem:
    """Builds the program of a seed, judges it, and cuts a failing one down."""
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    ignored = frozenset(filter(None, args.ignore.split(",")))

    def run_item(item: str) -> harness.Record:
        program = domain_type(random.Random(int(item))).build(args.size)
        verdict = judge_case(case_of(program.source()), backend, ignored)
        record = record_of(verdict, backend)
        if verdict.status == "wrong" and args.shrink_seconds:

            def interesting(candidate: Program) -> bool:
                return runs_plain(candidate) and same(judge_case(case_of(candidate.source()), backend, ignored), verdict)

            small = shrink(program, interesting, args.shrink_seconds)
            record["minimal"] = small.source()
        return record

    return run_item


def list_items(args: argparse.Namespace) -> list[str]:
    return [str(args.seed + i) for i in range(args.count)]
