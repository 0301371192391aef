"""Names places as the user knows them: ``In [4], line 3``, or the file's name.

Input: reports with file names, a shell that knows which cell made which file. Output: the same report with cell numbers and source
texts filled in. Nothing here decides anything about compiling.
"""

import linecache
import os


def cell_numbers(shell):
    """File name -> execution count, for the cells that this shell ran."""
    return getattr(getattr(shell, "compile", None), "_filename_map", None) or {}


def place(spot, with_line=True):
    """A dict with ``cell`` or ``file`` and ``line`` in words."""
    line = spot.get("line", spot.get("first_line"))
    if spot.get("cell") is not None:
        owner = f"In [{spot['cell']}]"
    elif spot.get("file"):
        owner = os.path.basename(spot["file"])
    else:
        return f"line {line}" if with_line and line is not None else ""
    return f"{owner}, line {line}" if with_line and line is not None else owner


def headline(function):
    """``f (In [4], line 1)``."""
    where = place({**function, "line": function.get("first_line")})
    return f"{function['name']} ({where})" if where else function["name"]


def with_places(report, shell, name=None):
    """The report with cell numbers, source texts, and the name as the user typed it."""
    numbers = cell_numbers(shell)
    report = numbered(report, numbers)
    function = report.get("function")
    if function is not None:
        if name is not None:
            function["name"] = name
        for row in report.get("lines", ()):
            if row.get("text") is None:
                row["text"] = source_line({**function, **row})
        for again in report.get("recompiles", ()):
            if again.get("text") is None and again.get("line", again.get("at", {}).get("line")) is not None:
                again["text"] = source_line({**function, **again, **again.get("at", {})}).strip()
    return report


def source_line(spot):
    """The text of a place's line, or nothing where it cannot be had."""
    return linecache.getline(spot.get("file") or "", spot["line"]).rstrip("\n")


def numbered(value, numbers):
    """A copy in which every dict with a known ``file`` also has its ``cell``; empty fields are left out, so that readers test once."""
    if isinstance(value, list):
        return [numbered(item, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    made = {key: numbered(item, numbers) for key, item in value.items() if item is not None}
    if made.get("cell") is None and made.get("file") in numbers:
        made["cell"] = numbers[made["file"]]
    return made
