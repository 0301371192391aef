"""Benchmarks as JSON lines: one line for each case and contestant, contestants interleaved, medians of at least 20 rounds.

    make bench
    .venv/bin/python benchmarks/bench.py --only 'chain|black' --rounds 40

Groups: `chain` (three elementwise operations at three sizes, 1 and 2 threads), `numpy` (Black-Scholes in plain NumPy on one thread), `scaled` (the
fixed list of scaled.py: cost of first calls and of calls 6 to 50), `corpus` (the same of the conformance corpora as they are) and `cells`. Every group with its number of threads runs in a process of its own.
A contestant that cannot take part is named with the reason. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import warnings
from typing import Any, Callable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import contestants  # noqa: E402
import timing  # noqa: E402

Row = dict[str, Any]
CHAIN_SIZES = (16_000_000, 65_536, 16)
OPTIONS = 1_000_000
GROUPS = (("chain", 1), ("chain", 2), ("numpy", 1), ("scaled", 1), ("corpus", 1), ("cells", 1))
LATER = 45  # calls 6 to 50


def chain_function() -> Callable[..., Any]:
    def f(a, b):
        y = a + b
        z = y.relu()
        w = z * 2
        return w

    return f


def black_scholes() -> Callable[..., Any]:
    import numpy as np

    def price(spot, strike, t, rate, sigma):
        d1 = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
        d2 = d1 - sigma * np.sqrt(t)
        n1 = 0.5 * (1.0 + np.tanh(0.7978845608028654 * (d1 + 0.044715 * d1**3)))
        n2 = 0.5 * (1.0 + np.tanh(0.7978845608028654 * (d2 + 0.044715 * d2**3)))
        return spot * n1 - strike * np.exp(-rate * t) * n2

    return price


def close(got: Any, want: Any) -> bool:
    """Whether a contestant computes the same, to some units in the last place."""
    import numpy as np

    return bool(np.allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6))


def contest(case: str, fn: Callable[..., Any], args: tuple[Any, ...], names: tuple[str, ...], rounds: int, base: str) -> Iterator[Row]:
    """Prepares, checks and times all contestants of one case."""
    want, calls, firsts = fn(*args), {}, {}
    for name in names:
        if why := contestants.absent(name):
            yield {"case": case, "contestant": name, "skipped": why}
            continue
        called, firsts[name] = contestants.prepared(name, fn, lambda: args)
        if not close(called(*args), want):
            yield {"case": case, "contestant": name, "wrong": True}
            continue
        calls[name] = lambda called=called: called(*args)
    for row in timing.compared(timing.interleave(calls, rounds), base):
        yield {"case": case, **row, **firsts[row["contestant"]]}
    if {"dyno", "torch.compile"} <= calls.keys():
        again = timing.interleave({name: calls[name] for name in ("torch.compile", "dyno")}, rounds)
        ratio, low, high = timing.ratio_interval(again["torch.compile"], again["dyno"])
        yield {"case": case, "contestant": "dyno", "speedup_over_torch.compile": timing.rounded(ratio),
               "ci95": [timing.rounded(low), timing.rounded(high)], "not_slower": high >= timing.NOT_SLOWER}  # fmt: skip


def chain(rounds: int, threads: int) -> Iterator[Row]:
    import torch

    for size in CHAIN_SIZES:
        generator = torch.Generator().manual_seed(0)
        args = (torch.randn(size, generator=generator), torch.randn(size, generator=generator))
        case = f"chain, {size:,} elements, {threads} thread{'s' * (threads > 1)}"
        yield from contest(case, chain_function(), args, ("eager", "dyno", "torch.compile"), rounds, "eager")


def numpy_group(rounds: int, threads: int) -> Iterator[Row]:
    import numpy as np

    rng = np.random.default_rng(0)
    args = (100 * rng.uniform(0.1, 1.0, OPTIONS) + 50, 100.0, rng.uniform(0.1, 1.0, OPTIONS), 0.02, 0.3)
    yield from contest(f"Black-Scholes in NumPy, {OPTIONS:,} options", black_scholes(), args, ("numpy", "dyno"), rounds, "numpy")


def timed_call(called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], raises: tuple[type[Exception], ...] = ()) -> float:
    """Seconds of one call, which may end with the errors that are expected of it."""
    with contextlib.redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        with contextlib.suppress(*raises):
            called(*args, **kwargs)
        return time.perf_counter() - start


def errors_of(called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[type[Exception], ...]:
    """What a plain call raises: a corpus has cases that do."""
    try:
        timed_call(called, args, kwargs)
    except Exception as error:
        return (type(error),)
    return ()


def calls_of(case: str, eager: Callable[..., Any], made: Callable[..., Any], arguments: Callable[[], Any],
             raises: tuple[type[Exception], ...] = ()) -> Row:  # fmt: skip
    """First call, calls 2 to 5, and calls 6 to 50 in turn with eager's, on equal arguments of their own."""
    import dyno

    firsts = [timed_call(called, *arguments(), raises) for called in (eager, made)]
    for _ in range(4):
        for called in (eager, made):
            timed_call(called, *arguments(), raises)
    start = time.perf_counter()
    dyno.wait()
    waited = time.perf_counter() - start
    hits = dyno.stats()["hits"]
    times: dict[str, list[float]] = {"eager": [], "dyno": []}
    for number in range(LATER):
        pair = [("eager", eager), ("dyno", made)]
        for key, called in pair if number % 2 == 0 else reversed(pair):
            times[key].append(timed_call(called, *arguments(), raises))
    ratio, low, high = timing.ratio_interval(times["eager"], times["dyno"])
    return {"case": case, "contestant": "dyno", "eager_first_ms": round(firsts[0] * 1e3, 3),
            "first_ms": round(firsts[1] * 1e3, 3), "waited_ms": round(waited * 1e3, 3), "hits": dyno.stats()["hits"] - hits,
            "eager_us": timing.facts_of(times["eager"])["median_us"], **timing.facts_of(times["dyno"]),
            "speedup_over_eager": timing.rounded(ratio), "ci95": [timing.rounded(low), timing.rounded(high)]}  # fmt: skip


