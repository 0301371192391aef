"""dyno makes ordinary notebook Python fast: functions on torch tensors and NumPy arrays are compiled to fused kernels.

``import dyno`` changes nothing. ``dyno.compile(fn)`` compiles one function, ``dyno.install()`` the user's own code as it gets
hot, ``dyno.explain(fn)`` tells what happened line by line. In IPython, ``%load_ext dyno`` brings the ``%dyno`` magics.
"""

from dyno import _consumers as _consumers  # the recorder finds it by its name
from dyno._api import compile, explain, graph, guards, install, off, reset, stats, uninstall, wait
from dyno._backend import core as _chosen
from dyno._config import config

__version__ = "0.1.0"
__all__ = ["GraphBreak", "compile", "config", "explain", "graph", "guards", "install", "off", "reset", "stats", "uninstall", "wait"]

GraphBreak = _chosen.GraphBreak


def load_ipython_extension(shell):
    """``%load_ext dyno``: the magics, and the transparent mode for this shell's cells."""
    from dyno import _backend, _cells, magics

    install()
    if _backend.reason is None:
        _cells.attach(shell)
    magics.attach(shell)


def unload_ipython_extension(shell):
    """``%unload_ext dyno``: the shell as it was before."""
    from dyno import _cells, magics

    magics.detach(shell)
    _cells.detach(shell)
    uninstall()
