"""Runs test modules of CPython's own suite with every frame evaluated and compares with a plain run.

    python tests/frame/stdlib_sample.py [--points] [--seconds N] [--modules a,b,...]

One process per module and mode. --points: the driver is asked at every instruction boundary as well. Modules of which a
plain run takes long or fails are part of the comparison too: only a difference counts.
"""
import argparse
import io
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

MODULES = """test_generators test_contextlib test_scope test_with test_exceptions test_dict test_list test_tuple test_set test_unpack_ex test_unpack
test_extcall test_keywordonlyarg test_funcattrs test_functools test_property test_super test_descr test_class test_dataclasses test_enum test_fstring
test_grammar test_compare test_binop test_augassign test_raise test_yield_from test_pep380 test_iter test_itertools test_listcomps test_setcomps test_dictcomps
test_genexps test_named_expressions test_patma test_positional_only_arg test_decorators test_global test_opcodes test_traceback test_frame test_code test_sys_settrace
test_weakref test_copy test_heapq test_bisect test_collections test_string test_textwrap test_json test_typing test_abc test_types test_inspect test_operator
test_bool test_int test_float test_complex test_slice test_range test_enumerate test_builtin test_richcmp test_userdict test_userlist test_weakset test_random
test_statistics test_fractions test_decimal test_argparse test_pprint test_reprlib test_difflib test_configparser test_csv test_shlex test_ast test_except_star
test_exception_group test_coroutines test_asyncgen test_dis test_sys test_gc test_threading_local test_memoryview test_struct test_array""".split()


def run_one(name, evaluated, points):
    """In a child: one JSON line of what the module's tests came to."""
    from test import support
    support.verbose = False
    try:
        suite = unittest.defaultTestLoader.loadTestsFromName("test." + name)
    except BaseException as e:
        print(json.dumps({"skip": repr(e)}))
        return
    counts = {}
    if evaluated:
        import conftest  # noqa: F401  finds the probe
        import frame_probe
        frame_probe.evaluate_all(True, points)
    start = time.time()
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    seconds = time.time() - start
    if evaluated:
        frame_probe.evaluate_all(False)
        c = frame_probe.counts()
        counts = {"frames": c["walked"], "boundaries": c["boundaries"], "handed_back": c["handed_back"], "bugs": c["bugs"]}
    bad = sorted(str(test).split()[0] + ": " + text.strip().splitlines()[-1][:160] for test, text in result.failures + result.errors)
    print(json.dumps({"run": result.testsRun, "seconds": round(seconds, 2), "bad": bad, **counts}))


def child(name, *flags, limit=240):
    here = pathlib.Path(__file__)
    command = [sys.executable, "-X", "faulthandler", str(here), "--one", name, *flags]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env={**os.environ, "PYTHONPATH": str(here.parent)})
    except subprocess.TimeoutExpired:
        return {"skip": "time"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"crash": done.returncode, "text": done.stderr[-1500:]}
    return json.loads(lines[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--one")
    parser.add_argument("--evaluated", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--modules", default="")
    options = parser.parse_args()
    if options.one:
        return run_one(options.one, options.evaluated, options.points)
    start, differing, tests, frames, modules, back = time.time(), [], 0, 0, 0, {}
    for name in options.modules.split(",") if options.modules else MODULES:
        if time.time() - start > options.seconds:
            break
        plain = child(name)
        if "run" not in plain:
            print(name, "left out:", str(plain)[:200], flush=True)
            continue
        ours = child(name, "--evaluated", *(["--points"] if options.points else []))
        if ours.get("bad") != plain["bad"] or ours.get("run") != plain["run"] or ours.get("bugs"):
            differing.append(name)
            print(name, "DIFFERS", json.dumps({"plain": plain["bad"][:8], "ours": ours.get("bad", ours)}, indent=1)[:3000], flush=True)
        modules += 1
        tests += plain["run"]
        frames += ours.get("frames", 0)
        for opcode, n in ours.get("handed_back", {}).items():
            back[opcode] = back.get(opcode, 0) + n
    print(f"{sys.version.split()[0]}: {modules} modules, {tests} tests, {frames} frames evaluated, {len(differing)} modules differ: {differing}")
    print("handed back:", dict(sorted(back.items(), key=lambda item: -item[1])))
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