def summary_of(case: str, rows: list[Row]) -> Row:
    """Over all cases: sum of first calls, median of later calls, and the cases that are slower later."""
    import numpy as np

    slower = [r["median_us"] / r["eager_us"] for r in rows]
    over = [r["case"] for r in rows if r["median_us"] > 1.05 * r["eager_us"] + 2]
    return {"case": f"{case}: all", "contestant": "dyno", "cases": len(rows), "captured": sum(r["hits"] > 0 for r in rows),
            "first_calls_over_eager": timing.rounded(sum(r["first_ms"] for r in rows) / sum(r["eager_first_ms"] for r in rows)),
            "later_calls_over_eager_median": timing.rounded(float(np.median(slower))), "later_calls_above_1.05x_plus_2us": over}  # fmt: skip


def scaled_group(rounds: int, threads: int) -> Iterator[Row]:
    if why := contestants.absent("dyno"):
        yield {"case": "scaled", "contestant": "dyno", "skipped": why}
        return
    import dyno
    import scaled
    import torch

    rows = []
    with torch.no_grad():
        for name in scaled.CASES:
            fn, args = scaled.fresh(name)
            arguments = lambda args=args: (scaled.copied(args), {})  # noqa: E731
            timed_call(fn, *arguments())  # libraries have started
            rows.append(calls_of(f"scaled: {name}", contestants.clone(fn), dyno.compile(contestants.clone(fn)), arguments))
            yield rows[-1]
    yield summary_of("scaled", rows)


def corpus_group(rounds: int, threads: int) -> Iterator[Row]:
    if why := contestants.absent("dyno"):
        yield {"case": "corpus", "contestant": "dyno", "skipped": why}
        return
    import corpus
    import dyno
    import torch

    rows: dict[str, list[Row]] = {"functions": [], "models": []}
    for kind, name, make in corpus.cases():
        (eager, arguments), (fn, _) = make(), make()
        with torch.set_grad_enabled(kind == "functions"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raises = errors_of(make()[0], *arguments())  # libraries have started too
            rows[kind].append(calls_of(f"{kind}: {name}", contestants.clone(eager), dyno.compile(contestants.clone(fn)), arguments, raises))
        yield rows[kind][-1]
    for kind, of_kind in rows.items():
        yield summary_of(kind, of_kind)


def cells_group(rounds: int, threads: int) -> Iterator[Row]:
    import cells

    yield from cells.run(rounds)


RUN: dict[str, Callable[[int, int], Iterator[Row]]] = {"chain": chain, "numpy": numpy_group, "scaled": scaled_group, "corpus": corpus_group,
                                                         "cells": cells_group}  # fmt: skip


def versions() -> Row:
    import importlib.metadata

    def version(name: str) -> str | None:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
        return None

    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"python": platform.python_version(), "torch": version("torch"), "numpy": version("numpy"), "cpu": model[1] if model else None,
            "cores": os.cpu_count(), "load": os.getloadavg()[0]}  # fmt: skip


def work(group: str, threads: int, rounds: int) -> None:
    """The body of a process: one group, one number of threads."""
    if group != "cells":
        import torch

        torch.set_num_threads(threads)
    for row in RUN[group](rounds, threads):
        print(json.dumps(row), flush=True)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="regular expression on 'group/threads', as in chain/2")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--work", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.work:
        group, threads = args.work.split("/")
        work(group, int(threads), args.rounds)
        return 0
    print(json.dumps({"case": "machine", **versions()}), flush=True)
    bad = 0
    for group, threads in GROUPS:
        if args.only and not re.search(args.only, f"{group}/{threads}"):
            continue
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        command = [sys.executable, __file__, "--work", f"{group}/{threads}", "--rounds", str(args.rounds)]
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode
        if status:
            bad = 1
            print(json.dumps({"case": f"{group}/{threads}", "failed": status}), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
