"""The public functions over a fake core, and the package without a core."""

import subprocess
import sys
import pathlib

import pytest

import dyno
from dyno import _backend

ROOT = pathlib.Path(__file__).parents[2]


def f(x):
    """Doubles."""
    return x * 2


def test_compile_passes_its_options_on(core):
    assert dyno.compile(f, strict=True, dynamic=False)(3) == 6
    assert dyno.compile(f)(3) == 6
    assert dyno.compile(strict=True)(f)(3) == 6
    assert core.asked == [("compile", True, False), ("compile", False, None), ("compile", True, None)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((3,), {}), "dyno.compile takes a function or module, not int"),
        (((f,), {"strict": 1}), "strict takes True or False, not int"),
        (((f,), {"dynamic": "yes"}), "dynamic takes None, True or False, not str"),
    ],
)
def test_compile_refuses_in_plain_words(core, arguments, sentence):
    with pytest.raises(TypeError, match="^" + sentence + "$"):
        dyno.compile(*arguments[0], **arguments[1])


def test_off_nests_and_lets_errors_through(core):
    with pytest.raises(KeyError), dyno.off():
        with dyno.off():
            assert core.depth == 2
        assert core.depth == 1
        raise KeyError
    assert core.depth == 0


def test_stats_waits_unless_told_not_to(core):
    assert dyno.stats()["captures"] == 0 and core.asked == [("wait",)]
    dyno.stats(wait=False)
    assert core.asked == [("wait",)]


def test_reset_install_uninstall_wait(core):
    assert dyno.reset() == 4096 and dyno.reset(f) == 4096
    dyno.install(), dyno.uninstall(), dyno.wait()
    assert core.asked == [("reset", None), ("reset", f), ("install",), ("uninstall",), ("wait",)]


@pytest.mark.parametrize("name", ["explain", "graph", "guards"])
def test_results_without_a_shell(core, name, capsys):
    import fake_core

    core.by_name["f"] = fake_core.load("chain")
    result = getattr(dyno, name)(f)
    assert str(result).startswith("f (In [4], line 1): compiled") and result.report["kind"] == name
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", [len, 3, int, "f"])
def test_results_refuse_what_has_no_python_code(core, value):
    with pytest.raises(TypeError, match="^dyno.explain takes a function or module with Python code, not "):
        dyno.explain(value)


def test_config_reads_writes_and_refuses(core):
    dyno.config.check = 3
    assert dyno.config.check == 3 and core.settings["check"] == 3
    with pytest.raises(AttributeError, match=r"^dyno\.config has no setting 'chekc'; did you mean 'check'\?$"):
        dyno.config.chekc = 3
    with pytest.raises(AttributeError, match="settings: check, reproducible"):
        dyno.config.zzzzzz
    with pytest.raises(TypeError, match=r"^dyno\.config\.check takes int, not bool$"):
        dyno.config.check = True
    with pytest.raises(ValueError, match=r"^dyno\.config\.check must be at least 0, not -1$"):
        dyno.config.check = -1
    with pytest.raises(TypeError, match="takes bool, not int"):
        dyno.config.debug_force_miss = 1
    with pytest.raises(AttributeError):
        del dyno.config.check
    assert "check = 3" in repr(dyno.config) and "debug_break_everywhere" in dir(dyno.config)


def test_config_accepts_settings_that_only_the_core_knows(core):
    core.settings["scratch_limit"] = 64
    dyno.config.scratch_limit = 128
    assert dyno.config.scratch_limit == 128
    with pytest.raises(TypeError, match="takes int, not str"):
        dyno.config.scratch_limit = "many"


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        (({}, "cpython", (3, 11), False, None), None),
        (({}, "cpython", (3, 13), False, "2.13.0+cpu"), None),
        (({"DYNO": "1"}, "cpython", (3, 12), False, "2.10.0"), None),
        (({"DYNO": "0"}, "cpython", (3, 11), False, None), "the environment variable DYNO is 0"),
        (({}, "pypy", (3, 11), False, None), "pypy is not CPython"),
        (({}, "cpython", (3, 10), False, None), "Python 3.10 is a version dyno does not know"),
        (({}, "cpython", (3, 14), False, None), "Python 3.14 is a version dyno does not know"),
        (({}, "cpython", (3, 13), True, None), "free-threaded builds"),
        (({}, "cpython", (3, 11), False, "2.9.1"), "torch 2.9.1 is not supported"),
        (({}, "cpython", (3, 11), False, "3.0.0"), "torch 3.0.0 is not supported"),
        (({}, "cpython", (3, 11), False, "dev"), "torch dev is a version dyno does not know"),
    ],
)
def test_objection(facts, start):
    said = _backend.objection(*facts)
    assert said is None if start is None else said.startswith(start)


UNCOMPILED = """
import dyno
def f(x): return x + 1
print(dyno.compile(f)(1), dyno.compile(f) is f)
dyno.install(); dyno.wait(); dyno.uninstall()
with dyno.off(): print(f(2))
print(dyno.stats()["captures"], dyno.reset(), dyno.config.check)
print(dyno.explain(f))
try: dyno.compile(f, strict=True)
except dyno.GraphBreak as error: print("GraphBreak:", error)
"""


def test_switched_off_everything_runs_with_one_notice():
    done = subprocess.run(
        [sys.executable, "-c", UNCOMPILED], cwd=ROOT, env={"DYNO": "0", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "2 True", "3", "0 0 0", "f runs interpreted because the environment variable DYNO is 0",
        "GraphBreak: nothing is compiled: the environment variable DYNO is 0",
    ]  # fmt: skip
    assert done.stderr.splitlines() == ["dyno: everything runs uncompiled, as plain Python: the environment variable DYNO is 0"]


def test_import_is_silent_and_light():
    program = "import sys, dyno; print(sorted({'torch', 'numpy', 'IPython'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={"DYNO": "0", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
