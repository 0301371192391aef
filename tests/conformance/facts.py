"""What a caller can see of a call, as a flat list of facts (kind, where, value) that two runs can be compared by.

Seen are: exception type, text and traceback lines; results and arguments with structure, types, dtypes, shapes, strides, values; which of
them are one object or share memory; version counters and `.grad`; prints; warnings with category, text and line; random states; modes;
gradients; and by how much the call changed the reference counts of arguments and captured objects.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import hashlib
import io
import itertools
import os
import random
import re
import sys
import types
import warnings
from typing import Any, Callable, Iterable

import numpy as np
import torch

Fact = tuple[str, str, Any]
NARROW = (torch.bfloat16, torch.float16)
HERE = os.path.dirname(__file__)  # a warning blamed on the caller is blamed on these runners, whose lines say nothing
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
PLAIN = (bool, int, str, bytes, type(None), torch.dtype, torch.device, torch.Size, np.dtype, type, range, slice)
LIBRARY = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)  # C functions of types


@dataclasses.dataclass(eq=False)
class Values:
    """The elements of an array; `eps` is the spacing of its dtype at one, 0 for exact dtypes."""

    data: np.ndarray
    eps: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.apart(other) == 0

    def __repr__(self) -> str:
        return np.array2string(self.data, threshold=12, edgeitems=2, separator=", ").replace("\n", " ")

    def apart(self, want: "Values") -> float:
        """Largest difference in roundings of the largest value; 0.5 if only zeros' signs differ; inf: not numeric."""
        a, b = self.data, want.data
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if not want.eps:
            return 0.0 if np.array_equal(a, b) else float("inf")
        if np.iscomplexobj(b):
            a, b = (np.stack([v.real, v.imag]) for v in (a, b))
        usual = np.isfinite(b)
        if not np.array_equal(a[~usual], b[~usual], equal_nan=True) or not np.isfinite(a[usual]).all():
            return float("inf")
        a, b = a[usual].astype(np.float64), b[usual].astype(np.float64)
        if np.array_equal(a, b):
            return 0.0 if np.array_equal(np.signbit(a), np.signbit(b)) else 0.5
        return float(np.abs(a - b).max() / (max(np.abs(b).max(), 1e-30) * want.eps))

    def error(self, exact: "Values") -> float | None:
        """The same distance from a result of a wider dtype; None where the two cannot be compared."""
        if self.data.shape != exact.data.shape or not self.eps or not exact.eps or np.iscomplexobj(self.data):
            return None
        usual = np.isfinite(exact.data) & np.isfinite(self.data)
        if not usual.any():
            return None
        gap = np.abs(self.data[usual].astype(np.longdouble) - exact.data[usual].astype(np.longdouble)).max()
        return float(gap / (max(np.abs(exact.data[usual]).max(), np.longdouble(1e-30)) * self.eps))


class Shown(str):
    """Text that equals any other: shown, not compared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


class Seen:
    """The facts of one call."""

    def __init__(self, facts: list[Fact]) -> None:
        self.facts = facts

    def named(self) -> dict[tuple[str, str], Any]:
        return {(kind, where): value for kind, where, value in self.facts}

    def without(self, kinds: Iterable[str]) -> "Seen":
        return Seen([fact for fact in self.facts if fact[0] not in kinds])


def values_of(value: Any) -> Values:
    """Elements of a tensor, an array or a Python number; narrow floats are widened to be held by NumPy."""
    if isinstance(value, torch.Tensor):
        eps = torch.finfo(value.dtype).eps if value.is_floating_point() or value.is_complex() else 0.0
        t = value.detach().float() if value.dtype in NARROW else value.detach()
        t = t.to(torch.complex64) if t.dtype == torch.complex32 else t
        return Values(t.resolve_conj().resolve_neg().cpu().contiguous().numpy().copy(), eps)
    a = np.array(value)
    return Values(a, float(np.finfo(a.dtype).eps) if a.dtype.kind in "fc" else 0.0)


def significant(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the dimensions in which they matter."""
    return tuple(s for n, s in zip(shape, strides) if n > 1) if all(shape) else ()


def describe(value: Any, where: str, seen: dict[int, int] | None = None) -> list[Fact]:
    """Facts of a value and of everything in it; an object met before is named by its number."""
    seen = {} if seen is None else seen
    name = "ndarray" if isinstance(value, np.ndarray) and type(value).__module__.endswith("moved") else type(value).__name__
    facts: list[Fact] = [("type", where, name)]
    if isinstance(value, torch.Tensor):
        return facts + describe_tensor(value, where)
    if isinstance(value, (np.ndarray, np.generic)):
        return facts + describe_array(value, where)
    if isinstance(value, (float, complex)):
        return [*facts, ("value", where, values_of(value))]
    if isinstance(value, PLAIN):
        return [*facts, ("object", where, ADDRESS.sub("ADDRESS", str(value)))]
    if id(value) in seen:
        return [*facts, ("seen", where, seen[id(value)])]
    seen[id(value)] = len(seen)
    return facts + describe_object(value, where, seen)


