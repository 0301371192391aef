"""The contestants that a function is run by: plain, dyno, and torch.compile where a C++ compiler is installed."""

from __future__ import annotations

import importlib.util
import shutil
import time
import types
from typing import Any, Callable

Function = Callable[..., Any]


def clone(fn: Function) -> Function:
    """The same function with a code object of its own, so that contestants share nothing that is compiled."""
    if not isinstance(fn, types.FunctionType):
        return fn
    code = fn.__code__.replace(co_name=fn.__code__.co_name)
    twin = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    twin.__kwdefaults__ = fn.__kwdefaults__
    return twin


def absent(name: str) -> str | None:
    """Why a contestant cannot take part here, or None."""
    if name == "dyno":
        if importlib.util.find_spec("dyno") is None:
            return "dyno is not installed"
        from dyno import _backend

        return _backend.reason
    if name == "torch.compile" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        return "torch.compile needs a C++ compiler and none is installed"
    return None


def settle(name: str) -> None:
    """Waits for background work, so that the next call is steady."""
    if name == "dyno":
        import dyno

        dyno.wait()


def prepared(name: str, fn: Function, args: Callable[[], tuple[Any, ...]], warm: int = 5) -> tuple[Function, dict[str, float]]:
    """The contestant's function after its first calls, and what those took: first call, and until compiled code was in place."""
    if name == "dyno":
        import dyno

        called = dyno.compile(clone(fn))
    elif name == "torch.compile":
        import torch

        called = torch.compile(clone(fn))
    else:
        called = clone(fn)
    given = args()
    start = time.perf_counter()
    called(*given)
    first = time.perf_counter() - start
    settle(name)
    ready = time.perf_counter() - start
    for _ in range(warm):
        called(*args())
        settle(name)
    return called, {"first_call_ms": round(first * 1e3, 3), "ready_ms": round(ready * 1e3, 3)}
