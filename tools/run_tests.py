"""Runs every test of the project and adds up: the last line is `N passed, M failed`.

Suites are GoogleTest binaries of the build folder and the folders of tests/ that hold pytest files. They run in two
lanes, one for each core; a suite's output goes to a log and is shown when it fails. Tests of meaning run plainly, and a
third of them, turning by commit, under each debug mode. A suite that crashes or passes its time limit counts as a failure.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODE_FOLDERS = ("tests/python",)  # tests of meaning, which must hold under every debug mode
MODES = ("DYNO_DEBUG_BREAK_EVERYWHERE=1", "DYNO_DEBUG_FORCE_MISS=1", "DYNO_CHECK=2")
# Longest first within a lane's reach; what a folder not named here gets is DEFAULT_LIMIT.
LIMITS = {"tests/python": 1200, "tests/kernel": 1200, "tests/conformance": 1500, "tests/lint": 120}
DEFAULT_LIMIT = 600
SHOWN_LINES, SHOWN_COLUMNS = 40, 400


@dataclass
class Suite:
    """One process that writes a JUnit file."""

    name: str
    command: list[str]
    limit: float = DEFAULT_LIMIT
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    known: int = 0  # tests of behaviour that is known to be wrong: they run, and one that passes has failed

    def __iadd__(self, other: "Count") -> "Count":
        self.passed, self.failed = self.passed + other.passed, self.failed + other.failed
        self.skipped, self.known = self.skipped + other.skipped, self.known + other.known
        return self


def count_xml(path: pathlib.Path) -> Count | None:
    """What a JUnit or GoogleTest file says; None when there is none that can be read."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None
    failed = sum(any(child.tag in ("failure", "error") for child in case) for case in cases)
    known = sum(any(child.get("type") == "pytest.xfail" for child in case) for case in cases)
    skipped = sum(case.get("status") == "notrun" or case.get("result") == "skipped" or case.find("skipped") is not None for case in cases) - known
    return Count(len(cases) - failed - skipped - known, failed, skipped, known)


def judge(status: int, found: Count | None, timed_out: bool) -> tuple[Count, str]:
    """A suite's count and, where the process itself went wrong, the words for it."""
    if timed_out:
        return (found or Count()).__iadd__(Count(failed=1)), "passed its time limit"
    if found is None:
        return (Count(), "") if status == 5 else (Count(failed=1), f"ended with status {status} and no report")
    if status not in (0, 5) and not found.failed:
        found += Count(failed=1)
        return found, f"ended with status {status} after its tests"
    return found, ""


def pytest_suite(folder: str, mode: str = "", third: int = 0) -> Suite:
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--tb=short", "-ra", str(ROOT / folder)]
    environment = {}
    if mode:
        command += ["-p", "third"]
        environment = {
            "DYNO_THIRD": str(third),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")])),
            mode.split("=")[0]: mode.split("=")[1],
        }
    return Suite(f"{folder} {mode}".strip(), command, LIMITS.get(folder, DEFAULT_LIMIT), environment)


def commit_number() -> int:
    """The commit's hash as a number; 0 outside a repository."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return int(found.stdout[:8], 16) if found.returncode == 0 and found.stdout.strip() else 0


def all_suites(build: pathlib.Path) -> list[Suite]:
    folders = sorted({f"tests/{p.relative_to(ROOT / 'tests').parts[0]}" for p in (ROOT / "tests").glob("*/**/test_*.py")})
    first = [f for f in ("tests/conformance", "tests/kernel", *MODE_FOLDERS) if f in folders]
    suites, turn = [pytest_suite(folder) for folder in first], commit_number()
    for folder in MODE_FOLDERS:
        suites += [pytest_suite(folder, mode, (turn + i) % 3) for i, mode in enumerate(MODES) if folder in folders]
    suites += [
        Suite(binary.name, [str(binary)])
        for binary in sorted(build.resolve().glob("test_*"))
        if os.access(binary, os.X_OK) and binary.is_file()
    ]
    return suites + [pytest_suite(folder) for folder in folders if folder not in first]


def build_environment(build: pathlib.Path) -> dict[str, str]:
    """Where tests find what was built: the tree, and the folders of the extensions that only tests load."""
    found = {path.name.split(".")[0]: str(path.parent) for path in build.resolve().rglob("*.so") if path.parent.name != "dyno"}
    probes = sorted({folder for name, folder in found.items() if name.endswith(("_probe", "_door"))})
    named = {"DYNO_BUILD": str(build.resolve())}
    for variable, name in (("FRAME_PROBE", "frame_probe"), ("DYNO_DOOR", "python_door")):
        if name in found:
            named[variable] = found[name]
    return {**named, "PYTHONPATH": os.pathsep.join(filter(None, [*probes, os.environ.get("PYTHONPATH")]))}


def run_suite(suite: Suite, results: pathlib.Path) -> tuple[Count, str, str]:
    """Runs one suite: its count, the words on what went wrong with the process, the end of its output."""
    stem = "".join(c if c.isalnum() else "_" for c in suite.name)
    report, log = results / f"{stem}.xml", results / f"{stem}.log"
    report.unlink(missing_ok=True)
    option = f"--junitxml={report}" if "pytest" in suite.command else f"--gtest_output=xml:{report}"
    timed_out = False
    # Python suites start in an empty folder: in the root, `import dyno` would find the sources beside it and not the built package.
    empty = results / "empty"
    empty.mkdir(exist_ok=True)
    with open(log, "w") as output:
        process = subprocess.Popen(
            [*suite.command, option],
            cwd=empty if "pytest" in suite.command else ROOT,
            env={**os.environ, **suite.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(suite.limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
    count, words = judge(status, count_xml(report), timed_out)
    return count, words, "\n".join(line[:SHOWN_COLUMNS] for line in log.read_text(errors="replace").splitlines()[-SHOWN_LINES:])


def run_all(suites: list[Suite], lanes: int, results: pathlib.Path) -> Count:
    todo: queue.SimpleQueue[Suite] = queue.SimpleQueue()
    for suite in suites:
        todo.put(suite)
    total, lock = Count(), threading.Lock()

    def serve() -> None:
        while True:
            try:
                suite = todo.get_nowait()
            except queue.Empty:
                return
            start = time.monotonic()
            count, words, tail = run_suite(suite, results)
            with lock:
                total.__iadd__(count)
                print(
                    f"{suite.name}: {count.passed} passed, {count.failed} failed, {count.skipped} skipped, {count.known} known to fail "
                    f"in {time.monotonic() - start:.0f} s{'; ' + words if words else ''}",
                    flush=True,
                )
                if count.failed:
                    print("\n".join("    " + line for line in tail.splitlines()), flush=True)

    threads = [threading.Thread(target=serve) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--only", default="", help="run the suites whose name contains this")
    p.add_argument("--lanes", type=int, default=min(2, os.cpu_count() or 1))
    args = p.parse_args()
    results = args.build.resolve() / "test-results"
    results.mkdir(parents=True, exist_ok=True)
    os.environ.update(build_environment(args.build))
    suites = [suite for suite in all_suites(args.build) if args.only in suite.name]
    print(f"{len(suites)} suites in {args.lanes} lanes; logs in {os.path.relpath(results, ROOT)}", flush=True)
    total = run_all(suites, args.lanes, results)
    if total.skipped or total.known:
        print(f"{total.skipped} skipped, {total.known} known to fail (reasons in the logs)")
    if not total.passed and not total.failed:
        total.failed = 1
        print("no test ran")
    print(f"{total.passed} passed, {total.failed} failed")
    return min(1, total.failed)


if __name__ == "__main__":
    sys.exit(main())
