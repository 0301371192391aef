"""What hangs on data without ending a segment: sizes, random numbers, rows, items, results that only eager calls take."""
import numpy as np
import torch
from twice import program


@program
def test_boolean_indexing(t):
    @t.compile
    def f(x):
        y = x * 2
        chosen = y[y > 3]
        return chosen, chosen.sum() + 1, (chosen * 3 - 1).mean()

    for n in (3, 4, 9, 1, 4):
        t.call(f, torch.arange(float(n)))
        t.call(f, np.arange(float(n)))


@program
def test_nonzero_and_unique(t):
    @t.compile
    def f(x):
        y = x % 3
        values = torch.unique(y)
        places = torch.nonzero(y)
        return values, places, y[places[:, 0]], torch.where(y > 1)

    @t.compile
    def g(x):
        y = x % 3
        return np.unique(y), np.nonzero(y), np.argwhere(y > 1), np.where(y > 1)[0] + 1, np.bincount(y)

    for values in ([1, 2, 3, 4], [3, 3, 3, 3], [5, 1, 1, 1]):
        t.calls(f, lambda: (torch.tensor(values),))
        t.calls(g, lambda: (np.array(values),))


@program
def test_sizes_that_are_asked_for(t):
    @t.compile
    def f(x):
        y = (x * 2)[x > 1]
        return y, len(y), y.shape, y.dtype, y.ndim

    for n in (1, 2, 5, 3):
        t.calls(f, lambda: (torch.arange(float(n)),))
        t.calls(f, lambda: (np.arange(float(n)),))


@program
def test_empty_selection(t):
    @t.compile
    def f(x):
        y = (x + 1)[x > 100]
        return y, y.sum()

    t.calls(f, lambda: (torch.arange(3.0),))
    t.calls(f, lambda: (np.arange(3.0),))


@program
def test_complex_results(t):
    @t.compile
    def f(x):
        return torch.fft.rfft(x * 2), np.fft.rfft(x.numpy() * 2), np.abs(np.fft.fft(x.numpy()))

    t.calls(f, lambda: (torch.arange(8.0),))


@program
def test_random_numbers(t):
    @t.compile
    def f(x):
        a = torch.randn(3)
        b = torch.rand_like(x)
        return x * a + b, torch.randint(10, (2,)), torch.randperm(4), torch.bernoulli(x * 0 + 0.5)

    @t.compile
    def g(x):
        return x * np.random.rand(3) + np.random.normal(size=3), np.random.randint(0, 10, 4), np.random.permutation(5), np.random.choice(x)

    torch.manual_seed(5)
    np.random.seed(5)
    for _ in range(4):
        t.call(f, torch.ones(3))
        t.call(g, np.ones(3))
    t.note(torch.rand(1).item(), np.random.rand())


@program
def test_failed_replays_draw_nothing(t):
    @t.compile
    def f(x, y):
        a = np.random.rand(3)
        b = torch.rand(3)
        return x / y, a, b

    np.random.seed(1)
    torch.manual_seed(1)
    for divisor in (1.0, 1.0, 0.0, 1.0, 0.0):
        t.call(f, np.ones(3), np.full(3, divisor))
    t.note(np.random.rand(), torch.rand(1).item())


@program
def test_rows(t):
    @t.compile
    def f(x):
        total = 0
        for row in x:
            total = total + row * 2
        for i, row in enumerate(x):
            total = total + row * i
        for one, two in zip(x, x):
            total = total + one * two
        a, b, *rest = x
        return total, a, b, rest

    t.calls(f, lambda: (torch.arange(12.0).reshape(4, 3),))
    t.calls(f, lambda: (np.arange(12.0).reshape(4, 3),))
    t.calls(f, lambda: (torch.arange(4.0),))
    t.calls(f, lambda: (np.arange(4.0),))
    t.calls(f, lambda: (np.arange(4),))


@program
def test_rows_are_views(t):
    @t.compile
    def f(x):
        for k, row in enumerate(x):
            row += k
            row[0] = 7
        return row, x * 1

    t.calls(f, lambda: (torch.zeros(3, 2),))
    t.calls(f, lambda: (np.zeros((3, 2)),))


