"""``%%dyno explain``: runs the cell's body as a cell, then explains its lines.

Input: the body's text. Output: one report over the body's code objects. The body's lines keep the numbers that the user sees, since
the magic's own line is replaced by a comment. An exception of the body passes through with the body's traceback alone.
"""

import ast
import dataclasses

from dyno import _backend, _cells
from dyno.magics import explain as line_explain
from dyno.magics.errors import UsageError
from dyno.magics.page import Say
from dyno.magics.request import ask
from dyno.magics.result import Result
from dyno.magics.tracebacks import begin_at_user


def explain(request, body):
    """Runs and explains the cell."""
    shell = request.shell
    codes = compiled(shell, body)
    for code in codes:
        entered(shell, code)
    _backend.core.wait_until_in_place()
    reports = [ask("explain", code, request.options, shell, "this cell") for code in codes]
    report = merged(reports)
    for row in report.get("lines", ()):
        if row["line"] == 1:
            row["text"] = "%%dyno explain"  # what the user reads there
    page = line_explain.page(report, request.options)
    if any(row.get("status") == "interpreted" and not row.get("reason") for row in report.get("lines", ())):
        page = dataclasses.replace(page, blocks=(*page.blocks, Say("What a cell runs once stays interpreted; its loops and the functions it calls are compiled.")))
    return Result(report, page)


def compiled(shell, body):
    """The body as at most two code objects: the statements, and the last expression, which is displayed."""
    source = shell.transform_cell("# %%dyno explain\n" + body)
    name = shell.compile.cache(source, cell_number(shell), raw_code=body)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    if not tree.body:
        raise UsageError("%%dyno explain needs a cell body")
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        codes = [shell.compile(ast.Module(tree.body, []), name, "exec")] if tree.body else []
        codes += [shell.compile(ast.Interactive([last]), name, "single")] if last is not None else []
    if any(code.co_flags & 0x80 for code in codes):  # a coroutine: the body awaits at top level
        raise UsageError("%%dyno explain cannot run a cell that awaits at top level")
    return codes


def cell_number(shell):
    """The number of the running cell. IPython counts up before the cell runs or after it, by version; its display hook knows."""
    return getattr(shell.displayhook, "prompt_count", shell.execution_count)


def entered(shell, code):
    """Runs one code object as a cell of this shell; the traceback that IPython shows begins at the cell."""
    key = _cells.content_key(code)
    try:
        _backend.core.run_cell(code, shell.user_ns, key)
    except Exception as error:
        begin_at_user(shell, error)
        raise


def merged(reports):
    """One report over several code objects of one cell: lines by number, parts and kernels in order."""
    first = reports[0]
    if len(reports) == 1:
        return first
    lines = {}
    for report in reports:
        for row in report.get("lines", ()):
            held = lines.get(row["line"])
            lines[row["line"]] = row if held is None or not held.get("status") else held
    rank = ["compiled", "compiling", "interpreted", "not_called"]
    state = min((report["function"]["state"] for report in reports), key=lambda state: rank.index(state) if state in rank else len(rank))
    function = {**first["function"], "state": state, "first_line": min(lines, default=1), "last_line": max(lines, default=1)}
    joined = {key: [row for report in reports for row in report.get(key, ())] for key in ("entries", "recompiles", "reasons", "callees")}
    return {**first, "function": function, "lines": [lines[number] for number in sorted(lines)], **renumbered(joined, reports, lines)}


def renumbered(joined, reports, lines):
    """Parts get one numbering; kernel numbers of later code objects follow those of earlier ones, also in the lines."""
    entries, shift = [], 0
    for report in reports:
        mine = report.get("entries", ())
        ids = [kernel["id"] for entry in mine for kernel in entry.get("kernels", ())]
        for entry in mine:
            moved = [{**kernel, "id": kernel["id"] + shift} for kernel in entry.get("kernels", ())]
            entries.append({**entry, "id": len(entries), "kernels": moved})
        for row in report.get("lines", ()):
            if shift and lines.get(row["line"]) is row and row.get("kernels"):
                row["kernels"] = [number + shift for number in row["kernels"]]
        shift += max(ids, default=-1) + 1
    return {**joined, "entries": entries}
