"""The order in which a kernel comes up and goes down.

Input: a connection file. Output: the process serves until shutdown and leaves with status 0. What the environment lacks is said and
never stops the start.
"""

import atexit
import builtins
import getpass
import importlib.util
import os
import signal
import sys
import threading

LEAVE_SECONDS = 3.0  # for exit functions and threads that are no daemons

GRAPHVIZ = "libgvc.so.6"


def run(connection_file):
    """Runs the kernel; does not return: the process leaves with the kernel."""
    sys.argv = [""]
    from . import _kernel, cells, comms, loop, notices, requests
    from .shell import Application

    application = Application.instance()
    application.initialize()
    shell = application.shell
    runner = cells.CellRunner(shell, loop.LOOP)
    runner.after_cell = lambda: _kernel.stop() if shell.exit_now else None
    builtins.input = lambda prompt="": runner.ask(prompt)
    getpass.getpass = lambda prompt="Password: ", stream=None, **_: runner.ask(prompt, True)
    signal.signal(signal.SIGINT, runner.on_sigint)
    if not comms.install(shell):
        notices.say("the package comm is missing: widgets are shown as text.")
    say_what_is_missing(application)
    start_compiler(shell)
    requests.shell, requests.cells = shell, runner
    _kernel.run(connection_file, requests)
    leave()


def say_what_is_missing(application):
    """Looks for the optional parts of the environment."""
    from . import _kernel, notices

    if not has_module("torch"):
        notices.say("torch is not installed: NumPy and plain Python only.")
    if not has_module("numpy"):
        notices.say("numpy is not installed.")
    if not _kernel.has_library(GRAPHVIZ):
        notices.say(f"Graphviz's library {GRAPHVIZ} is not installed: graphs are shown as tables.")
    wanted = os.environ.get("IPYTHONDIR") or os.path.join(os.path.expanduser("~"), ".ipython")
    if os.path.realpath(application.ipython_dir) != os.path.realpath(wanted) or not application.shell.history_manager.enabled:
        notices.say(f"{wanted} cannot be written: history and settings last for this session only.", to_user=True)


def has_module(name):
    """Whether an import would find the module; does not import it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def start_compiler(shell):
    """Connects the compiler, turns the transparent mode on and loads the magics. Without it cells run as plain Python."""
    from . import _kernel, notices

    try:
        import dyno
    except Exception as error:
        notices.say(f"cells run as plain Python: the package dyno could not be imported ({type(error).__name__}: {error}).", to_user=True)
        return
    try:
        dyno.load_ipython_extension(shell)
    except Exception as error:
        notices.say(f"the %dyno magics are missing ({type(error).__name__}: {error}).", to_user=True)
    reason = getattr(getattr(dyno, "_backend", None), "reason", None) or _kernel.connect_compiler()
    if reason:
        notices.say(f"cells run as plain Python, nothing is compiled: {reason}.", to_user=True)


def leave():
    """Ends the process: exit functions run while output still arrives, and a thread that hangs does not keep it."""
    from . import _kernel, streams

    watch = threading.Timer(LEAVE_SECONDS, os._exit, (1,))
    watch.daemon = True
    watch.start()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        _kernel.disconnect_compiler()
        _kernel.settle_output()
        streams.flush_all()
        for stream in (sys.__stdout__, sys.__stderr__):
            stream.flush()
        _kernel.linger()
    finally:
        os._exit(0)
