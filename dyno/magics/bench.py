"""``%dyno bench f(x)``: the call interpreted and compiled, and by others, interleaved.

Input: a target with a call. Output: a report with all samples. Results are compared with the interpreted one first, on copies of the
arguments; first call, warm-up and steady state are kept apart; it counts how often the call ran.
"""

import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from typing import Callable

import dyno
from dyno import _backend
from dyno.magics import agreement, bench_page, facts, memory, target as targets, timing
from dyno.magics.errors import UsageError, reason_of, similar
from dyno.magics.request import ask, failure_headed
from dyno.magics.result import Result

BUILT_IN = ("eager", "torch", "numpy")
WARMUP_CALLS, WARMUP_SECONDS = 24, 1.0  # enough replays for the compiler to judge an entry
DEFAULT_SECONDS = 0.5


def run(request):
    """The result for the request's call."""
    seconds = request.options.get("min_time", DEFAULT_SECONDS)
    if not 0 < seconds <= 600:
        raise UsageError(f"--min-time takes seconds above 0 and up to 600, not '{seconds:g}'")
    others = [other(name, request) for name in request.options.get("vs", ()) if name != "eager"]
    with failure_headed("bench", request.shell):
        report = measured(request, others, seconds)
    return Result(report, bench_page.page(report, request.options))


@dataclass(frozen=True)
class Other:
    """A further contestant: ``make()`` gives its function; ``arrays`` says that tensors are given to it as NumPy arrays."""

    name: str
    make: Callable
    arrays: bool = False


def other(name, request):
    """One further contestant; raises for a name that is none."""
    target = request.target
    if name == "torch":
        return Other("torch.compile", lambda: torch_compiled(target))
    if name == "numpy":
        return Other("numpy", lambda: targets.plain(target.function), arrays=True)
    prefix, colon, function = name.partition(":")
    if colon and prefix != "numpy":
        raise UsageError(f"--vs takes {', '.join(BUILT_IN)}, a function g, or numpy:g, not '{name}'")
    word = function if colon else name
    names = request.shell.user_ns
    if not callable(names.get(word)):
        callables = [known for known, value in names.items() if callable(value) and not known.startswith("_")]
        near = similar(word, [*callables, *BUILT_IN])
        hint = f". Similar: {', '.join(near)}" if near else ""
        raise UsageError(f"--vs: '{word}' is neither {', '.join(BUILT_IN)} nor a function{hint}")
    chosen = names[word]
    return Other(name, lambda: chosen, arrays=bool(colon))


def torch_compiled(target):
    """The function by torch.compile. Raises ImportError where there is no torch."""
    import torch

    return torch.compile(targets.plain(target.function))


def bound(function, args, kwargs, arrays=False):
    """The call without arguments of its own; with ``arrays``, tensors become NumPy arrays on the same memory."""
    if arrays:
        args, kwargs = [array(value) for value in args], {name: array(value) for name, value in kwargs.items()}
    return lambda: function(*args, **kwargs)


def array(value):
    """A tensor as an array; everything else as it is."""
    torch = sys.modules.get("torch")
    return value.detach().cpu().numpy() if torch is not None and isinstance(value, torch.Tensor) else value


def measured(request, others, seconds):
    """All contestants made, checked, warmed and measured; the report."""
    target = request.target
    _backend.core.wait()
    before = ask("explain", target.function, {}, request.shell, target.name)
    plain = targets.plain(target.function)
    kept = copies(target.args), dict(zip(target.kwargs, copies(target.kwargs.values())))  # as they were before the first call
    eager = timing.Contestant("interpreted", bound(plain, target.args, target.kwargs), dyno.off)
    expected = checked_call(eager, plain, kept)
    contestants, absent, verdicts = [eager], [], {}
    if _backend.reason is None:
        contestants.append(compiled_contestant(target, before, expected, kept, verdicts))
    else:
        absent.append({"name": "compiled", "reason": _backend.reason})
    for row in others:
        try:
            contestants.append(other_contestant(row, target, expected, kept, verdicts))
        except Exception as error:  # another contestant's failure is a finding, not the user's error
            hint = "; name a function that takes arrays: --vs numpy:FUNCTION" if row.name == "numpy" else ""
            absent.append({"name": row.name, "reason": reason_of(error).splitlines()[0] + hint})
    hits = total_hits()
    timing.measure(contestants, seconds)
    hits = total_hits() - hits
    peaks = {contestant.name: peak(contestant) for contestant in contestants}
    after = ask("explain", target.function, {}, request.shell, target.name)
    return assembled(request, contestants, absent, verdicts, after, hits, peaks)


def peak(contestant):
    """The memory that one further call needs at its peak, results included; blocks that dyno keeps for results are given back before."""
    _backend.core.control("release", None, "{}")
    with contestant.inside():
        contestant.runs += 1
        return memory.peak_of(contestant.call)


def total_hits():
    """Replays of this process so far."""
    return json.loads(_backend.core.stats())["hits"]


def checked_call(contestant, function, kept, arrays=False):
    """The result of one call on copies of the arguments, with the random generators put back after it. Times the first call."""
    args, kwargs = copies(kept[0]), dict(zip(kept[1], copies(kept[1].values())))
    call = bound(function, args, kwargs, arrays)
    with contestant.inside(), same_randomness():
        contestant.runs += 1
        start = time.perf_counter()
        result = call()
        timing.synchronise()
        if contestant.first_call is None and contestant.inside is dyno.off:
            contestant.first_call = time.perf_counter() - start
        return result


