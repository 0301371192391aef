"""Fixtures of the kernel's tests. Without a build tree that has ``xdyno`` they are skipped, with the reason."""

import os

import pytest

from client import Kernel, build_folder


def pytest_collection_modifyitems(items):
    if build_folder() is None:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no build tree with bin/xdyno (set DYNO_BUILD)"))


def pytest_addoption(parser):
    parser.addoption("--pictures", metavar="DIR", help="save the screenshots of the JupyterLab tests there")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One kernel for the tests of a file; a first cell takes the notices."""
    running = Kernel(tmp_path_factory.mktemp("kernel"))
    running.run("pass")
    yield running
    running.close()


@pytest.fixture
def start(tmp_path):
    """Starts kernels that are closed after the test."""
    running = []

    def make(environment=None, **options):
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(Kernel(folder, environment, **options))
        return running[-1]

    yield make
    for one in running:
        one.close()


@pytest.fixture(autouse=True, scope="session")
def no_user_settings(tmp_path_factory):
    """Keeps the tests out of the user's history and settings."""
    os.environ["IPYTHONDIR"] = str(tmp_path_factory.mktemp("ipython"))
