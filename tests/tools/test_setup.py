"""The set-up script fails with one sentence that names what is missing."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "tools/setup.sh"


def run(tmp_path: pathlib.Path, **environment: str) -> tuple[int, list[str]]:
    """Exit status and the lines on stderr."""
    settings = {"VENV": str(tmp_path / "venv"), "BUILD": str(tmp_path / "build"), "DYNO_SKIP_APT": "1", **environment}
    done = subprocess.run([str(SETUP)], env={**os.environ, **settings}, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr.strip().splitlines()


def program(path: pathlib.Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_no_python(tmp_path: pathlib.Path) -> None:
    status, lines = run(tmp_path, PYTHON="python-of-no-such-name")
    assert status == 1 and len(lines) == 1 and "python-of-no-such-name is missing" in lines[0]


def test_a_python_of_another_version(tmp_path: pathlib.Path) -> None:
    status, lines = run(tmp_path, PYTHON=program(tmp_path / "python", "echo cpython 3.9.2 /usr"))
    assert status == 1 and len(lines) == 1 and "3.9.2" in lines[0] and "3.11" in lines[0]


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/mine").write_text("kept")
    status, lines = run(tmp_path, PYTHON=sys.executable)
    if "Python.h" in lines[-1]:
        pytest.skip("this Python has no headers")
    assert status == 1 and len(lines) == 1 and "was not made by this script" in lines[0]
    assert (tmp_path / "venv/mine").read_text() == "kept"


def test_debian_packages_without_root(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder / "dpkg-query", "echo installed coreutils")
    for name in ("sudo", "apt-get"):
        program(folder / name, "echo must not be called >&2; exit 1")
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "DYNO_SKIP_APT": ""}
    status, lines = run(tmp_path, PYTHON=sys.executable, **environment)
    assert status == 1 and len(lines) == 1 and ("apt-get update failed" in lines[0] or "root or sudo" in lines[0])
