"""Runs a corpus plain and through a backend and compares everything a caller can see.

    python tests/conformance/run.py --suite functions
    python tests/conformance/run.py --suite fuzz --count 2000 --mode check
    python tests/conformance/run.py --suite models --backend faulty:stale --only gpt

Writes one JSON line for each case, prints cases that differ as they come, then the reasons of what was not captured; the last line is
`SUITE: N cases, N equal, N captured, N whole`. Differences that stand in known_differences.txt are counted and shown; the exit status says
whether there was any other, or a listed one less. Cases that do not pass plain, or whose structure hangs on a last bit, are not judged and
not counted.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DYNO_ABORT_ON_BUG", "1")  # else it would run interpreted, and be equal
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import backends  # noqa: E402
import harness  # noqa: E402
import known  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A suite is one or more modules; with several, an item's name starts with the module's key.
SUITES: dict[str, dict[str, str]] = {
    "functions": {"": "functions_suite"},
    "models": {"": "models_suite"},
    "fuzz": {"torch:": "torch_programs", "numpy:": "numpy_programs"},
    "torch_programs": {"": "torch_programs"},
    "numpy_programs": {"": "numpy_programs"},
    "op_db": {"": "op_db"},
    "cpython": {"": "cpython_tests"},
    "numpy": {"": "numpy_shipped"},
}
MODES: dict[str, dict[str, str]] = {
    "plain": {},
    "break_everywhere": {"DYNO_DEBUG_BREAK_EVERYWHERE": "1"},
    "force_miss": {"DYNO_DEBUG_FORCE_MISS": "1"},
    "check": {"DYNO_CHECK": "2"},
}


def options(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--suite", choices=SUITES, default="functions")
    p.add_argument("--backend", default="dyno", help=f"one of {', '.join(backends.BUILTIN)}, or module:function")
    p.add_argument("--mode", choices=MODES, default="plain", help="a debug mode of dyno")
    p.add_argument("--out", help="JSON lines file")
    p.add_argument("--resume", action="store_true", help="leave out what --out already has")
    p.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="worker processes")
    p.add_argument("--timeout", type=float, default=180, help="seconds for one case")
    p.add_argument("--start-timeout", type=float, default=180, help="seconds for a worker to start")
    p.add_argument("--recycle", type=int, default=200, help="cases a worker runs before it is replaced")
    p.add_argument("--seconds", type=float, help="start no case after this many seconds")
    p.add_argument("--only", help="regular expression a case's name must contain")
    p.add_argument("--sample", type=int, help="take this many cases, evenly spread, always the same")
    p.add_argument("--list", action="store_true", help="print the cases and do nothing else")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--seed", type=int, default=0, help="random programs: the first seed; the others count up from it")
    p.add_argument("--count", type=int, default=2000, help="random programs: how many of each kind")
    p.add_argument("--size", type=int, default=10, help="random programs: statements, about")
    p.add_argument("--ignore", default="", help="comma-separated kinds of differences not to look at")
    p.add_argument("--shrink-seconds", type=float, default=20, help="random programs: limit for cutting one down; 0: do not")
    p.add_argument("--dtype", default="f32", help="op_db: comma-separated, of f32, f64, i64, bool, bf16")
    p.add_argument("--all-samples", action="store_true", help="op_db: every sample of an operator, not its first three")
    p.add_argument("--train", action="store_true", help="models: a training step instead of inference")
    p.add_argument("--modules", help="comma-separated; cpython: names of the test package instead of the chosen list; numpy: test modules of other packages instead of NumPy's own")
    return p.parse_args(argv)


def suite_items(args: argparse.Namespace) -> list[str]:
    found = [prefix + item for prefix, module in SUITES[args.suite].items() for item in importlib.import_module(module).list_items(args)]
    found = [item for item in found if not args.only or re.search(args.only, item)]
    if args.sample and args.sample < len(found):
        found = [found[i * len(found) // args.sample] for i in range(args.sample)]
    return found


def suite_runner(args: argparse.Namespace) -> harness.RunItem:
    backend = backends.load(args.backend)
    runners: dict[str, harness.RunItem] = {}

    def run_item(item: str) -> harness.Record:
        prefix = next(p for p in SUITES[args.suite] if item.startswith(p))
        if prefix not in runners:
            runners[prefix] = importlib.import_module(SUITES[args.suite][prefix]).make_runner(args, backend)
        return runners[prefix](item[len(prefix) :])

    return run_item


def read_records(path: str) -> list[harness.Record]:
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def summary(records: list[harness.Record]) -> str:
    """Kinds of difference, totals, and the reasons of cases that were not captured, commonest first."""
    bad = [r for r in records if r["status"] not in ("pass", "skip")]
    kinds = collections.Counter(r.get("kind") or r["status"] for r in bad)
    lines = [f"differences by kind: {dict(kinds.most_common())}"] if bad else []
    totals: collections.Counter[str] = collections.Counter()
    for record in records:
        totals.update(record.get("stats") or {})
    lines.append("counters: " + ", ".join(f"{name}={totals[name]:g}" for name in backends.TOTALS))
    reasons = collections.Counter(
        (r.get("reasons") or ["no reason given"])[0] for r in records if r["status"] != "skip" and not r.get("captured")
    )
    lines += [f"not captured {count:5}  {reason}" for reason, count in reasons.most_common(25)]
    counted = [r for r in records if r.get("operations") is not None]
    if counted:
        operations, replayed = (sum(r[key] for r in counted) for key in ("operations", "replayed"))
        lines.append(f"operations of fifth calls inside a replay: {replayed} of {operations} ({100 * replayed / max(operations, 1):.1f} %)")
    reasons = collections.Counter((r.get("reasons") or ["no reason given"])[0] for r in records if r.get("captured") and not r.get("whole"))
    lines += [f"not whole    {count:5}  {reason}" for reason, count in reasons.most_common(15)]
    return "\n".join(lines)


def last_line(suite: str, records: list[harness.Record]) -> str:
    judged = [r for r in records if r["status"] != "skip"]
    equal, captured, whole = (
        sum(map(test, judged))
        for test in (lambda r: r["status"] == "pass", lambda r: bool(r.get("captured")), lambda r: bool(r.get("whole")))
    )
    return f"{suite}: {len(judged)} cases, {equal} equal, {captured} captured, {whole} whole"


def run(args: argparse.Namespace) -> tuple[list[harness.Record], int]:
    """Runs what the options select: all records, and how many cases got no record at all."""
    os.environ.update(MODES[args.mode])
    args.out = args.out or str(ROOT / "build/conformance" / f"{args.suite}-{args.backend.replace(':', '_')}-{args.mode}.jsonl")
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    if not args.resume and os.path.exists(args.out):
        os.remove(args.out)
    old = read_records(args.out)
    done = {record["item"] for record in old}
    items = [item for item in suite_items(args) if item not in done]
    print(f"{args.suite}: {len(items)} cases to run, {len(done)} already done; backend {args.backend}, mode {args.mode}", flush=True)
    new = harness.Pool(args, items, [sys.executable, str(pathlib.Path(__file__).resolve()), *worker_options(args)]).run()
    return old + new, 0 if args.seconds else len(items) - len(new)


def worker_options(args: argparse.Namespace) -> list[str]:
    """The options that a worker needs, from the parsed ones, so that a caller need not be a command line."""
    names = ("suite", "backend", "mode", "seed", "count", "size", "ignore", "shrink_seconds", "dtype", "modules")
    given = [
        part for name in names if (value := getattr(args, name)) not in (None, "") for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    return given + [f"--{name.replace('_', '-')}" for name in ("all_samples", "train") if getattr(args, name)]


def main(argv: list[str] | None = None) -> int:
    args = options(argv)
    if args.worker:
        harness.serve(suite_runner(args), args.worker)
        return 0
    if args.list:
        print("\n".join(suite_items(args)))
        return 0
    start = time.monotonic()
    records, lost = run(args)
    skipped = sum(r["status"] == "skip" for r in records)
    print(summary(records))
    print(
        f"python {sys.version.split()[0]}, {time.monotonic() - start:.0f} s, {skipped} not judged, records in {os.path.relpath(args.out)}"
    )
    if lost:
        print(f"{lost} cases were not run: a worker did not start")
    outcome = known.compare(records, args.suite, args.mode, known.read() if args.backend == "dyno" else [])
    print("\n".join(outcome.lines()))
    print(last_line(args.suite, records))
    return int(lost > 0 or not outcome.clean)


if __name__ == "__main__":
    sys.exit(main())
