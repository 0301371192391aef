"""Runs a program twice, as plain Python and under dyno.compile, and compares all that a user could see.

Input: a function ``program(t)`` that compiles by ``t.compile`` and calls by ``t.call``. Output: an assertion. What is seen of a
call: the result (bits, dtype, sizes, strides, identity, shared memory), the arguments after it, prints, warnings, the exception with its
text and traceback lines, random number states. Counters are looked at too, so that a test in which nothing is compiled fails.
"""
from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import io
import linecache
import os
import textwrap
import traceback
import types
import warnings

import numpy as np
import torch

import dyno

#: Under these settings nothing is ever replayed, so no hits are asked for.
NO_HITS = os.environ.get("DYNO_DEBUG_FORCE_MISS", "0") not in ("", "0")
BREAKS = os.environ.get("DYNO_DEBUG_BREAK_EVERYWHERE", "0") not in ("", "0")
#: Checked replays of segments with .item() or an unknown size fall back to plain Python: see the tests that ask for UNCHECKED hits.
UNCHECKED = 0 if os.environ.get("DYNO_CHECK", "0") not in ("", "0") else 1
HERE = __file__


class Seen:
    """Turns values into plain data that compares by content; one per observed call, so that identity and memory are part of it."""

    def __init__(self):
        self.objects = {}  # id -> number, in the order of meeting
        self.kept = []  # ids stay unique
        self.memory = []  # (first byte, byte after the last, number)

    def where(self, first, size):
        """Which memory met before this overlaps, and at which distance."""
        shared = [(number, first - start) for start, end, number in self.memory if first < end and start < first + size]
        self.memory.append((first, first + size, len(self.memory)))
        return tuple(shared)

    def tensor(self, t):
        if t.is_sparse or t.is_quantized or t.layout is not torch.strided:
            return ("tensor", type(t).__name__, str(t))
        bits = t.detach().resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
        raw = bits.view(torch.uint8).numpy().tobytes() if bits.numel() and bits.dim() else bits.reshape(-1).view(torch.uint8).numpy().tobytes()
        extent = sum((n - 1) * abs(s) for n, s in zip(t.shape, t.stride(), strict=True)) + 1 if t.numel() else 0
        base = None if t._base is None else self(t._base) if id(t._base) in self.objects else "unseen"
        grad = self(t.grad) if t.is_leaf and t.requires_grad and t.grad is not None else None
        return ("tensor", type(t).__name__, str(t.dtype), str(t.device), tuple(t.shape), t.stride(), t.requires_grad, t.is_leaf,
                type(t.grad_fn).__name__, base, None if t.is_inference() else t._version, self.where(t.data_ptr(), extent * t.element_size()), canonical(raw, bits), grad)

    def array(self, a):
        low, high = np.lib.array_utils.byte_bounds(a) if hasattr(np.lib, "array_utils") else np.byte_bounds(a)
        content = a.tobytes() if a.dtype != object else tuple(map(self, a.ravel().tolist()))
        return ("array", type(a).__name__, a.dtype.str, a.shape, a.strides, a.flags.owndata, a.flags.writeable, a.base is None,
                self.where(low, high - low) if a.size else (), content)

    def __call__(self, v):
        if v is None or v is Ellipsis or v is NotImplemented or isinstance(v, (str, bytes, type)):
            return v
        if type(v) in (int, bool):
            return (type(v).__name__, v)
        if type(v) is float:
            return ("float", v.hex())
        if type(v) is complex:
            return ("complex", v.real.hex(), v.imag.hex())
        if isinstance(v, np.generic):
            return ("scalar", type(v).__name__, v.dtype.str, v.tobytes())
        if isinstance(v, (torch.dtype, torch.device, torch.Size, np.dtype, range, slice)):
            return (type(v).__name__, repr(v))
        if id(v) in self.objects:
            return ("again", self.objects[id(v)])
        self.objects[id(v)] = len(self.objects)
        self.kept.append(v)
        return self.part(v)

    def part(self, v):
        if isinstance(v, torch.Tensor):
            return self.tensor(v)
        if isinstance(v, np.ndarray):
            return self.array(v)
        if isinstance(v, (list, tuple)):
            return (type(v).__name__, [self(x) for x in v])
        if isinstance(v, (set, frozenset)):
            return (type(v).__name__, sorted(map(repr, map(self, v))))
        if isinstance(v, dict):
            return (type(v).__name__, [(self(k), self(x)) for k, x in v.items()])
        if isinstance(v, BaseException):
            return self.error(v)
        if isinstance(v, types.FunctionType):
            return ("function", v.__qualname__, self(v.__defaults__), self([c.cell_contents for c in v.__closure__ or () if filled(c)]))
        if isinstance(v, types.MethodType):
            return ("method", v.__func__.__qualname__, self(v.__self__))
        if isinstance(v, torch.nn.Module):
            return ("module", type(v).__name__, v.training, self(dict(v.named_parameters())), self(dict(v.named_buffers())))
        if hasattr(v, "__dict__") and not isinstance(v, types.ModuleType):
            return (type(v).__name__, self(vars(v)))
        return type(v).__name__

    def error(self, e, depth=0):
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(e.__traceback__) if f.filename != HERE]
        chain = [self.error(x, depth + 1) if x is not None and depth < 4 else x is None for x in (e.__cause__, e.__context__)]
        return ("error", type(e).__name__, str(e), lines, e.__suppress_context__, getattr(e, "__notes__", None), chain)