def describe_tensor(t: torch.Tensor, where: str) -> list[Fact]:
    facts = [
        ("dtype", where, str(t.dtype)),
        ("shape", where, tuple(t.shape)),
        ("requires_grad", where, t.requires_grad),
        ("is leaf", where, t.is_leaf),
    ]
    if t.layout != torch.strided:
        return [*facts, ("layout", where, str(t.layout)), ("value", where, values_of(t.to_dense()))]
    return [*facts, ("stride", where, significant(tuple(t.shape), t.stride())), ("value", where, values_of(t))]


def describe_array(a: Any, where: str) -> list[Fact]:
    facts = [("dtype", where, str(a.dtype)), ("shape", where, a.shape)]
    if isinstance(a, np.ndarray):
        facts += [("stride", where, significant(a.shape, a.strides)), ("writeable", where, a.flags.writeable)]
    if a.dtype.names:
        return [fact for field in a.dtype.names for fact in describe_array(a[field], f"{where}.{field}")] + facts
    return [*facts, ("value", where, values_of(a))]


def describe_object(value: Any, where: str, seen: dict[int, int]) -> list[Fact]:
    """Containers by their parts, modules by their state, plain objects by their attributes."""
    if isinstance(value, dict):
        parts = [fact for i, v in enumerate(value.values()) for fact in describe(v, f"{where}[{i}]", seen)]
        return [("keys", where, [repr(k) if isinstance(k, PLAIN) else type(k).__name__ for k in value]), *parts]
    if isinstance(value, (list, tuple, collections.deque)):
        return [("length", where, len(value))] + [fact for i, v in enumerate(value) for fact in describe(v, f"{where}[{i}]", seen)]
    if isinstance(value, (set, frozenset)):
        return [("object", where, sorted(map(repr, value)))]
    if isinstance(value, torch.nn.Module):
        state = {**dict(value.named_parameters()), **dict(value.named_buffers())}
        return [("object", where, value.training)] + [fact for k, v in state.items() for fact in describe(v, f"{where}.{k}", seen)]
    if isinstance(value, types.GeneratorType):
        return describe_object(list(itertools.islice(value, 100)), where, seen)
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)):
        return []
    if hasattr(value, "__dict__"):
        return [fact for k, v in sorted(vars(value).items()) for fact in describe(v, f"{where}.{k}", seen)]
    return [("object", where, ADDRESS.sub("ADDRESS", repr(value)))]


def leaves(value: Any, found: list[Any] | None = None, seen: set[int] | None = None) -> list[Any]:
    """Tensors and arrays in a value, in a fixed order."""
    found, seen = ([] if found is None else found), (set() if seen is None else seen)
    if isinstance(value, (torch.Tensor, np.ndarray)):
        found.append(value)
    elif id(value) not in seen and not isinstance(value, (type, types.FunctionType, types.ModuleType, *PLAIN)):
        seen.add(id(value))
        parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple, collections.deque)) else []
        for part in parts if parts or not hasattr(value, "__dict__") else vars(value).values():
            leaves(part, found, seen)
    return found


def memory_of(leaf: Any, number: int) -> Any:
    """Something equal for leaves that share memory."""
    if isinstance(leaf, torch.Tensor):
        if leaf.layout != torch.strided or not leaf.numel():
            return number
        return leaf.untyped_storage().data_ptr() or number
    root = leaf
    while isinstance(root.base, np.ndarray):
        root = root.base
    if isinstance(root.base, torch.Tensor):
        return root.base.untyped_storage().data_ptr()
    return root.__array_interface__["data"][0] if leaf.size else number


def aliasing(found: list[Any]) -> list[Fact]:
    """Which of arguments and results are one object, and which share memory."""
    groups: dict[Any, int] = {}
    shared = [groups.setdefault(memory_of(leaf, -i - 1), len(groups)) for i, leaf in enumerate(found)]
    objects: dict[int, int] = {}
    return [("identity", "", [objects.setdefault(id(leaf), len(objects)) for leaf in found]), ("alias", "", shared)]


