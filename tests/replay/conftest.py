"""Lets the tests of this folder import their helpers, whatever folder pytest is started in."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
