"""The public functions of ``import dyno``: argument checks and docstrings over the core.

Input: the user's calls. Output: calls of the core. No compiler work and no state is here.
"""

import json

from dyno import _backend


def compile(fn=None, *, strict=False, dynamic=None):
    """Returns a compiled form of ``fn`` with the same behaviour.

    ``fn``       a function, method, ``functools.partial``, callable object or ``torch.nn.Module``. It stays plain: only calls
                 of the returned object are compiled. What has no Python code is returned unchanged.
    ``strict``   True: a call raises ``dyno.GraphBreak`` (reason and line) unless everything in it became one graph. Such a call
                 waits for the compiler.
    ``dynamic``  None, True or False: whether sizes are to be symbolic. Accepted and without effect so far: every new size is
                 compiled anew, at most 16 versions of a part are kept.

    The first call runs near eager speed while compiling happens in the background; what is longer than some 50 operations is
    compiled after its second call. Tensors and arrays of any shape, dtype and
    device are accepted; whatever is not compiled runs interpreted, and ``dyno.explain`` says why. Also usable as a decorator,
    with or without options. Raises TypeError if ``fn`` is not callable or an option has the wrong type.
    """
    if fn is None:
        return lambda function: compile(function, strict=strict, dynamic=dynamic)
    if not callable(fn):
        raise TypeError(f"dyno.compile takes a function or module, not {type(fn).__name__}")
    if not isinstance(strict, bool):
        raise TypeError(f"strict takes True or False, not {type(strict).__name__}")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamic takes None, True or False, not {type(dynamic).__name__}")
    _backend.announce()
    return _backend.core.compile(fn, strict, dynamic)


def install():
    """Turns on the transparent mode: functions of cells and of the user's own files are compiled when they are hot."""
    _backend.announce()
    _backend.core.install()


def uninstall():
    """Undoes ``install()``. Code that is compiled stays for ``dyno.compile``d functions; others run as plain Python."""
    _backend.core.uninstall()


class off:
    """``with dyno.off():`` nothing inside is compiled or replayed by this thread. Nests; exceptions pass through."""

    def __enter__(self):
        _backend.core.off_enter()
        return self

    def __exit__(self, kind, value, traceback):
        _backend.core.off_exit()
        return False


def wait():
    """Blocks until background compiling is done, better code for what runs already included, and its results are in place."""
    _backend.core.wait()


def reset(fn=None):
    """Drops the compiled code of ``fn``, or of everything, then also the memory kept for results to come.

    Returns the bytes freed (an int). Counters of ``stats()`` stay.
    """
    return _backend.core.reset(fn)


def stats(wait=True):
    """Counters of this process as a dict; they only grow.

    ``captures`` segments whose compiled code was put in place; ``hits`` replays; ``graph_breaks`` exits of such segments other
    than the return; ``kernels`` generated kernels in place; ``extern_calls`` operations run in torch or NumPy during a replay;
    ``recompiles`` segments recorded again for a place that had code; ``dropped`` code removed as slower or stale. All are
    counts. ``by_function`` holds five of them by the function's name (with file and line where several share it), also of functions
    and cells that are gone. ``wait=True`` finishes background compiling first.
    """
    if wait:
        _backend.core.wait()
    return json.loads(_backend.core.stats())


def _result(kind, fn):
    from dyno.magics import inspect_function

    return inspect_function(kind, fn)


def explain(fn):
    """What became of each source line of ``fn``: fused (in which kernel), break, interpreted, with reasons and hints.

    Returns a result: ``print`` it, display it in a notebook, or read ``result.report`` (a dict, schema ``dyno.report/1``).
    Raises TypeError if ``fn`` is no Python function, method, module or callable object.
    """
    return _result("explain", fn)


def graph(fn):
    """The graph of each compiled version of ``fn``: a table of operations and a picture. Returns a result as ``explain``."""
    return _result("graph", fn)


def guards(fn):
    """The conditions under which each compiled version of ``fn`` is used, in words. Returns a result as ``explain``."""
    return _result("guards", fn)
