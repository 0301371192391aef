"""Executes notebooks/tour.ipynb through the real kernel and prints what a reader of the notebook would see, as text.

The last line is `tour: cells=N failed=N captured=N kernels=N breaks=N`: code cells executed, cells that raised (and
were not tagged to), functions and cells with a hit, kernels made and graph breaks, the last three asked of the kernel.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOUR = ROOT / "notebooks/tour.ipynb"
DISPLAY_NAME = "Python (compiled)"
CELL_LIMIT = 300
QUESTION = "__import__('json').dumps(__import__('dyno').stats(), default=str)"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def fail(sentence: str) -> int:
    print(f"tour: {sentence}", file=sys.stderr)
    return 1


def kernel_name() -> str | None:
    """The installed kernelspec with our display name, this prefix first."""
    from jupyter_client.kernelspec import KernelSpecManager

    specs = KernelSpecManager().get_all_specs()
    ours = [name for name, spec in specs.items() if spec["spec"]["display_name"] == DISPLAY_NAME]
    here = [name for name in ours if specs[name]["resource_dir"].startswith(sys.prefix)]
    return next(iter(here or ours), None)


def text_of(output: Any) -> str:
    """One output as a terminal would show it."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback) + "\n"
    bundle = output.get("data", {})
    pictures = [kind for kind in bundle if kind.startswith("image/")]
    plain = bundle.get("text/plain", "")
    return f"{plain}{'  [' + ', '.join(pictures) + ']' if pictures else ''}\n"


def show(number: int, cell: Any) -> None:
    print(f"\nIn [{number}]:\n" + "\n".join("    " + line for line in cell.source.splitlines()))
    for output in cell.outputs:
        print(ANSI.sub("", text_of(output)), end="")
    sys.stdout.flush()


def failed(cell: Any) -> bool:
    """Whether a cell raised though it is not tagged to."""
    if "raises-exception" in cell.metadata.get("tags", []):
        return False
    return any(output.output_type == "error" for output in cell.outputs)


def captured(stats: dict[str, Any]) -> int:
    """Functions and cells of which a call was answered by compiled code."""
    rows = stats.get("by_function", {})
    rows = rows.values() if isinstance(rows, dict) else rows
    return sum(bool(row.get("hits")) for row in rows)


def main() -> int:
    import nbformat
    from nbclient import NotebookClient

    if not TOUR.exists():
        return fail(f"{TOUR.relative_to(ROOT)} is missing.")
    name = kernel_name()
    if name is None:
        return fail(f'no kernelspec "{DISPLAY_NAME}" is installed; run `make setup`.')
    notebook = nbformat.read(TOUR, 4)
    client = NotebookClient(
        notebook, timeout=CELL_LIMIT, kernel_name=name, allow_errors=True, resources={"metadata": {"path": str(TOUR.parent)}}
    )
    start, count, bad = time.monotonic(), 0, 0
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type == "markdown":
                print("\n" + cell.source)
            elif cell.cell_type == "code" and cell.source.strip():
                client.execute_cell(cell, index)
                count += 1
                bad += failed(cell)
                show(count, cell)
        stats = closing_question(client)
    print(f"\nkernel {name}, {time.monotonic() - start:.0f} s")
    print(f"tour: cells={count} failed={bad} captured={captured(stats)} kernels={stats['kernels']} breaks={stats['graph_breaks']}")
    return min(1, bad)


def closing_question(client: Any) -> dict[str, Any]:
    """The kernel's own counters, asked over a client of its own since nbclient's is asynchronous."""
    from jupyter_client import BlockingKernelClient

    asking = BlockingKernelClient()
    asking.load_connection_info(client.km.get_connection_info())
    asking.start_channels()
    try:
        asking.wait_for_ready(timeout=60)
        reply = asking.execute_interactive("", silent=True, user_expressions={"stats": QUESTION}, timeout=120)
    finally:
        asking.stop_channels()
    answer = reply["content"]["user_expressions"]["stats"]
    if answer.get("status") != "ok":
        raise RuntimeError(f"the kernel has no counters: {answer.get('evalue')}")
    return json.loads(ast.literal_eval(answer["data"]["text/plain"]))


if __name__ == "__main__":
    sys.exit(main())
