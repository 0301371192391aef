"""The corpus of small notebook functions (functions/): 97 cases, each with its own calls, the first signature at least five times."""

from __future__ import annotations

import argparse
import random
import types
from typing import Any

import numpy as np
import torch

import facts
import harness
from backends import Backend
from case import Case, Fresh, judge_case, record_of
from functions import numpy_cases, python_cases, torch_cases
from functions.cases import CASES, FunctionCase
from programs import ERRSTATE

MODULES = (numpy_cases, torch_cases, python_cases)


def reset_world() -> None:
    """What a run may find and leave changed, as at the beginning."""
    python_cases.COUNTER = 0
    python_cases.HISTORY.clear()
    python_cases.SETTINGS.clear()
    python_cases.SETTINGS["rate"] = 0.5
    random.seed(11)
    np.random.seed(12)
    torch.manual_seed(13)
    torch.set_grad_enabled(True)
    np.seterr(**ERRSTATE)


def sequence(chosen: FunctionCase) -> list[tuple[int, int]]:
    """(seed, variant) of the calls: five of the first signature, two of them with new values, then the case's own."""
    first = chosen.seeds[0]
    return [(first, variant) for variant in (0, 0, 1, 2, 0)] + [(seed, 0) for seed in chosen.seeds[chosen.seeds.count(first) > 1 :]]


def case_of(chosen: FunctionCase) -> Case:
    def start(names: dict[str, Any]) -> Fresh:
        reset_world()
        env: dict[str, Any] = {}
        fn = chosen.make(env)

        def after() -> list[facts.Fact]:
            shown = {key: value() if isinstance(value, types.FunctionType) else value for key, value in env.items()}
            world = (python_cases.COUNTER, python_cases.HISTORY, python_cases.SETTINGS)
            return facts.describe(shown, "state") + facts.describe(world, "globals")

        return Fresh(fn, lambda call: (tuple(chosen.make_args(*call)), {}), after=after, files=[m.__file__ for m in MODULES])

    return Case(start, sequence(chosen), MODULES)


def list_items(args: argparse.Namespace) -> list[str]:
    return [chosen.name for chosen in CASES]


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    known = {chosen.name: chosen for chosen in CASES}
    ignored = frozenset(filter(None, args.ignore.split(",")))

    def run_item(item: str) -> harness.Record:
        verdict = judge_case(case_of(known[item]), backend, ignored)
        return {**record_of(verdict, backend), "group": known[item].kind, "needs": sorted(known[item].needs)}

    return run_item
