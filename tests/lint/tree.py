"""The files that the lint tests look at: everything git tracks or would track, as paths from the root.

Every check of this folder is a pure function from text to complaints, so that a test can plant a fault and see it found.
"""

from __future__ import annotations

import functools
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPP = (".cpp", ".h")


@functools.cache
def files() -> tuple[str, ...]:
    """Paths of the tree's text files; a copy without git is walked."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        found = listed.stdout.splitlines()
    else:
        found = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and p.parts[len(ROOT.parts)] not in ("build", ".venv")]
    return tuple(sorted(name for name in found if (ROOT / name).is_file()))


def cpp_files() -> list[str]:
    """C++ sources and headers of the project."""
    return [name for name in files() if name.endswith(CPP)]


@functools.cache
def text(name: str) -> str:
    """A file's text; bytes that are no UTF-8 are replaced."""
    return (ROOT / name).read_text(errors="replace")
