"""Measures several ways to make one call, fairly, and says how sure the figures are.

Input: contestants as callables. Output: all samples and their statistics. Contestants are interleaved in the order A B B A, so that a
drift of the machine meets all of them; a sample is a batch long enough for the clock. It prints nothing and judges nothing.
"""

import gc
import itertools
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Callable

LEAST_SAMPLES = 20
FEWEST_SAMPLES = 5  # where twenty would take longer than PATIENCE
PATIENCE = 30.0  # seconds a contestant
BATCHES = 40  # samples that fill the asked time
RESAMPLES = 1000
NOISY = 0.10  # interquartile range above this share of the median


class nothing:
    """A context that does nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


@dataclass
class Contestant:
    """``call`` runs once; ``inside`` makes the context it runs in (entered once a sample). Times are seconds a call."""

    name: str
    call: Callable
    inside: Callable = nothing
    first_call: float | None = None
    warmup_calls: int = 0
    number: int = 1
    samples: list = field(default_factory=list)
    runs: int = 0


def synchronise():
    """Waits for the GPU, if this process uses one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def sample(contestant, number):
    """Seconds a call over ``number`` calls, with the garbage collector off and the GPU empty before and after."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with contestant.inside():
            call = contestant.call
            synchronise()
            start = time.perf_counter()
            for _ in itertools.repeat(None, number):
                call()
            synchronise()
            return (time.perf_counter() - start) / number
    finally:
        contestant.runs += number
        if collecting:
            gc.enable()


def warm_up(contestant, calls, seconds):
    """Calls it up to ``calls`` times within ``seconds``, at least once; returns the last time of one call."""
    spent = 0.0
    for _ in range(calls):
        last = sample(contestant, 1)
        spent += last
        contestant.warmup_calls += 1
        if spent > seconds:
            break
    return last


def measure(contestants, min_time):
    """Fills ``samples`` of every contestant, interleaved: at least ``min_time`` seconds and twenty samples each."""
    least = {}
    for contestant in contestants:
        once = max(warm_up(contestant, 3, min_time / 4), 1e-9)
        contestant.number = max(1, min(1_000_000, math.ceil(min_time / BATCHES / once)))
        patient = once * contestant.number * LEAST_SAMPLES <= PATIENCE
        least[contestant.name] = LEAST_SAMPLES if patient else FEWEST_SAMPLES
    for turn in itertools.count():
        hungry = [c for c in contestants if len(c.samples) < least[c.name] or sum(c.samples) * c.number < min_time]
        if not hungry:
            return
        # All take part as long as one is hungry: a contestant measured alone would see another machine.
        for contestant in contestants if turn % 2 == 0 else reversed(contestants):
            contestant.samples.append(sample(contestant, contestant.number))


def quartiles(samples):
    """(lower quartile, median, upper quartile)."""
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    lower, middle, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return lower, middle, upper


def ratio_interval(base, other, seed=0):
    """The ratio of medians base / other with its 95 % bootstrap interval: (ratio, low, high). The same samples give the same interval."""
    chance = random.Random(seed)
    ratios = []
    for _ in range(RESAMPLES):
        top = statistics.median(chance.choices(base, k=len(base)))
        bottom = statistics.median(chance.choices(other, k=len(other)))
        ratios.append(top / bottom)
    ratios.sort()
    edge = int(RESAMPLES * 0.025)
    return statistics.median(base) / statistics.median(other), ratios[edge], ratios[-1 - edge]
