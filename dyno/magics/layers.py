"""The layers of a torch module, as rows beside the report of the module itself.

Input: a module. Output: one row for each distinct ``forward`` below it, with the places where it is used and what became of its lines.
It only reads the module tree; no parameter is touched.
"""

import inspect
import sys

from dyno.magics import facts
from dyno.magics.target import python_code

MOST_KINDS = 40


def is_module(value):
    """Whether this is a torch module; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def forward_of(module):
    """The function with the model's own lines: what a library's decorators wrap around ``forward`` says nothing about the model."""
    forward = getattr(module, "forward", module)
    return inspect.unwrap(getattr(forward, "__func__", forward))


def kinds(module):
    """Layers with one ``forward`` together: (code, class name, first module, paths), in the order of the tree, the root left out."""
    found = {}
    for path, layer in module.named_modules():
        code = python_code(forward_of(layer))
        if path and code is not None and code.co_name != "_forward_unimplemented":
            found.setdefault((code, type(layer).__name__), (layer, []))[1].append(path)
    return [(code, name, layer, paths) for (code, name), (layer, paths) in found.items()]


def rows(module, report_of):
    """One dict for each kind of layer. ``report_of(forward)`` gives the report of one layer's ``forward``."""
    made = []
    for _, name, layer, paths in kinds(module)[:MOST_KINDS]:
        report = report_of(forward_of(layer))
        function = report["function"]
        lines = report.get("lines", ())
        numbers = {number for row in lines for number in row.get("kernels", ())} | {kernel["id"] for kernel in facts.kernels(report)}
        words = {row["status"] for row in lines if row.get("status")}
        made.append(
            {
                "paths": paths,
                "class": name,
                "state": function["state"],
                "kernels": len(numbers),
                "breaks": sum(row.get("status") == "break" for row in lines),
                "library_calls": "extern" in words,
                "reason": function.get("reason") or function.get("note"),
            }
        )
    return made


def span(paths):
    """``h.0 ... h.11 (12)``, or the paths themselves."""
    return ", ".join(paths) if len(paths) <= 2 else f"{paths[0]} ... {paths[-1]} ({len(paths)})"
