"""The test driver counts what it should, and a suite that crashes, hangs or writes no report is a failure."""
from __future__ import annotations

import pathlib
import sys

import pytest
import run_tests
import third

PASSING = "import pytest\ndef test_a(): pass\ndef test_b(): pass\n@pytest.mark.skip\ndef test_c(): pass\n"


def suite_of(folder: pathlib.Path, source: str, limit: float = 60) -> run_tests.Suite:
    (folder / "test_x.py").write_text(source)
    return run_tests.Suite("x", [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "test_x.py")], limit)


@pytest.mark.parametrize(
    "source, passed, failed, skipped",
    [
        (PASSING, 2, 0, 1),
        ("def test_a(): pass\ndef test_b(): assert 0", 1, 1, 0),
        ("import nothing_of_this_name", 0, 1, 0),
        ("import os, signal\ndef test_a(): os.kill(os.getpid(), signal.SIGKILL)", 0, 1, 0),
        ("", 0, 0, 0),
    ],
)
def test_counts(tmp_path: pathlib.Path, source: str, passed: int, failed: int, skipped: int) -> None:
    count, _, _ = run_tests.run_suite(suite_of(tmp_path, source), tmp_path)
    assert (count.passed, count.failed, count.skipped) == (passed, failed, skipped)


def test_a_hanging_suite_fails(tmp_path: pathlib.Path) -> None:
    count, words, _ = run_tests.run_suite(suite_of(tmp_path, "import time\ndef test_a(): time.sleep(60)", 3), tmp_path)
    assert count.failed == 1 and "time limit" in words


def test_known_failures_are_no_skips(tmp_path: pathlib.Path) -> None:
    source = "import pytest\n@pytest.mark.xfail(strict=True, reason='x')\ndef test_a(): assert {}\n@pytest.mark.skip\ndef test_b(): pass\n"
    count, _, _ = run_tests.run_suite(suite_of(tmp_path, source.format(0)), tmp_path)
    assert count == run_tests.Count(passed=0, failed=0, skipped=1, known=1)
    count, _, _ = run_tests.run_suite(suite_of(tmp_path, source.format(1)), tmp_path)
    assert count == run_tests.Count(passed=0, failed=1, skipped=1, known=0)


def test_googletest_reports_are_read(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "g.xml"
    report.write_text(
        '<testsuites><testsuite name="A"><testcase name="a" status="run" result="completed"/>'
        '<testcase name="b" status="run" result="completed"><failure message="x"/></testcase>'
        '<testcase name="c" status="run" result="skipped"><skipped/></testcase>'
        '<testcase name="d" status="notrun" result="suppressed"/></testsuite></testsuites>'
    )
    assert run_tests.count_xml(report) == run_tests.Count(1, 1, 2)


def test_a_clean_report_does_not_hide_a_bad_exit() -> None:
    count, words = run_tests.judge(1, run_tests.Count(passed=3), timed_out=False)
    assert (count.passed, count.failed) == (3, 1) and words


def test_thirds_cover_everything_once() -> None:
    names = [f"tests/python/test_a.py::test_{i}" for i in range(300)]
    parts = [[name for name in names if third.chosen(name, part)] for part in range(3)]
    assert sorted(sum(parts, [])) == sorted(names) and min(map(len, parts)) > 60
