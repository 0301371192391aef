"""A fixed sample of every corpus through dyno, plainly and under the debug modes; `make conformance` runs the whole of one.

One test is one sample; it fails with the cases that differ and are not in known_differences.txt, and with the listed ones that no longer do.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import known  # noqa: E402

RUN = pathlib.Path(__file__).with_name("run.py")
SAMPLES = [
    ("functions", "plain", ""),
    ("functions", "break_everywhere", "--sample 24"),
    ("functions", "force_miss", "--sample 24"),
    ("functions", "check", "--sample 24"),
    ("models", "plain", "--sample 12"),
    ("torch_programs", "plain", "--count 40"),
    ("torch_programs", "break_everywhere", "--seed 1000 --count 15"),
    ("numpy_programs", "plain", "--count 40"),
    ("numpy_programs", "check", "--seed 1000 --count 15"),
    ("op_db", "plain", "--sample 16"),
    ("cpython", "plain", "--sample 150"),
    ("numpy", "plain", "--sample 5"),
]


@pytest.mark.parametrize("suite, mode, options", SAMPLES)
def test_everything_observed_is_equal(tmp_path: pathlib.Path, suite: str, mode: str, options: str) -> None:
    out = tmp_path / "out.jsonl"
    command = [
        sys.executable,
        str(RUN),
        "--suite",
        suite,
        "--backend",
        "dyno",
        "--mode",
        mode,
        "--shrink-seconds",
        "0",
        "--jobs",
        "1",
        "--timeout",
        "90",
        "--out",
        str(out),
        *options.split(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    print(done.stdout[-3000:])
    assert records, done.stdout + done.stderr
    outcome = known.compare(records, suite, mode, known.read())
    assert outcome.clean, "\n".join(outcome.lines())
    assert done.returncode == 0, done.stdout[-2000:]
