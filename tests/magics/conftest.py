"""A fake core behind the package, and a shell with the magics."""

import atexit
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).parents[2]))  # an installed package goes first
import fake_core  # noqa: E402


@pytest.fixture
def core(monkeypatch):
    """The fake core, in place for one test."""
    from dyno import _backend

    made = fake_core.FakeCore()
    monkeypatch.setattr(_backend, "core", made)
    monkeypatch.setattr(_backend, "reason", None)
    return made


class Shell:
    """An IPython shell of its own, whose displays and errors are collected."""

    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        InteractiveShell.clear_instance()
        # No history on disk: it is the user's own, and every shell would tidy up at the end.
        self.ip = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False, "hist_file": ":memory:"}}))
        atexit.unregister(self.ip.atexit_operations)
        self.ip.run_line_magic("colors", "nocolor")
        self.shown = []
        self.ip.display_pub.publish = lambda data, metadata=None, **_: self.shown.append(data)

    def run(self, text):
        """Runs a cell; returns IPython's result."""
        return self.ip.run_cell(text, store_history=True)

    def magic(self, text):
        """Runs one magic line or cell and returns what it showed; raises what it raised."""
        before = len(self.shown)
        result = self.run(text)
        result.raise_error()
        return self.shown[before:]

    def plain(self, text):
        """The text/plain of the one display of a magic."""
        (bundle,) = self.magic(text)
        return bundle["text/plain"]


@pytest.fixture
def shell(core):
    """A shell with the magics, and functions named as the hand-made reports."""
    import dyno

    made = Shell()
    dyno.load_ipython_extension(made.ip)
    made.run(
        "def f(a, b):\n    return a + b\n\ndef step(x, table):\n    return x\n\ndef g():\n    return 1\n\ndef h(x):\n    return x\n\nf2 = f"
    )
    for name, report in (("f", "chain"), ("step", "breaks"), ("g", "interpreted"), ("h", "not_called")):
        core.by_name[name] = fake_core.load(report)
    yield made
    dyno.unload_ipython_extension(made.ip)
    type(made.ip).clear_instance()
