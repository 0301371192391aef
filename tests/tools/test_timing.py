"""The statistics of the benchmarks: intervals hold the ratio, noise is seen, and a slower contestant is called slower."""
from __future__ import annotations

import random

import timing


def samples(median: float, spread: float, seed: int, count: int = 30) -> list[float]:
    rng = random.Random(seed)
    return [median * (1 + spread * rng.uniform(-1, 1)) for _ in range(count)]


def test_interval_holds_the_ratio() -> None:
    ratio, low, high = timing.ratio_interval(samples(2.0, 0.05, 1), samples(1.0, 0.05, 2))
    assert low <= ratio <= high and low <= 2.0 <= high and high - low < 0.3


def test_slower_is_called_slower_and_equal_is_not() -> None:
    rows = {r["contestant"]: r for r in timing.compared(
        {"eager": samples(1.0, 0.02, 1), "slow": samples(1.2, 0.02, 2), "same": samples(1.0, 0.02, 3)}, "eager")}  # fmt: skip
    assert rows["slow"]["not_slower"] is False and rows["same"]["not_slower"] is True


def test_noise_is_seen() -> None:
    assert timing.facts_of(samples(1.0, 0.5, 1))["noisy"] and not timing.facts_of(samples(1.0, 0.01, 1))["noisy"]


def test_short_calls_are_repeated() -> None:
    assert timing.repeats_for(lambda: None, 1e-3) > 100
