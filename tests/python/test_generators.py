"""Generators made and consumed inside compiled functions: generator expressions, generator functions, the builtins that go through them."""
import sys
import traceback
import warnings

import dyno
import pytest
import torch
from twice import BREAKS, NO_HITS, program


def whole(fn, *arguments):
    """The function was compiled as one graph: a call after compiling passes no break."""
    compiled = dyno.compile(fn)
    for _ in range(2):
        compiled(*arguments)
        dyno.wait()
    before = dyno.stats()
    compiled(*arguments)
    now = dyno.stats()
    return now["hits"] - before["hits"] == 1 and now["graph_breaks"] == before["graph_breaks"] and now["captures"] == before["captures"]


def by_expression(x):
    return sum(x * k for k in range(4))


def by_any(x):
    return x + 1 if any(k > 2 for k in x.shape) else x - 1


def by_all(x):
    return x + 1 if all(isinstance(v, torch.Tensor) for v in (x, x)) else x - 1


def by_tuple(x):
    a, b, c = tuple(x + k for k in range(3))
    return torch.stack([a, b * 2, c])


def by_list(x):
    return torch.cat(list(x * k for k in (1, 2)))


def by_loop(x):
    def halves(y, n):
        for _ in range(n):
            y = y * 0.5
            yield y
    total = x
    for y in halves(x, 3):
        total = total + y
    return total


def by_next(x):
    gen = (x + k for k in range(5))
    first = next(gen)
    second = next(gen)
    return first * second


def by_default(x):
    return next((x * k for k in (1, 2, 3) if k > 5), x - 1)


def by_yield_from(x):
    def inner(y):
        yield y + 1
        yield y + 2
        return y * 3
    def outer(y):
        last = yield from inner(y)
        yield last
        yield from [y, y * 2]
    return sum(outer(x))


def by_closure(x):
    scale = x.shape[0]
    return sum(x * scale * k for k in range(3))


def by_nested(x):
    return sum(sum(x * (i + j) for j in range(2)) for i in range(3))


def by_keywords(x):
    def steps(y, *rest, times=2, **more):
        for k in range(times):
            yield y * k + sum(rest) + more.get("offset", 0)
    return sum(steps(x, 1, 2, times=3, offset=5))


def by_sum_of_list(x):
    return sum([x, x * 2, x * 3])


def by_sum_start(x):
    return sum([x, x], x * 10)


def by_any_of_list(x):
    return x * 2 if any([False, x is None, x.ndim == 1]) else x



def by_unpacking(x):
    a, b = (x * k for k in (2, 3))
    c, *d = (x + k for k in range(4))
    e, f = zip((x, a), (b, x), strict=True)
    return a, b, c, d, e, f


WHOLE = [by_expression, by_any, by_all, by_tuple, by_list, by_loop, by_next, by_default, by_yield_from, by_closure, by_nested, by_keywords,
         by_sum_of_list, by_sum_start, by_any_of_list, by_unpacking]


@pytest.mark.skipif(BREAKS or NO_HITS, reason="nothing is replayed there, or every operation is a segment")
@pytest.mark.parametrize("fn", WHOLE, ids=lambda f: f.__name__)
def test_is_one_graph(fn):
    assert whole(fn, torch.arange(3.0))


@pytest.mark.parametrize("fn", WHOLE, ids=lambda f: f.__name__)
def test_gives_what_python_gives(fn):
    @program(hits_broken=0)
    def check(t):
        f = t.compile(fn)
        for k in range(4):
            t.call(f, torch.arange(3.0) + k)
            t.call(f, torch.ones(5) * k)
    check.__globals__["capfd"] = None
    run_both(check)


def run_both(check):
    """The program's two runs without a fixture."""
    class Nothing:
        def readouterr(self):
            return type("Out", (), {"err": ""})
    check(capfd=Nothing())


@program(hits=0)
def test_lazy_and_early_ends(t):
    seen = []

    def noisy(x, n):
        try:
            for k in range(n):
                seen.append(("in", k))
                yield x + k
        finally:
            seen.append("closed")

    @t.compile
    def first_large(x):
        for y in noisy(x, 6):
            if y is not x and len(seen) > 3:
                return y * 2
        return x

    @t.compile
    def abandoned(x):
        gen = (x * k for k in range(10))
        a = next(gen)
        b = next(gen)
        return a + b

    for k in range(4):
        seen.clear()
        t.call(first_large, torch.ones(3) * k)
        t.note(list(seen))
        t.call(abandoned, torch.ones(3) * k)


@program(hits=0)
def test_generators_that_escape(t):
    @t.compile
    def returned(x):
        y = x * 2
        return (y + k for k in range(3)), y

    @t.compile
    def half_used(x):
        gen = (x * k for k in range(1, 5))
        first = next(gen) + 1
        return first, gen

    kept = []

    @t.compile
    def stored(x):
        gen = (x * k for k in range(1, 4))
        kept.append(gen)
        return next(gen) * 2

    for k in range(4):
        gen, y = t.call(returned, torch.ones(2) + k)
        t.note(list(gen), y)
        first, gen = t.call(half_used, torch.ones(2) + k)
        t.note(first, list(gen))
        t.call(stored, torch.ones(2) + k)
        t.note(list(kept.pop()))


