"""Dynamic shapes, layouts and dtypes of inputs: a size that changes, zero sizes, scalars, strides, broadcasting."""
import numpy as np
import pytest
import torch
from twice import program


@program
def test_size_changes(t):
    @t.compile
    def f(a):
        return (a * 2 + 1).sum(), a.shape[0], a.reshape(-1)[0:2]

    for n in (3, 3, 4, 5, 6, 1, 2, 0, 1000, 3):
        t.call(f, torch.ones(n))


@program
def test_two_sizes_change(t):
    @t.compile
    def f(a, b):
        return a[:, None] * b[None, :] + a.shape[0] * b.shape[0]

    for n, m in ((2, 3), (2, 3), (3, 3), (3, 4), (1, 4), (4, 1), (1, 1), (5, 7), (2, 3)):
        t.call(f, torch.ones(n), torch.arange(float(m)))


@program
def test_broadcast_of_one(t):
    @t.compile
    def f(a, b):
        return a + b

    for n, m in ((3, 3), (3, 3), (3, 1), (1, 3), (1, 1), (4, 4), (4, 1), (3, 4), (0, 1), (3, 3)):
        t.call(f, torch.ones(n), torch.ones(m))


@program
def test_rank_and_dtype_change(t):
    @t.compile
    def f(a):
        return a * 2 + 1, a.sum(), a.dtype, a.ndim

    for a in (torch.ones(3), torch.ones(3, 2), torch.ones(()), torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.bfloat16),
              torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.uint8), torch.ones(3, dtype=torch.complex64), torch.ones(3)):
        t.calls(f, lambda a=a: (a,), 3)


@program
def test_strides_change(t):
    @t.compile
    def f(a):
        return a * 2 + 1, (a + a).contiguous(), a.t() * 3, torch.empty_like(a).stride(), a.is_contiguous()

    base = torch.arange(24.0)
    for a in (base.view(4, 6), base.view(4, 6).t(), base.view(4, 6)[:, ::2], base.view(6, 4).t()[1:], base[:6].expand(4, 6),
              base.view(24, 1)[:4], base.view(4, 6)[2:2]):
        t.calls(f, lambda a=a: (a,), 3)


@program
def test_channels_last(t):
    @t.compile
    def f(a):
        return a * 2, (a + 1).sum(1), a.permute(0, 2, 3, 1) + 1

    for _ in range(3):
        t.call(f, torch.arange(24.0).view(1, 2, 3, 4))
    for _ in range(3):
        t.call(f, torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last))


