"""The corpus of tiny public models (models/): inference in eval mode without gradients, or with --train a training step.

Every call gets fresh copies of the inputs; calls one and three get other values of the same shapes.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import numpy as np
import torch

import facts
import harness
from backends import Backend
from case import Case, Fresh, judge_case, nothing, record_of
from models import generative_models, scientific_models, transformers_models  # noqa: F401  they register their entries
from models.entries import SEED, Built, Entry, entries

SEQUENCE = (0, 1, 0, 1, 0)


def seed_everything() -> None:
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)


def no_dropout(module: torch.nn.Module) -> None:
    """Dropout off (any class with 'drop' in its name): what is left of train mode must be deterministic."""
    for m in module.modules():
        for key in ("p", "drop_prob") if "drop" in type(m).__name__.lower() else ():
            if isinstance(getattr(m, key, None), float):
                setattr(m, key, 0.0)


def varied(value: Any, name: str, variant: int) -> Any:
    """A copy of an input; variants other than 0 have other values of the same kind."""
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone()
        if variant and value.is_floating_point():
            copy.mul_(0.5)
        return copy.flip(-1) if variant and name == "input_ids" else copy
    if type(value) is dict:
        return {key: varied(part, key, variant) for key, part in value.items()}
    return type(value)(varied(part, name, variant) for part in value) if type(value) in (list, tuple) else value


def loss_of(built: Built, output: Any) -> torch.Tensor:
    """The entry's loss, else the model's own, else the mean square of every output that has a gradient."""
    if built.loss is not None:
        return built.loss(output)
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own.sum()
    parts = [t.abs().float().pow(2).mean() for t in facts.leaves(output) if isinstance(t, torch.Tensor) and t.requires_grad]
    return torch.stack([p.to(torch.float32) for p in parts]).sum()


def case_of(chosen: Entry, train: bool) -> Case:
    def start(names: dict[str, Any]) -> Fresh:
        built = chosen.build()
        module = built.module if isinstance(built.module, torch.nn.Module) else None
        if module is not None:
            module.train(train)
            no_dropout(module)
        parameters = dict(module.named_parameters()) if module is not None else {}

        def training_step(*args: Any, **kwargs: Any) -> torch.Tensor:
            loss = loss_of(built, built.call(*args, **kwargs))
            loss.backward()
            return loss.detach()

        def before() -> None:
            seed_everything()
            torch.set_grad_enabled(train)
            for parameter in parameters.values():
                parameter.grad = None

        def after() -> list[facts.Fact]:
            found = [fact for name, p in parameters.items() for fact in facts.describe(p.grad, f"{name}.grad")] if train else []
            buffers = dict(module.named_buffers()) if module is not None else {}
            return found + [fact for name, b in buffers.items() for fact in facts.describe(b, name)]

        def inputs(variant: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return varied(tuple(built.args), "", variant), varied(dict(built.kwargs), "", variant)

        return Fresh(training_step if train else built.call, inputs, before, after, widen=module.double if module is not None else nothing)

    return Case(start, SEQUENCE)


def list_items(args: argparse.Namespace) -> list[str]:
    return [e.name for e in entries() if (e.train if args.train else e.infer)]


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    torch.set_num_threads(1)
    known = {e.name: e for e in entries()}
    ignored = frozenset(filter(None, args.ignore.split(",")))

    def run_item(item: str) -> harness.Record:
        verdict = judge_case(case_of(known[item], args.train), backend, ignored)
        return {**record_of(verdict, backend), "group": known[item].family}

    return run_item
