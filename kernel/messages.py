"""Messages from Python to the front end, each with the right parent.

Input: type and content of a message, from any thread or task. Output: a signed message on iopub. The parent is the request in whose
cell the writing code was started: tasks inherit it by context, threads by the record made when they start.
It must not format anything for people.
"""

import base64
import contextvars
import functools
import json
import math
import os
import threading

from . import _kernel

_parent = contextvars.ContextVar("dyno_kernel_parent")
_latest = "{}"
_in_child = False  # a forked child has the sockets but not the threads behind them


def set_parent(header):
    """Makes this request (its header as JSON text) the parent of what the current context publishes."""
    global _latest
    _latest = header
    _parent.set(header)


def parent():
    """The header, as JSON text, of the request to which output of the calling code belongs."""
    try:
        return _parent.get()
    except LookupError:
        return getattr(threading.current_thread(), "_dyno_kernel_parent", _latest)


def follow_threads():
    """Lets every thread started from now on remember the cell that started it."""
    plain_start = threading.Thread.start

    @functools.wraps(plain_start)
    def start(self):
        self._dyno_kernel_parent = parent()
        return plain_start(self)

    threading.Thread.start = start


def _note_child():
    global _in_child
    _in_child = True


os.register_at_fork(after_in_child=_note_child)


def in_forked_child():
    """True in a process that was forked from the kernel."""
    return _in_child


def _plain(value):
    """What JSON has no word for: bytes as base64, NumPy scalars as numbers, the rest as text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    for method in ("item", "tolist"):
        if hasattr(value, method):
            try:
                return getattr(value, method)()
            except Exception:
                pass
    return repr(value)


def _clean(value):
    """A copy that JSON takes: keys as text, infinities and NaN as text."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def to_json(value):
    """JSON text of any value that a user may have handed to a display function; never fails on content."""
    try:
        text = json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError):
        text = json.dumps(_clean(value), default=lambda item: _clean(_plain(item)))
    return text


def publish(kind, content, metadata=None, buffers=()):
    """Sends one message on iopub."""
    if not _in_child:
        _kernel.publish(kind, to_json(content), to_json(metadata or {}), parent(), [bytes(buffer) for buffer in buffers or ()])
