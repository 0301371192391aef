"""Numbers stored into the whole of a tensor or array that has views: what is stored lies where the tensor does."""
import numpy as np
import pytest
import torch
from twice import program

FILLS = {
    "fill_": lambda x: x.fill_(2),
    "fill_ of a number given": lambda x: x.fill_(x.shape[0] * 0.5),
    "zero_": lambda x: x.zero_(),
    "set whole": lambda x: x.__setitem__(slice(None), 3),
    "set ellipsis": lambda x: x.__setitem__(..., 1.5),
    "copy_": lambda x: x.copy_(torch.tensor(2.0)),
    "masked_fill_": lambda x: x.masked_fill_(torch.ones_like(x, dtype=torch.bool), 4),
    "mul_": lambda x: x.mul_(0).add_(1),
    "full copied": lambda x: x.copy_(torch.full(x.shape, 7.0)),
}
# Of a tensor that the function has made and spread, item by item.
ITEMS = {
    "single": lambda x: x.__setitem__(0, 1),
    "the last, then the first": lambda x: (x.__setitem__(-1, 1), x.__setitem__(0, 2)),
    "a column": lambda x: x.__setitem__((slice(None), 0), 5),
    "a block": lambda x: x.__setitem__((slice(0, 1), slice(0, 1)), 5.5),
}
VIEWS = {
    "columns": lambda x: x[:, ::2],
    "rows": lambda x: x[::2],
    "all": lambda x: x[:],
    "transposed": lambda x: x.t(),
    "flat": lambda x: x.view(-1),
    "last": lambda x: x[-1],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("fill", FILLS)
@program()
def test_views_see_it(t, fill, view):
    @t.compile
    def f(x):
        seen = VIEWS[view](x)
        FILLS[fill](x)
        return seen, seen + 1, seen[..., :1] * 2

    for shape in (4, 1), (3, 4), (1, 5):
        t.calls(f, lambda: (torch.arange(shape[0] * shape[1], dtype=torch.float32).view(shape),))


@pytest.mark.parametrize("shape", [(4, 1), (3, 4), (1, 5)])
@program()
def test_views_of_arrays_see_it(t, shape):
    @t.compile
    def f(x):
        columns, rows = x[:, ::2], x[-1]
        x.fill(2)
        y = columns + 1
        x[:] = 3
        return columns, rows, y, columns[:1] * 2, rows * 1

    t.calls(f, lambda: (np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape),))


@pytest.mark.parametrize("item", ITEMS)
@program(hits=0)
def test_items_of_what_was_spread(t, item):
    @t.compile
    def f(x):
        y = torch.tensor(x.tolist()).expand(1, *x.shape)
        ITEMS[item](y)
        z = torch.full(x.shape, 1.5)
        ITEMS[item](z)
        return y, y + x, z.t(), z * 2

    for shape in (1, 1), (4, 1), (2, 3):
        t.calls(f, lambda: (torch.ones(shape),))


@program(hits=0)
def test_softmax_of_nothing(t):
    f = t.compile(lambda x: (x.softmax(-1), x.log_softmax(0), torch.nn.functional.softmin(x, -1), x + 1))
    for shape in (0,), (3, 0), (0, 3):
        t.calls(f, lambda: (torch.ones(shape),))
