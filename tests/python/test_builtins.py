"""Builtin functions on tensors and on what is known: len, pow, list, tuple, sorted, hash, and the functions of the operator module."""
import operator

import pytest
import torch
from twice import program

EXPRESSIONS = {
    "len": lambda x: x * len(x), "pow": lambda x: pow(x, 2) + pow(2.0, x), "add": lambda x: operator.add(x, 1) + operator.mul(2, x), "matmul": lambda x: operator.matmul(x, x),
    "neg": lambda x: operator.neg(x) - operator.abs(x), "compare": lambda x: operator.lt(x, 0.5) | operator.eq(x, x), "getitem": lambda x: operator.getitem(x, 0),
    "list": lambda x: [r * 2 for r in list(x)], "tuple": lambda x: tuple(x)[0] + tuple(x + 1)[-1], "star": lambda x: torch.stack([*x, *x[:1]]), "rows": lambda x: list(x * 2),
    "hash": lambda x: x + (hash("a") == hash("a")), "sum": lambda x: sum(list(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
@program
def test_on_tensors(t, name):
    body = EXPRESSIONS[name]

    @t.compile
    def f(x):
        return body(x * 1.5), x + 1

    t.calls(f, lambda: (torch.arange(9.0).reshape(3, 3) / 8,))
    t.calls(f, lambda: (torch.arange(4.0).reshape(2, 2).double(),))


@program
def test_sorted(t):
    @t.compile
    def f(x, names, d):
        y = x
        for n in sorted(names):
            y = y * d[n] if n in d else y + len(n)
        for k in sorted(d, reverse=True):
            y = y - d[k]
        return y, sorted(names), sorted([3, 1.5, 2, 1]), sorted((True, 0, 2.0, 1)), sorted({"b", "a"}), sorted([])

    t.calls(f, lambda: (torch.ones(2), ["b", "a", "c"], {"a": 2.0, "b": 3.0}))
    t.calls(f, lambda: (torch.ones(2), ["c", "b"], {"b": 1.0}))


@program(hits=0)
def test_what_sorted_cannot_know(t):
    @t.compile
    def f(x, xs, key):
        y = x + 1
        return y, sorted(xs, key=key), sorted(xs)

    t.calls(f, lambda: (torch.ones(2), [3, 1, 2], lambda v: -v))
    t.calls(f, lambda: (torch.ones(2), [(1, 2), (0, 3)], None))
    t.calls(f, lambda: (torch.ones(2), [1, "a"], None))
    t.calls(f, lambda: (torch.ones(2), [torch.tensor(2.0), torch.tensor(1.0)], None))


@program(hits=0)
def test_in_place_functions(t):
    @t.compile
    def f(x):
        y = operator.iadd(x, 1)
        operator.setitem(x, 0, 5.0)
        return y, y is x, x * 2

    t.calls(f, lambda: (torch.ones(3),))


@program(hits=0)
def test_with_gradients(t):
    @t.compile
    def f(x):
        return operator.mul(x, 2), pow(x, 2), list(x)[0] * 3, len(x)

    t.calls(f, lambda: (torch.ones(3, requires_grad=True),))
