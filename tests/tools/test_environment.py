"""environment.yml and Debian's lists name what the build looks for, and nothing else that the build would want."""
from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What CMake finds -> (conda-forge's package, Debian's).
BUILD = {
    "LLVM": ("llvmdev", "llvm-19-dev"),
    "fmt": ("fmt", "libfmt-dev"),
    "nlohmann_json": ("nlohmann_json", "nlohmann-json3-dev"),
    "Python": ("python", "python3-dev"),
    "xeus": ("xeus", "xeus-dev"),
    "xeus-python": ("xeus-python", "xeus-python-dev"),
    "pybind11_json": ("pybind11_json", "pybind11-json-dev"),
    "cppzmq": ("cppzmq", "cppzmq-dev"),
    "GTest": ("gtest", "libgtest-dev"),
    "Threads": (None, None),
}
# What <> includes, by its first part, where no find_package brings it.
HEADERS = {"xxhash.h": ("xxhash", "libxxhash-dev")}
# What brings the other headers: the compiler and its C library, Python, or a row of BUILD.
BROUGHT = {"fmt", "llvm", "nlohmann", "xeus", "xeus-python", "zmq.hpp", "zmq_addon.hpp", "pybind11", "Python.h", "internal", "opcode.h", "structmember.h", "numpy",
           "sys", "dlfcn.h", "elf.h", "fcntl.h", "immintrin.h", "link.h", "poll.h", "pthread.h", "sched.h", "stdint.h", "unistd.h", "xmmintrin.h"}  # fmt: skip
# pip's name -> conda-forge's, where they differ.
PYTHON = {"torch": "pytorch", "playwright": "playwright-python"}
ALSO = {"channels", "cxx-compiler", "cmake", "ninja", "ccache", "mold", "pkg-config", "zstd", "zlib", "pybind11", "graphviz", "gmock"}


def conda() -> dict[str, str]:
    """Package -> version condition."""
    rows = re.findall(r"^  - ([\w-]+)(.*)$", (ROOT / "environment.yml").read_text(), re.M)
    return {name: rest.split("#")[0].strip() for name, rest in rows}


def debian() -> set[str]:
    lists = (ROOT / "packaging/debian").glob("*.txt")
    return {line.split("#")[0].strip() for file in lists for line in file.read_text().splitlines()} - {""}


def found_by_cmake() -> set[str]:
    files = [ROOT / "CMakeLists.txt", ROOT / "kernel/CMakeLists.txt"]
    return {name for file in files for name in re.findall(r"find_package\(([\w-]+)", file.read_text())}


def included() -> set[str]:
    """First parts of the included names that are no headers of the C++ library."""
    files = [file for folder in ("compiler", "kernel", "dyno") for end in ("*.cpp", "*.h") for file in (ROOT / folder).rglob(end)]
    names = {name for file in files for name in re.findall(r"^#include <([^>]+)>", file.read_text(), re.M)}
    return {name.partition("/")[0] for name in names if "/" in name or "." in name}


def requirements() -> set[str]:
    return {re.match(r"[\w-]+", line)[0] for line in (ROOT / "tools/requirements.txt").read_text().splitlines() if line[:1].isalpha()}


def test_everything_that_cmake_finds_is_known_here() -> None:
    assert found_by_cmake() <= BUILD.keys()


@pytest.mark.parametrize("name", sorted(found_by_cmake()))
def test_it_is_in_both_lists(name: str) -> None:
    theirs, debians = BUILD[name]
    assert theirs is None or theirs in conda()
    assert debians is None or debians in debian()


def test_headers_have_a_package() -> None:
    """A header may lie on one machine by chance and be missing on the next."""
    assert included() - BROUGHT == HEADERS.keys()
    for theirs, debians in HEADERS.values():
        assert theirs in conda() and debians in debian()


def test_python_packages_are_in_the_environment() -> None:
    assert {PYTHON.get(name, name) for name in requirements()} <= conda().keys()


def test_nothing_else_is_asked_for() -> None:
    wanted = {theirs for theirs, _ in [*BUILD.values(), *HEADERS.values()]} | {PYTHON.get(name, name) for name in requirements()} | ALSO
    assert conda().keys() - wanted == set()


def test_versions_are_those_that_the_sources_are_written_for() -> None:
    headers = "".join(file.read_text() for file in (ROOT / "kernel").glob("*.cpp"))
    if "xeus/xmiddleware.hpp" in headers:  # gone from xeus 3 on
        assert conda()["xeus"] == "2.4.*" and conda()["xeus-python"] == "0.14.*" and "xeus-zmq" not in conda()
    llvm = re.search(r"find_package\(LLVM (\d+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert conda()["llvmdev"] == f"{llvm}.*"
    torch = re.search(r"^torch==([\d.]+)", (ROOT / "tools/requirements.txt").read_text(), re.M)[1]
    assert conda()["pytorch"] == torch.rpartition(".")[0] + ".*"