def gradients(results: list[Any], arguments: list[Any]) -> list[Fact]:
    """Gradients of the arguments for ones at the results."""
    outs = [t for t in results if isinstance(t, torch.Tensor) and t.requires_grad]
    ins = [t for t in arguments if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf]
    if not outs or not ins:
        return []
    try:
        grads = torch.autograd.grad(outs, ins, [torch.ones_like(t) for t in outs], allow_unused=True)
    except RuntimeError as error:
        return [("backward error", "", str(error).splitlines()[0][:80])]
    return [fact for i, g in enumerate(grads) for fact in describe(g, f"gradient {i}")]


def digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()[:12]


def ambient() -> list[Fact]:
    """Random states and modes that a call may leave changed."""
    numpy_state = np.random.get_state()
    return [
        ("rng", "torch", digest(torch.get_rng_state().numpy().tobytes())),
        ("rng", "python", hash(random.getstate())),
        ("rng", "numpy", (digest(numpy_state[1].tobytes()), numpy_state[2])),
        ("grad mode", "", torch.is_grad_enabled()),
        ("errstate", "", str(np.geterr())),
        ("default dtype", "", str(torch.get_default_dtype())),
    ]


INSTALLED = f"{os.sep}site-packages{os.sep}"


def counted(arguments: Iterable[Any], captured: Iterable[Any]) -> list[Any]:
    """The objects whose references are counted: no numbers, strings, library functions and the like, which are shared by everybody."""
    found: list[Any] = []
    for value in (*arguments, *captured):
        shared = isinstance(value, (*PLAIN, *LIBRARY, float, complex, types.ModuleType)) or (type(value) is tuple and not value)
        library = isinstance(value, types.BuiltinFunctionType) and (
            value.__self__ is None or isinstance(value.__self__, (type, types.ModuleType))
        )
        library = library or (isinstance(value, types.FunctionType) and INSTALLED in value.__code__.co_filename)
        if not shared and not library and not any(value is other for other in found):
            found.append(value)
    return found


def captured_by(fn: Any) -> list[Any]:
    """Contents of closure cells, defaults and the globals that a function names."""
    plain = getattr(fn, "__wrapped__", fn)
    if not isinstance(plain, types.FunctionType):
        return []
    found = list(plain.__defaults__ or ())
    for cell in plain.__closure__ or ():
        with contextlib.suppress(ValueError):
            found.append(cell.cell_contents)
    return found + [plain.__globals__[name] for name in plain.__code__.co_names if name in plain.__globals__]


def facts_of_error(error: BaseException, files: set[str]) -> list[Fact]:
    """That it raised, what type, what text, and through which lines of the user's files."""
    name, lines, trace = type(error).__name__, [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            lines.append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
        trace = trace.tb_next
    text = ADDRESS.sub("ADDRESS", str(error))
    return [("raises", "", Shown(f"{name}: {text}")), ("exception type", "", name), ("exception text", "", text), ("traceback", "", lines)]


def call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], captured: Iterable[Any], files: set[str]
) -> tuple[Any, list[Fact]]:
    """Calls and looks at what happened during the call: exception, prints, warnings, references."""
    objects = counted((*args, *kwargs.values()), captured)
    facts: list[Fact] = []
    result = None
    printed = io.StringIO()
    before = [sys.getrefcount(value) for value in objects]
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            facts += facts_of_error(error, files)
    after = [sys.getrefcount(value) for value in objects]
    told = [
        (
            w.category.__name__,
            ADDRESS.sub("ADDRESS", str(w.message)),
            w.lineno if w.filename in files or not w.filename.startswith(HERE) else 0,
        )
        for w in caught
    ]
    facts += [("print", "", printed.getvalue()), ("warning", "", told)]
    kinds = [(type(value).__name__, a - b) for value, a, b in zip(objects, after, before)]
    return result, [*facts, ("references", "", kinds)]


def observe(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    captured: Iterable[Any] = (),
    files: Iterable[str] = ("<generated>",),
) -> Seen:
    """Calls and looks at everything a caller can see."""
    kwargs = kwargs or {}
    kept = [*args, *kwargs.values()]
    result, facts = call(fn, args, kwargs, captured, set(files))
    facts += ambient()
    torch.set_grad_enabled(True)
    try:
        for i, argument in enumerate(kept):
            facts += describe(argument, f"argument {i} afterwards")
            if isinstance(argument, torch.Tensor):
                facts.append(("version", f"argument {i}", argument._version))
                facts += describe(argument.grad, f"argument {i}.grad") if argument.is_leaf else []
        facts += describe(result, "result")
        facts += aliasing([*leaves(kept), *leaves(result)])
        facts += gradients(leaves(result), leaves(kept))
    except RuntimeError as error:  # autograd refuses to look at some views that were modified
        facts.append(("cannot look", "", str(error).splitlines()[0]))
    return Seen(facts)
