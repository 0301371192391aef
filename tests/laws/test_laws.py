"""The laws of the design, tested by breaking them: under DYNO_FAULT=lawN (builds with DYNO_FAULTS) a test of tests/python that answers
for law N (mark `law`) must fail, or its process must die, and the same test must pass without the fault.
"""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import dyno
import pytest

PROGRAMS = pathlib.Path(__file__).parents[1] / "python"
LAWS = {
    1: "equal: multiplications and additions are contracted",
    2: "two phases: a failed compute phase leaves a trace",
    3: "places and identity: same and overlapping objects are not told apart",
    4: "ambient word: it is not compared",
    5: "tokens: a frame that nobody announced takes one",
    6: "nothing kept: a replay keeps what it read",
    7: "armed before read: a stale entry goes on",
    8: "only proved watchers: a dict version that never moves is trusted",
}


def run(which: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Pytest in a process of its own, with the settings of this one but for the modes and faults."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DYNO_DEBUG", "DYNO_CHECK", "DYNO_FAULT", "DYNO_THIRD"))}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(pathlib.Path(dyno.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", "pytest", "-x", "-v", "--tb=line", "-p", "no:cacheprovider", which]
    return subprocess.run(command, env={**kept, **settings}, cwd=PROGRAMS, capture_output=True, text=True, timeout=150)


@pytest.mark.parametrize("law", LAWS, ids=[f"law{n}" for n in LAWS])
def test_a_broken_law_is_noticed(law: int) -> None:
    broken = run(str(PROGRAMS), DYNO_FAULT=f"law{law}", DYNO_ONLY_LAW=str(law))
    met = re.findall(r"^\S*?(test_\w+\.py::\S+) ?(PASSED|FAILED|XFAIL|)", broken.stdout, re.MULTILINE)
    assert met, broken.stdout[-2000:] + broken.stderr[-2000:]
    name, word = met[-1] if broken.returncode < 0 else next(((n, w) for n, w in met if w == "FAILED"), ("", ""))
    assert name, f"{LAWS[law]}, and none of {len(met)} tests noticed"
    kept = run(str(PROGRAMS / name))
    assert kept.returncode == 0, kept.stdout[-2000:]
