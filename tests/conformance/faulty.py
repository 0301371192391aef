"""Backends that are wrong on purpose, to check that the runners notice.

    python tests/conformance/run.py --suite torch_programs --backend faulty:loses_mutation --count 50

Each should fail on many cases, with the kind of difference its docstring names; `crash` and `hang` should be recorded and not stop the run.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import time
import warnings
from typing import Any, Callable

import numpy as np

Function = Callable[..., Any]


def crash(fn: Function) -> Function:
    """Status `crash`: reads address zero."""
    return lambda *args, **kwargs: ctypes.string_at(0)


def hang(fn: Function) -> Function:
    """Status `timeout`."""
    return lambda *args, **kwargs: time.sleep(3600)


def refuses(fn: Function) -> Function:
    """Kind `raised`: cannot run anything."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("not supported")

    return call


def loses_mutation(fn: Function) -> Function:
    """Kinds `value`, `length`, `version`: works on copies of its arguments."""

    def detached(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(detached(part) for part in value)
        return value.detach().clone().requires_grad_(value.requires_grad) if hasattr(value, "detach") else copy.copy(value)

    return functools.wraps(fn)(lambda *args, **kwargs: fn(*detached(list(args)), **kwargs))


def stale(fn: Function) -> Function:
    """Kind `value`: answers every call of one signature with the first call's result."""
    kept: dict[Any, Any] = {}

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        key = tuple((type(a), getattr(a, "shape", None), getattr(a, "dtype", None)) for a in args)
        if key not in kept:
            kept[key] = fn(*args, **kwargs)
        return kept[key]

    return call


def nudge(fn: Function) -> Function:
    """Kind `bits`: moves floating-point results by one unit in the last place."""

    def moved(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(moved(part) for part in value)
        if getattr(getattr(value, "dtype", None), "is_floating_point", False):
            import torch

            value.detach().copy_(torch.nextafter(value.detach(), torch.full_like(value.detach(), 1e30)))
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.flags.writeable:
            value[...] = np.nextafter(value, value.dtype.type(np.inf))
        return value

    return functools.wraps(fn)(lambda *args, **kwargs: moved(fn(*args, **kwargs)))


def wrong_error(fn: Function) -> Function:
    """Kind `exception type`: every exception becomes a RuntimeError."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            raise RuntimeError(f"compiled code: {error}") from error

    return call


def keeps_arguments(fn: Function) -> Function:
    """Kind `references`: holds on to everything it was given."""
    kept: list[Any] = []

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        kept.append((args, kwargs))
        return fn(*args, **kwargs)

    return call


def swallows_warnings(fn: Function) -> Function:
    """Kind `warning`."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)

    return call


def contiguous(fn: Function) -> Function:
    """Kinds `stride`, `alias`: results have strides of their own."""

    def packed(value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(packed(part) for part in value)
        if hasattr(value, "contiguous"):
            return value.contiguous()
        return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value

    return functools.wraps(fn)(lambda *args, **kwargs: packed(fn(*args, **kwargs)))


def widens(fn: Function) -> Function:
    """Kind `dtype`: narrow floating results become wide ones."""

    def wide(value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(wide(part) for part in value)
        if getattr(getattr(value, "dtype", None), "is_floating_point", False):
            return value.double()
        return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value

    return functools.wraps(fn)(lambda *args, **kwargs: wide(fn(*args, **kwargs)))
