"""The kernel's line to the compiler, against a stand-in made from standin.c."""

import json
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from client import ROOT

STARTUP = """
import importlib.util, sys
# dyno's Python side wants the whole surface of dyno._core; what the stand-in lacks is plain Python's
class Surface:
    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        from dyno import _uncompiled
        return getattr(_uncompiled, name)
spec = importlib.util.spec_from_file_location('dyno._core', {library!r})
standin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(standin)
surface = Surface()
surface.__dict__.update(standin.__dict__)
sys.modules['dyno._core'] = surface
sys.quiesce_marker = {marker!r}
del Surface, spec, surface
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standin")
    target = folder / ("_core" + sysconfig.get_config_var("EXT_SUFFIX"))
    command = ["cc", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}", f"-I{ROOT}", str(Path(__file__).parent / "standin.c"), "-o", str(target)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return target


@pytest.fixture
def linked(start, library, tmp_path):
    """A kernel whose dyno._core is the stand-in, from before the package is imported."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(STARTUP.format(library=str(library), marker=str(tmp_path / "quiet")))

    def make(**environment):
        return start({"PYTHONPATH": str(folder), **environment})

    return make


def calls(kernel):
    return json.loads(kernel.run("import json, sys; print(json.dumps(sys.modules['dyno._core'].calls))").text())


def test_every_part_of_a_cell_goes_through(linked):
    kernel = linked()
    assert kernel.run("a = 1\nb = 2\na + b").value == "3"
    body, last = calls(kernel)[:2]
    assert body[1] == last[1] and body[0] != last[0]
    assert body[0].rpartition(".")[0] == last[0].rpartition(".")[0]


def test_keys_follow_the_text(linked):
    kernel = linked()
    for code in ("x = 1", "x = 2", "x = 1", "x =  1"):
        kernel.run(code)
    keys = [key for key, _ in calls(kernel)[:4]]
    assert keys[0] == keys[2] and len(set(keys)) == 3


def test_errors_pass_through(linked):
    kernel = linked()
    cell = kernel.run("def f(): raise KeyError('k')\n\nf()")
    assert cell.error == "KeyError" and "line 3" in cell.traceback and "line 1, in f" in cell.traceback
    assert "dyno" not in cell.traceback


def test_awaiting_cells_are_ipythons(linked):
    """Statement by statement, and the one that awaits not through the compiler."""
    kernel = linked()
    cell = kernel.run("import asyncio\nawait asyncio.sleep(0, 7)")
    assert cell.value == "7"
    number = cell.reply["content"]["execution_count"]
    assert len([name for _, name in calls(kernel) if name.startswith(f"<ipython-input-{number}-")]) == 1


def test_message_interrupt_reaches_compute_phases(linked):
    kernel = linked()
    kernel.run("import sys; core = sys.modules['dyno._core']")
    cell = kernel.send("stopped = None\ntry:\n    stopped = core.spin()\nexcept KeyboardInterrupt:\n    print('interrupted')")
    kernel.until_started(cell)
    time.sleep(0.5)
    started = time.monotonic()
    kernel.manager.interrupt_kernel()
    kernel.wait(cell)
    assert time.monotonic() - started < 2 and cell.text() == "interrupted\n"


def test_events_wake_the_loop(linked):
    kernel = linked()
    kernel.run("import sys; from dyno.kernel import loop\ngot = []\nloop.on_event(got.append)")
    assert kernel.run("sys.modules['dyno._core'].emit()").value == "True"
    time.sleep(0.2)
    assert kernel.run("got").value == "['{\"kind\": \"installed\"}']"


def test_workers_stop_before_the_end(linked, tmp_path):
    kernel = linked()
    kernel.client.shutdown()
    assert kernel.gone_within(5) is not None
    assert (tmp_path / "quiet").read_text() == "quiet"


def test_another_version_is_refused_with_one_sentence(linked):
    kernel = linked(STANDIN_ABI="99")
    cell = kernel.run("1 + 1")
    assert cell.value == "2"
    assert cell.text("stderr").count("dyno._core speaks version 99 of the kernel interface, and this kernel needs version 1") == 1
    assert kernel.run("2").text("stderr") == ""
    assert calls(kernel) == []
