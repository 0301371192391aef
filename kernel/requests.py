"""The answers to requests: what ``_kernel`` calls, by name, on the main thread.

Input: plain values from xeus's core. Output: JSON text with the reply's content. It must not raise for anything a client may send.
"""

import builtins
import inspect as inspection
import keyword
import re
import sys
import types

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

from . import comms, loop, messages, notices

shell = None  # set by start.py
cells = None  # set by start.py

set_parent = messages.set_parent
serve = loop.serve


def execute(content, metadata):
    """A cell; its reply is sent by the cell runner."""
    cells.execute(content, metadata)


def comm(kind, header, content, metadata, buffers):
    """A comm message. The reply's content for requests, else ``None``."""
    if kind == "comm_info_request":
        return messages.to_json(comms.info(content.get("target_name")))
    cells.interruptible(comms.receive, kind, header, content, metadata, buffers)
    return None


# ---- completion

VAGUE = (None, "", "<unknown>", "attribute")  # what IPython says where it has not looked

_QUALIFIED = re.compile(r"(?:[^\W\d]\w*)?(?:\.[^\W\d]\w*)*\.(?=\w*$)")
_OWNER = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)\.\w*$")


def _find(code, cursor):
    """Live objects first: their attributes are right and found in milliseconds; jedi, which takes seconds when cold, if nothing fits."""
    completer = shell.Completer
    wants_jedi = completer.use_jedi
    with provisionalcompleter():
        completer.use_jedi = False
        try:
            found = list(rectify_completions(code, completer.completions(code, cursor)))
        finally:
            completer.use_jedi = wants_jedi
        if not found and wants_jedi:
            found = list(rectify_completions(code, completer.completions(code, cursor)))
    return found


def _owner_of(code, cursor):
    """The object before the last dot, if it is reached by plain names; runs no properties."""
    match = _OWNER.search(code[:cursor])
    if match is None:
        return None
    first, *rest = match.group(1).split(".")
    owner = shell.user_ns.get(first)
    for name in rest:
        owner = inspection.getattr_static(owner, name, None)
    return owner


def _kind_of(text, owner):
    """The word by which front ends choose an icon."""
    name = text.rpartition(".")[2].strip("%=(")
    if text.startswith("%"):
        return "magic"
    if text.endswith("="):
        return "param"
    if "/" in text:
        return "path"
    if owner is None and keyword.iskeyword(text):
        return "keyword"
    missing = object()
    if owner is not None:
        value = inspection.getattr_static(owner, name, missing)
    else:
        value = shell.user_ns.get(name, getattr(builtins, name, missing))
    if value is missing:
        return "<unknown>"
    if isinstance(value, (staticmethod, classmethod)):
        return "function"
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    if isinstance(value, property):
        return "property"
    return "function" if callable(value) else "instance"


def _names_only(found, code, cursor):
    """The matches as (start, end, text, ...) without the owner that IPython repeats: ".relu" or "torch.relu" becomes "relu"."""
    owner = _QUALIFIED.match(code[found[0].start : cursor]) if found else None
    prefix = owner.group() if owner else ""
    cut = len(prefix) if prefix and all(item.text.startswith(prefix) for item in found) else 0
    return [(item.start + cut, item.end, item.text[cut:], item) for item in found]


def complete(code, cursor):
    """What could stand at the cursor, with the kind and place of each for ``_jupyter_types_experimental``."""
    cursor = len(code) if cursor is None or cursor < 0 else cursor
    found = _names_only(_find(code, cursor), code, cursor)
    owner = _owner_of(code, cursor)
    typed = [
        {
            "start": start,
            "end": end,
            "text": text,
            "type": _kind_of(text, owner) if item.type in VAGUE else item.type,
            "signature": getattr(item, "signature", ""),
        }
        for start, end, text, item in found
    ]
    start, end = found[0][:2] if found else (cursor, cursor)
    return messages.to_json(
        {
            "status": "ok",
            "matches": [text for _, _, text, _ in found],
            "cursor_start": start,
            "cursor_end": end,
            "metadata": {"_jupyter_types_experimental": typed},
        }
    )


# ---- inspection, completeness, description


def inspect(code, cursor, detail):
    """The documentation of the name at the cursor."""
    try:
        data = shell.object_inspect_mime(token_at_cursor(code, cursor), detail_level=detail)
    except KeyError:
        data = {}
    return messages.to_json({"status": "ok", "found": bool(data), "data": data, "metadata": {}})


def is_complete(code):
    """Whether Enter should run the code or go on to the next line."""
    status, indent = shell.input_transformer_manager.check_complete(code)
    reply = {"status": status}
    if status == "incomplete":
        reply["indent"] = " " * (indent or 0)
    return messages.to_json(reply)


def kernel_info():
    """Who we are."""
    from . import _kernel

    version = sys.version_info
    banner = [f"Python (compiled) {_kernel.version}, Python {sys.version.split()[0]}", *notices.said()]
    return messages.to_json(
        {
            "status": "ok",
            "implementation": "xdyno",
            "implementation_version": _kernel.version,
            "banner": "\n".join(banner),
            "debugger": False,
            "supported_features": [],
            "help_links": [],
            "language_info": {
                "name": "python",
                "version": "%d.%d.%d" % version[:3],
                "mimetype": "text/x-python",
                "codemirror_mode": {"name": "ipython", "version": version[0]},
                "pygments_lexer": f"ipython{version[0]}",
                "nbconvert_exporter": "python",
                "file_extension": ".py",
            },
        }
    )


# ---- history


def _history(rows):
    # IPython calls the running session 0 in ranges and by its number elsewhere; clients may compare the two
    session = shell.history_manager.session_number
    return messages.to_json({"status": "ok", "history": [[row[0] or session, *row[1:]] for row in rows]})


def _written():
    manager = shell.history_manager
    manager.writeout_cache()
    return manager


def history_tail(count, raw, output):
    """The last lines, of this and earlier sessions."""
    return _history(_written().get_tail(count, raw=raw, output=output, include_latest=True))


def history_range(session, start, stop, raw, output):
    """Lines of one session."""
    return _history(_written().get_range(session, start, stop, raw=raw, output=output))


def history_search(pattern, raw, output, count, unique):
    """Lines that match a glob pattern."""
    return _history(_written().search(pattern, raw=raw, output=output, n=count if count and count > 0 else None, unique=unique))