@program
def test_size_arithmetic(t):
    @t.compile
    def f(a):
        n, m = a.shape
        return a.reshape(m, n) / n, a.view(-1)[: n * m // 2], torch.arange(n) * m, n % m, a.numel() - n, a.size(-1), len(a)

    for n, m in ((2, 3), (2, 3), (4, 3), (5, 3), (5, 6), (1, 1), (2, 3)):
        t.call(f, torch.ones(n, m))


@program
def test_slices_with_numbers(t):
    @t.compile
    def f(a, i, j):
        return a[i:j] * 2, a[i:].sum(), a[:j] + 1, a[::2]

    for i, j in ((0, 2), (0, 2), (1, 3), (1, 4), (-2, 5), (2, 100), (4, 1), (None, 3), (0, 2)):
        t.call(f, torch.arange(5.0), i, j)


@program
def test_data_dependent_shape(t):
    @t.compile
    def f(a):
        b = a[a > 0]
        i = a.nonzero()
        return b * 2, i + 1, torch.unique(a), b.shape[0]

    for values in ([1.0, -1, 2], [1.0, -1, 2], [1.0, 1, 1], [-1.0, -1, -1], [1.0, -1, 2]):
        t.call(f, torch.tensor(values))


@program
def test_new_tensors_by_size(t):
    @t.compile
    def f(a, n):
        return torch.zeros(n) + a.sum(), torch.arange(n, dtype=a.dtype), torch.full((n, 2), 3.5), torch.ones_like(a) * n, torch.eye(n)

    for n in (2, 2, 3, 4, 0, 2):
        t.call(f, torch.ones(3), n)


@program
@pytest.mark.parametrize("option", [True, False, None])
def test_dynamic_option(t, option):
    @t.compile(dynamic=option)
    def f(a):
        return (a * 2 + 1).sum()

    for n in (3, 3, 4, 4, 5, 5, 3):
        t.call(f, torch.ones(n))


@program
def test_loop_over_rows(t):
    @t.compile
    def f(a):
        total = 0
        for row in a:
            total = total + row * 2
        return total, [r.sum() for r in a]

    for n in (2, 2, 3, 3, 2, 1):
        t.call(f, torch.arange(float(n * 2)).view(n, 2))


@program
def test_list_length_changes(t):
    @t.compile
    def f(items):
        out = torch.zeros(2)
        for x in items:
            out = out + x
        return out, torch.stack(items), torch.cat(items)

    for n in (2, 2, 3, 3, 1, 5, 2):
        t.call(f, [torch.full((2,), float(i)) for i in range(n)])


@program
def test_array_shapes(t):
    @t.compile
    def f(x):
        return x * 2 + 1, x.sum(axis=0), x.shape[0] * x.ndim, x.T + 1, x.reshape(-1)[:2]

    for x in (np.ones((2, 3)), np.ones((2, 3)), np.ones((4, 3)), np.ones((5, 3)), np.ones((3, 2)).T, np.ones((4, 6))[:, ::2],
              np.ones(4), np.ones((2, 3), "f4"), np.ones((2, 3), order="F"), np.ones((0, 3)), np.ones((2, 3))[::-1]):
        t.calls(f, lambda x=x: (x,), 2)


@program
def test_reductions_of_values_without_dims(t):
    # Beside a reduction over a row, alone, of a minus zero; a sum of one value is that value, but starts from +0.
    reductions = [lambda x: x.sum().sum(), lambda x: (x * 2).sum().sum().sum(), lambda x: (x.sum() + 1).prod(), lambda x: (x.sum() * 2 + 1).sum() + x.sum(),
                  lambda x: x.mean().sum(), lambda x: x[:1] * x.mean().sum(), lambda x: x[0].prod(), lambda x: (x[0] * -0.0).mean(), lambda x: (x[0] * -0.0).sum(),
                  lambda x: x.max().max() + x.max().min(), lambda x: (x.sum() > 1).all(), lambda x: (x.sum() > 1).any(), lambda x: x.sum().argmax()]
    for reduction in reductions:
        f = t.compile(reduction)
        t.calls(f, lambda: (torch.tensor([2.0, 1.5, 0.5]),))
        t.calls(f, lambda: (np.array([2.0, 1.5, 0.5]),))
    for reduction in (lambda x: x.sum().var(correction=0), lambda x: x.sum().logsumexp(0), lambda x: x.sum().amax(), lambda x: x.sum().sum(dtype=torch.float64)):
        t.calls(t.compile(reduction), lambda: (torch.tensor([2.0, 1.5, 0.5]),))


@program
def test_parts_of_norms_that_are_absent(t):
    import torch.nn.functional as F

    @t.compile
    def layer(x, weight, bias):
        return F.layer_norm(x, (4,), weight, bias), torch.layer_norm(x, (4,), weight, bias)

    @t.compile
    def one(x):
        return F.layer_norm(x, x.shape[-1:])

    weight, bias = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.5, -0.5, 5.0, 1.0])
    for given in ((None, None), (weight, None), (None, bias), (weight, bias), (None, None), (None, bias)):
        # One and three among equals: every step is exact but for the last, which is rounded the same way.
        t.call(layer, torch.zeros(2, 4), *given)
        t.call(layer, torch.full((2, 4), -0.0), *given)
    for value in (0.0, -0.0, 2.5, -0.0, 0.0):
        t.call(one, torch.full((2, 1), value))
        t.call(one, torch.full((3, 7), value))


@program
def test_signs_of_zero(t):
    import torch.nn.functional as F

    @t.compile
    def f(x):
        return F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.relu(x), F.leaky_relu(x), F.hardswish(x), F.elu(x), F.mish(x), F.selu(x)

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for n in (1, 2, 7, 64):
            t.calls(f, lambda: (torch.tensor([-0.0, 0.0] * n, dtype=dtype)[:n],))
