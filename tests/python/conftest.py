"""Lets the tests of this folder import their helpers, whatever folder pytest is started in, and knows their marks."""
import os
import pathlib
import sys

import pytest

# A bug of dyno's own ends in interpreted code, which gives right results: no test would notice it.
if "DYNO_FAULT" not in os.environ:
    os.environ.setdefault("DYNO_ABORT_ON_BUG", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import dyno  # noqa: E402

if dyno._backend.reason is not None:  # every test would pass, and say nothing
    pytest.exit(f"nothing is compiled here: {dyno._backend.reason}", 1)


def pytest_configure(config):
    config.addinivalue_line("markers", "law(n): the test notices when law n of the design is broken (tests/laws)")


def pytest_collection_modifyitems(config, items):
    """With DYNO_ONLY_LAW=n, only the tests that answer for law n (tests/laws runs them under a fault)."""
    law = os.environ.get("DYNO_ONLY_LAW")
    if law:
        chosen = [i for i in items if any(int(law) in mark.args for mark in i.iter_markers("law"))]
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = chosen


@pytest.fixture(autouse=True)
def nothing_left_over():
    """Each test starts without compiled code and leaves the settings as they were."""
    dyno.reset()
    kept = {name: getattr(dyno.config, name) for name in dir(dyno.config)}
    yield
    for name, value in kept.items():
        setattr(dyno.config, name, value)
