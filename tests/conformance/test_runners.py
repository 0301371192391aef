"""The runners themselves: plain Python passes them, and backends that are wrong on purpose are found out."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import run as runner  # noqa: E402

RUN = pathlib.Path(__file__).with_name("run.py")
EAGER = [
    ("functions", "--sample 25"),
    ("models", "--sample 4"),
    ("torch_programs", "--count 12"),
    ("numpy_programs", "--count 12"),
    ("op_db", "--sample 6"),
    ("cpython", "--sample 60"),
    ("numpy", "--only TestArrayConstruct|TestDiagonal"),
]
# suite, backend, options, kinds of difference of which at least one is found, least number of cases found
FAULTS = [
    ("functions", "stale", "--sample 12", {"value"}, 4),
    ("functions", "nudge", "--sample 12", {"bits"}, 4),
    ("numpy_programs", "swallows_warnings", "--count 5", {"warning"}, 1),
    ("functions", "refuses", "--sample 3", {"raised"}, 3),
    ("functions", "crash", "--sample 2", {"crash"}, 2),
    ("functions", "hang", "--sample 1 --timeout 3", {"timeout"}, 1),
    ("models", "stale", "--sample 3", {"value"}, 2),
    ("torch_programs", "loses_mutation", "--count 10", {"references", "value", "version", "length"}, 5),
    ("torch_programs", "keeps_arguments", "--count 4", {"references"}, 4),
    ("torch_programs", "contiguous", "--count 25", {"stride", "alias", "identity", "offset"}, 1),
    ("torch_programs", "widens", "--count 8", {"dtype"}, 3),
    ("torch_programs", "wrong_error", "--count 25", {"exception type"}, 1),
    ("numpy_programs", "stale", "--count 8", {"value", "references", "rng", "print", "warning"}, 4),
    ("numpy_programs", "widens", "--count 12", {"dtype"}, 1),
    ("op_db", "nudge", "--sample 6", {"bits", "value"}, 2),
    ("cpython", "refuses", "--sample 5", {"test"}, 5),
    ("numpy", "refuses", "--only TestArrayConstruct", {"test"}, 1),
]


OWN_PROCESS = ("cpython", "crash", "hang")  # they change or end the process


def run_apart(tmp_path: pathlib.Path, suite: str, backend: str, options: str) -> tuple[list[dict], str]:
    """The records and the last line of a run as a user makes it."""
    out = tmp_path / "out.jsonl"
    command = [sys.executable, str(RUN), "--suite", suite, "--backend", backend, "--jobs", "1", "--out", str(out), *options.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return [json.loads(line) for line in out.read_text().splitlines()], done.stdout.strip().splitlines()[-1]


def run_here(suite: str, backend: str, options: str) -> tuple[list[dict], str]:
    """The same without worker processes, which spares the import of torch."""
    args = runner.options(["--suite", suite, "--backend", backend, "--shrink-seconds", "0", *options.split()])
    run_item = runner.suite_runner(args)
    records = [{"item": item, **run_item(item)} for item in runner.suite_items(args)]
    return records, runner.last_line(suite, records)


def run(tmp_path: pathlib.Path, suite: str, backend: str, options: str) -> tuple[list[dict], str]:
    if {suite, backend.rpartition(":")[2]} & set(OWN_PROCESS):
        return run_apart(tmp_path, suite, backend, options)
    return run_here(suite, backend, options)


@pytest.mark.parametrize("suite, options", EAGER)
def test_plain_python_passes(tmp_path: pathlib.Path, suite: str, options: str) -> None:
    records, last = run(tmp_path, suite, "eager", options)
    assert not [r for r in records if r["status"] not in ("pass", "skip")]
    judged = sum(r["status"] == "pass" for r in records)
    assert judged and last == f"{suite}: {judged} cases, {judged} equal, 0 captured, 0 whole"


@pytest.mark.parametrize("suite, backend, options, kinds, least", FAULTS)
def test_a_fault_is_found(tmp_path: pathlib.Path, suite: str, backend: str, options: str, kinds: set[str], least: int) -> None:
    records, last = run(tmp_path, suite, f"faulty:{backend}", options)
    bad = [r for r in records if r["status"] not in ("pass", "skip")]
    found = {r.get("kind") or r["status"] for r in bad}
    assert len(bad) >= least, f"{len(bad)} of {len(records)}: {found}"
    assert found & kinds, found
    equal = int(re.search(r"(\d+) equal", last)[1])
    assert equal == sum(r["status"] == "pass" for r in records)
