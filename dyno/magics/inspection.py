"""``f?`` on a compiled function: two lines after its docstring.

Input: what IPython's inspector found. Output: the same, with the compiler's lines appended for functions it has entries of.
"""

import json

from dyno import _backend
from dyno.magics.facts import broken_lines, count
from dyno.magics.target import python_code


def lines_for(name, value):
    """The two lines, or nothing where the compiler has nothing of the function."""
    if python_code(value) is None:
        return ""
    report = json.loads(_backend.core.report("explain", value, "{}"))
    entries = report.get("entries", ())
    if not entries:
        return ""
    return f"Compiled: {count(len(entries), 'part')}, {count(len(broken_lines(report)), 'break')}.\nSee %dyno explain {name}"


def attach(shell):
    """Wraps the ``info`` of this shell's inspector."""
    inspector = shell.inspector
    if "info" in vars(inspector):
        return
    original = inspector.info

    def info(obj, oname="", *args, **kwargs):
        found = original(obj, oname, *args, **kwargs)
        added = lines_for(oname, obj)
        if added:
            found["docstring"] = f"{found['docstring']}\n\n{added}" if found.get("docstring") not in (None, "<no docstring>") else added
        return found

    info.added_by_dyno = True
    inspector.info = info


def detach(shell):
    """Gives the inspector its own ``info`` back."""
    if getattr(vars(shell.inspector).get("info"), "added_by_dyno", False):
        del shell.inspector.info
