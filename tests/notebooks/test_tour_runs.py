"""The tour through the real kernel, as `make tour` runs it: nothing fails, and what it promises is compiled."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "kernel"))
from client import build_folder  # noqa: E402


def test_the_tour(tmp_path):
    for module in ("torch", "transformers", "nbclient"):
        pytest.importorskip(module)
    build = build_folder()
    if build is None:
        pytest.skip("no build tree with bin/xdyno (set DYNO_BUILD)")
    settings = {"JUPYTER_PATH": str(build / "share" / "jupyter"), "JUPYTER_RUNTIME_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run([sys.executable, "-P", str(ROOT / "tools" / "run_tour.py")], env={**os.environ, **settings}, capture_output=True, text=True, timeout=900)
    last = done.stdout.rstrip().rpartition("\n")[2]
    counts = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", last)}
    assert done.returncode == 0 and last.startswith("tour: ") and counts["failed"] == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert counts["captured"] >= 8 and counts["kernels"] >= 8, last