def copies(values):
    """Tensors and arrays copied, so that a call that writes into them can be repeated; the rest as it is."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    made = []
    for value in values:
        if torch is not None and type(value) is torch.Tensor:
            made.append(value.detach().clone().requires_grad_(value.requires_grad))
        elif numpy is not None and type(value) is numpy.ndarray:
            made.append(value.copy())
        else:
            made.append(value)
    return tuple(made)


class same_randomness:
    """Restores the global generators of torch, NumPy and Python at the end."""

    def __enter__(self):
        import random

        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        self.python = random.getstate()
        self.numpy = numpy.random.get_state() if numpy is not None else None
        self.torch = torch.get_rng_state() if torch is not None else None

    def __exit__(self, *_):
        import random

        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)
        if self.torch is not None:
            sys.modules["torch"].set_rng_state(self.torch)
        return False


def compiled_contestant(target, before, expected, kept, verdicts):
    """The compiled contestant: first call timed if there was none before, then warmed until the compiler has settled."""
    function = _backend.core.compile(target.function, False, None)
    contestant = timing.Contestant("compiled", bound(function, target.args, target.kwargs))
    if before["function"]["state"] == "not_called":
        contestant.first_call = timing.sample(contestant, 1)
    _backend.core.wait()
    timing.warm_up(contestant, WARMUP_CALLS, WARMUP_SECONDS)
    _backend.core.wait()
    verdicts["compiled"] = agreement.compare(expected, checked_call(contestant, function, kept))
    return contestant


def other_contestant(row, target, expected, kept, verdicts):
    """Another contestant, run where dyno is off; its first call is timed."""
    with dyno.off():
        function = row.make()
    contestant = timing.Contestant(row.name, bound(function, target.args, target.kwargs, row.arrays), dyno.off)
    verdicts[row.name] = agreement.compare(expected, checked_call(contestant, function, kept, row.arrays))
    timing.warm_up(contestant, 3, WARMUP_SECONDS)
    return contestant


def assembled(request, contestants, absent, verdicts, after, hits, peaks):
    """The report: every sample, and the figures made from them."""
    base = contestants[0]
    rows = []
    for contestant in contestants:
        lower, median, upper = timing.quartiles(contestant.samples)
        ratio, low, high = timing.ratio_interval(base.samples, contestant.samples) if contestant is not base else (1.0, 1.0, 1.0)
        rows.append(
            {
                "name": contestant.name, "median_s": median, "lower_s": lower, "upper_s": upper, "min_s": min(contestant.samples),
                "first_call_s": contestant.first_call, "warmup_calls": contestant.warmup_calls, "calls_a_sample": contestant.number,
                "samples_s": contestant.samples, "runs": contestant.runs, "speedup": ratio, "speedup_interval": [low, high],
                "noisy": upper - lower > timing.NOISY * median, "agreement": verdicts.get(contestant.name),
                "peak_bytes": peaks.get(contestant.name),
            }
        )  # fmt: skip
    compiled = next((row for row in rows if row["name"] == "compiled"), None)
    compile_s = sum(entry.get("compile_ms") or 0.0 for entry in after.get("entries", ())) / 1000
    return {
        "schema": "dyno.report/1", "kind": "bench", "function": after["function"], "call": request.target.call,
        "arguments": [{"text": described(value)} for value in (*request.target.args, *request.target.kwargs.values())],
        "threads": threads(), "versions": versions(), "runs": sum(row["runs"] for row in rows), "contestants": rows, "absent": absent,
        "kernels": len(facts.kernels(after)), "compile_s": compile_s, "hits": hits, "bytes_moved": bytes_moved(after),
        "interpreted_because": None if compiled is None or hits else (facts.reasons(after) or [{"text": "no reason is known"}])[0]["text"],
        "break_even_calls": break_even(rows[0], compiled, compile_s),
    }  # fmt: skip


def bytes_moved(report):
    """What the kernels of the one compiled part read and write in a run; ``None`` where several parts or versions take turns."""
    entries = report.get("entries", ())
    sizes = [kernel.get("bytes") for kernel in facts.kernels(report)]
    return sum(sizes) if len(entries) == 1 and sizes and None not in sizes else None


def break_even(eager, compiled, compile_s):
    """Calls after which compiling has paid, background time counted in full; ``None`` where it does not pay or is unknown."""
    if compiled is None or compiled["first_call_s"] is None or compiled["speedup_interval"][0] <= 1.0:
        return None
    gain = eager["median_s"] - compiled["median_s"]
    cost = compile_s + max(0.0, compiled["first_call_s"] - eager["median_s"])
    return max(1, round(cost / gain + 0.5))


def described(value):
    """``float32[4096, 4096] cpu`` for tensors and arrays, the type for the rest."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} {value.device}"
    if numpy is not None and isinstance(value, numpy.ndarray):
        return f"{value.dtype}{list(value.shape)} array"
    return repr(value) if isinstance(value, (int, float, bool, str, type(None))) and len(repr(value)) <= 20 else type(value).__name__


def threads():
    """Threads that the libraries use."""
    torch = sys.modules.get("torch")
    return (
        torch.get_num_threads()
        if torch is not None
        else len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )


def versions():
    """Versions of all contestants."""
    found = {"python": platform.python_version(), "dyno": dyno.__version__}
    for name in ("torch", "numpy"):
        if name in sys.modules:
            found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    return found
