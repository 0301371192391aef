"""Lets the tests of this folder use the probe of tests/replay, whatever folder pytest is started in."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "replay"))