@program(hits=0)
def test_breaks_inside(t):
    @t.compile
    def prints(x):
        return sum(shown(x * k) for k in range(3)) + 1

    def shown(y):
        print("value", y.tolist())
        return y

    @t.compile
    def branches(x):
        return any(v > 1 for v in x * 2), x + 1

    @t.compile
    def items(x):
        return tuple(v.item() for v in x), x.relu()

    for k in range(5):
        t.call(prints, torch.ones(2) * k)
        t.call(branches, torch.arange(3.0) - k)
        t.call(items, torch.arange(3.0) - k)


@program(hits=0)
def test_errors(t):
    def bad(x):
        for k in range(3):
            if k == 2:
                raise ValueError("two")
            yield x + k

    @t.compile
    def from_the_body(x):
        return sum(bad(x))

    @t.compile
    def caught(x):
        try:
            return sum(bad(x))
        except ValueError:
            return x * 100

    @t.compile
    def of_the_consumer(x):
        return sum([x, "text"])

    @t.compile
    def at_the_end(x):
        gen = (x * k for k in range(1))
        return next(gen) + next(gen)

    @t.compile
    def stop_inside(x):
        def inner():
            yield x
            raise StopIteration
        return [y * 2 for y in inner()]

    for k in range(4):
        for f in (from_the_body, caught, of_the_consumer, at_the_end, stop_inside):
            t.call(f, torch.ones(2) * k)


@program(hits=0)
def test_nobody_sees_the_frame(t):
    def depth(x):
        return sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name, [f.name for f in traceback.extract_stack()][-3:]

    @t.compile
    def f(x):
        y = x * 2
        return any(depth(y) is None for _ in range(1)), [depth(y) for _ in range(1)], y, sum(warned(y) for _ in range(2))

    def warned(y):
        warnings.warn("look", stacklevel=3)
        return y

    for k in range(4):
        t.call(f, torch.ones(2) * k)


@program(hits_broken=0)
def test_changes_between_calls(t):
    m = t.module("""
        factor = 2
        def gen(x, n=3):
            for k in range(n):
                yield x * k * factor
        def f(x):
            return sum(gen(x))
    """)
    f = t.compile(m.f)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.factor = 5
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.gen.__defaults__ = (4,)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    exec("def gen(x):\n    yield x + 1\n    yield x + 2\n", vars(m))
    for k in range(3):
        t.call(f, torch.ones(2) * k)


@program(hits_broken=0)
def test_shadowed_builtins(t):
    m = t.module("""
        def f(x):
            return sum(x * k for k in range(3))
    """)
    f = t.compile(m.f)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.sum = lambda items: [i + 1 for i in items]
    for k in range(3):
        t.call(f, torch.ones(2) * k)


def by_set(x):
    memo = set()
    total = x * 0
    for v in (x, total, x, total):
        if v not in memo:
            memo.add(v)
            total = total + v
    kinds = {"b", "a", "c"}
    for kind in kinds:
        total = total + ord(kind)
    return total, 2.0 in {1, 2, True}, memo is None


@program(hits_broken=0)
def test_sets(t):
    f = t.compile(by_set)
    for k in range(4):
        t.call(f, torch.ones(2) * k)

    @t.compile
    def shared(a, b):
        seen = {a}
        return a + 1 if b in seen else b * 2, seen

    x, y = torch.ones(2), torch.zeros(2)
    for a, b in ((x, y), (x, y), (x, x), (y, y), (x, y)):
        t.call(shared, a, b)


@program(hits_broken=0)
def test_unpacking_the_wrong_number(t):
    @t.compile
    def f(x, n):
        y = x * 2
        a, b = (y + k for k in range(n))
        return a * b

    @t.compile
    def g(x, n):
        y = x * 2
        gen = (y + k for k in range(n))
        try:
            a, b = gen
        except ValueError as error:
            return str(error), list(gen)
        return a, b

    for n in (2, 2, 1, 3, 5, 0, 2):
        t.call(f, torch.ones(2), n)
        t.call(g, torch.ones(2), n)


@program(hits_broken=0)
def test_parameters_of_a_module(t):
    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(2, 2)
            self.second = torch.nn.Linear(2, 2)

        @property
        def dtype(self):
            return next(p.dtype for p in self.parameters() if p.is_floating_point())

        def forward(self, x):
            return x.to(self.dtype) * 2, sum(1 for _ in self.children()), [name for name, _ in self.named_children()]

    m = Holder().eval()
    f = t.compile(m)
    with torch.no_grad():
        for k in range(4):
            t.call(f, torch.ones(2, dtype=torch.float64) * k)
        m.double()
        for k in range(3):
            t.call(f, torch.ones(2, dtype=torch.float64) * k)
        m.first = torch.nn.Linear(2, 2).half()
        for k in range(3):
            t.call(f, torch.ones(2, dtype=torch.float64) * k)
