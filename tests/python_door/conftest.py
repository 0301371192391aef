"""Finds the test extension: DYNO_DOOR names its folder, else a build folder in or beside the tree. Without one, nothing here is collected."""
import importlib.util
import os
import pathlib
import sys
import sysconfig

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
name = "python_door" + sysconfig.get_config_var("EXT_SUFFIX")
folders = [pathlib.Path(os.environ["DYNO_DOOR"])] if "DYNO_DOOR" in os.environ else []
folders += sorted(p.parent for top in (root, root.parent) for where in ("build*", "build*/tests/python_door") for p in top.glob(f"{where}/{name}"))
sys.path[:0] = [str(here), *map(str, folders[:1])]

collect_ignore_glob = [] if folders else ["test_*.py"]
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob += ["test_tensor.py", "test_outputs.py", "test_ambient.py", "test_public_way.py", "test_start.py"]
if importlib.util.find_spec("numpy") is None:
    collect_ignore_glob += ["test_array.py", "test_ambient.py"]


def pytest_report_header():
    return f"python_door: {folders[0] if folders else 'not built, its tests are left out (target python_door)'}"
