"""Lets the tests import the scripts of tools/ and benchmarks/."""
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "tools"), str(root / "benchmarks")]
