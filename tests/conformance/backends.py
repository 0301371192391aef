"""The backends a runner can put under test, and the one form of counters.

A backend wraps a function into one of the same meaning. After every call of a wrapped function its compile jobs are finished (so that the
next call of a signature runs compiled code) and the seven totals are read; from how they moved follows whether the case was captured.

Names: `eager`, `dyno`, `torch_compile`, `torch_compile_dynamo`, or `module:function` for any other wrapper (faulty:stale).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import importlib
import json
import os
import tempfile
from typing import Any, Callable

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
TOTALS = ("captures", "hits", "graph_breaks", "kernels", "extern_calls", "recompiles", "dropped")
WHOLE_EXITS = ("returns", "cut")


@dataclasses.dataclass
class Backend:
    """Something that turns a function into a faster function of the same meaning."""

    name: str
    compile: Wrap
    totals: Callable[[], dict[str, float]] = dict
    reset: Callable[[], Any] = lambda: None
    wait: Callable[[], Any] = lambda: None
    report: Callable[[Any], dict[str, Any]] = lambda fn: {}
    log: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # one entry for each call since begin()
    wrapped: list[Any] = dataclasses.field(default_factory=list)
    counts: bool = False  # whether reports tell how many operations a replay stands for
    operations: int | None = None  # of the plain program's fifth call
    at_start: dict[str, float] = dataclasses.field(default_factory=dict)

    def begin(self) -> None:
        """Forgets what earlier cases did."""
        self.reset()
        self.log.clear()
        self.wrapped.clear()
        self.at_start = self.totals()

    def wrap(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled function, settled and counted after every call."""
        inner = self.compile(fn)
        if inner is fn:
            return fn
        self.wrapped.append(inner)

        @functools.wraps(fn, updated=())
        def settled(*args: Any, **kwargs: Any) -> Any:
            before = (self.totals(), self.entries(inner))
            try:
                return inner(*args, **kwargs)
            finally:
                self.note(inner, before)

        return settled

    def entries(self, inner: Any) -> dict[str, tuple[int, str, int]]:
        """Hits, kind of exit and operations of every entry of a function."""
        rows = self.report(inner).get("entries", ())
        return {
            str(row.get("id")): (
                row.get("hits", 0),
                (row.get("exit") or {}).get("kind", ""),
                len((row.get("graph") or {}).get("nodes", ())),
            )
            for row in rows
        }

    def note(self, inner: Any, before: tuple[dict[str, float], dict[str, tuple[int, str, int]]]) -> None:
        moved = change(before[0], self.totals())  # before waiting: what this very call did
        exits, replayed = [], 0
        for key, (hits, kind, nodes) in self.entries(inner).items():
            more = hits - before[1].get(key, (0, "", 0))[0]
            exits += [kind] if more > 0 else []
            replayed += max(more, 0) * nodes
        self.log.append({**moved, "exits": exits, "replayed": replayed})
        self.wait()

    def outcome(self) -> dict[str, Any]:
        """What a case's record says of its calls: captured, whole, the totals, and why not."""
        hit = [call for call in self.log[1:] if call.get("hits")]
        whole = [
            call
            for call in hit
            if "returns" in call["exits"]
            and set(call["exits"]) <= set(WHOLE_EXITS)
            and not call.get("graph_breaks")
            and not call.get("captures")
            and not call.get("recompiles")
        ]
        stats = self.moved_totals()
        reasons = [] if whole else self.reasons()
        steady = self.log[4]["replayed"] if len(self.log) > 4 else 0
        share = {"operations": self.operations, "replayed": min(steady, self.operations)} if self.operations is not None else {}
        return {"calls": len(self.log), "captured": bool(hit), "whole": bool(whole), "stats": stats, **share, "reasons": reasons}

    def moved_totals(self) -> dict[str, float]:
        """By how much the seven totals moved since begin(), background work included."""
        moved = change(self.at_start, self.totals())
        return {name: moved.get(name, 0) for name in TOTALS}

    def reasons(self) -> list[str]:
        """In the report's own words why something was interpreted, commonest first."""
        found: collections.Counter[str] = collections.Counter()
        for inner in self.wrapped:
            report = self.report(inner)
            exits = [entry.get("exit") or {} for entry in report.get("entries", ())]
            for row in (*report.get("lines", ()), *exits):
                if row.get("reason"):
                    found[str(row["reason"])[:160]] += 1
            if not found and (report.get("function") or {}).get("reason"):
                found[str(report["function"]["reason"])[:160]] += 1
        return [text for text, _ in found.most_common(5)]


def change(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The totals that moved between two readings, and by how much."""
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def _dyno() -> Backend:
    import dyno
    from dyno import _backend

    if _backend.reason is not None:
        raise SystemExit(f"dyno compiles nothing here: {_backend.reason}")

    def totals() -> dict[str, float]:
        stats = dyno.stats(wait=False)
        return {name: stats[name] for name in TOTALS}

    def report(inner: Any) -> dict[str, Any]:
        return json.loads(_backend.core.report("explain", inner, "{}"))

    return Backend("dyno", dyno.compile, totals, dyno.reset, dyno.wait, report, counts=True)


class TorchBackend(Backend):
    """torch.compile has no count of hits: a graph that was made counts as captured."""

    def outcome(self) -> dict[str, Any]:
        stats = self.moved_totals()
        captured = stats["captures"] > 0
        return {
            "calls": len(self.log),
            "captured": captured,
            "whole": captured and not stats["graph_breaks"],
            "stats": stats,
            "reasons": [],
        }


def _torch(name: str, **options: Any) -> Backend:
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), "conformance_inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch
    import torch._dynamo
    from torch._dynamo.utils import counters
    from torch._inductor import config, metrics

    config.fallback_random = True  # the same random numbers as eager

    def totals() -> dict[str, float]:
        return {
            "captures": counters["stats"]["unique_graphs"],
            "graph_breaks": sum(counters["graph_break"].values()),
            "kernels": metrics.generated_kernel_count,
            "extern_calls": counters["inductor"]["extern_calls"],
        }

    return TorchBackend(name, lambda fn: torch.compile(fn, **options), totals, torch._dynamo.reset)


BUILTIN: dict[str, Callable[[], Backend]] = {
    "eager": lambda: Backend("eager", lambda fn: fn),
    "dyno": _dyno,
    "torch_compile": lambda: _torch("torch_compile"),
    "torch_compile_dynamo": lambda: _torch("torch_compile_dynamo", backend="eager"),
}


def load(spec: str) -> Backend:
    """The backend a command line names."""
    if spec in BUILTIN:
        return BUILTIN[spec]()
    module, _, name = spec.partition(":")
    return Backend(spec, getattr(importlib.import_module(module), name))
