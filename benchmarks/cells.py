"""Code typed straight into cells, in our kernel and in ipykernel, cell by cell in turn.

A power iteration must be compiled while it runs; fib and a dict-heavy loop have nothing to compile and must not get slower.
"""

from __future__ import annotations

import json
import time
from typing import Any, Iterator

import timing

ROUNDS = 20
POWER_SETUP = """
import torch, time, json
torch.set_num_threads(1)
a = torch.randn(300, 300, generator=torch.Generator().manual_seed(0)); a = a @ a.T
x = torch.ones(300)
marks = []
"""
# The clock is read every hundred turns, outside the inner loop, so that both halves can be compared and no turn is disturbed.
POWER = """
for hundred in range(20):
    marks.append(time.perf_counter())
    for turn in range(100):
        y = a @ x
        y = y * 0.5 + x * 1e-3
        x = y / (y * y).sum().sqrt()
marks.append(time.perf_counter())
"""
POWER_READ = "print(json.dumps(marks))"
HITS = """
try:
    import dyno, json; print(json.dumps(dyno.stats(wait=False)["hits"]))
except ImportError:
    print("null")
"""
SETUP = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
words = [f"w{i % 997}" for i in range(120_000)]
"""
CELLS = {
    "fib(24)": "r = fib(24)",
    "dict loop": "counts = {}\nfor w in words:\n    counts[w] = counts.get(w, 0) + len(w)\nr = sorted(counts)[0]",
}


class Kernel:
    """A running kernel and a client that executes cells in it."""

    def __init__(self, name: str) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name=name, startup_timeout=120)

    def run(self, code: str) -> tuple[float, str]:
        """Seconds from request to idle, and the printed text."""
        printed: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        start = time.perf_counter()
        reply = self.client.execute_interactive(code, output_hook=hook, timeout=600)["content"]
        taken = time.perf_counter() - start
        if reply["status"] != "ok":
            raise RuntimeError(f"{reply.get('ename')}: {reply.get('evalue')}")
        return taken, "".join(printed)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def our_kernel() -> str | None:
    """The kernelspec's name of "Python (compiled)"."""
    from jupyter_client.kernelspec import KernelSpecManager

    specs = KernelSpecManager().get_all_specs()
    return next((name for name, spec in specs.items() if spec["spec"]["display_name"] == "Python (compiled)"), None)


def power_iteration(kernel: Kernel, name: str) -> dict[str, Any]:
    """Times of both halves, and whether hits rose before the cell ended."""
    kernel.run(POWER_SETUP)
    before = json.loads(kernel.run(HITS)[1] or "null")
    taken, _ = kernel.run(POWER)
    after = json.loads(kernel.run(HITS)[1] or "null")
    marks = json.loads(kernel.run(POWER_READ)[1])
    middle = len(marks) // 2
    halves = marks[middle] - marks[0], marks[-1] - marks[middle]
    return {"case": "power iteration of 2,000 turns in a cell", "contestant": name, "seconds": round(taken, 4),
            "first_half_ms": round(halves[0] * 1e3, 2), "second_half_ms": round(halves[1] * 1e3, 2),
            "hits_in_cell": after - before if isinstance(before, int) and isinstance(after, int) else None}  # fmt: skip


def run(rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """Rows of all cell cases."""
    ours = our_kernel()
    names = {"ipykernel": "python3", **({"dyno": ours} if ours else {})}
    if not ours:
        yield {"case": "cells", "skipped": 'no kernelspec "Python (compiled)" is installed'}
    kernels = {name: Kernel(spec) for name, spec in names.items()}
    try:
        for kernel in kernels.values():
            kernel.run(SETUP)
        for case, code in CELLS.items():
            calls = {name: (lambda kernel=kernel: kernel.run(code)) for name, kernel in kernels.items()}
            for call in calls.values():
                call()  # "from the second call on"
            for row in timing.compared(timing.interleave(calls, rounds), "ipykernel"):
                yield {"case": f"{case} in a cell", **row}
        for name, kernel in kernels.items():
            yield power_iteration(kernel, name)
    finally:
        for kernel in kernels.values():
            kernel.close()
