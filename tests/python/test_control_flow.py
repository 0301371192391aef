"""Control flow: each branch by its guard, on data too, conditional expressions, match, early returns. PYTEST_DONT_REWRITE: as users write."""
import pytest
import torch
from twice import program


@program
def test_branch_on_size(t):
    @t.compile
    def f(a):
        if a.shape[0] > 3:
            return a * 2
        return a + 1

    for n in (2, 2, 3, 4, 4, 5, 2, 4):
        t.call(f, torch.arange(n, dtype=torch.float32))


@program
def test_branch_on_data(t):
    @t.compile
    def f(a):
        b = a * 2 + 1
        if b.sum() > 0:
            return b - 1
        return b * a

    for sign in (1, 1, 1, -1, -1, 1, -1, 1):
        t.call(f, torch.ones(5) * sign)


@program
def test_branch_on_argument_kinds(t):
    @t.compile
    def f(a, flag):
        if flag is None:
            return a + 1
        if isinstance(flag, str):
            return a * len(flag)
        if flag:
            return a - 1
        return a

    for flag in (None, None, "ab", "ab", "abc", True, True, False, 0, 1, 0.0, [], [1], None, "ab"):
        t.call(f, torch.arange(4.0), flag)


@program
def test_conditional_expression_and_short_circuit(t):
    @t.compile
    def f(a, b, c):
        x = a * 2 if b else a * 3
        y = b and c
        z = b or c
        return x, y, z, not b, b and x, c or x

    for b, c in ((0, 1), (0, 1), (1, 0), (1, 0), ("", "x"), ("", "x"), (0, 1), (None, [])):
        t.call(f, torch.ones(3), b, c)


@program
def test_chained_comparison(t):
    @t.compile
    def f(a, n):
        if 0 < n < 5:
            return a + n
        if 5 <= n <= 5:
            return a * n
        return a - n

    for n in (1, 1, 4, 5, 5, 6, -1, -1, 0):
        t.call(f, torch.arange(3.0), n)


@program
def test_match(t):
    @t.compile
    def f(a, how):
        match how:
            case "double":
                return a * 2
            case ("add", n):
                return a + n
            case {"mul": n, **rest}:
                return a * n, sorted(rest)
            case int(n) if n > 2:
                return a - n
            case _:
                return a

    for how in ("double", "double", ("add", 3), ("add", 3), ("add", 4), {"mul": 2, "x": 1}, {"mul": 2, "x": 1}, 3, 3, 1, 2.5, "double"):
        t.call(f, torch.arange(3.0), how)


@program
def test_early_returns_on_data(t):
    @t.compile
    def f(a):
        if (a > 2).any():
            return "big", a * 2
        if (a < -2).any():
            return "small", a * 3
        return "none", a + 1

    for x in (3, 3, -3, -3, 0, 0, 3, -3, 0):
        t.call(f, torch.full((3,), float(x)))


@program
def test_while_on_data(t):
    @t.compile
    def f(a):
        n = 0
        while a.sum() < 100:
            a = a * 2
            n += 1
        return a, n

    for x in (1.0, 1.0, 1.0, 30.0, 200.0, 1.0):
        t.call(f, torch.full((3,), x))


@program
def test_item_branches(t):
    @t.compile
    def f(a):
        s = a.sum().item()
        if s > 4:
            return a * s
        return a + s

    for x in (1, 1, 1, 2, 2, 1):
        t.call(f, torch.full((3,), float(x)))


@program
def test_try_finally_order(t):
    @t.compile
    def f(a, log):
        try:
            log.append("try")
            return a + 1
        finally:
            log.append("finally")

    t.calls(f, lambda: (torch.ones(2), []))


@program
def test_with_blocks(t):
    class Context:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("enter")
            return self

        def __exit__(self, kind, value, trace):
            self.log.append(kind.__name__ if kind else "leave")
            return kind is ZeroDivisionError

    @t.compile
    def f(a, n):
        log = []
        with Context(log) as c:
            a = a * 2
            n = 1 // n
            a = a + 1
        return a, log, c is not None

    for n in (1, 1, 1, 0, 0, 1, 2):
        t.call(f, torch.ones(3), n)


@program
def test_unpacking_and_star(t):
    @t.compile
    def f(a, *rest, k=1, **more):
        first, *middle, last = rest
        return a + first + last, middle, k, sorted(more), [*rest, k], {**more, "k": k}

    for rest, more in (((1, 2), {}), ((1, 2), {}), ((1, 2, 3), {"z": 1}), ((1, 2, 3), {"z": 1}), ((1, 2), {"k": 3}), ((1,), {})):
        t.call(f, torch.ones(2), *rest, **more)


@program
def test_walrus_lambda_comprehension(t):
    @t.compile
    def f(a, n):
        if (m := n * 2) > 3:
            a = a + m
        g = lambda x, y=m: x * y  # noqa: E731
        parts = [g(a, i) for i in range(n) if i % 2]
        return parts, {i: a + i for i in range(n)}, tuple(x.shape for x in parts), {i for i in range(n)}

    for n in (1, 1, 2, 3, 3, 3, 4):
        t.call(f, torch.arange(3.0), n)


@program
def test_assert_statement(t):
    @t.compile
    def f(a, n):
        assert n > 0, f"n is {n}"
        b = a * n
        assert b.shape == a.shape
        return b

    for n in (1, 1, 1, 0, -1, 2, 1):
        t.call(f, torch.ones(2), n)


@program
@pytest.mark.law(7)
def test_is_and_in(t):
    sentinel = object()

    @t.compile
    def f(a, x, names):
        if x is sentinel:
            return a + 1
        if x in names:
            return a + 2
        if x == "b":
            return a + 3
        return a

    for x in (sentinel, sentinel, "n", "n", "b", "b", None, sentinel):
        t.call(f, torch.zeros(2), x, ("n", "m"))
