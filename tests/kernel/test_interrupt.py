"""Interrupts: every blocking call, by message and by signal, idle, and right after."""

import os
import signal
import time

import pytest

BLOCKING = {
    "loop": "while True: pass",
    "sleep": "import time; time.sleep(1000)",
    "lock": "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "child": "import subprocess; subprocess.run(['sleep', '1000'])",
    "shell escape": "!sleep 1000",
    "await": "import asyncio; await asyncio.sleep(1000)",
    "queue": "import queue; queue.Queue().get()",
    "select": "import select; select.select([], [], [], 1000)",
}


def interrupt(kernel, how):
    if how == "message":
        kernel.manager.interrupt_kernel()
    else:
        os.kill(kernel.pid, signal.SIGINT)


def interrupt_and_wait(kernel, how):
    """The next request must not overtake a message, which comes by another channel."""
    if how != "message":
        return interrupt(kernel, how)
    request = kernel.client.session.msg("interrupt_request", {})
    kernel.client.control_channel.send(request)
    assert kernel.client.get_control_msg(timeout=10)["parent_header"]["msg_id"] == request["header"]["msg_id"]


@pytest.mark.parametrize("how", ["message", "signal"])
@pytest.mark.parametrize("name", BLOCKING)
def test_blocking_call(kernel, name, how):
    cell = kernel.send(BLOCKING[name])
    kernel.until_started(cell)
    time.sleep(0.3)
    started = time.monotonic()
    interrupt(kernel, how)
    kernel.wait(cell, timeout=10)
    assert time.monotonic() - started < 3
    if name != "shell escape":  # the shell reports its status, as IPython has it
        assert cell.error == "KeyboardInterrupt" and cell.reply["content"]["ename"] == "KeyboardInterrupt"
    assert kernel.run("1 + 1").value == "2"


@pytest.mark.parametrize("how", ["message", "signal"])
def test_input(kernel, how):
    cell = kernel.send("input('? ')", allow_stdin=True)
    kernel.client.get_stdin_msg(timeout=10)
    time.sleep(0.2)
    interrupt(kernel, how)
    assert kernel.wait(cell, timeout=10).error == "KeyboardInterrupt"
    assert kernel.run("'next'").value == "'next'"


@pytest.mark.parametrize("how", ["message", "signal"])
def test_idle_kernel_is_not_hurt(kernel, how):
    for _ in range(3):
        interrupt_and_wait(kernel, how)
        time.sleep(0.05)
    cells = [kernel.run("'fine'") for _ in range(5)]
    assert all(cell.value == "'fine'" for cell in cells)
    interrupt_and_wait(kernel, how)
    assert kernel.run("import time; time.sleep(0.1); 'also fine'").value == "'also fine'"


def test_threads_of_a_cell_take_no_interrupt(kernel):
    """They inherit an open SIGINT, and the system may hand a signal for the process to any of them: while no cell runs, Python must not hear of it."""
    kernel.run("import os, signal, threading\nfor _ in range(4): threading.Thread(target=threading.Event().wait, daemon=True).start()")
    kernel.run("told, tell = os.pipe(); os.set_blocking(told, False); os.set_blocking(tell, False); before = signal.set_wakeup_fd(tell)")
    for _ in range(5):
        interrupt(kernel, "signal")
        time.sleep(0.05)
    heard = kernel.run("signal.set_wakeup_fd(before); os.write(tell, b'.'); os.read(told, 100)")
    assert heard.value == "b'.'"
    cell = kernel.send("import time; time.sleep(1000)")
    kernel.until_started(cell)
    time.sleep(0.2)
    interrupt(kernel, "signal")
    assert kernel.wait(cell, timeout=10).error == "KeyboardInterrupt"


def test_traceback_shows_the_line(kernel):
    cell = kernel.send("import time\ndef wait():\n    time.sleep(1000)\nwait()")
    kernel.until_started(cell)
    time.sleep(0.2)
    interrupt(kernel, "message")
    assert "time.sleep(1000)" in kernel.wait(cell).traceback


def test_interrupt_can_be_caught(kernel):
    cell = kernel.send("import time\ntry:\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    print('caught')\n'went on'")
    kernel.until_started(cell)
    time.sleep(0.2)
    interrupt(kernel, "message")
    assert kernel.wait(cell).value == "'went on'" and cell.text() == "caught\n"


def test_background_task_survives_the_interrupt_of_an_awaiting_cell(kernel):
    kernel.run("import asyncio\nalive = []\nasync def beat():\n    while len(alive) < 200:\n        alive.append(1)\n        await asyncio.sleep(0.01)\nbeating = asyncio.create_task(beat())")
    cell = kernel.send("await asyncio.sleep(1000)")
    kernel.until_started(cell)
    time.sleep(0.2)
    interrupt(kernel, "message")
    assert kernel.wait(cell).error == "KeyboardInterrupt"
    assert kernel.run("beating.done()").value == "False"


def test_torch_is_interrupted(kernel):
    pytest.importorskip("torch")
    assert kernel.run("import torch; m = torch.randn(300, 300)", timeout=60).status == "ok"
    cell = kernel.send("while True: n = m @ m")
    kernel.until_started(cell)
    time.sleep(0.3)
    interrupt(kernel, "message")
    assert kernel.wait(cell, timeout=10).error == "KeyboardInterrupt"
