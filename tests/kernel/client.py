"""A kernel of the build tree and a client of it, for tests.

Input: the build folder (DYNO_BUILD, or the newest one below build/). Output: running kernels whose messages are recorded whole.
"""

import contextlib
import os
import queue
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]


def build_folder():
    """The build tree under test."""
    named = os.environ.get("DYNO_BUILD")
    found = [Path(named)] if named else sorted(ROOT.glob("build/*/"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in found:
        if (folder / "bin" / "xdyno").exists():
            return folder.resolve()
    return None


@dataclass
class Cell:
    """Everything a request brought back."""

    id: str
    reply: dict = None
    messages: list = field(default_factory=list)
    idle: bool = False
    seconds: float = 0.0

    def of(self, kind):
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    def text(self, name="stdout"):
        return "".join(content["text"] for content in self.of("stream") if content["name"] == name)

    @property
    def status(self):
        return self.reply["content"]["status"] if self.reply else None

    @property
    def value(self):
        results = self.of("execute_result")
        return results[-1]["data"]["text/plain"] if results else None

    @property
    def error(self):
        errors = self.of("error")
        return errors[-1]["ename"] if errors else None

    @property
    def traceback(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(self.of("error")[-1]["traceback"]))


class Kernel:
    """One kernel process and one client."""

    def __init__(self, folder, environment=None, name="xdyno", spec=None, wait=True):
        self.folder = Path(folder)
        self.log = open(self.folder / "kernel.log", "ab")
        self.environment = {**os.environ, "IPYTHONDIR": str(self.folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(self.folder), **(environment or {})}
        build = build_folder()
        specs = KernelSpecManager(kernel_dirs=[str(build / "share" / "jupyter" / "kernels")])
        self.manager = KernelManager(kernel_name=name, kernel_spec_manager=specs, connection_file=str(self.folder / "connection.json"))
        if spec is not None:
            self.manager._kernel_spec = spec
        started = time.monotonic()
        self.manager.start_kernel(env=self.environment, stdout=self.log, stderr=self.log, cwd=str(self.folder))
        self.client = self.manager.client()
        self.client.start_channels()
        if wait:
            self.client.wait_for_ready(timeout=60)
        self.start_seconds = time.monotonic() - started

    @property
    def pid(self):
        return self.manager.provisioner.process.pid

    @property
    def log_text(self):
        return (self.folder / "kernel.log").read_text(errors="replace")

    def another_client(self):
        """A client with an identity of its own."""
        client = BlockingKernelClient()
        client.load_connection_file(self.manager.connection_file)
        client.start_channels()
        client.wait_for_ready(timeout=30)
        return client

    def send(self, code, **options):
        options.setdefault("allow_stdin", False)
        return Cell(self.client.execute(code, **options))

    def wait(self, *cells, timeout=30, answer=None):
        """Receives until every cell has its reply and its idle."""
        open_cells = {cell.id: cell for cell in cells}
        started = time.monotonic()
        while time.monotonic() - started < timeout:
            if all(cell.idle and cell.reply for cell in cells):
                return cells[0] if len(cells) == 1 else cells
            if answer is not None:
                with contextlib.suppress(queue.Empty):
                    answer(self.client.get_stdin_msg(timeout=0.01))
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.02)
                cell = open_cells.get(message["parent_header"].get("msg_id"))
                if cell is not None:
                    cell.messages.append(message)
                    cell.idle |= message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
            with contextlib.suppress(queue.Empty):
                message = self.client.get_shell_msg(timeout=0.001)
                cell = open_cells.get(message["parent_header"].get("msg_id"))
                if cell is not None:
                    cell.reply = message
                    cell.seconds = time.monotonic() - started
        missing = [(cell.id, cell.status, cell.idle) for cell in cells]
        raise TimeoutError(f"no reply and idle after {timeout} s: {missing}\n{self.log_text[-2000:]}")

    def run(self, code, timeout=30, answer=None, **options):
        return self.wait(self.send(code, **options), timeout=timeout, answer=answer)

    def request(self, message_id, timeout=15):
        """The reply's content of another request."""
        started = time.monotonic()
        while time.monotonic() - started < timeout:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_shell_msg(timeout=0.2)
                if message["parent_header"].get("msg_id") == message_id:
                    return message["content"]
        raise TimeoutError(f"no reply to {message_id}")

    def until_started(self, cell, timeout=10):
        """Waits until the kernel has said that the cell runs."""
        started = time.monotonic()
        while time.monotonic() - started < timeout:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.1)
                if message["parent_header"].get("msg_id") == cell.id:
                    cell.messages.append(message)
                    if message["msg_type"] == "execute_input":
                        return
        raise TimeoutError("the cell did not start")

    def gone_within(self, seconds):
        """Seconds until the process has ended, or None."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            if not self.manager.is_alive():
                return time.monotonic() - started
            time.sleep(0.02)
        return None

    def close(self):
        self.client.stop_channels()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=True)
        self.log.close()
