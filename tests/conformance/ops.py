"""Counts the tensor and array operations that a plain call makes, to say which share of them ran inside a replay.

One call of torch's API, one ufunc, one array function or one array method that computes counts as one, which is what one node of a graph is.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import numpy as np
from torch.overrides import TorchFunctionMode

QUIET = frozenset(
    "__get__ __set__ size dim numel stride storage_offset data_ptr is_contiguous __len__ __repr__ __format__ __hash__".split()
)


class Counter(TorchFunctionMode):
    """Counts calls of torch's API; looking at a tensor is none."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") not in QUIET
        return func(*args, **(kwargs or {}))


class CountedArray(np.ndarray):
    """An array that counts ufuncs and array functions applied to it."""

    counter: Counter

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        CountedArray.counter.count += 1
        if out:
            kwargs["out"] = tuple(bare(a) for a in out)
        result = getattr(ufunc, method)(*map(bare, inputs), **kwargs)
        return (out[0] if len(out) == 1 else out) if out else counted(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        CountedArray.counter.count += 1
        return super().__array_function__(func, types, args, kwargs)


def bare(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, CountedArray) else value


def counted(value: Any) -> Any:
    """Arguments with arrays of the counting kind."""
    if type(value) is np.ndarray and value.dtype.names is None:
        return value.view(CountedArray)
    return type(value)(counted(part) for part in value) if type(value) in (list, tuple) else value


@contextlib.contextmanager
def counting() -> Iterator[Counter]:
    with Counter() as counter:
        CountedArray.counter = counter
        yield counter


def count_in_call(run: Callable[[Callable[[Any], Any]], Any], number: int) -> int | None:
    """Operations of the call with this number, when `run(wrap)` makes all calls; None where counting disturbs the program."""
    made, found = 0, None

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal made, found
            made += 1
            if made != number + 1:
                return fn(*args, **kwargs)
            with counting() as counter:
                try:
                    return fn(*(counted(a) for a in args), **kwargs)
                finally:
                    found = counter.count

        return call

    with contextlib.suppress(Exception):
        run(wrap)
    return found
