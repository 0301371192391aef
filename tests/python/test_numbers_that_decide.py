"""Calls that hand an operand back, make a view or a copy, or draw, as a number says: each number by itself, in either order."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from twice import program

TORCH = {
    "dropout": (lambda x, p: F.dropout(x, p, True), (0.0, 0.5, 1.0)),
    "dropout in place": (lambda x, p: F.dropout(x, p, True).add_(1), (0.0, 0.5)),
    "dropout2d": (lambda x, p: F.dropout2d(x[None, None], p, True), (0.0, 0.5)),
    "dropout3d": (lambda x, p: F.dropout3d(x[None, None], p, True), (0.0, 0.5)),
    "dropout told": (lambda x, t: F.dropout3d(x[None, None], 0.5, t), (False, True)),
    "alpha_dropout": (lambda x, p: F.alpha_dropout(x, p, True), (0.0, 0.5)),
    "pad": (lambda x, n: F.pad(x, (n, n)), (0, 1)),
    "expand": (lambda x, n: x.expand(n, 4, 4), (1, 2)),
    "repeat_interleave": (lambda x, n: x.repeat_interleave(n, 0), (1, 2)),
    "roll": (lambda x, n: x.roll(n), (0, 1)),
    "rot90": (lambda x, n: torch.rot90(x, n), (0, 1, 4)),
    "reshape": (lambda x, n: x.reshape(n, -1), (4, 2)),
    "flatten": (lambda x, n: x.flatten(n), (0, 1)),
    "unflatten": (lambda x, n: x.unflatten(0, (n, -1)), (1, 2)),
    "diff": (lambda x, n: torch.diff(x, n), (0, 1)),
    "matrix_power": (lambda x, n: torch.linalg.matrix_power(x, n), (0, 1, 2)),
    "narrow": (lambda x, n: torch.narrow(x, 0, 0, n), (4, 2)),
    "squeeze": (lambda x, n: x[None].squeeze(n), (0, 1)),
    "movedim": (lambda x, n: x.movedim(0, n), (0, 1)),
    "swapaxes": (lambda x, n: torch.swapaxes(x, 0, n), (0, 1)),
    "chunk": (lambda x, n: x.chunk(n)[0], (1, 2)),
    "power": (lambda x, n: x**n, (0, 1, 2)),
    "clamp": (lambda x, n: torch.clamp(x, n), (0, 1)),
    "tile": (lambda x, n: x.tile(n), (1, 2)),
    "broadcast_to": (lambda x, n: torch.broadcast_to(x, (n, 4, 4)), (1, 2)),
    "interpolate": (lambda x, n: F.interpolate(x[None, None], scale_factor=n), (1, 2)),
    "pixel_shuffle": (lambda x, n: F.pixel_shuffle(x.expand(n * n, 4, 4), n), (1, 2)),
    "normal": (lambda x, s: torch.normal(x, s), (0.0, 1.0)),
    "rand": (lambda x, n: torch.rand(n) + 1, (0, 3)),
    "to": (lambda x, copy: x.to(torch.float32, copy=copy), (False, True)),
    "leaky": (lambda x, s: F.leaky_relu(x - 0.5, s), (0.0, 0.1, 1.0)),
    "items": (lambda x, n: F.pad(x, [n, n, 0, n]), (0, 2)),
}
NUMPY = {
    "round": (lambda x, n: np.round(x, n), (0, 1)),
    "roll": (lambda x, n: np.roll(x, n), (0, 1)),
    "rot90": (lambda x, n: np.rot90(x, n), (0, 1, 4)),
    "tile": (lambda x, n: np.tile(x, n), (1, 2)),
    "repeat": (lambda x, n: np.repeat(x, n), (0, 1, 2)),
    "pad": (lambda x, n: np.pad(x, n), (0, 1)),
    "diff": (lambda x, n: np.diff(x, n), (0, 1)),
    "reshape": (lambda x, n: x.reshape(n, -1), (4, 2)),
    "matrix_power": (lambda x, n: np.linalg.matrix_power(x, n), (0, 1, 2)),
    "astype": (lambda x, copy: x.astype(np.float64, copy=copy), (False, True)),
    "array": (lambda x, copy: np.array(x, copy=copy), (True, None)),
    "power": (lambda x, n: x**n, (0, 1, 2, 0.5)),
    "swapaxes": (lambda x, n: np.swapaxes(x, 0, n), (0, 1)),
    "moveaxis": (lambda x, n: np.moveaxis(x, 0, n), (0, 1)),
    "expand_dims": (lambda x, n: np.expand_dims(x, n), (0, 1)),
    "nan_to_num": (lambda x, copy: np.nan_to_num(x, copy=copy), (True, False)),
    "ravel": (lambda x, n: x[:n].ravel(), (4, 2)),
}


def grid():
    return torch.arange(16.0).reshape(4, 4) / 16


def orders(numbers):
    yield from numbers
    yield from numbers[::-1]
    for number in numbers:
        yield from [number] * 3


def in_every_order(t, call, numbers, *layouts):
    f = t.compile(call)
    for number in orders(numbers):
        torch.manual_seed(0)
        for layout in layouts:
            t.call(f, layout(), number)


@pytest.mark.parametrize("name", TORCH)
@program(hits=0)
def test_torch(t, name):
    in_every_order(t, *TORCH[name], grid, lambda: grid().t())


@pytest.mark.parametrize("name", NUMPY)
@program(hits=0)
def test_numpy(t, name):
    in_every_order(t, *NUMPY[name], lambda: grid().double().numpy(), lambda: np.asfortranarray(grid().double().numpy()))


@pytest.mark.parametrize("name", TORCH)
@program(hits=0)
def test_changed_afterwards(t, name):
    """What is changed in a result is changed in the operand where the result is the operand or a view of it, and nowhere else."""
    call, numbers = TORCH[name]

    @t.compile
    def f(x, number):
        y = call(x, number)
        if y.stride() == tuple(s for s in y.stride() if s) and y.numel():
            y.mul_(2)
        return y, x + 1

    for number in orders(numbers):
        torch.manual_seed(0)
        t.call(f, grid(), number)
