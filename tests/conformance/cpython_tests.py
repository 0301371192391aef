"""CPython's own unit tests, of the interpreter that runs this, each test method wrapped by the backend.

One item is one test method of a chosen list of modules on the language's own semantics. The method is run twice plain (items that do
not pass are not judged) and twice through one wrapper, and must pass again.
"""

from __future__ import annotations

import argparse
import doctest
import importlib
import os
import tempfile
import types
import unittest
import warnings
from typing import Any, Iterator

import harness
from backends import Backend

MODULES = """
    test_abc test_array test_augassign test_baseexception test_binop test_bisect test_bool test_builtin test_bytes
    test_call test_class test_cmath test_collections test_compare test_complex test_contains test_contextlib test_copy
    test_coroutines test_dataclasses test_defaultdict test_deque test_descr test_dict test_dictviews
    test_dynamicclassattribute test_enum test_enumerate test_except_star test_exception_group
    test_exception_hierarchy test_exception_variations test_exceptions test_float test_format test_fractions
    test_fstring test_funcattrs test_functools test_generator_stop test_generators test_genericalias test_global
    test_grammar test_hash test_heapq test_index test_int test_int_literal test_isinstance test_iter test_iterlen
    test_itertools test_keywordonlyarg test_list test_listcomps test_long test_math test_named_expressions
    test_numeric_tower test_opcodes test_operator test_ordered_dict test_patma test_positional_only_arg test_pow
    test_property test_raise test_range test_richcmp test_scope test_set test_slice test_sort test_statistics test_str
    test_string test_struct test_subclassinit test_super test_textwrap test_tuple test_type_params test_types
    test_unary test_unicode test_userdict test_userlist test_userstring test_weakset test_with test_yield_from
    test_asyncgen test_pep380 test_unittest.test_assertions test_unittest.test_case
""".split()


CALLS = 2  # the second runs what the first made


def load_module(name: str) -> types.ModuleType | None:
    """A module of the running interpreter's `test` package; None where it has none of that name."""
    try:
        return importlib.import_module(f"test.{name}")
    except (ImportError, unittest.SkipTest):
        return None


def cases(suite: Any) -> Iterator[unittest.TestCase]:
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        elif not isinstance(part, doctest.DocTestCase) and isinstance(method_of(part), types.FunctionType):
            yield part


def method_of(case: unittest.TestCase) -> Any:
    """The plain function of a case's test method."""
    return getattr(getattr(case, case._testMethodName), "__func__", None)


def module_cases(name: str) -> dict[str, unittest.TestCase]:
    module = load_module(name)
    if module is None:
        return {}
    found = cases(unittest.defaultTestLoader.loadTestsFromModule(module))
    return {f"{name}::{type(case).__qualname__}::{case._testMethodName}": case for case in found}


def prepare() -> None:
    """What the interpreter's own test driver does before it runs tests."""
    from test import support

    warnings.simplefilter("ignore")
    support.use_resources = []
    support.verbose = 0


def run_case(case: unittest.TestCase) -> tuple[str, str]:
    """Run one case with its class's and module's fixtures; its status and the text of its failure."""
    result = Result()
    unittest.TestSuite([case]).run(result)
    return result.verdict()


class Result(unittest.TestResult):
    """Keeps the type of the exceptions, which the base class turns to text."""

    def __init__(self) -> None:
        super().__init__()
        self.raised: list[BaseException] = []

    def addError(self, test: Any, err: Any) -> None:
        self.raised.append(err[1])
        super().addError(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self.raised.append(err[1])
        super().addFailure(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err:
            self.raised.append(err[1])
        super().addSubTest(test, subtest, err)

    def verdict(self) -> tuple[str, str]:
        if self.unexpectedSuccesses:
            return "wrong", "unexpected success"
        if not self.raised:
            return ("skip" if self.skipped or not self.testsRun else "pass"), ""
        error = self.raised[0]
        status = "wrong" if isinstance(error, AssertionError) else "error"
        return status, f"{type(error).__qualname__}: {str(error)[:500]}"


def with_method(case: unittest.TestCase, wrapped: Any) -> unittest.TestCase:
    """A new case of the same test whose method is the wrapped function."""
    fresh = type(case)(case._testMethodName)
    setattr(fresh, case._testMethodName, types.MethodType(wrapped, fresh))
    return fresh


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    prepare()
    os.chdir(tempfile.mkdtemp(prefix="cpython_tests"))
    known: dict[str, dict[str, unittest.TestCase]] = {}

    def run_item(item: str) -> harness.Record:
        module = item.split("::", 1)[0]
        if module not in known:
            known[module] = module_cases(module)
        case = known[module][item]
        for _ in range(CALLS):
            plain, why = run_case(type(case)(case._testMethodName))
            if plain != "pass":
                return {"status": "skip", "why": f"plain: {plain} {why}"}
        backend.begin()
        wrapped = backend.wrap(method_of(case))
        for _ in range(CALLS):
            status, why = run_case(with_method(case, wrapped))
            if status != "pass":
                break
        if status in ("error", "wrong") and run_case(type(case)(case._testMethodName))[0] != "pass":
            return {"status": "skip", "why": "plain: does not pass again"}
        return {"status": status, "kind": "test" if status != "pass" else "", "why": why, **backend.outcome()}

    return run_item


def list_items(args: argparse.Namespace) -> list[str]:
    prepare()
    names = args.modules.split(",") if args.modules else MODULES
    return [item for name in names for item in module_cases(name)]
