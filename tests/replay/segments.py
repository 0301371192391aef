"""Segments by hand: a small language over replay_probe. One object collects sources, guards, nodes and effects, and hands out references."""
from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import types

import pytest


def load_probe():
    """The extension module of tests/replay/CMakeLists.txt: from the path, where `make test` puts it, else from DYNO_PROBE or the tree's own build."""
    try:
        return importlib.import_module("replay_probe")
    except ModuleNotFoundError:
        pass
    root = pathlib.Path(__file__).resolve().parents[2]
    folders = [os.environ["DYNO_PROBE"]] if "DYNO_PROBE" in os.environ else [*root.glob("build*/probe"), *root.glob("build/*/probe")]
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    found = sorted((p for f in folders for p in pathlib.Path(f).glob(f"replay_probe{suffix}")), key=lambda p: p.stat().st_mtime)
    if not found:
        assert "DYNO_BUILD" not in os.environ, "replay_probe is not among what was built for these tests"
        pytest.skip("replay_probe is not built (cmake --build … --target replay_probe)", allow_module_level=True)
    spec = importlib.util.spec_from_file_location("replay_probe", found[-1])
    module = importlib.util.module_from_spec(spec)
    sys.modules["replay_probe"] = module
    spec.loader.exec_module(module)
    return module


probe = sys.modules.get("replay_probe") or load_probe()
empty = probe.empty
DTYPES = {"float32": "f32", "float64": "f64", "int64": "i64", "int32": "i32", "bool": "b8"}


def dtype_of(value) -> str:
    return DTYPES[str(value.dtype).removeprefix("torch.")]


def strides_of(value) -> list[int]:
    return list(value.stride()) if hasattr(value, "stride") else [s // value.itemsize for s in value.strides]


class Segment:
    """Fields are those of capture::Segment; methods append and answer the index or reference."""

    def __init__(self) -> None:
        self.sources, self.guards, self.constants, self.anchors, self.facts = [], [], [], [], []
        self.inputs, self.scalar_values, self.scalar_steps, self.fresh = [], [], [], []
        self.externs, self.outcomes, self.effects, self.nodes, self.steps, self.frames = [], [], [], [], [], []
        self.returns, self.code, self.numpy_flags, self.numpy_externs = None, None, False, False

    # ---- reading
    def source(self, kind: str, base: int = 0, index: int = 0, **name) -> int:
        self.sources.append({"kind": kind, "base": base, "index": index, **name})
        return len(self.sources) - 1

    def slot(self, index: int) -> int:
        return self.source("slot", index=index)

    def constant(self, value) -> int:
        self.constants.append(value)
        return len(self.constants) - 1

    def anchor(self, value) -> int:
        self.anchors.append(value)
        return len(self.anchors) - 1

    def guard(self, kind: str, source: int = 0, **more) -> int:
        self.guards.append({"kind": kind, "source": source, **more})
        return len(self.guards) - 1

    # ---- computing
    def input(self, source: int, sample) -> int:
        """A tensor or array from outside, guarded; answers its node."""
        self.facts.append(sample)
        self.guard("array" if isinstance(sample, _ndarray()) else "tensor", source, expected=len(self.facts) - 1)
        self.inputs.append(source)
        return self.node("input", sample)

    def node(self, op: str, like, *operands: int, output: bool = False, **more) -> int:
        numpy = isinstance(like, _ndarray() + _numpy_scalars())
        self.nodes.append({"op": op, "dtype": dtype_of(like), "dims": list(like.shape), "strides": strides_of(like), "operands": list(operands),
                           "numpy": numpy, "output": output, **more})
        return len(self.nodes) - 1

    def kernel(self, op: str, like, *operands: int, output: bool = True, **more) -> int:
        node = self.node(op, like, *operands, output=output, **more)
        self.steps.append(("kernel", node))
        return node

    def scalar_input(self, dtype: str, value) -> int:
        self.nodes.append({"op": "scalar", "dtype": dtype, "dims": [], "strides": [], "operands": []})
        self.scalar_values.append(value)
        return len(self.nodes) - 1

    def number(self, kind: str, a, b=None, op: int = 0, **more):
        self.scalar_steps.append({"kind": kind, "op": op, "a": a, "b": b, **more})
        return ("scalar", len(self.scalar_steps) - 1)

    def extern(self, callable, args, like=None, kwnames=None, scheduled: bool = True, **more):
        """An eager call. `like`: a sample of its tensor result, which becomes a node; without it the result is an outcome."""
        self.externs.append({"callable": callable, "args": list(args), "kwnames": kwnames, "results": []})
        number = len(self.externs) - 1
        if not scheduled:
            return number
        outcome = {"external": number, **more}
        node = self.node("extern_call", like if like is not None else _one(), ints=[number])
        if like is not None:
            outcome.update(node=node, strides=strides_of(like), type=type(like))
            self.nodes[node]["numpy_scalar"] = isinstance(like, _numpy_scalars())
        self.steps.append(("extern", number, node))
        self.outcomes.append(outcome)
        self.externs[-1]["results"].append(len(self.outcomes) - 1)
        return ("node", node) if like is not None else ("outcome", len(self.outcomes) - 1)

    def new(self, kind: str, *parts, **more):
        self.fresh.append({"kind": kind, "parts": list(parts), **more})
        return ("fresh", len(self.fresh) - 1)

    def effect(self, kind: str, target: int, **more) -> None:
        self.effects.append({"kind": kind, "target": ("source", target), **more})

    def value(self, constant):
        return ("constant", self.constant(constant))

    def plan(self):
        return probe.plan({k: v for k, v in vars(self).items() if v is not None})


def _ndarray():
    return (sys.modules["numpy"].ndarray,) if "numpy" in sys.modules else ()


def _numpy_scalars():
    return (sys.modules["numpy"].generic,) if "numpy" in sys.modules else ()


def _one():
    import torch
    return torch.tensor(0.0, dtype=torch.float64)


def add_two(a, b, op: str = "add") -> Segment:
    """a + b of two slots, returned."""
    segment = Segment()
    x, y = segment.input(segment.slot(0), a), segment.input(segment.slot(1), b)
    segment.returns = ("node", segment.kernel(op, _result(op, a, b), x, y))
    return segment


def _result(op: str, a, b):
    return {"add": lambda: a + b, "mul": lambda: a * b, "div": lambda: a / b}[op]()


def reads(*sources, **fields) -> Segment:
    """A segment that only reads: each source in turn as (kind, base, index, name); the last is returned."""
    segment = Segment()
    for source in sources:
        segment.source(*source[:3], **({"name": source[3]} if len(source) > 3 else {}))
    segment.returns = ("source", len(segment.sources) - 1)
    for key, value in fields.items():
        setattr(segment, key, value)
    return segment


def kind(outcome) -> str:
    return outcome[0]


def no_code() -> types.CodeType:
    return compile("0", "<test>", "eval")
