"""``%dyno explain f``: the source, line by line, with what became of each line."""

import itertools

from dyno.magics import facts, guards, layers, target
from dyno.magics.page import Cell, Chips, Fold, Page, Say, table
from dyno.magics.request import ask, describe

LONG, QUIET = 40, 4  # lines from which a function is shortened; lines in a row that are left as they are
GLOSSARY = (
    "fused Kn: in generated kernel n. compiled: replayed without the interpreter. break: a boundary between two compiled parts. "
    "interpreted: plain Python."
)


def run(request):
    """The result for the request's target; a torch module also has its layers."""
    result = describe(request, "explain", page)
    module = target.plain(request.target.function)
    if layers.is_module(module) and result.report["function"]["state"] != "not_called":
        own = layers.forward_of(module)
        if own.__code__ is not target.python_code(module):
            result.report = ask("explain", own, {}, request.shell, request.target.name)
        result.report["layers"] = layers.rows(module, lambda forward: ask("explain", forward, {}, request.shell))
        result.page = page(result.report, request.options)
    return result


def page(report, options):
    """Lines, breaks with hints, recompiles; with ``verbose`` also the guards and the fusion's refusals."""
    stop = facts.early(report, "explain")
    if stop is not None and (report["function"]["state"] == "not_called" or not report.get("lines")):
        return stop
    breaks = facts.broken_lines(report)
    because = (Say(stop.title),) if stop is not None else facts.switched_off(report)
    blocks = [*facts.redefinition(report), Chips(chips(report)), *because, line_table(report, breaks, bool(options.get("verbose")))]
    if breaks:
        blocks.append(break_table(breaks))
    if report["function"].get("note"):
        blocks.append(Say(report["function"]["note"]))
    if report.get("layers"):
        blocks.append(layer_table(report))
    if report.get("callees"):
        blocks.append(callee_table(report))
    blocks.extend(Say(f"part {entry['id']} was dropped: {entry['drop_reason']}") for entry in report["entries"] if entry.get("drop_reason"))
    blocks.extend(facts.recompile_listing(report))
    if options.get("verbose"):
        blocks.extend(details(report))
    return Page(facts.title(report), tuple(blocks))


def chips(report):
    """The summary in a few short facts."""
    function = report["function"]
    items = [(function["state"].replace("_", " "), facts.STATES.get(function["state"]))]
    entries = report.get("entries", ())
    if entries:
        hits = sum(entry.get("hits", 0) for entry in entries)
        items += [
            (facts.count(len(entries), "compiled part"), None),
            (facts.count(len(facts.kernels(report)), "kernel"), None),
            (facts.count(hits, "hit"), None),
        ]
    if entries or facts.broken_lines(report):
        items.append((facts.count(len(facts.broken_lines(report)), "break"), None))
    return tuple(items)


def line_table(report, breaks, whole=True):
    """One row for each source line. In a long function that is not shown ``whole``, runs of lines on which nothing happens are cut."""
    rows = []
    for row in report["lines"] if whole or len(report["lines"]) <= LONG else shortened(report["lines"]):
        status = facts.status_cell(row, breaks)
        rows.append(
            (
                Cell(str(row["line"])),
                Cell(row.get("text") or "", status.tone, code=True),
                status,
                row.get("note") or row.get("reason") or "",
            )
        )
    return table(f"Source of {facts.headline(report['function'])}", ("line", "source", "status", "note"), rows, right=("line",))


def shortened(lines):
    """The lines with each longer run of quiet ones replaced by one row that counts them."""
    made = []
    for quiet, run in itertools.groupby(lines, key=lambda row: not row.get("status")):
        run = list(run)
        if quiet and len(run) > QUIET:
            made.append({"line": f"{run[0]['line']}-{run[-1]['line']}", "text": f"... {facts.count(len(run), 'line')}"})
        else:
            made.extend(run)
    return made


def break_table(breaks):
    """One row for each line with a break."""
    rows = [(f"B{number}", row["line"], row.get("reason") or "", row.get("hint") or "") for number, row in enumerate(breaks, start=1)]
    return table(
        "Breaks: where one compiled part ends and the next begins", ("break", "line", "reason", "what helps"), rows, right=("line",)
    )


def callee_table(report):
    """Functions that were called from this one."""
    rows = [
        (Cell(callee["name"], code=True), facts.place(callee), callee["state"].replace("_", " "), callee.get("reason") or "")
        for callee in report["callees"]
    ]
    return table("Functions called", ("function", "where", "status", "reason"), rows)


def layer_table(report):
    """The kinds of layers below a torch module."""
    rows = []
    for layer in report["layers"]:
        state = Cell(layer["state"].replace("_", " "), facts.STATES.get(layer["state"]))
        note = layer.get("reason") or ("with library calls" if layer.get("library_calls") else "")
        rows.append((Cell(layers.span(layer["paths"]), code=True), layer["class"], state, layer["kernels"], layer["breaks"], note))
    return table(
        "Layers, one row for each kind", ("layer", "class", "status", "kernels", "breaks", "note"), rows, right=("kernels", "breaks")
    )


def details(report):
    """What ``-v`` adds."""
    blocks = [guards.entry_table(report, entry, all_guards=True) for entry in report.get("entries", ())]
    missed = [
        (f"K{kernel['id']}", miss.get("line") or "", miss["reason"])
        for kernel in facts.kernels(report)
        for miss in kernel.get("not_fused", ())
    ]
    if missed:
        blocks.append(table("Not fused", ("kernel", "line", "reason"), missed, right=("line",)))
    return [Fold("Guards and fusion", tuple(blocks)), Say(GLOSSARY)] if blocks else [Say(GLOSSARY)]
