"""``%dyno why f``: why something was not compiled, not fused or compiled again; first cause first, one suggestion."""

from dyno.magics import facts
from dyno.magics.errors import UsageError
from dyno.magics.page import Page, Say
from dyno.magics.places import place
from dyno.magics.request import describe


def run(request):
    """The result for the request's target, perhaps for one of its lines."""
    return describe(request, "why", page)


def page(report, options):
    """The chain of reasons, for the whole function or for ``options["line"]``."""
    line = options.get("line")
    if line is not None:
        check_line(report["function"], line)
    stop = facts.early(report, "why")
    if stop is not None and report["function"]["state"] != "interpreted":
        return stop
    causes = [row for row in facts.reasons(report) if line is None or row.get("line") == line]
    subject = report["function"]["name"] + ("" if line is None else f", line {line}")
    if not causes:
        return Page(fine(report, subject, line), facts.redefinition(report))
    blocks = list(facts.redefinition(report))
    left_out = [row for row in causes if row["kind"] != "recompiled" or line is not None]
    if left_out:
        blocks.append(facts.reason_table(left_out, "Reasons, first cause first"))
    if line is None:
        blocks.extend(facts.recompile_listing(report))
    hint = next((row["hint"] for row in causes if row.get("hint")), None)
    if hint:
        blocks.append(Say(f"Try this first: {hint}"))
    if stop is not None:
        return Page(stop.title, tuple(blocks))
    if not left_out:
        return Page(f"{subject}: {facts.state_words(report)}; recompiled {facts.count(len(report['recompiles']), 'time')}", tuple(blocks))
    first = left_out[0]
    at = f" (line {first['line']})" if first.get("line") is not None and line is None else ""
    return Page(f"{subject}: {first['kind']}{at}: {first['text']}", tuple(blocks))


def fine(report, subject, line):
    """The sentence where there is nothing to explain."""
    if line is None:
        return f"{subject}: {facts.state_words(report)}; nothing was left out"
    row = next((row for row in report.get("lines", ()) if row["line"] == line), {})
    status = facts.status_cell(row, facts.broken_lines(report)).text
    return f"{subject}: {status or 'no tensor or array work'}; nothing was left out"


def check_line(function, line):
    """Raises for a line outside the function."""
    first, last = function.get("first_line"), function.get("last_line")
    if first is None or last is None or first <= line <= last:
        return
    where = place(function, with_line=False)
    raise UsageError(f"{function['name']} has lines {first}-{last}" + (f" ({where})" if where else ""))
