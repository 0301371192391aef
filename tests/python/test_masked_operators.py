"""``x[mask] op= y``: what the mask chooses is read, changed and stored again."""
import numpy as np
import pytest
import torch
from twice import UNCHECKED, program


def added(x):
    x = x + 1
    x[x > 2] += 1
    return x * 2


def given(x):
    x[x > 2] *= 3
    return x + 1


def by_itself(x):
    m = x > 1
    y = x * 2
    y[m] -= x[m]
    y[~m] /= 3
    return y, m


def other_values(x):
    y, m = x + 1, x > 1
    y[m] = x[m]
    y[m] = y[m] * 2
    return y


def floor_and_power(x):
    y, m = x + 1, x > 1
    y[m] //= 2
    y[m] **= 2
    return y


def named(x):
    """What x[mask] gives has a name of its own, which sees the change."""
    y, m = x + 1, x > 1
    r = y[m]
    s = r
    r += 1
    y[m] = r
    return y, s, r is s


def nothing_chosen(x):
    y = x + 1
    y[y > 100] += 5
    return y


def a_row(x):
    y = x.reshape(2, -1) * 2
    m = y[:, 0] > 1
    y[m] += 1
    return y


def raises(x):
    y = x + 1
    y[y > 2] += [[1, 2, 3, 4, 5, 6, 7], [1]]
    return y


FUNCTIONS = [added, given, by_itself, other_values, floor_and_power, named, nothing_chosen, a_row, raises]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@program(hits=0)
def test_operators(t, dtype, f):
    g, h = t.compile(f), t.compile(f)
    for k in range(5):
        a = ((np.arange(6) + k) % 5).astype(dtype)
        t.call(g, torch.from_numpy(a.copy()))
        t.call(h, a)


@program(hits=0)
def test_by_zero(t):
    @t.compile
    def f(x, y):
        z = x + 0
        z[x > 1] /= y
        return z

    for y in (2.0, 2.0, 2.0, 0.0, 0.0, 2.0):
        t.call(f, np.arange(4.0), np.float64(y))
        t.call(f, torch.arange(4.0), y)


@program(hits=0)
def test_gradients(t):
    @t.compile
    def f(x, w):
        y = x * 1
        y[x > 1] *= w
        return y.sum()

    for _ in range(3):
        w = torch.tensor(2.0, requires_grad=True)
        t.call(f, torch.arange(4.0), w).backward()
        t.note(w.grad)


@program(hits=2 * UNCHECKED, hits_broken=0)
def test_memory_of_a_view(t):
    @t.compile
    def f(x):
        y = x + 1
        v = y[1:]
        v[v > 2] += 1
        return y * 2, v

    t.calls(f, lambda: (torch.arange(5.0),))
    t.calls(f, lambda: (np.arange(5.0),))


@pytest.mark.parametrize("f", [added, given, by_itself, other_values, floor_and_power, nothing_chosen, a_row])
def test_whole(f):
    import dyno
    from twice import BREAKS, NO_HITS

    for make in (lambda: torch.arange(6.0), lambda: np.arange(6.0)):
        compiled = dyno.compile(f)
        for _ in range(3):
            compiled(make())
            dyno.wait()
        before = dyno.stats()
        compiled(make())
        after = dyno.stats()
        assert BREAKS or NO_HITS or not UNCHECKED or (after["hits"] - before["hits"], after["captures"] - before["captures"]) == (1, 0)
