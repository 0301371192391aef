"""Runs many small items in worker processes so that no item can stop the run.

A suite is a module with a `list_items` function, which names the items, and a `make_runner` function, which returns the function that runs
one. Here is the rest: worker processes, a time limit for each item (the worker is killed and replaced), crashes recorded with the end of
what the worker wrote, and one JSON line for each item as it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import Any, Callable, Iterable

Record = dict[str, Any]
RunItem = Callable[[str], Record]
LOG_TAIL = 1500


class Dead(Exception):
    """The worker ended without answering."""


class Worker:
    """One subprocess that answers an item's name with a JSON record."""

    def __init__(self, argv: list[str], start_limit: float) -> None:
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        self._log = tempfile.TemporaryFile()
        self._pending = b""
        self.process = subprocess.Popen(
            [*argv, "--worker", f"{to_child},{from_child}"],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(to_child, from_child),
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self.answered = 0
        self._line(start_limit)

    def ask(self, item: str, limit: float) -> Record:
        """Run one item; raises TimeoutError or Dead."""
        try:
            os.write(self._write, item.encode() + b"\n")
        except BrokenPipeError:
            raise Dead(self.describe_end()) from None
        self.answered += 1
        return json.loads(self._line(limit))

    def _line(self, limit: float) -> bytes:
        deadline = time.monotonic() + limit
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise Dead(self.describe_end())
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def describe_end(self) -> str:
        """How the process ended, and the end of what it wrote."""
        code = self.process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return f"{how}\n{self.log_tail()}"

    def log_tail(self) -> str:
        """The end of what the process wrote to stdout and stderr."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), LOG_TAIL, max(0, size - LOG_TAIL)).decode(errors="replace")

    def close(self) -> None:
        """Kill the process and its children, and free the pipes."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for fd in (self._read, self._write):
            os.close(fd)
        self._log.close()


class Pool:
    """Feeds items to workers and writes what they answer."""

    def __init__(self, args: argparse.Namespace, items: Iterable[str], argv: list[str]) -> None:
        """`args`: suite, backend, mode, jobs, timeout, start_timeout, recycle, seconds, out."""
        self.args, self.argv = args, argv
        self.todo: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.count, self.told = 0, time.monotonic()
        for item in items:
            self.todo.put(item)
            self.count += 1
        self.deadline = time.monotonic() + args.seconds if args.seconds else float("inf")
        self.lock = threading.Lock()
        self.records: list[Record] = []

    def run(self) -> list[Record]:
        threads = [threading.Thread(target=self._serve) for _ in range(self.args.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.records

    def _next(self) -> str | None:
        if time.monotonic() > self.deadline:
            return None
        try:
            return self.todo.get_nowait()
        except queue.Empty:
            return None

    def _serve(self) -> None:
        worker: Worker | None = None
        while (item := self._next()) is not None:
            if worker and worker.answered >= self.args.recycle:
                worker.close()
                worker = None
            try:
                worker = worker or Worker(self.argv, self.args.start_timeout)
            except (Dead, TimeoutError) as error:
                print(f"a worker did not start: {error}", file=sys.stderr)
                return
            start = time.monotonic()
            try:
                record = worker.ask(item, self.args.timeout)
            except TimeoutError:
                record = {"status": "timeout", "why": f"{worker.log_tail()}\nover {self.args.timeout:g} s"}
            except Dead as error:
                record = {"status": "crash", "why": str(error)}
            if record["status"] in ("timeout", "crash"):
                worker.close()
                worker = None
            self._write(
                {
                    "suite": self.args.suite,
                    "item": item,
                    "backend": self.args.backend,
                    "mode": self.args.mode,
                    **record,
                    "seconds": round(time.monotonic() - start, 3),
                }
            )
        if worker:
            worker.close()

    def _write(self, record: Record) -> None:
        with self.lock:
            self.records.append(record)
            if self.args.out:
                with open(self.args.out, "a") as file:
                    file.write(json.dumps(record) + "\n")
            if record["status"] not in ("pass", "skip"):
                why = (str(record.get("why") or "").strip().splitlines() or [""])[-1]
                print(f"{record['status']:8} {record['item']}  {record.get('kind', '')}: {why[:300]}", flush=True)
            elif time.monotonic() - self.told > 15:
                self.told = time.monotonic()
                print(f"... {len(self.records)} of {self.count}", flush=True)


def serve(run_item: RunItem, fds: str) -> None:
    """The worker's loop: one item's name in, one JSON line out."""
    read_fd, write_fd = (int(part) for part in fds.split(","))
    with os.fdopen(read_fd) as source, os.fdopen(write_fd, "w") as sink:
        print("ready", file=sink, flush=True)
        for line in source:
            try:
                record = run_item(line.rstrip("\n"))
            except BaseException as error:  # SystemExit too: the item must not end the worker
                record = {"status": "error", "why": describe(error)}
            print(json.dumps(record, default=str), file=sink, flush=True)


def describe(error: BaseException, limit: int = 600) -> str:
    """An exception as one short text with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error)[:limit]}{place}"
