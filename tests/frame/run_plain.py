"""Runs the test files of tests/frame and tests/bytecode without pytest, for interpreters that have nothing installed."""
import importlib
import pathlib
import sys
import time
import traceback

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / "bytecode")]
import conftest  # noqa: E402,F401  finds the probe


def main():
    passed = failed = 0
    wanted = sys.argv[1:]
    for path in sorted([*here.glob("test_*.py"), *(here.parent / "bytecode").glob("test_*.py")]):
        module = importlib.import_module(path.stem)
        for name, function in list(vars(module).items()):
            if not name.startswith("test_") or not callable(function) or (wanted and name not in wanted):
                continue
            start = time.time()
            try:
                function()
                passed += 1
            except BaseException:
                failed += 1
                print(f"FAILED {path.stem}.{name} after {time.time() - start:.1f} s")
                traceback.print_exc(limit=-12)
    print(f"{sys.version.split()[0]}: {passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
