"""Interleaved timing of contestants and what may be said about it.

Rounds alternate the order of contestants (ABBA), so that drift of the machine hits all alike; every sample is kept. The speed-up is the ratio
of medians with a 95 % bootstrap interval over rounds. "Not slower" means that the interval does not lie wholly below 0.97.
"""

from __future__ import annotations

import time
from typing import Any, Callable

import numpy as np

LEAST_ROUNDS = 20
LEAST_SAMPLE = 2e-3  # seconds that one sample lasts: short calls are repeated within it
RESAMPLES = 2000
NOT_SLOWER = 0.97


def repeats_for(call: Callable[[], Any], least: float = LEAST_SAMPLE) -> int:
    """How often to call within one sample so that it lasts long enough for the clock."""
    repeats = 1
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        taken = time.perf_counter() - start
        if taken >= least or repeats >= 1_000_000:
            return repeats
        repeats = max(repeats * 2, int(repeats * least / max(taken, 1e-9)))


def sample(call: Callable[[], Any], repeats: int) -> float:
    """Seconds of one call, over `repeats` calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def interleave(calls: dict[str, Callable[[], Any]], rounds: int = LEAST_ROUNDS, least: float = LEAST_SAMPLE) -> dict[str, list[float]]:
    """Seconds a call of every contestant, one sample a round."""
    repeats = {name: repeats_for(call, least) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(max(rounds, LEAST_ROUNDS)):
        for name in list(calls) if number % 2 == 0 else reversed(calls):
            times[name].append(sample(calls[name], repeats[name]))
    return times


def ratio_interval(base: list[float], other: list[float]) -> tuple[float, float, float]:
    """(ratio of medians base / other, and its 95 % bootstrap interval); above 1 the other is faster."""
    a, b = np.array(base), np.array(other)
    picks = np.random.default_rng(0).integers(0, len(a), (RESAMPLES, len(a)))
    ratios = np.median(a[picks], axis=1) / np.median(b[picks], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(np.median(a) / np.median(b)), float(low), float(high)


def facts_of(times: list[float]) -> dict[str, Any]:
    """Median, quartiles' distance and minimum in microseconds, and whether the samples are noisy."""
    low, middle, high = np.percentile(times, [25, 50, 75])
    return {"median_us": rounded(middle * 1e6), "iqr_us": rounded((high - low) * 1e6), "min_us": rounded(min(times) * 1e6),
            "rounds": len(times), "noisy": bool(high - low > 0.1 * middle)}  # fmt: skip


def rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def compared(times: dict[str, list[float]], base: str) -> list[dict[str, Any]]:
    """One row for each contestant, with its speed-up over `base`."""
    rows = []
    for name, samples in times.items():
        row = {"contestant": name, **facts_of(samples)}
        if name != base:
            ratio, low, high = ratio_interval(times[base], samples)
            row.update({f"speedup_over_{base}": rounded(ratio), "ci95": [rounded(low), rounded(high)], "not_slower": high >= NOT_SLOWER})
        rows.append(row)
    return rows
