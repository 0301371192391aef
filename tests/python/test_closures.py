"""Closures, defaults, nested functions, partials of them: captured variables are read when used, never frozen."""
import functools

import torch
from twice import program


@program
def test_captured_number_changes(t):
    n = 1

    def change(to):
        nonlocal n
        n = to

    @t.compile
    def f(a):
        return a * n

    for to in (1, 1, 1, 2, 2, 3, 2.5, True, 1):
        change(to)
        t.call(f, torch.ones(2))


@program
def test_captured_tensor_changes(t):
    w = torch.ones(2)

    def change(to):
        nonlocal w
        w = to

    @t.compile
    def f(a):
        return a + w

    for to in (torch.ones(2), torch.ones(2) * 2, torch.ones(2) * 3, torch.ones(1), torch.ones(2, dtype=torch.float64), torch.zeros(2)):
        change(to)
        t.call(f, torch.ones(2))


@program
def test_closures_of_one_code(t):
    def make(n, w):
        def f(a):
            return a * n + w

        return f

    made = [t.compile(make(n, torch.full((2,), float(n)))) for n in (1, 2, 3)]
    for _ in range(3):
        for f in made:
            t.call(f, torch.ones(2))


@program
def test_late_binding_in_loop(t):
    @t.compile
    def f(a):
        fs = [lambda x: x * i for i in range(3)]
        gs = [lambda x, i=i: x * i for i in range(3)]
        return [g(a) for g in fs], [g(a) for g in gs]

    t.calls(f, lambda: (torch.ones(2),))


@program
def test_returned_closure(t):
    @t.compile
    def f(a, k):
        b = a * 2

        def g(x):
            return x + b + k

        return g, g(a)

    for k in (1, 1, 1, 2):
        g, _ = t.call(f, torch.ones(2), k)
        t.call(g, torch.zeros(2))


@program
def test_cell_shared_by_two(t):
    @t.compile
    def f(a):
        n = 0

        def up():
            nonlocal n
            n += 1
            return n

        def read():
            return n

        up()
        b = a * read()
        up()
        return b + read(), n

    t.calls(f, lambda: (torch.ones(2),))


@program
def test_empty_cell(t):
    @t.compile
    def f(a, early):
        def g():
            return late

        if early:
            return a + g()
        late = 5
        return a * g()

    for early in (0, 0, 0, 1, 1, 0):
        t.call(f, torch.ones(2), early)


@program(hits=0)
def test_mutable_default(t):
    @t.compile
    def f(a, seen=[], *, total={"n": 0}):  # noqa: B006
        seen.append(len(seen))
        total["n"] += 1
        return a * total["n"], seen

    t.calls(f, lambda: (torch.ones(2),), 6)


@program
def test_defaults_changed(t):
    def f(a, n=1, *, k=2):
        return a * n + k

    g = t.compile(f)
    t.calls(g, lambda: (torch.ones(2),), 3)
    f.__defaults__ = (5,)
    t.calls(g, lambda: (torch.ones(2),), 3)
    f.__kwdefaults__ = {"k": 7}
    t.calls(g, lambda: (torch.ones(2),), 3)
    f.__kwdefaults__["k"] = 8
    t.calls(g, lambda: (torch.ones(2),), 3)
    f.__defaults__ = None
    t.calls(g, lambda: (torch.ones(2),), 2)
    t.call(g, torch.ones(2), 3)


@program
def test_defaults_of_inlined(t):
    def inner(a, n=1, *, k=2):
        return a * n + k

    @t.compile
    def f(a):
        return inner(a) + inner(a, 2) + inner(a, k=1)

    t.calls(f, lambda: (torch.ones(2),), 3)
    inner.__defaults__ = (5,)
    t.calls(f, lambda: (torch.ones(2),), 3)
    inner.__kwdefaults__["k"] = 9
    t.calls(f, lambda: (torch.ones(2),), 3)
    inner.__defaults__ = (5, 6)
    t.calls(f, lambda: (torch.ones(2),), 3)


@program
def test_partial_inside(t):
    def inner(a, b, n):
        return a * n + b

    half = functools.partial(inner, n=0.5)

    @t.compile
    def f(a):
        return half(a, a) + functools.partial(inner, a)(a, 2)

    t.calls(f, lambda: (torch.ones(2),), 5)


@program
def test_function_attribute(t):
    @t.compile
    def f(a):
        inner.calls += 1
        return inner(a) * inner.scale

    def inner(a):
        return a + 1

    inner.calls, inner.scale = 0, 2
    t.calls(f, lambda: (torch.ones(2),), 4)
    inner.scale = 3
    t.calls(f, lambda: (torch.ones(2),), 3)
    t.note(inner.calls)


@program
def test_decorated_inner(t):
    def loud(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * 2

        return wrapper

    @loud
    def inner(a, n=2):
        return a + n

    @t.compile
    def f(a):
        return inner(a) + inner(a, n=3)

    t.calls(f, lambda: (torch.ones(2),), 4)


@program
def test_lru_cache_and_map(t):
    @functools.lru_cache
    def slow(n):
        return n * 2

    @t.compile
    def f(a, n):
        parts = list(map(lambda x: x + slow(n), [a, a * 2]))
        return sum(parts), functools.reduce(torch.add, parts), sorted(parts, key=lambda x: -x.shape[0])

    for n in (1, 1, 2, 2, 1):
        t.call(f, torch.ones(2), n)
