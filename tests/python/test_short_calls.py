"""Short functions called in a loop come round many times before their code is there: they must be compiled all the same."""
import dyno
import torch
from dyno import _backend
from twice import BREAKS, NO_HITS

import pytest

pytestmark = pytest.mark.skipif(BREAKS or NO_HITS, reason="nothing is replayed there")


@pytest.mark.parametrize("body", ["    y = x * 1.0001\n    return y + 0.5\n", "    y = x * 1.0001\n    len(str(x.ndim))\n    print(end='')\n    return y + 0.5\n"])
def test_a_short_function_called_in_a_cells_loop(body):
    names = {"torch": torch, "x": torch.ones(100)}
    exec(compile("def step(x):\n" + body, "cell1", "exec"), names)
    loop = compile("import time\nstart = time.monotonic()\nwhile time.monotonic() < start + 0.5:\n    x = step(x)\n", "cell2", "exec")
    before = dyno.stats()["hits"]
    dyno.install()
    try:
        _backend.core.run_cell(loop, names, "loop")
    finally:
        dyno.uninstall()
    assert dyno.stats()["hits"] > before + 50
