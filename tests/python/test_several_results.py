"""Library calls with several results: each is followed by itself, and what is returned is eager's own kind of tuple."""
import pytest
import torch
from twice import program

ZEROS = torch.tensor([[0.0, -0.0, -1.0], [-0.0, 0.0, -2.0], [1.0, float("nan"), 2.0], [float("inf"), 3.0, float("inf")]])


def matrix(n=4, m=6):
    return torch.arange(float(n * m)).reshape(n, m).sin()


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
@program
def test_extremes_along_an_axis(t, name, keep, dim):
    def f(x):
        both = getattr(x * 1, name)(dim, keepdim=keep)
        values, indices = both
        return values, indices, both.values + 1, both[1] + 1, getattr(torch, name)(x + 0, dim)

    f = t.compile(f)
    for make in (matrix, lambda: ZEROS.clone(), lambda: (matrix() * 9).to(torch.int64), lambda: matrix().to(torch.bfloat16), lambda: matrix() > 0):
        t.calls(f, lambda make=make: (make(),))


@program
def test_softmax_by_hand(t):
    @t.compile
    def f(x):
        e = torch.exp(x - x.max(-1, keepdim=True).values)
        return (e / 2 > 0.25), x.max(-1).indices

    t.calls(f, lambda: (matrix(),))
    t.calls(f, lambda: (ZEROS.clone(),))


@program
def test_first_of_equal_zeros(t):
    @t.compile
    def f(x):
        return 1 / (x * 1).max(-1).values, 1 / (-x).min(0)[0], x.max(1)

    t.calls(f, lambda: (ZEROS.clone(),))
    t.calls(f, lambda: (ZEROS.flip(-1).double(),))


@program
def test_larger_of_two(t):
    @t.compile
    def f(x, y):
        return torch.max(x, y) + torch.min(x, other=y), x.max(y), torch.max(x), x.min()

    t.calls(f, lambda: (matrix(), -matrix()))
    t.calls(f, lambda: (matrix(), torch.tensor(0.25)))


@program
def test_spread_and_mean(t):
    @t.compile
    def f(x):
        v, m = torch.var_mean(x * 1, -1, keepdim=True)
        s, n = torch.std_mean(x + 1, dim=0, correction=0)
        return (v > 0.3) & (m > 0), s > 0.1, n > 1, torch.var_mean(x, (0, 1), unbiased=False)[1] > 0

    t.calls(f, lambda: (matrix(),))


PIECES = {
    "chunk": lambda x: x.chunk(2, -1), "chunk_uneven": lambda x: torch.chunk(x, 4, dim=1), "split": lambda x: x.split(4, dim=1), "split_sizes": lambda x: torch.split(x, [1, 2, 3], dim=-1),
    "split_with_sizes": lambda x: x.split_with_sizes((2, 4), 1), "tensor_split": lambda x: x.tensor_split(3, 1), "tensor_split_at": lambda x: torch.tensor_split(x, (1, 3), dim=1),
    "unbind": lambda x: x.unbind(0), "unbind_last": lambda x: torch.unbind(x, dim=-1), "split_rows": lambda x: x.split(3),
}  # fmt: skip


@pytest.mark.parametrize("how", PIECES)
@program
def test_pieces(t, how):
    cut = PIECES[how]

    @t.compile
    def f(x):
        pieces = cut(x)
        total = pieces[0] * 2
        return pieces, total, [p + 1 for p in pieces], len(pieces), cut(x + 1)[-1].contiguous()

    t.calls(f, lambda: (matrix(),))
    t.calls(f, lambda: (matrix().to(torch.float64).t().contiguous().t(),))


@pytest.mark.parametrize("how", PIECES)
@program(hits=0)
def test_stores_into_pieces(t, how):
    cut = PIECES[how]

    @t.compile
    def f(x):
        pieces = cut(x)
        pieces[0].add_(100)
        pieces[-1].mul_(2)
        return x.sum() > 0, pieces[0] + 0, x * 1

    t.calls(f, lambda: (matrix(),))


@program(hits=0)
def test_pieces_of_parameters(t):
    @t.compile
    def f(x, w):
        with torch.no_grad():
            a, b = w.chunk(2)
            return a + x, b * x, a

    t.calls(f, lambda: (matrix(2, 6), matrix(4, 6).requires_grad_()))


@program
def test_rotation(t):
    @t.compile
    def rotate(q, cos, sin):
        a, b = q.chunk(2, -1)
        return q * cos + torch.cat((-b, a), -1) * sin

    t.calls(rotate, lambda: (matrix(6, 8).reshape(2, 3, 8), matrix(3, 8), matrix(3, 8).cos()))
    t.calls(rotate, lambda: (matrix(6, 8).reshape(2, 3, 8).bfloat16(), matrix(3, 8).bfloat16(), matrix(3, 8).cos().bfloat16()))


@program
def test_concatenations_used_elementwise(t):
    @t.compile
    def f(x, y, n):
        c = torch.cat([x, y, x[:1]], 0)
        d = torch.cat((y, x), 1)
        return c * n + c, (c > 0).float(), d.relu() + torch.cat((x, y), 1), torch.cat([c, c + 1], -1).exp() > 1, d.sum(1) > 0

    t.calls(f, lambda: (matrix(), matrix() + 1, 2.5))


@program
def test_narrow_select_movedim(t):
    @t.compile
    def f(x):
        return x.narrow(1, 1, 3) * 2, torch.narrow(x, -1, -3, 2), x.select(0, -1) + 1, torch.select(x, 1, 2), x.reshape(2, 2, 6).movedim(0, -1) + 1, torch.moveaxis(x, (0, 1), (1, 0))

    t.calls(f, lambda: (matrix(),))
