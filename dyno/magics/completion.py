"""Completion of ``%dyno`` and ``%%dyno`` lines.

Input: the line up to the cursor and the user's names. Output: candidates with a kind and one line of meaning: commands, then
functions (known to the compiler first), then attributes, then options and their values, then the lines of ``f:`` with a break.
"""

import json
from dataclasses import dataclass

from dyno import _backend
from dyno.magics.target import python_code
from dyno.magics.table import BY_NAME, COMMANDS


@dataclass(frozen=True)
class Candidate:
    """``text`` replaces the word at the cursor."""

    text: str
    kind: str
    meaning: str = ""


def candidates(line, namespace):
    """What may stand at the end of ``line``, which starts with ``%dyno`` or ``%%dyno``; in order of use."""
    magic, _, rest = line.lstrip().partition(" ")
    cell = magic.startswith("%%")
    parts = rest.split()
    word = "" if not rest or rest[-1].isspace() else parts[-1]
    before = parts if not word else parts[:-1]
    if not before:
        return starting(word, [Candidate(row.name, "magic", row.meaning) for row in COMMANDS if row.cell or not cell])
    command = BY_NAME.get(before[0])
    if command is None:
        return []
    rows = command.all_options()
    pending = next((row for row in rows if before[-1] in (row.name, row.short) and row.value), None)
    if pending is not None:
        choices = pending.choices or (("eager", "torch", "numpy") if pending.many else ())
        return starting(word, [Candidate(choice, "value") for choice in choices])
    if word.startswith("-"):
        return starting(word, option_candidates(rows, before))
    if command.takes == "words":
        return starting(word, [Candidate(name, "topic") for name in (*BY_NAME, "words")])
    if cell or command.takes == "nothing":
        return option_candidates(rows, before) if not word else []
    if command.line and ":" in word:
        return break_lines(word, namespace)
    if "." in word:
        return attributes(word, namespace)
    names = starting(word, functions(namespace))
    return names if word else names + option_candidates(rows, before)


def starting(word, found):
    """Those that start with what is typed."""
    return [candidate for candidate in found if candidate.text.startswith(word)]


def option_candidates(rows, before):
    """Options that are not on the line yet."""
    return [Candidate(row.name, "option", row.meaning) for row in rows if row.name not in before and row.short not in before]


def functions(namespace):
    """The user's functions: those the compiler knows, the latest cell first, then the others by name."""
    known = {}
    for function in json.loads(_backend.core.report("status", None, "{}")).get("functions", ()):
        known[function["name"]] = function.get("cell") or 0
    names = sorted(name for name, value in namespace.items() if not name.startswith("_") and python_code(value) is not None)
    names.sort(key=lambda name: (name not in known, -known.get(name, 0)))
    return [Candidate(name, "function", "known to the compiler" if name in known else "") for name in names]


def own_names(shell):
    """The user's names without those that IPython itself put among them."""
    hidden = getattr(shell, "user_ns_hidden", {})
    return {name: value for name, value in shell.user_ns.items() if name not in hidden or hidden[name] is not value}


def attributes(word, namespace):
    """Attributes of a dotted name that have Python code; nothing is called or computed to find them."""
    owner, _, last = word.rpartition(".")
    names = owner.split(".")
    if names[0] not in namespace:
        return []
    value = namespace[names[0]]
    for name in names[1:]:
        value = getattr(value, "__dict__", {}).get(name)
    found = sorted(
        name for name in dir(value) if not name.startswith("_") and name.startswith(last) and python_code(stored(value, name)) is not None
    )
    children = getattr(value, "_modules", None)
    found += sorted(name for name in children or () if name.startswith(last))
    return [Candidate(f"{owner}.{name}", "function") for name in found]


def stored(value, name):
    """What is stored under a name, with no descriptor run."""
    for holder in (value, *type(value).__mro__, *(value.__mro__ if isinstance(value, type) else ())):
        if name in getattr(holder, "__dict__", {}):
            return holder.__dict__[name]
    return None


def break_lines(word, namespace):
    """``f:`` with the lines that have a break."""
    name, _, typed = word.partition(":")
    if python_code(namespace.get(name)) is None:
        return []
    report = json.loads(_backend.core.report("explain", namespace[name], "{}"))
    rows = [row for row in report.get("lines", ()) if row.get("status") == "break"]
    return [Candidate(f"{name}:{row['line']}", "line", row.get("reason") or "") for row in rows if str(row["line"]).startswith(typed)]


def hook(completer, event):
    """IPython's ``complete_command`` hook: texts that continue the completer's own word, whose start it decides."""
    shell = getattr(completer, "shell", completer)
    typed = event.text_until_cursor if hasattr(event, "text_until_cursor") else event.line
    found = candidates(typed, own_names(shell))
    whole = typed.split()[-1] if typed and not typed[-1].isspace() else ""
    offset = len(whole) - len(event.symbol) if whole.endswith(event.symbol) else 0
    return [candidate.text[offset:] for candidate in found]
