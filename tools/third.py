"""A pytest plugin that keeps a third of the tests: DYNO_THIRD=0|1|2 says which.

The debug modes make every test several times slower, so a run takes a third of them under each mode; which third
turns with the commit, and three commits in a row cover all.
"""

from __future__ import annotations

import os
import zlib
from typing import Any


def chosen(nodeid: str, third: int) -> bool:
    """Whether a test belongs to the third; stable over runs, machines and the order of files."""
    return zlib.crc32(nodeid.encode()) % 3 == third


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    third = os.environ.get("DYNO_THIRD")
    if third is None:
        return
    kept = [item for item in items if chosen(item.nodeid, int(third))]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
