"""sys.stdout and sys.stderr of the kernel.

Input: text from any thread. Output: stream messages, gathered for at most 50 ms, each with the parent of the code that wrote it.
It must not lose text, and must not call the kernel in a forked child.
"""

import io
import os
import sys
import threading
import time

from . import _kernel, messages

HOLD_SECONDS = 0.05  # counted from the first text that is held, so that a short print is one message with its newline
HOLD_CHARACTERS = 1 << 17

_streams = []
_text_waits = threading.Event()


class OutStream(io.TextIOBase):
    """A text stream whose other end is the front end."""

    encoding = "utf-8"
    errors = "replace"
    newlines = None

    def __init__(self, name, descriptor):
        self.name = name
        self._descriptor = descriptor
        self._renew()

    def _renew(self):
        self._lock = threading.RLock()
        self._held, self._count, self._since, self._parent = [], 0, 0.0, None

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._descriptor

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if messages.in_forked_child():
            self._write_in_child(text)
            return len(text)
        parent = messages.parent()
        with self._lock:
            if self._held and self._parent is not parent:
                self._send()
            if not self._held:
                self._parent, self._since = parent, time.monotonic()
                _text_waits.set()
            self._held.append(text)
            self._count += len(text)
            if self._count > HOLD_CHARACTERS or time.monotonic() - self._since > HOLD_SECONDS:
                self._send()
        return len(text)

    def _write_in_child(self, text, whole_lines_only=True):
        """The kernel's process reads the descriptor; lines of several children must not mix."""
        self._held.append(text)
        if whole_lines_only and "\n" not in text:
            return
        data = memoryview("".join(self._held).encode("utf-8", "replace"))
        self._held = []
        while data:
            data = data[os.write(self._descriptor, data) :]

    def flush(self):
        if messages.in_forked_child():
            self._write_in_child("", whole_lines_only=False)
            return
        with self._lock:
            self._send()

    def _send(self):
        if not self._held:
            return
        text = "".join(self._held).encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is no UTF-8
        parent, self._held, self._count = self._parent, [], 0
        if text:
            _kernel.publish_stream(self.name, text, parent)


def _flush_now_and_then():
    while True:
        _text_waits.wait()
        time.sleep(HOLD_SECONDS)
        _text_waits.clear()
        flush_all()


def flush_all():
    """Sends what all streams hold."""
    for stream in _streams:
        stream.flush()


def _renew_in_child():
    for stream in _streams:
        stream._renew()  # the lock may have been held by a thread that is not here; the text belongs to the parent process


def install():
    """Puts the streams in the place of sys.stdout and sys.stderr."""
    _streams[:] = [OutStream("stdout", 1), OutStream("stderr", 2)]
    sys.stdout, sys.stderr = _streams
    os.register_at_fork(after_in_child=_renew_in_child)
    threading.Thread(target=_flush_now_and_then, name="xdyno-flush", daemon=True).start()


def capture_descriptors():
    """Takes what C code and child processes print; sys.__stdout__ and sys.__stderr__ keep leading to the log."""
    for name, descriptor in zip(("__stdout__", "__stderr__"), _kernel.capture_output()):
        setattr(sys, name, os.fdopen(os.dup(descriptor), "w", buffering=1, errors="replace"))
