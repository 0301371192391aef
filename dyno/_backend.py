"""Chooses what runs behind the public API: the extension ``dyno._core``, or plain Python with a reason.

Output: ``core``, an object with the surface of ``dyno._core``, and ``reason``, ``None`` or one sentence. The choice is made once,
at import; ``import dyno`` itself stays silent, and the first use that would have compiled says the sentence once.
"""

import os
import sys

PYTHONS = ((3, 11), (3, 13))  # the first and the last CPython known to work
OLDEST_TORCH = (2, 10)
NEWEST_TORCH = (2, 99)


def torch_version():
    """The installed torch's version as a string, or ``None``; does not import torch."""
    loaded = sys.modules.get("torch")
    if loaded is not None:
        return str(getattr(loaded, "__version__", "")) or None
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def torch_objection(version):
    """One clause against this torch version, or ``None`` where torch is absent or known."""
    if version is None:
        return None
    try:
        numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    except ValueError:
        return f"torch {version} is a version dyno does not know"
    if not OLDEST_TORCH <= numbers <= NEWEST_TORCH:
        return f"torch {version} is not supported (2.10 or later is needed)"
    return None


def objection(environ, implementation, version, free_threaded, torch):
    """One clause that says why nothing may be compiled here, or ``None``. Pure: all facts are arguments."""
    if environ.get("DYNO") == "0":
        return "the environment variable DYNO is 0"
    if implementation != "cpython":
        return f"{implementation} is not CPython"
    if not PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]:
        return f"Python {version[0]}.{version[1]} is a version dyno does not know (3.11 to 3.13 are supported)"
    if free_threaded:
        return "free-threaded builds of Python are not supported"
    return torch_objection(torch)


def choose():
    """Returns ``(core, reason)``."""
    import importlib

    from dyno import _uncompiled

    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    reason = objection(os.environ, sys.implementation.name, sys.version_info, free_threaded, torch_version())
    if reason is None:
        try:
            return importlib.import_module("dyno._core"), None
        except ImportError as error:
            reason = f"the extension dyno._core could not be loaded ({error})"
    _uncompiled.reason = reason
    return _uncompiled, reason


core, reason = choose()
_said = False


def announce():
    """Says once, on stderr, that this process runs uncompiled. Called by what would have compiled."""
    global _said
    if reason is not None and not _said:
        _said = True
        print(f"dyno: everything runs uncompiled, as plain Python: {reason}", file=sys.stderr)
