"""The laws are tested by breaking them: with a fault switch on (DYNO_FAULT, builds with DYNO_FAULTS), what a law forbids must be seen."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import gc, sys, weakref
import numpy, torch
from segments import *
"""
# What a replay must not do, as a program that prints "broken" if it does.
PROGRAMS = {
    2: """
        def raising(): raise ValueError
        d = {}
        segment = reads(("slot",))
        segment.extern(raising, [])
        segment.effect("dict_set", 0, key=segment.value("k"), value=("source", 0))
        segment.returns = segment.value(None)
        assert kind(segment.plan().run([d])) == "compute_failed"
        print("broken" if d else "kept")
    """,
    3: """
        a = torch.zeros(8)
        segment = add_two(a[:4], a[4:])
        segment.guard("memory", 0, other=1)
        segment.guard("distinct", 0, other=1)
        print("broken" if kind(segment.plan().run([a[:4], a[2:6]])) == "committed" else "kept")
    """,
    4: """
        a = torch.zeros(4)
        plan = add_two(a, a).plan()
        with torch.no_grad():
            print("broken" if kind(plan.run([a, a])) == "committed" else "kept")
    """,
    6: """
        a = torch.zeros(4)
        plan = add_two(a, a).plan()
        plan.run([a, a])
        count = sys.getrefcount(a)
        plan.run([a, a])
        print("broken" if sys.getrefcount(a) != count else "kept")
    """,
    7: """
        class Dying: pass
        segment = reads(("slot",))
        segment.anchor(Dying)
        plan = segment.plan()
        segment.anchors.clear()
        del Dying
        gc.collect()
        print("broken" if kind(plan.run([1])) == "committed" else "kept")
    """,
}


# One process imports torch; each case runs in a child of it, which reads its own DYNO_FAULT.
RUNNER = """
def run(program, fault):
    os.environ["DYNO_FAULT"] = fault
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(writer, 1)
        try:
            exec(program, dict(globals()))
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        said = text.read().strip()
    os.waitpid(child, 0)
    return said

import json, os
for program, fault in json.loads(sys.stdin.read()):
    print(run(program, fault) or "nothing", flush=True)
"""
CASES = [(law, fault) for law in PROGRAMS for fault in ("", f"law{law}")] + [(4, "law2,law3,law6,law7"), (4, "law2,law4")]


@pytest.fixture(scope="module")
def answers() -> dict[tuple[int, str], str]:
    program = textwrap.dedent(PRELUDE) + RUNNER
    asked = json.dumps([(textwrap.dedent(PROGRAMS[law]), fault) for law, fault in CASES])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH")]))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, input=asked, capture_output=True, text=True, timeout=300)
    if "Skipped" in done.stderr:
        pytest.skip("replay_probe is not built")
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, done.stdout.split(), strict=True))


@pytest.mark.parametrize("law", PROGRAMS)
def test_a_broken_law_is_noticed(answers, law: int) -> None:
    assert answers[law, ""] == "kept"
    assert answers[law, f"law{law}"] == "broken"


def test_only_the_named_law_is_broken(answers) -> None:
    assert answers[4, "law2,law3,law6,law7"] == "kept" and answers[4, "law2,law4"] == "broken"
