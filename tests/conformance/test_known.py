"""The list of known differences can only shrink: what is not listed fails, and what is listed must still differ."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import known  # noqa: E402
import run as runner  # noqa: E402

LISTED = known.parse("# words\n\nmodels/plain/siglip  exception_text  sums in another order\nmodels/check/siglip bits the same\n")


def outcome(*records: dict, mode: str = "plain") -> known.Outcome:
    return known.compare(records, "models", mode, LISTED)


def wrong(item: str, kind: str) -> dict:
    return {"item": item, "status": "wrong", "kind": kind}


def test_a_listed_difference_is_counted_and_shown() -> None:
    found = outcome({"item": "bert", "status": "pass"}, wrong("siglip", "exception text"))
    assert found.clean and len(found.known) == 1
    assert "1 known differences, 0 new, 0 no longer there" in found.lines()


@pytest.mark.parametrize("record", [wrong("bert", "bits"), wrong("siglip", "value"), {"item": "siglip", "status": "crash"}])
def test_any_other_difference_fails(record: dict) -> None:
    assert not outcome(record).clean


def test_a_mode_has_its_own_lines() -> None:
    assert not outcome(wrong("siglip", "exception text"), mode="check").clean
    assert not outcome(wrong("siglip", "bits"), mode="force_miss").clean


def test_a_case_that_became_equal_must_leave_the_list() -> None:
    assert not outcome({"item": "siglip", "status": "pass"}).clean
    assert outcome({"item": "siglip", "status": "skip"}).clean


@pytest.mark.parametrize("line", ["models/siglip bits words", "models/plain/siglip bits", "a/b/c k w\na/b/c k w"])
def test_a_bad_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        known.parse(line)


def test_every_line_names_a_case_of_a_corpus() -> None:
    for line in known.read():
        assert line.mode in runner.MODES, line
        args = runner.options(["--suite", line.suite, "--count", str(10**5), "--dtype", "f32,f64,i64,bool,bf16"])
        assert line.suite in ("cpython", "numpy") or line.item in runner.suite_items(args), f"no such case: {line}"
