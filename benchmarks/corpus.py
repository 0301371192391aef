"""The conformance corpora as they are: functions on small inputs, tiny models. Eager takes 10 us to 20 ms, so what is measured is overhead.

`cases()` yields (name, make); a call of make gives a fresh function and a maker of fresh arguments, equal each time.
"""

from __future__ import annotations

import logging
import pathlib
import sys
from typing import Any, Callable, Iterator

CONFORMANCE = pathlib.Path(__file__).resolve().parents[1] / "tests/conformance"
sys.path.insert(0, str(CONFORMANCE))

import functions_suite  # noqa: E402
import models_suite  # noqa: E402
from models.entries import Entry, entries  # noqa: E402

Call = tuple[tuple[Any, ...], dict[str, Any]]
Made = tuple[Callable[..., Any], Callable[[], Call]]


def function_case(chosen: Any) -> Callable[[], Made]:
    def make() -> Made:
        functions_suite.reset_world()
        return chosen.make({}), lambda: (tuple(chosen.make_args(chosen.seeds[0], 0)), {})

    return make


def model_case(chosen: Entry) -> Callable[[], Made]:
    def make() -> Made:
        logging.disable(logging.ERROR)
        models_suite.seed_everything()
        built = chosen.build()
        if hasattr(built.module, "eval"):
            built.module.eval()
        call = built.call
        return call, lambda: (models_suite.varied(tuple(built.args), "", 0), models_suite.varied(dict(built.kwargs), "", 0))

    return make


def cases() -> Iterator[tuple[str, str, Callable[[], Made]]]:
    """(corpus, name, make) of each case."""
    for chosen in functions_suite.CASES:
        yield "functions", chosen.name, function_case(chosen)
    for entry in entries():
        if entry.infer:
            yield "models", entry.name, model_case(entry)
