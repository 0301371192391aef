"""Views and stores into them: x[...] = y, x[k] += y, out=, fill, masks; every name of the memory sees the change, at once and in order."""
import numpy as np
import pytest
import torch
from twice import program


def grid(n=4, m=5):
    return torch.arange(float(n * m)).reshape(n, m)


def array(n=4, m=5):
    return np.arange(float(n * m)).reshape(n, m)


INDICES = [0, -1, slice(1, 3), slice(None), slice(None, None, 2), slice(1, None, 3), (0, 1), (slice(None), 2), (slice(1, 3), slice(0, 4, 2)), (Ellipsis, 0), (None, 1), slice(2, 2),
           (1, slice(None, 3)), (slice(None), slice(4, 0, -1)), slice(None, None, -1)]


def stores(k):
    def f(x, y, s):
        x[k] = y
        z = x * 2
        x[k] = s
        z = z + x
        x[k] = 1.5
        return z, x + 0

    return f


@pytest.mark.parametrize("k", INDICES[:-2], ids=str)
@program
def test_store_into_tensor(t, k):
    t.calls(t.compile(stores(k)), lambda: (grid(), grid()[k].clone() + 100, 7.25))


@pytest.mark.parametrize("k", INDICES, ids=str)
@program
def test_store_into_array(t, k):
    t.calls(t.compile(stores(k)), lambda: (array(), array()[k] + 100, 7.25))


@program
def test_broadcast_stores(t):
    @t.compile
    def f(x, row, column, one):
        x[1:3] = row
        x[:, 1:4] = column
        x[0:2, 0:2] = one
        x[:, ::2] = column
        return x.sum()

    t.calls(f, lambda: (grid(), torch.arange(5.0), torch.ones(4, 1), torch.full((1, 1), 3.0)))
    t.calls(f, lambda: (array(), np.arange(5.0), np.ones((4, 1)), np.full((1, 1), 3.0)))


@program
def test_in_place_through_views(t):
    @t.compile
    def f(x):
        x[0] += 1
        row = x[1]
        row *= 2
        other = x[1][2:]
        other -= row[:3]
        flat = x.reshape(-1)
        flat[3] = 50
        return row, other, flat, x * 2

    t.calls(f, lambda: (grid(),))
    t.calls(f, lambda: (array(),))


@program
def test_made_here(t):
    @t.compile
    def f(x):
        y = x * 2
        a, b = y[0], y.T[0]
        a += 10
        y[1:3] = a
        b[...] = -1
        return a, b, y

    t.calls(f, lambda: (grid(),))
    t.calls(f, lambda: (array(),))


@program
def test_views_are_views(t):
    @t.compile
    def f(x):
        y = x + 1
        a = y[1:]
        y[2] = 0
        b = y[:, 0]
        return y, a, b

    for make in (grid, array):
        for _ in range(3):
            y, a, b = t.call(f, make())
            y[2, 0] = 77
            t.note(a[1, 0].item(), b[2].item(), getattr(y, "_version", 0))


@program
def test_versions(t):
    @t.compile
    def f(x):
        y = x * 2
        v = y[0]
        y[1] = 3
        v += 1
        x[0] += 1
        return y, v

    for _ in range(4):
        x = grid()
        y, v = t.call(f, x)
        t.note(x._version, y._version, v._version)


@program
def test_masks(t):
    @t.compile
    def f(x, m, rows, s):
        x[m] = s
        x[rows] = 0
        x[x > 15] = 15
        return x * 1

    t.calls(f, lambda: (grid(), grid() % 3 == 0, torch.tensor([True, False, False, True]), 2.5))
    t.calls(f, lambda: (array(), array() % 3 == 0, np.array([True, False, False, True]), 2.5))


@program
def test_fill(t):
    @t.compile
    def f(x, s):
        y = x.clone()
        x.zero_()
        y.fill_(s)
        x[1].copy_(y[2] + 1)
        x[0].fill_(4)
        return y

    @t.compile
    def g(x, s):
        x[0].fill(s)
        x[1:].fill(2)
        return x + 1

    t.calls(f, lambda: (grid(), 3.5))
    t.calls(g, lambda: (array(), 3.5))


@program
def test_out(t):
    @t.compile
    def f(x, y, z):
        np.add(x, y, out=z)
        np.multiply(z, 2, out=z)
        np.sqrt(z, out=z)
        np.negative(z[0], out=z[1])
        return z.sum()

    @t.compile
    def g(x, y, z):
        torch.add(x, y, out=z)
        torch.mul(z, 2, out=z)
        return z.sum()

    @t.compile
    def h(x, y, z):
        w = x + 1
        np.add(x, y, z)
        return z * w

    t.calls(f, lambda: (array(), array() + 1, np.zeros((4, 5))))
    t.calls(g, lambda: (grid(), grid() + 1, torch.zeros(4, 5)))
    t.calls(h, lambda: (array(), array() + 1, np.zeros((4, 5))))


@program
def test_element_types(t):
    @t.compile
    def f(x, y):
        x[1:3] = y
        x[0] = 3
        return x.sum()

    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8):
        for of in (torch.float32, torch.int64):
            t.calls(f, lambda: (torch.zeros(5, dtype=dtype), torch.arange(2).to(of)))
    for dtype in ("f4", "f2", "i4", "u1", "?"):
        for of in ("f8", "i8", "f4"):
            t.calls(f, lambda: (np.zeros(5, dtype), np.arange(2).astype(of)))


@program
def test_overlaps(t):
    @t.compile
    def f(x):
        x[1:] = x[:-1]
        x[0] = x[3]
        return x + 0

    @t.compile
    def g(x):
        x[0] = x[1]
        x[:, 2] = x[:, 3]
        return x + 0

    t.calls(f, lambda: (array(),))
    t.calls(g, lambda: (grid(),))
    t.calls(g, lambda: (array(),))


@program
def test_errors_leave_no_trace(t):
    @t.compile
    def f(x, y):
        x[0] = 1
        x[1:3] = y
        return x

    for n in (5, 5, 5, 4, 5):
        t.call(f, grid(), torch.ones(n))
        t.call(f, array(), np.ones(n))


@program
def test_loops_of_stores(t):
    @t.compile
    def f(x):
        out = np.zeros(len(x))
        for i in range(len(x)):
            out[i] = x[i] * 2 + i
        return out

    @t.compile
    def g(x):
        out = torch.zeros_like(x)
        for i in range(x.shape[0]):
            out[i] = x[i] * 2 + i
        return out

    t.calls(f, lambda: (np.arange(6.0),))
    t.calls(g, lambda: (torch.arange(6.0),))


@program
def test_outer_views(t):
    # Views that were made before the call: the memory guards decide.
    @t.compile
    def f(x, v):
        x[0] = 5
        return v + 1

    for _ in range(3):
        x, y = grid(), grid()
        t.call(f, x, y)
        t.call(f, x, x[0])
        t.call(f, x[1:], x)


@pytest.mark.parametrize("step", [2, 3, 5, -2])
@program
def test_in_place_through_stepped_views(t, step):
    @t.compile
    def f(x):
        flat = x.reshape(-1)
        flat[1 if step > 0 else None :: abs(step)] *= -1
        x[::2, 1::2] += 10
        part = x[1:, ::3]
        part -= 1
        return flat[3:6], part, x.T

    if step > 0:
        t.calls(f, lambda: (grid(),))
    t.calls(f, lambda: (array(),))


@program
def test_backward_views_changed_in_place(t):
    @t.compile
    def f(x):
        x[::-1, ::-2] *= 2
        return x + 1

    t.calls(f, lambda: (array(),))