@program(hits_broken=0)
def test_breaks_inside_loops_over_rows(t):
    @t.compile
    def f(x):
        out = []
        for row in x:
            out.append(row + 1)
            if row.sum() > 5:
                out.append(row * 2)
        return out

    t.calls(f, lambda: (torch.arange(12.0).reshape(4, 3),))
    t.calls(f, lambda: (np.arange(12.0).reshape(4, 3),))


@program
def test_lists_of_numbers(t):
    @t.compile
    def f(x):
        a, b = (x * 2).tolist()
        return x + a, b, torch.tensor([a, 2.0, b]) + 1, torch.tensor([[1, 2], [3, 4]])

    t.calls(f, lambda: (torch.tensor([1.0, 2.0]),))


@program
def test_between_libraries(t):
    @t.compile
    def f(x):
        a = (x * 2).numpy()
        b = torch.from_numpy(a + 1)
        c = torch.as_tensor(a)
        return a, b * 2, c.cpu() + 1

    for _ in range(3):
        a, b, c = t.call(f, torch.arange(3.0))
        a[0] = 50
        t.note(b[0].item(), c[0].item())


@program
def test_uninitialised_memory(t):
    @t.compile
    def f(x):
        a = torch.empty(3)
        a[:] = x
        b = torch.empty_like(x)
        b.copy_(x * 2)
        return a, b

    @t.compile
    def g(x):
        a = np.empty(3)
        a[:] = x
        b = np.empty_like(x)
        for i in range(3):
            b[i] = x[i] * 2
        return a, b

    t.calls(f, lambda: (torch.arange(3.0),))
    t.calls(g, lambda: (np.arange(3.0),))


@program
def test_division_of_constants(t):
    @t.compile
    def f(x):
        z = np.zeros_like(x)
        return z / z, x

    @t.compile
    def g(x):
        z = np.zeros_like(x)
        z /= z
        return z + x

    t.calls(f, lambda: (np.arange(3.0),))
    t.calls(g, lambda: (np.arange(3.0),))


@program(hits_broken=0)
def test_handlers_end(t):
    import sys

    @t.compile
    def f(x):
        try:
            y = x.reshape(7, 13)
        except (ValueError, RuntimeError) as error:
            y = type(error).__name__
        z = x * 2
        return y, z + 1

    for make in (lambda: np.ones(3), lambda: torch.ones(3)):
        for _ in range(4):
            x = make()
            t.call(f, x)
            t.note(sys.getrefcount(x), sys.exc_info())


@program
def test_sequences_of_another_length(t):
    @t.compile
    def lists(z):
        return z[z != 0].tolist()

    @t.compile
    def parts(z):
        return z[z != 0].unbind()

    @t.compile
    def indices(z):
        return np.nonzero(z)[0].tolist()

    for count in (3, 3, 3, 4, 2, 5, 3):
        z = torch.zeros(6)
        z[:count] = 1
        t.call(lists, z)
        t.call(parts, z)
        t.call(indices, z.numpy())


@program(hits_broken=0)
def test_length_of_what_a_mask_selects(t):
    @t.compile
    def f(x):
        chosen = x[x > 2]
        n = len(chosen)
        return n, x * n, len(chosen) / len(x), chosen.sum()

    for make in (lambda: torch.arange(6.0), lambda: np.arange(6.0), lambda: np.zeros(4), lambda: torch.arange(12.0).reshape(4, 3)):
        t.calls(f, lambda make=make: (make(),))


@program(hits_broken=0)
def test_branches_on_such_a_length(t):
    @t.compile
    def f(x):
        chosen = x[x > 2]
        if len(chosen):
            return chosen.mean(), x + 1
        return x - 1

    for make in (lambda: np.arange(6.0), lambda: np.zeros(4), lambda: np.arange(6.0), lambda: torch.arange(6.0), lambda: torch.zeros(3)):
        t.calls(f, lambda make=make: (make(),))
