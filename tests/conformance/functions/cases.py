"""What a case of the functions corpus is, and the generator of its arguments.

Each case is a small function as people write them in notebooks. It has a `make(env)` that gives a fresh function (with its own closures,
classes and caches), a `make_args(seed)` that gives fresh arguments, and says what a capturing compiler has to know about to get it right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch


@dataclass
class FunctionCase:
    """`seeds` are the calls made, in order: a repeated seed repeats a call, another may change shapes, types or branches."""

    name: str
    make: Callable[[dict], Callable]
    make_args: Callable[..., Any]  # (seed, variant)
    kind: str
    needs: frozenset
    seeds: tuple


CASES: list[FunctionCase] = []
KINDS = {"n_": "numpy", "t_": "torch", "p_": "python"}


def case(args=lambda g: (), needs="", kind=None, seeds=(0, 0, 0, 1, 1), tolerance=None, state=False):
    """Registers a case. `args(g)` makes the arguments from a Gen; the decorated function is the case itself, or with `state=True` a maker
    `f(env)` that returns the function, so that every run starts with fresh state. `tolerance` is found out, not taken."""

    def register(f):
        make = f if state else (lambda env: f)
        CASES.append(
            FunctionCase(
                f.__name__,
                make,
                lambda seed, variant=0: args(Gen(seed, variant)),
                kind or KINDS[f.__name__[:2]],
                frozenset(needs.split()),
                seeds,
            )
        )
        return f

    return register


class Gen:
    """Argument generator of one seed; seed 1 and up also change sizes, a variant changes the values alone."""

    def __init__(self, seed, variant=0):
        drawn = seed + 1000 * variant
        self.seed, self.rng, self.gen = seed, np.random.default_rng(drawn), torch.Generator().manual_seed(drawn)
        self.n = 8 + 3 * seed

    def a(self, *shape, dtype=np.float64):
        return self.rng.standard_normal(shape).astype(dtype)

    def u(self, *shape):
        return self.rng.uniform(0.1, 1.0, shape)

    def i(self, high, *shape):
        return self.rng.integers(0, high, shape)

    def t(self, *shape, dtype=torch.float32):
        return torch.randn(*shape, generator=self.gen, dtype=dtype)

    def ti(self, high, *shape):
        return torch.randint(0, high, shape, generator=self.gen)
