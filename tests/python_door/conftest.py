"""Finds the test extension: DYNO_DOOR names its folder, else a build folder in or beside the tree."""
import os
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
folders = [pathlib.Path(os.environ["DYNO_DOOR"])] if "DYNO_DOOR" in os.environ else []
folders += sorted(p.parent for top in (root, root.parent) for pattern in ("build*/python_door*.so", "build*/*/*/python_door*.so") for p in top.glob(pattern))
sys.path[:0] = [str(folders[0])] if folders else []
sys.path.insert(0, str(pathlib.Path(__file__).parent))
collect_ignore = []
try:
    import torch  # noqa: F401
except ImportError:
    collect_ignore += ["test_tensor.py", "test_outputs.py", "test_ambient.py", "test_public_way.py", "test_start.py", "strangers.py"]
try:
    import numpy  # noqa: F401
except ImportError:
    collect_ignore += ["test_array.py"]
