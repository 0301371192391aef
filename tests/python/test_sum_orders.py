"""Sums add in eager's order, to the last bit: torch's cascades and NumPy's pairwise sums, whatever the layout, also of computed values."""
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from twice import program

LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.T,
    "fortran": np.asfortranarray,
    "stepped": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "part of rows": lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]],
    "swapped": lambda x: np.swapaxes(np.ascontiguousarray(np.swapaxes(x, 0, -1)), 0, -1),
}
NUMPY = {
    "sum": lambda x, axis: x.sum(axis=axis) * 2,
    "sum computed": lambda x, axis: np.sum(x * x.dtype.type(1.1), axis),
    "mean": lambda x, axis: x.mean(axis=axis) * 2,
    "mean twice": lambda x, axis: np.mean(x - x.mean(axis=axis, keepdims=True), axis=axis),
    "var": lambda x, axis: x.var(axis) * 2,
    "std": lambda x, axis: np.std(x * x, axis=axis),
    "prod": lambda x, axis: (x * x.dtype.type(0.1) + 1).prod(axis=axis),
}
TORCH = {
    "sum": lambda x, axis: x.sum(axis) * 1.5,
    "sum computed": lambda x, axis: (x * 1.1).sum(axis),
    "mean": lambda x, axis: x.mean(axis) * 1.5,
    "centred": lambda x, axis: (x - x.mean(axis, keepdim=True)) * 1.5,
    "mean twice": lambda x, axis: (x - x.mean(axis, keepdim=True)).mean(axis),
}
SIZES = [1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 32, 33, 40, 64, 70, 129]


def samples(calls, count):
    """Shapes, axes, layouts and calls drawn once and for all."""
    draw = random.Random(7)
    while count:
        rank = draw.choice([1, 2, 2, 3])
        shape = tuple(draw.choice(SIZES if rank < 3 else SIZES[:9]) for _ in range(rank))
        axis = tuple(sorted(draw.sample(range(rank), draw.randint(1, rank))))
        layout = draw.choice(list(LAYOUTS)) if rank > 1 else "plain"
        # What NumPy's buffer divides, and what torch's threads may divide, has no order that is known here.
        inner = axis != tuple(range(rank)) and len(axis) > 1 and layout in ("part of rows", "every other row", "stepped")
        if np.prod(shape) < 8192 and not inner:
            count -= 1
            yield pytest.param(shape, axis, layout, draw.choice(list(calls)), draw.choice(["f4", "f8"]), id=f"{count}")


def numbers(shape, dtype, layout):
    x = np.random.default_rng(sum(shape)).standard_normal(shape) * 3
    return LAYOUTS[layout](x.astype(dtype))


@pytest.mark.parametrize("shape, axis, layout, name, dtype", list(samples(NUMPY, 150)))
@program()
def test_numpy(t, shape, axis, layout, name, dtype):
    call = NUMPY[name]
    t.calls(t.compile(lambda x: call(x, axis)), lambda: (numbers(shape, dtype, layout),))


@pytest.mark.parametrize("shape, axis, layout, name, dtype", list(samples(TORCH, 150)))
@program()
def test_torch(t, shape, axis, layout, name, dtype):
    call = TORCH[name]
    t.calls(t.compile(lambda x: call(x, axis)), lambda: (torch.from_numpy(numbers(shape, dtype, layout)),))


@pytest.mark.parametrize("layout", LAYOUTS)
@program()
def test_losses(t, layout):
    f = t.compile(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.mse_loss(x, y, reduction="none").sum()))
    t.calls(f, lambda: (torch.from_numpy(numbers((33, 40), "f4", layout)), torch.from_numpy(numbers((33, 40), "f4", layout) * 0.3)))


NORMS = {
    "with both": lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    "with a weight": lambda x, w, b: F.layer_norm(x, w.shape, w),
    "alone": lambda x, w, b: F.layer_norm(x, w.shape) * 1.5,
    "of a sum": lambda x, w, b: F.layer_norm(x + x.relu(), w.shape, w, b).relu(),
    "of a transposed sum": lambda x, w, b: F.layer_norm((x.movedim(-1, 0) + 1).movedim(0, -1), w.shape, w, b, 1e-3),
    "twice": lambda x, w, b: F.layer_norm(x + F.layer_norm(x, w.shape), w.shape, w, b),
    "of two axes": lambda x, w, b: F.layer_norm(x, x.shape[-2:]),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 31, 33, 128, 300, 1000])
@program()
def test_norms(t, n, name):
    """torch's layer_norm works its moments out in an order of its own, and then rounds step by step."""
    norm = NORMS[name]
    f = t.compile(lambda x, w, b: norm(x, w, b))
    for dtype in "f4", "f8":
        for place in 0, 1000:
            t.calls(f, lambda: tuple(torch.from_numpy(numbers(shape, dtype, "plain") + place) for shape in ((3, 5, n), (n,), (n,))), times=4)


@program()
def test_norms_of_odd_numbers(t):
    f = t.compile(lambda x, w, b: NORMS["with both"](x, w, b))
    for place in 0, 20, 39:
        for odd in float("inf"), float("-inf"), float("nan"), 1e38, -0.0:

            def made():
                x = torch.ones(3, 40)
                x[1, place] = odd
                return x, torch.full((40,), -1.0), torch.zeros(40)

            t.calls(f, made)


@program()
def test_numbers_of_one_value(t):
    """Of ten times 0.1 eager's sum is not one; rows of one value are constants here."""
    f = t.compile(lambda x: (torch.full((10,), 0.1).sum() * x, (x * 0.1).expand(3, 10).sum(1), torch.zeros(0).sum() + x))
    t.calls(f, lambda: (torch.ones(1),))


@program()
def test_of_a_loss_in_a_loop(t):
    """A sum of sums, as training code prints it."""

    @t.compile
    def f(xs):
        total = 0.0
        for x in xs:
            total = total + (x - x.mean()).pow(2).mean()
        return total / len(xs)

    t.calls(f, lambda: ([torch.from_numpy(numbers((n, 33), "f4", "plain")) for n in (3, 10, 17)],))


@program()
def test_signs_of_zero(t):
    f = t.compile(lambda x, y: ((x * 0.0).sum(0), (x * -0.0).mean(1), (y * -0.0).sum(0), (y * -0.0).sum(), (y[:3] * -0.0).sum(-1), (y * -0.0).prod(1)))
    t.calls(f, lambda: (torch.ones(5, 40), np.ones((5, 40))))


@program()
def test_variances_far_from_zero(t):
    """torch's run in f64: a mean rounded to f32 would be thousands of roundings off."""
    f = t.compile(lambda x: variances(x))
    torch.manual_seed(3)
    for place, spread in ((0.0, 1.0), (1e3, 0.01), (1e6, 3.0), (1e3, 0.01)):
        x = torch.randn(7, 200) * spread + place
        got = f(x)
        t.settle()
        for mine, wide in zip(got, variances(x.double()), strict=True):
            assert ((mine.double() - wide).abs() <= wide * 2.0**-24).all()
        t.note(len(got))


def variances(x):
    return x.var(-1), x.std(0), torch.var_mean(x, 1)[0], x[None].std((0, 2), unbiased=False)
