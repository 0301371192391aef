"""The tests that the installed NumPy carries, or with --modules those of any other package (scipy.signal.tests.test_signaltools,
sklearn.metrics.tests.test_ranking), each test function wrapped by the backend.

One item is one test class, or the plain functions of one file. Its tests are run twice, plain and wrapped (one wrapper for all
parameters of a test, so that guards are tested); tests that pass plain must pass wrapped.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import types
from typing import Any, Callable

import numpy as np

import harness
from backends import Backend, Wrap

FILES = """
    _core/tests/test_array_coercion.py _core/tests/test_casting_unittests.py _core/tests/test_conversion_utils.py
    _core/tests/test_dtype.py _core/tests/test_einsum.py _core/tests/test_errstate.py _core/tests/test_function_base.py
    _core/tests/test_getlimits.py _core/tests/test_half.py _core/tests/test_indexerrors.py _core/tests/test_indexing.py
    _core/tests/test_item_selection.py _core/tests/test_mem_overlap.py _core/tests/test_multiarray.py
    _core/tests/test_nditer.py _core/tests/test_nep50_promotions.py _core/tests/test_numeric.py
    _core/tests/test_numerictypes.py _core/tests/test_overrides.py _core/tests/test_regression.py
    _core/tests/test_scalar_methods.py _core/tests/test_scalarinherit.py _core/tests/test_scalarmath.py
    _core/tests/test_shape_base.py _core/tests/test_ufunc.py _core/tests/test_umath.py
    _core/tests/test_umath_complex.py lib/tests/test_arraypad.py lib/tests/test_arraysetops.py
    lib/tests/test_function_base.py lib/tests/test_histograms.py lib/tests/test_index_tricks.py
    lib/tests/test_nanfunctions.py lib/tests/test_polynomial.py lib/tests/test_shape_base.py
    lib/tests/test_stride_tricks.py lib/tests/test_twodim_base.py lib/tests/test_type_check.py
    lib/tests/test_ufunclike.py linalg/tests/test_linalg.py fft/tests/test_helper.py fft/tests/test_pocketfft.py
""".split()
PYTEST = ["-q", "-s", "--assert=plain", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-W", "ignore", "--disable-warnings"]


def tests_root() -> str:
    return os.path.dirname(np.__file__)


class PytestRun:
    """A pytest plugin that runs the tests of one item, with test functions wrapped or not, and keeps the outcomes."""

    def __init__(self, item: str, wrap: Wrap | None) -> None:
        self.whole_file = "::" not in item
        self.wrap = wrap
        self.cache: dict[Any, Callable[..., Any]] = {}
        self.outcomes: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.whole_file:
            items[:] = [item for item in items if getattr(item, "cls", None) is None]
        items[:] = [item for item in items if not any(item.iter_markers("slow"))]
        counts: dict[str, int] = {}
        for item in items:  # some ids of parameters hold addresses or counts, so a test is named by its place
            base = item.nodeid.partition("[")[0]
            counts[base] = counts.get(base, -1) + 1
            self.names[item.nodeid] = f"{base}#{counts[base]}"

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool | None:
        if self.wrap is None:
            return None
        print(pyfuncitem.nodeid, file=sys.__stderr__, flush=True)
        function = getattr(pyfuncitem.obj, "__func__", pyfuncitem.obj)
        if function not in self.cache:
            self.cache[function] = self.wrap(function)
        call = self.cache[function]
        if hasattr(pyfuncitem.obj, "__self__"):
            call = types.MethodType(call, pyfuncitem.obj.__self__)
        call(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            name = self.names.get(report.nodeid, report.nodeid)
            self.outcomes[name] = report.outcome
            if report.outcome == "failed":
                self.texts[name] = str(report.longrepr or "").strip()[-300:]

    def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
        self.texts[self.names.get(report.nodeid, report.nodeid)] = harness.describe(call.excinfo.value, 250)


def run_pytest(item: str, wrap: Wrap | None) -> PytestRun:
    import pytest

    run = PytestRun(item, wrap)
    path = os.path.join(tests_root(), item.partition("::")[0])
    for name in [name for name, module in sys.modules.items() if getattr(module, "__file__", None) == path]:
        del sys.modules[name]  # parameters that a generator makes are there once for each import
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*PYTEST, os.path.join(tests_root(), item)], plugins=[run])
    return run


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", tempfile.mkdtemp())

    def run_item(item: str) -> harness.Record:
        plain = run_pytest(item, None)
        good = {name for name, outcome in plain.outcomes.items() if outcome == "passed"}
        backend.begin()
        tested = run_pytest(item, backend.wrap)
        good &= set(tested.names.values())
        if not good:
            return {"status": "skip", "why": "no test passes plain"}
        bad = sorted(name for name in good if tested.outcomes.get(name) != "passed")
        why = [f"{name.rsplit('/', 1)[-1]}: {tested.texts.get(name, tested.outcomes.get(name))}" for name in bad[:10]]
        return {
            "status": "wrong" if bad else "pass",
            "kind": "test" if bad else "",
            "tests": len(good),
            "failed": len(bad),
            "why": "\n".join(why),
            **backend.outcome(),
        }

    return run_item


def files_of(args: argparse.Namespace) -> list[str]:
    """NumPy's files, from its folder; those of other packages' modules by their whole path."""
    if not args.modules:
        return FILES
    files = []
    for name in args.modules.split(","):
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
        if spec is None or not spec.origin:
            raise SystemExit(f"run.py: there is no module {name}; install its package beside torch.")
        files.append(spec.origin)
    return files


def list_items(args: argparse.Namespace) -> list[str]:
    """Names of the test classes and files, found by parsing: nothing is imported here."""
    items = []
    for name in files_of(args):
        path = os.path.join(tests_root(), name)
        if not os.path.exists(path):
            continue
        with open(path) as file:
            top = ast.parse(file.read()).body
        items += [f"{name}::{node.name}" for node in top if isinstance(node, ast.ClassDef) and "Test" in node.name]
        if any(isinstance(node, ast.FunctionDef) and node.name.startswith("test") for node in top):
            items.append(name)
    return items


def closing(records: list[harness.Record]) -> str:
    tests = sum(r.get("tests", 0) for r in records)
    failed = sum(r.get("failed", 0) for r in records)
    rate = 100 * (tests - failed) / tests if tests else 0
    return f"single tests: {tests - failed} of {tests} pass wrapped ({rate:.2f} %)"
