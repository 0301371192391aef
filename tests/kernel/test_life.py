"""Start, restart, end; installing; environments."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from jupyter_client.kernelspec import KernelSpec

from client import build_folder

XDYNO = str(build_folder() / "bin" / "xdyno") if build_folder() else ""


def call(*arguments, **options):
    environment = dict(os.environ, **options.pop("env", {}))
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=environment, **options)


def test_shutdown(start):
    kernel = start()
    kernel.client.shutdown()
    reply = kernel.client.get_control_msg(timeout=5)
    assert reply["msg_type"] == "shutdown_reply" and reply["content"] == {"status": "ok", "restart": False}
    assert kernel.gone_within(5) is not None and kernel.manager.provisioner.process.returncode in (0, None)


def test_shutdown_while_busy(start):
    kernel = start()
    cell = kernel.send("import time\nwhile True: time.sleep(1)")
    kernel.until_started(cell)
    kernel.client.shutdown()
    assert kernel.gone_within(4) is not None


def test_shutdown_of_a_cell_that_swallows_interrupts(start):
    kernel = start()
    cell = kernel.send("import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass")
    kernel.until_started(cell)
    kernel.client.shutdown()
    assert kernel.gone_within(9) is not None


def test_restart(start):
    kernel = start()
    kernel.run("x = 1")
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(timeout=30)
    kernel.run("pass")
    assert kernel.run("'x' in globals()").value == "False"


def test_exit_in_a_cell_ends_the_kernel(start):
    kernel = start()
    cell = kernel.run("exit()")
    assert cell.status == "ok" and cell.reply["content"]["payload"] == [{"source": "ask_exit", "keepkernel": False}]
    assert kernel.gone_within(5) is not None


@pytest.mark.parametrize(
    "code, marks",
    [
        ("import atexit; atexit.register(lambda: open('mark', 'a').write('exit function'))", "exit function"),
        ("class D:\n    def __del__(self): print('late')\nimport sys; sys.keep = D()", ""),
        ("import atexit; atexit.register(print, 'late')", ""),
        ("import threading, time\ndef f():\n    while True: print('x'); time.sleep(0.001)\nthreading.Thread(target=f, daemon=True).start()", ""),
        ("import threading, time\ndef f():\n    time.sleep(1); open('mark', 'a').write('thread')\nthreading.Thread(target=f).start()", "thread"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()", ""),
    ],
)
def test_end_is_clean(start, code, marks):
    """No crash and no hanging, whatever still wants to run; exit functions and threads that end get their time."""
    kernel = start()
    assert kernel.run(code).status == "ok"
    kernel.client.shutdown()
    assert kernel.gone_within(6) is not None
    assert (kernel.folder / "mark").read_text() == marks if marks else True
    assert "Segmentation" not in kernel.log_text and "Traceback" not in kernel.log_text and "Fatal" not in kernel.log_text


def test_kernel_ends_with_its_parent(tmp_path):
    """A server that is killed leaves no kernels behind."""
    script = (
        "import os, sys, time\nsys.path.insert(0, sys.argv[1])\nfrom client import Kernel\n"
        "kernel = Kernel(sys.argv[2])\nprint(kernel.pid, flush=True)\ntime.sleep(1000)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, os.path.dirname(__file__), str(tmp_path)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().split()[2] == "Z":
                    return
        except FileNotFoundError:
            return
        time.sleep(0.1)
    os.kill(pid, 9)
    pytest.fail("the kernel outlived its parent by 10 s")


def test_environment_is_the_installed_one(start):
    kernel = start()
    seen = json.loads(kernel.run("import json, subprocess, sys\nchild = subprocess.run([sys.executable, '-c', 'import sys; print(sys.prefix)'], capture_output=True, text=True).stdout.strip()\nprint(json.dumps([sys.executable, sys.prefix, sys.base_prefix, child]))").text())
    theirs = json.loads(call(sys.executable, "-c", "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.base_prefix, sys.prefix]))").stdout)
    assert seen[1:] == theirs[1:]


def test_module_without_launcher(start):
    spec = KernelSpec(argv=[sys.executable, "-m", "dyno.kernel", "-f", "{connection_file}"], display_name="x", language="python", interrupt_mode="message")
    kernel = start({"PYTHONPATH": str(build_folder() / "python")}, spec=spec)
    kernel.run("pass")
    assert kernel.run("__name__, 6 * 7").value == "('__main__', 42)"
    cell = kernel.send("while True: pass")
    kernel.until_started(cell)
    kernel.manager.interrupt_kernel()
    assert kernel.wait(cell).error == "KeyboardInterrupt"


def test_stray_arguments_are_ignored(start):
    spec = KernelSpec(argv=[XDYNO, "--python", sys.executable, "--ip=127.0.0.1", "--f={connection_file}"], display_name="x", language="python", interrupt_mode="message")
    assert start(spec=spec).run("1").value == "1"


def test_version():
    got = call(XDYNO, "--version")
    assert got.returncode == 0 and got.stdout.startswith("xdyno 0.") and "Python 3." in got.stdout


def test_install_for_a_prefix(tmp_path, start):
    got = call(XDYNO, "--python", sys.executable, "--install", "--prefix", str(tmp_path / "prefix"))
    assert got.returncode == 0, got.stderr
    folder = tmp_path / "prefix" / "share" / "jupyter" / "kernels" / "xdyno"
    assert str(folder) in got.stdout
    assert sorted(os.listdir(folder)) == ["kernel.json", "logo-32x32.png", "logo-64x64.png", "logo-svg.svg"]
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["display_name"] == "Python (compiled)" and spec["language"] == "python" and spec["interrupt_mode"] == "message"
    assert spec["argv"] == [XDYNO, "--python", sys.executable, "-f", "{connection_file}"]
    kernel = start(spec=KernelSpec(**spec))
    assert kernel.run("import sys; sys.prefix").value == repr(sys.prefix)


def test_install_for_the_user(tmp_path):
    got = call(XDYNO, "--python", sys.executable, "--install", "--user", env={"HOME": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path / "data")})
    assert got.returncode == 0 and (tmp_path / "data" / "kernels" / "xdyno" / "kernel.json").exists()


def test_install_where_nothing_can_be_written():
    got = call(XDYNO, "--python", sys.executable, "--install", "--prefix", "/proc/nowhere")
    assert got.returncode == 1 and got.stderr.startswith("xdyno: the kernelspec could not be written") and got.stderr.count("\n") == 1


def test_no_option_at_all():
    got = call(XDYNO)
    assert got.returncode == 2 and "-f CONNECTION_FILE" in got.stderr


def test_foreign_environment_is_refused(tmp_path):
    other = "3.12" if sys.version_info[:2] != (3, 12) else "3.13"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {other}.1\n")
    got = call(XDYNO, "--python", str(tmp_path / "bin" / "python"), "--version")
    mine = "%d.%d" % sys.version_info[:2]
    assert got.returncode == 3 and got.stdout == ""
    assert got.stderr == f"xdyno: this program was built for Python {mine} and cannot run in {tmp_path}/bin/python, which is Python {other}.\n"


def test_python_that_is_not_there():
    got = call(XDYNO, "--python", "/nowhere/bin/python", "--version")
    assert got.returncode == 3 and got.stderr == "xdyno: there is no Python at /nowhere/bin/python (name one with --python).\n"


def another_python():
    """A CPython that runs and has another minor version, or ``None``."""
    from pathlib import Path

    found = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13)] + list(Path.home().glob(".pyenv/versions/*/bin/python"))
    for path in filter(None, found):
        answer = call(str(path), "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        if answer.returncode == 0 and answer.stdout.strip() != "%d.%d" % sys.version_info[:2]:
            return str(path)
    return None


def test_module_in_a_foreign_python_is_refused(tmp_path):
    other = another_python()
    if other is None:
        pytest.skip("no second CPython")
    got = call(other, "-m", "dyno.kernel", "-f", "none", env={"PYTHONPATH": str(build_folder() / "python")}, cwd=tmp_path)
    assert got.returncode == 3 and got.stderr.startswith("xdyno: this kernel was built for cpython-3") and got.stderr.count("\n") == 1
