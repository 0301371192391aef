"""One case: a function with its calls, run plain and through a backend, and judged.

A suite says how its functions are made (`Case.start`); everything else is the same for all of them.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import warnings
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Callable, Iterable, Iterator, Sequence

import facts
import judge
import moved
import ops
from backends import Backend, Wrap

Context = Callable[[], AbstractContextManager[Any]]
STEADY_CALL = 4  # the fifth of the first signature
WARM_TURNS = 4  # of the whole sequence: CPython specialises code that was called eight times


def nothing() -> None:
    """Where a suite has nothing to do."""


@dataclasses.dataclass
class Fresh:
    """A function made anew, with everything that belongs to one run of its calls."""

    fn: Callable[..., Any]
    inputs: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]  # fresh arguments of one entry of the sequence
    before: Callable[[], Any] = nothing
    after: Callable[[], list[facts.Fact]] = list  # facts beside those that every call has
    files: Iterable[str] = ("<generated>",)
    widen: Callable[[], Any] = nothing  # makes the function's own parameters wide
    captured: Iterable[Any] | None = None  # objects whose references are counted; None: what the function names


@dataclasses.dataclass
class Case:
    """`start(names)` makes a Fresh; `names` replace globals of generated programs."""

    start: Callable[[dict[str, Any]], Fresh]
    sequence: Sequence[Any]  # the calls in order, as `inputs` knows them
    modules: tuple[Any, ...] = ()  # modules whose `np` a moved run replaces

    def run(self, wrap: Wrap = lambda fn: fn) -> list[facts.Seen]:
        """All calls of one wrapped function."""
        fresh = self.start({})
        return self.calls(fresh, wrap(fresh.fn))

    def calls(
        self, fresh: Fresh, wrapped: Callable[..., Any], convert: Callable[[Any], Any] = lambda value: value, around: Context = nullcontext
    ) -> list[facts.Seen]:
        """Calls `wrapped`, with converted arguments and within a context of their own."""
        seen = []
        for number in self.sequence:
            args, kwargs = fresh.inputs(number)
            args, kwargs = tuple(convert(a) for a in args), {k: convert(v) for k, v in kwargs.items()}
            fresh.before()
            captured = facts.captured_by(fresh.fn) if fresh.captured is None else fresh.captured
            with around():
                call = facts.observe(wrapped, args, kwargs, captured, fresh.files)
            call.facts += fresh.after()
            seen.append(call)
        return seen

    def moved(self, seed: int) -> list[facts.Seen]:
        """The plain program with last bits moved; without moving arrays where those change its structure."""

        def run(convert: Callable[[Any], Any]) -> list[facts.Seen]:
            moving = moved.Moving(seed, self.modules)
            fresh = self.start(moving.names)
            return self.calls(fresh, fresh.fn, convert, moving)

        plain = [call.named() for call in self.run()]
        first = judge.attempt(lambda: run(moved.moving_arrays))
        if first and all(call.named().keys() == other.keys() for call, other in zip(first, plain)):
            return first
        return run(lambda value: value)

    def cold(self) -> list[facts.Seen]:
        """The plain program by code as it was compiled: under a trace function CPython runs no specialised instruction."""

        @contextmanager
        def traced() -> Iterator[None]:
            before = sys.gettrace()
            sys.settrace(lambda *event: None)
            try:
                yield
            finally:
                sys.settrace(before)

        fresh = self.start({})
        return self.calls(fresh, fresh.fn, around=traced)

    def warm(self) -> list[facts.Seen]:
        """The plain program by code that has been called often enough to be specialised."""
        used = self.start({})
        if not isinstance(used.fn, types.FunctionType):
            return []
        for _ in range(WARM_TURNS):
            self.calls(used, used.fn)
        fresh = self.start({})
        fresh.fn.__code__ = used.fn.__code__
        return self.calls(fresh, fresh.fn)

    def wide(self) -> list[facts.Seen]:
        """The plain program on wider inputs; its own random parameters are drawn narrow first, so that they are the same."""
        fresh = self.start({})
        fresh.widen()
        return self.calls(fresh, fresh.fn, moved.widened, moved.wide)


def judge_case(case: Case, backend: Backend, ignored: frozenset[str] = frozenset()) -> judge.Verdict:
    """Runs a case plain and through the backend, whose log then says what was captured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = case.run()
        operations = ops.count_in_call(case.run, STEADY_CALL) if backend.counts else None
        backend.begin()
        got = case.run(backend.wrap)
        references = judge.References(case.moved, case.wide, (case.cold, case.warm))
        verdict = judge.compare_runs(got, want, references, ignored)
    backend.operations = operations
    return verdict


def record_of(verdict: judge.Verdict, backend: Backend) -> dict[str, Any]:
    """What every suite writes for a case."""
    status = "skip" if verdict.status == "unstable" else verdict.status
    return {"status": status, "kind": verdict.kind, "why": verdict.why, **backend.outcome()}
