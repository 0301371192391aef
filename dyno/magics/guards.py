"""``%dyno guards f``: the conditions of each compiled version, in words."""

from dyno.magics import facts
from dyno.magics.errors import UsageError
from dyno.magics.page import Page, Say, table
from dyno.magics.places import place
from dyno.magics.request import describe


def run(request):
    """The result for the request's target."""
    return describe(request, "guards", page)


def page(report, options):
    """One table for each entry, or for ``options["entry"]``; trivial guards only with ``options["all"]``."""
    stop = facts.early(report, "guards")
    if stop is not None:
        return stop
    entries = chosen(report, options.get("entry"))
    tables = tuple(entry_table(report, entry, options.get("all", False)) for entry in entries)
    hidden = 0 if options.get("all") else sum(bool(guard.get("trivial")) for entry in entries for guard in entry.get("guards", ()))
    note = (
        (Say(f"{facts.count(hidden, 'guard')} on modules, types and names not shown: %dyno guards {report['function']['name']} --all"),)
        if hidden
        else ()
    )
    return Page(facts.title(report), (*facts.redefinition(report), *tables, *note))


def chosen(report, number):
    """All entries, or the one asked for."""
    entries = report["entries"]
    if number is None:
        return entries
    picked = [entry for entry in entries if entry["id"] == number]
    if not picked:
        raise UsageError(facts.having(report["function"]["name"], ("entry", "entries"), [entry["id"] for entry in entries]))
    return picked


def entry_table(report, entry, all_guards):
    """The guards of one entry."""
    head = f"Entry {entry['id']}{facts.owner(entry)}: {entry['state']}, {facts.count(entry.get('hits', 0), 'hit')}"
    if not entry.get("guards"):
        return Say(f"{head}; used whenever its place is reached")
    rows = []
    for guard in entry.get("guards", ()):
        if all_guards or not guard.get("trivial"):
            origin = (
                place({**report["function"], "line": guard.get("line"), **guard.get("at", {})}) if guard.get("line") is not None else ""
            )
            rows.append((guard["text"], guard["kind"], origin))
    return table(head, ("holds if", "kind", "needed by"), rows)
