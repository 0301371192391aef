"""Exceptions: type, text, traceback lines, context; effects up to the raise stay, later ones never happen. PYTEST_DONT_REWRITE: as users write."""
import numpy as np
import pytest
import torch
from twice import program


@program
@pytest.mark.law(2)
def test_effects_before_the_raise(t):
    @t.compile
    def f(a, log, n):
        log.append("before")
        b = a * 2
        log.append(b)
        c = 10 // n
        log.append("after")
        return b + c

    for n in (1, 1, 1, 0, 0, 2, 0, 1):
        t.call(f, torch.ones(2), [], n)


@program
@pytest.mark.law(2)
def test_shape_error(t):
    @t.compile
    def f(a, b, log):
        log.append(1)
        a = a * 2
        a.add_(1)
        return a + b

    for n in (3, 3, 3, 4, 4, 1, 3):
        t.call(f, torch.ones(3), torch.ones(n), [])


@program
def test_raise_in_inlined(t):
    def inner(a, n):
        if n == 0:
            raise ValueError(f"n is {n}")
        return a / n

    @t.compile
    def f(a, n):
        b = a + 1
        c = inner(b, n)
        return c * 2

    for n in (1, 1, 1, 0, 0, 1):
        t.call(f, torch.ones(2), n)


@program
def test_caught_in_function(t):
    @t.compile
    def f(a, d):
        try:
            x = d["k"]
        except KeyError as e:
            x = len(e.args[0])
        return a * x

    for d in ({"k": 5}, {"k": 5}, {"k": 5}, {}, {}, {"k": 2}):
        t.call(f, torch.ones(2), d)


@program
def test_raised_and_caught_inside(t):
    @t.compile
    def f(a, n):
        try:
            if n > 1:
                raise ValueError("big", n)
            b = a + 1
        except ValueError as e:
            return a, e.args
        else:
            b = b * 2
        finally:
            a = a * 0
        return a, b

    for n in (1, 1, 1, 2, 2, 3, 1):
        t.call(f, torch.ones(2), n)


@program
def test_context_and_cause(t):
    @t.compile
    def f(a, n):
        b = a * 2
        try:
            return b / (1 // n)
        except ZeroDivisionError as e:
            if n is False:
                raise RuntimeError("from") from e
            raise KeyError("in context")

    for n in (1, 1, 0, 0, False, False, 1):
        t.call(f, torch.ones(2), n)


@program
def test_raise_in_try_in_caller(t):
    @t.compile
    def f(a, n):
        return a * (2 // n)

    def outer(a, n):
        try:
            return f(a, n)
        except ZeroDivisionError as e:
            return "caught", e

    for n in (1, 1, 0, 0, 1):
        t.call(outer, torch.ones(2), n)


@program
def test_composed_messages(t):
    @t.compile
    def f(a, how):
        b = a + 1
        if how == "unbound":
            return never  # noqa: F821
        if how == "local":
            if how == "x":
                y = 1
            return y
        if how == "unpack":
            x, y = (1, 2, 3)
        if how == "few":
            x, y, *z = (1,)
        if how == "attribute":
            return b.no_such_thing
        if how == "call":
            return f.__name__()
        if how == "none":
            return None + b
        if how == "index":
            return [1][3]
        if how == "arguments":
            return (lambda x: x)(1, 2)
        return b

    for how in ("", "", "unbound", "local", "unpack", "few", "attribute", "call", "none", "index", "arguments", "unbound", "local", "unpack", ""):
        t.call(f, torch.ones(2), how)


@program
def test_wrong_arguments(t):
    @t.compile
    def f(a, b=1, *, c=2):
        return a + b + c

    a = torch.ones(2)
    for args, kwargs in (((a,), {}), ((a,), {}), ((), {}), ((a, 1, 2), {}), ((a,), {"d": 1}), ((a,), {"a": 1}), ((a,), {"c": 5}), ((a, 3), {})):
        t.call(f, *args, **kwargs)


@program
def test_index_out_of_range_tensor(t):
    @t.compile
    def f(a, i):
        b = a * 2
        return b[i] + 1

    for i in (0, 0, 0, 1, 2, 2, 3, -3, -4, 0):
        t.call(f, torch.arange(3.0), i)


@program
@pytest.mark.law(2)
def test_gather_out_of_range(t):
    @t.compile
    def f(a, index, log):
        log.append(1)
        a.add_(1)
        b = a[index]
        return b * 2

    for last in (1, 1, 1, 5, 5, 2):
        t.call(f, torch.arange(3.0), torch.tensor([0, last]), [])


@program
def test_integer_division_by_zero(t):
    @t.compile
    def f(a, b):
        c = a + 1
        return c // b

    for d in (1, 1, 1, 0, 0, 2):
        t.call(f, torch.arange(3), torch.tensor([1, d, 2]))


@program
def test_assertion_and_custom_error(t):
    class Wrong(Exception):
        def __init__(self, a):
            super().__init__("wrong")
            self.a = a

    @t.compile
    def f(a):
        b = a * 2
        if b.sum() > 10:
            raise Wrong(b)
        assert b.sum() > 0, "small"
        return b

    for x in (1.0, 1.0, 1.0, 9.0, 9.0, -1.0, -1.0, 1.0):
        error = t.call(f, torch.full((2,), x))
        t.note(getattr(error, "a", None))


@program
def test_error_in_loop(t):
    @t.compile
    def f(a, items, log):
        for x in items:
            log.append(x)
            a = a / (6 // x)
        return a

    for items in ((1, 2), (1, 2), (1, 2, 3), (1, 0, 2), (1, 0, 2), (1, 2)):
        t.call(f, torch.ones(2), items, [])


@program
def test_finally_overrides(t):
    @t.compile
    def f(a, n):
        try:
            b = a / n
            if n == 2:
                raise ValueError
            return b
        except ValueError:
            return b * 100
        finally:
            if n == 3:
                return a

    for n in (1, 1, 2, 2, 3, 3, 1):
        t.call(f, torch.ones(2), n)


@program
def test_exception_group(t):
    @t.compile
    def f(a, n):
        b = a + n
        try:
            if n:
                raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* ValueError as group:
            b = b * len(group.exceptions)
        return b

    for n in (0, 0, 0, 1, 1, 0):
        t.call(f, torch.ones(2), n)


@program
def test_numpy_errors(t):
    @t.compile
    def f(x, y):
        z = x * 2
        return z + y

    for n in (3, 3, 3, 4, 4, 1, 3):
        t.call(f, np.ones(3), np.ones(n))


@program
def test_error_state_after_handling(t):
    import sys

    @t.compile
    def f(a, n):
        try:
            a = a * (1 // n)
        except ZeroDivisionError:
            a = a - 1
            inside = sys.exc_info()[0]
        else:
            inside = None
        return a, inside, sys.exc_info()[0]

    for n in (1, 1, 0, 0, 0, 1):
        t.call(f, torch.ones(2), n)


@program
def test_reraise_keeps_lines(t):
    def inner(a, n):
        return a / (1 // n)

    @t.compile
    def f(a, n):
        try:
            return inner(a * 2, n)
        except ZeroDivisionError:
            a = a + 1
            raise

    for n in (1, 1, 1, 0, 0, 1):
        t.call(f, torch.ones(2), n)


@program
def test_stop_iteration(t):
    @t.compile
    def f(a, it):
        return a * next(it)

    for items in ([1, 2], [3], [3], [], []):
        t.call(f, torch.ones(2), iter(items))
