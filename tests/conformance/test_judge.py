"""The judge: what counts as equal, how far values may differ, and what is not judged."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import facts  # noqa: E402
import judge  # noqa: E402
from case import Case, Fresh  # noqa: E402
from facts import Seen, Values  # noqa: E402
from programs import case_of  # noqa: E402

EPS = float(np.finfo(np.float32).eps)


def values(*numbers: float, dtype: type = np.float32) -> Values:
    return Values(np.array(numbers, dtype), float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else 0.0)


def verdict(got: Values, want: Values, moved: list[Values] = (), wide: Values | None = None) -> judge.Verdict:
    """Judges one value against its plain one."""

    def run(value: Values | None) -> list[Seen]:
        return [Seen([("value", "result", value)])] if value is not None else []

    others = list(moved) or [want, want]
    references = judge.References(lambda seed: run(others[seed - 1]), lambda: run(wide))
    return judge.compare_runs(run(got), run(want), references)


def test_bits_must_be_equal_where_nothing_moves() -> None:
    assert verdict(values(1.0), values(1.0)).status == "pass"
    assert verdict(values(1.0 + EPS), values(1.0)).kind == "bits"
    assert verdict(values(0.0), values(-0.0)).kind == "bits"
    assert verdict(values(2.0), values(1.0)).kind == "value"


def test_nan_and_infinity_are_themselves() -> None:
    assert verdict(values(np.nan, np.inf), values(np.nan, np.inf)).status == "pass"
    assert verdict(values(np.nan), values(1.0)).status == "wrong"
    assert verdict(values(-np.inf), values(np.inf)).status == "wrong"


def test_tolerance_is_four_and_four_times_the_move() -> None:
    moved = [values(1.0 + EPS), values(1.0)]  # one rounding: eight are allowed
    assert verdict(values(1.0 + 8 * EPS), values(1.0), moved).status == "pass"
    assert verdict(values(1.0 + 9 * EPS), values(1.0), moved).status == "wrong"


def test_error_is_at_most_twice_eagers_and_one() -> None:
    moved = [values(1.0 + 4 * EPS), values(1.0)]
    exact = values(1.0 - EPS, dtype=np.float64)  # eager is one rounding off: three are allowed
    assert verdict(values(1.0 + EPS), values(1.0), moved, exact).status == "pass"
    assert verdict(values(1.0 + 4 * EPS), values(1.0), moved, exact).kind == "accuracy"


def test_integers_have_no_tolerance_of_their_own() -> None:
    one, two = values(1, dtype=np.int64), values(2, dtype=np.int64)
    assert verdict(two, one, moved=[one, one]).status == "wrong"
    assert verdict(two, one, moved=[two, one]).status == "pass"  # an index that a last bit decides


def test_a_structure_that_hangs_on_a_bit_is_not_judged() -> None:
    plain, other = [Seen([("print", "", "a\n")])], [Seen([("print", "", "b\n")])]
    moved = judge.References(lambda seed: other, lambda: [])
    steady = judge.References(lambda seed: plain, lambda: [])
    assert judge.compare_runs(other, plain, moved).status == "unstable"
    assert judge.compare_runs(other, plain, steady).kind == "print"


def test_what_a_call_left_behind_is_told_before_its_exception() -> None:
    plain = [Seen([*raised("ValueError", "x"), ("value", "argument 0", values(1.0))])]
    got = [Seen([*raised("TypeError", "y"), ("value", "argument 0", values(2.0))])]
    references = judge.References(lambda seed: plain, lambda: [])
    assert judge.compare_runs(got, plain, references).kind == "value"
    assert judge.compare_runs([Seen([*raised("TypeError", "x"), plain[0].facts[-1]])], plain, references).kind == "exception type"
    assert judge.compare_runs([Seen([plain[0].facts[-1]])], plain, references).kind == "not raised"


def raised(kind: str, text: str) -> list[facts.Fact]:
    return [("raises", "", facts.Shown(f"{kind}: {text}")), ("exception type", "", kind), ("exception text", "", text)]


def observed(fn, *args) -> dict:  # noqa: ANN001
    """Facts of one call by their names."""
    return facts.observe(fn, args, files=[__file__]).named()


def test_warnings_carry_category_text_and_line() -> None:
    def warns() -> None:
        import warnings

        warnings.warn("odd", UserWarning)

    line = warns.__code__.co_firstlineno + 3
    assert observed(warns)["warning", ""] == [("UserWarning", "odd", line)]


def test_references_are_counted() -> None:
    kept: list = []
    array = np.ones(3)
    assert ("ndarray", 1) in observed(kept.append, array)["references", ""]
    assert ("ndarray", 0) in observed(lambda a: a.sum(), array)["references", ""]


def test_views_and_identity_are_seen() -> None:
    array = np.arange(6.0)
    view, copy, same = (observed(fn, array) for fn in (lambda a: a[1:], lambda a: a[1:].copy(), lambda a: a))
    assert view["alias", ""] == [0, 0] and copy["alias", ""] == [0, 1] and same["identity", ""] == [0, 0]


@pytest.mark.parametrize("program, moves", [(lambda a: a * 2 + 1, False), (lambda a: np.sqrt(a), False), (lambda a: a.sum() / 3, True)])
def test_inexact_programs_are_found_out(program, moves: bool) -> None:  # noqa: ANN001
    case = Case(lambda names: Fresh(program, lambda number: ((np.linspace(0.1, 1.7, 50),), {})), (0,), (sys.modules[__name__],))
    plain, moved = case.run()[0].named(), case.moved(1)[0].named()
    assert (moved["value", "result"].apart(plain["value", "result"]) > 0) == moves


@pytest.mark.parametrize("shape", [(), (3,)])
def test_what_is_written_in_place_moves(shape: tuple[int, ...]) -> None:
    def sine(a: np.ndarray) -> None:
        np.sin(a, out=a)

    case = Case(lambda names: Fresh(sine, lambda number: ((np.full(shape, 0.7),), {})), (0,), (sys.modules[__name__],))
    plain, moved = case.run()[0].named(), case.moved(1)[0].named()
    changed = [name for name in plain if name[0] == "value" and moved[name].apart(plain[name]) > 0]
    assert changed == [("value", "argument 0 afterwards")]


def lines_of(*numbers: int) -> list[Seen]:
    return [Seen([("traceback", "", [("f", number)])]) for number in numbers]


def test_lines_that_hang_on_warmth_are_not_judged() -> None:
    def verdict_of(got: list[Seen], *warmths: list[Seen]) -> str:
        references = judge.References(lambda seed: lines_of(7, 7), list, [lambda run=run: run for run in warmths])
        return judge.compare_runs(got, lines_of(7, 7), references).status

    assert verdict_of(lines_of(7, 8), lines_of(7, 7), lines_of(7, 7)) == "wrong"
    assert verdict_of(lines_of(7, 8), lines_of(8, 8), lines_of(7, 7)) == "unstable"
    assert verdict_of(lines_of(8, 7), lines_of(7, 8), lines_of(7, 7)) == "wrong"


UNBOUND = """
def inputs(k):
    return (20,)

def program(n):
    for i in range(n):
        if i < 0:
            late = 1
    return (n,
            late)
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later CPythons specialise without joining lines")
def test_warm_code_of_this_python_names_other_lines() -> None:
    case = case_of(UNBOUND)
    cold, warm = ([call.named()["traceback", ""] for call in run] for run in (case.cold(), case.warm()))
    assert cold != warm and len(set(map(str, cold))) == len(set(map(str, warm))) == 1
