"""``%dyno``: is it on, what was compiled, what happened last."""

import dyno
from dyno._uncompiled import TOTALS
from dyno.magics import facts
from dyno.magics.page import Cell, Fold, Page, Say, table
from dyno.magics.places import place
from dyno.magics.request import ask
from dyno.magics.result import Result

LAST = 5
MEANINGS = {
    "captures": "parts that were compiled",
    "hits": "runs of compiled parts",
    "graph_breaks": "parts that end at a break",
    "kernels": "generated programs in place",
    "extern_calls": "library calls from compiled parts",
    "recompiles": "parts compiled again for a place that had one",
    "dropped": "parts given up as slower or outdated",
}
EVENTS = {"capture": "compiled", "recompile": "recompiled"}


def run(request):
    """The result for this process."""
    report = ask("status", None, {}, request.shell)
    return Result(report, page(report, request.options))


def page(report, options):
    """State, device, functions, counters, the last events."""
    state = {"on": "on", "off": "off", "unavailable": "everything runs uncompiled"}.get(report["state"], report["state"])
    blocks = [Say(f"Reason: {report['reason']}")] if report.get("reason") else []
    if report.get("device"):
        blocks.append(Say(device_words(report["device"])))
    blocks.append(
        table(
            "Since the start of this process",
            ("counter", "value", "meaning"),
            [(name.replace("_", " "), report.get("totals", {}).get(name, 0), MEANINGS[name]) for name in TOTALS],
            right=("value",),
        )
    )
    if report.get("functions"):
        blocks.extend(function_tables(report["functions"]))
    if report.get("memory"):
        sizes = [(report["memory"].get("code_bytes"), "code"), (report["memory"].get("buffer_bytes"), "buffers")]
        known = [f"{size:,} bytes of {what}" for size, what in sizes if size is not None]
        blocks += [Say(f"Memory: {', '.join(known)}")] if known else []
    events = (report.get("events") or ())[-LAST:]
    if events:
        rows = [(EVENTS.get(event["kind"], event["kind"]), event["text"], place(event) if event.get("line") is not None else "") for event in events]
        blocks.append(table("Last events", ("event", "what", "where"), rows))
    blocks.append(Say("Help: %dyno help"))
    return Page(f"dyno {dyno.__version__}: {state}", tuple(blocks))


def device_words(device):
    """The device in one line."""
    parts = [device.get("cpu") or "CPU"]
    if device.get("threads"):
        parts.append(facts.count(device["threads"], "thread"))
    parts.append(device.get("cuda") or "no CUDA device")
    return "Device: " + ", ".join(parts)


def function_tables(functions):
    """The user's functions and all that is compiled, most hits first; what else was looked at in libraries is folded away."""
    shown = [row for row in functions if row.get("cell") is not None or row["state"] != "interpreted"]
    made = [row for row in functions if row not in shown and str(row.get("file", "")).startswith("<")]  # by exec in libraries
    folded = [row for row in functions if row not in shown and row not in made]
    blocks = [function_table("Functions", shown)] if shown else []
    if folded:
        title = f"{facts.count(len(folded), 'function')} of libraries and files, interpreted"
        blocks.append(Fold(title, (function_table("", sorted(folded, key=lambda row: row["name"])),)))
    return blocks


def function_table(caption, functions):
    """One row for each function."""
    rows = []
    for function in sorted(functions, key=lambda row: -row.get("hits", 0)):
        state = function["state"].replace("_", " ")
        rows.append(
            (
                Cell(function["name"], code=True),
                place({**function, "line": function.get("first_line")}),
                Cell(state, facts.STATES.get(function["state"])),
                function.get("hits", 0),
                function.get("kernels", 0),
                function.get("breaks", 0),
            )
        )
    return table(caption, ("function", "where", "status", "hits", "kernels", "breaks"), rows, right=("hits", "kernels", "breaks"))
