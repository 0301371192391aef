"""Every operator of PyTorch's own test database, called through the backend and compared with plain calls.

One item is one operator, one dtype. The operator is called inside a small Python function: as a function on plain tensors, as a function on
tensors that require grad where it has a derivative, and as an in-place method where there is one. The first sample makes five calls, the others one each, all through one wrapper. Operators whose plain results depend on the
random state, or that return uninitialised memory, are compared without values.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import warnings
from typing import Any, Callable

import numpy as np
import torch
from torch.utils import _pytree

import harness
import judge
from backends import Backend
from case import Case, Fresh, judge_case, record_of

DTYPES = {"f32": "float32", "f64": "float64", "i64": "int64", "bool": "bool", "bf16": "bfloat16"}
UNINITIALISED = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
SOURCE = """
def call(input, args, kwargs):
    return op(input, *args, **kwargs)
"""
SAMPLES = 3


def make_function(op: Callable[..., Any]) -> Callable[..., Any]:
    """A fresh Python function, with a code object of its own, that calls `op`."""
    scope: dict[str, Any] = {"op": op}
    exec(compile(SOURCE, "<generated>", "exec"), scope)
    return scope["call"]


def copy_leaf(leaf: Any) -> Any:
    """An equal tensor with memory of its own: same strides, a leaf of autograd."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.layout != torch.strided or leaf.is_quantized:
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)
    if leaf.is_conj():
        return torch.conj(torch.conj_physical(leaf.detach())).requires_grad_(leaf.requires_grad)
    span = 1 + sum((n - 1) * s for n, s in zip(leaf.shape, leaf.stride())) if leaf.numel() else 0
    whole = torch.as_strided(leaf.detach(), (span,), (1,), leaf.storage_offset()).clone()
    return torch.as_strided(whole, leaf.shape, leaf.stride(), 0).requires_grad_(leaf.requires_grad)


def seed_everything() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def samples_of(op: Any, dtype: torch.dtype, grad: bool, every: bool) -> list[tuple[Any, Any, Any]]:
    """(input, args, kwargs) of the operator's samples; the same for every run."""
    seed_everything()
    found = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
        found.append((sample.input, sample.args, sample.kwargs, sample.broadcasts_input))
        if not every and len(found) == SAMPLES:
            break
    return found


def usable(fn: Callable[..., Any], sample: Any, in_place: bool) -> bool:
    """Whether eager accepts the sample in place; a broadcast input cannot be written."""
    if not in_place:
        return True
    if sample[3]:
        return False
    seed_everything()
    try:
        fn(*_pytree.tree_map(copy_leaf, sample[:3]))
    except Exception:
        return False
    return True


def case_of(op: Callable[..., Any], samples: list[Any]) -> Case:
    def start(names: dict[str, Any]) -> Fresh:
        return Fresh(make_function(op), lambda number: (_pytree.tree_map(copy_leaf, samples[number][:3]), {}), seed_everything)

    return Case(start, [0, 0, 0, 0, 0, *range(1, len(samples))])


def is_random(op: Callable[..., Any], samples: list[Any]) -> bool:
    """Whether a plain call moves the random state."""
    seed_everything()
    before = torch.get_rng_state()
    try:
        op(samples[0][0], *samples[0][1], **samples[0][2])
    except Exception:
        pass
    return not torch.equal(before, torch.get_rng_state())


def op_name(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    known = {op_name(op): op for op in op_db}
    ignored = frozenset(filter(None, args.ignore.split(",")))

    def run_variant(op: Any, fn: Callable[..., Any], kind: str, dtype: torch.dtype) -> harness.Record | None:
        in_place, grad = kind == "in place", kind == "with gradients"
        if grad and not (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")):
            return None
        samples = [s for s in samples_of(op, dtype, grad, args.all_samples) if usable(lambda i, a, k: fn(i, *a, **k), s, in_place)]
        if not samples:
            return None
        blind = {"value"} if op.name in UNINITIALISED or is_random(fn, samples) else set()
        verdict = judge_case(case_of(fn, samples), backend, ignored | blind)
        return record_of(verdict, backend)

    def run_item(item: str) -> harness.Record:
        name, short = item.rsplit("|", 1)
        op, dtype = known[name], getattr(torch, DTYPES[short])
        variants = [("function", op.op), ("with gradients", op.op), ("in place", op.inplace_variant)]
        records = []
        for kind, fn in variants:
            record = run_variant(op, fn, kind, dtype) if fn else None
            if record and record["status"] not in ("pass", "skip"):
                return {**record, "why": f"{kind}: {record['why']}"}
            records += [record] if record and kind != "with gradients" else []  # torch itself computes those: they are not asked to be captured
        return merged(records)

    return run_item


def merged(records: list[harness.Record]) -> harness.Record:
    """One record for the ways of calling an operator: captured and whole if each was."""
    if not records:
        return {"status": "skip", "why": "no sample"}
    first = dataclasses.asdict(judge.Verdict("pass"))
    stats = {name: sum(r["stats"][name] for r in records) for name in records[0]["stats"]}
    return {
        **first,
        "calls": sum(r["calls"] for r in records),
        "captured": all(r["captured"] for r in records),
        "whole": all(r["whole"] for r in records),
        "stats": stats,
        "reasons": [text for r in records for text in r["reasons"]],
    }


def list_items(args: argparse.Namespace) -> list[str]:
    from torch.testing._internal.common_methods_invocations import op_db

    items = []
    for short in args.dtype.split(","):
        dtype = getattr(torch, DTYPES[short])
        items += [f"{op_name(op)}|{short}" for op in op_db if dtype in op.supported_dtypes("cpu")]
    return items