def canonical(raw, t):
    """Bits, with all NaN of floats alike: which NaN a processor makes from two is no part of any contract."""
    if t.dtype.is_floating_point and t.numel() and bool(torch.isnan(t).any()):
        return ("nan", torch.isnan(t).tolist(), torch.nan_to_num(t, nan=0.0).reshape(-1).view(torch.uint8).numpy().tobytes())
    return raw


def filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


class Trial:
    """One of the two runs of a program."""

    def __init__(self, compiled):
        self.compiled = compiled
        self.log = []
        self.hits = 0
        self.modules = 0

    def compile(self, fn=None, **options):
        """dyno.compile in the second run, nothing in the first; also a decorator."""
        if fn is None:
            return lambda f: self.compile(f, **options)
        return dyno.compile(fn, **options) if self.compiled else fn

    def settle(self):
        """Background compiling is over."""
        if self.compiled:
            dyno.wait()

    def note(self, *values):
        """Values that must be the same in both runs."""
        self.log.append(("note", Seen()(list(values))))

    def call(self, fn, *args, **kwargs):
        """One call, observed; returns its result, or the exception as the result."""
        out, seen = io.StringIO(), Seen()
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            try:
                result = fn(*args, **kwargs)
                failed = False
            except Exception as error:
                result, failed = error, True
        arguments = seen([args, kwargs])
        self.log.append(("call", seen(result), failed, arguments, out.getvalue(),
                         [(w.category.__name__, str(w.message), w.lineno) for w in warned],
                         hash(torch.get_rng_state().numpy().tobytes()), hash(np.random.get_state()[1].tobytes())))
        if failed:
            result = result.with_traceback(None)
        self.settle()
        return result

    def calls(self, fn, make, times=4):
        """Several calls with arguments made afresh by ``make()``, a tuple; the last result."""
        for _ in range(times):
            result = self.call(fn, *make())
        return result

    def module(self, source, **names):
        """A fresh module from source text, with line numbers that tracebacks can show."""
        self.modules += 1
        name = f"text{self.modules}"
        module = types.ModuleType(name)
        vars(module).update(names)
        source = textwrap.dedent(source).strip("\n") + "\n"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), vars(module))
        return module


PARTS = ("kind", "result", "raised", "arguments", "printed", "warnings", "torch's random state", "NumPy's random state")


def difference(want, got, path=""):
    """Where two observations part, in words."""
    if isinstance(want, (list, tuple)) and type(want) is type(got) and len(want) == len(got):
        for k, (a, b) in enumerate(zip(want, got, strict=True)):
            if a != b:
                return difference(a, b, f"{path}[{k}]" if path else PARTS[k] if k < len(PARTS) else f"[{k}]")
    text = [repr(v) if len(repr(v)) < 1000 else repr(v)[:1000] + "…" for v in (want, got)]
    return f"{path}\nplain:    {text[0]}\ncompiled: {text[1]}"


def run(program, compiled, *args, **kwargs):
    torch.manual_seed(1)
    np.random.seed(1)
    trial = Trial(compiled)
    before = dyno.stats()["hits"]
    program(trial, *args, **kwargs)
    trial.hits = dyno.stats()["hits"] - before
    return trial


def program(function=None, *, hits=1, hits_broken=None):
    """Makes a test of ``function(t, ...)``. ``hits``: the replays that must happen at least in the compiled run; 0: none is asked for.
    ``hits_broken``: the same where every operation ends a segment (the same number if left out)."""
    if function is None:
        return functools.partial(program, hits=hits, hits_broken=hits_broken)

    @functools.wraps(function)
    def test(*args, capfd, **kwargs):
        plain = run(function, False, *args, **kwargs)
        gc.collect()
        made = run(function, True, *args, **kwargs)
        for number, (want, got) in enumerate(zip(plain.log, made.log, strict=False)):
            assert got == want, f"step {number}: {difference(want, got)}"
        assert len(made.log) == len(plain.log)
        assert plain.log, "nothing was observed"
        assert "dyno check" not in capfd.readouterr().err
        least = hits if not BREAKS or hits_broken is None else hits_broken
        assert NO_HITS or made.hits >= least, f"{made.hits} replays"

    parameters = list(inspect.signature(function).parameters.values())[1:]
    del test.__wrapped__
    test.__signature__ = inspect.Signature([*parameters, inspect.Parameter("capfd", inspect.Parameter.KEYWORD_ONLY)])
    return test
