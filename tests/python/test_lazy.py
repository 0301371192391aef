"""map(), filter(), itertools and keys: what goes through their items at once is followed; nobody sees that no iterator was made."""
import itertools
import operator

import pytest
import torch
from twice import program

NAMES = {"torch": torch, "itertools": itertools, "operator": operator}
CONSUMED = """list(map(torch.sin, x))|list(map(lambda v: v * 2, [x, x + 1]))|sum(map(lambda v: v.sum(), x))|tuple(map(int, ks))|[*map(torch.cos, [x])]
torch.stack(list(map(torch.sin, [x, x])))|torch.cat([*map(torch.sin, [x, x])])|list(map(lambda a, b: a * b, [x, x], ks))|[y + 1 for y in map(torch.sin, [x, x])]
list(filter(lambda k: k > 1, ks))|list(filter(None, [1, 0, 2]))|list(itertools.filterfalse(lambda k: k > 2, ks))|list(itertools.filterfalse(None, [0, 3]))
list(itertools.chain([x], [x]))|list(itertools.chain())|list(itertools.islice([x, x + 1, x], 2))|list(itertools.islice(iter([x, x + 1, x + 2]), 1, 3))
list(itertools.islice(ks, 0, None, 2))|list(itertools.islice(ks, 0))|list(itertools.islice(ks, None))|list(itertools.islice((k * 2 for k in ks), 2))
list(itertools.product([1, 2], ks))|[a * b * x for a, b in itertools.product([1, 2], ks)]|list(itertools.product())|list(itertools.product(ks))
[a + b for a, b in itertools.combinations([x, x * 2, x * 3], 2)]|list(itertools.combinations(ks, 2))|list(itertools.combinations(ks, 4))|list(itertools.combinations(ks, 0))
list(itertools.permutations(ks, 2))|list(itertools.permutations(ks))|list(itertools.permutations(ks, 5))|list(itertools.repeat(x, 2))|list(itertools.repeat(x, 0))
list(itertools.starmap(torch.add, [(x, x), (x, 1)]))|list(itertools.accumulate([x, x, x]))|list(itertools.accumulate(ks, operator.mul))|list(itertools.accumulate([]))
list(itertools.pairwise([x, x * 2, x * 3]))|list(itertools.takewhile(lambda k: k > 2, ks))|list(itertools.dropwhile(lambda k: k > 2, ks))|list(itertools.compress(ks, [1, 0, 1]))
sorted(map(lambda k: -k, ks))|max(map(abs, ks))|max(*map(abs, ks))|sorted(ks, key=lambda v: -v)|sorted(ks, key=lambda v: -v, reverse=True)|sorted(ks, key=lambda v: v % 2)
sorted(ks, key=lambda v: v % 2, reverse=True)|sorted([("b", 1), ("a", 2), ("a", 1)])|sorted([("b", x), ("a", x + 1)], key=lambda p: p[0])|max(ks, key=lambda v: -v)|min(ks, key=lambda k: k % 3)
max([(1, x), (3, x + 1)], key=lambda p: p[0])[1]|sorted(ks, key=None)|min([4, 2, 2], key=lambda k: k)""".replace("\n", "|").split("|")


def function(expression, **more):
    names = {**NAMES, **more}
    exec(compile(f"def f(x, ks):\n    x = x * 1.5\n    z = {expression}\n    return z, x + 1\n", "<cell>", "exec"), names)
    return names["f"]


@pytest.mark.parametrize("expression", CONSUMED)
@program
def test_consumed_at_once(t, expression):
    f = t.compile(function(expression))
    t.calls(f, lambda: (torch.arange(6.0).reshape(2, 3), [3, 1, 2]))
    t.call(f, torch.arange(6.0).reshape(2, 3), [1, 5])
    t.call(f, torch.arange(6.0).reshape(2, 3), [2, 2, 7])


@pytest.mark.parametrize("expression", ["map(abs, ks)", "iter(map(abs, ks))", "filter(None, ks)", "itertools.chain(ks, ks)", "itertools.product(ks, ks)", "(lambda m: (next(m), list(m)))(map(abs, ks))",
                                        "[m for m in [map(abs, ks)]][0]", "zip(map(abs, ks), ks)", "itertools.count(2)", "itertools.groupby(ks)"])  # fmt: skip
@program(hits=0)
def test_iterators_that_live_on(t, expression):
    """What is returned is of the type that Python makes, and as far as Python has it."""
    made = function(expression)
    f = t.compile(lambda x, ks: [(type(m).__name__, list(itertools.islice(m, 3)) if hasattr(m, "__next__") else m) for m in (made(x, ks)[0],)])
    t.calls(f, lambda: (torch.ones(3), [3, 1, 2]))


@pytest.mark.parametrize("expression", ["list(map(told, [x, x]))", "any(map(told, [1, 0]))", "[told(v) for v in map(told, [1, 2])]", "sorted(ks, key=told)", "max(ks, key=told)",
                                        "list(itertools.takewhile(told, [1, 0, 1]))", "list(zip(map(told, ks), map(told, ks)))", "a, *b = map(told, ks)" if 0 else "list(filter(told, [0, 1]))"])  # fmt: skip
@program(hits=0)
def test_order_of_what_functions_do(t, expression):
    def told(v):
        print("told", v if isinstance(v, int) else "tensor")
        return v

    f = t.compile(function(expression, told=told))
    t.calls(f, lambda: (torch.ones(3), [3, 1, 2]))


@pytest.mark.parametrize("expression", ["sum(map(told, [1, 'a', 3]))", "sum(map(told, [adds, adds]), adds)", "dict(map(told, [(1, 2), 3, (4, 5)]))", "set(map(told, [1, [], 2]))", "frozenset(map(told, [hashed, hashed]))",
                                        "min(map(told, [1, 'a', 3]))", "max(map(told, [2, None, 3]))", "any(map(told, [0, 1, 2]))", "all(map(told, [1, 0, 2]))", "'-'.join(map(told, ['a', 1, 'b']))",
                                        "tuple(map(told, [1, 2]))", "sorted(map(told, [2, 'a', 1]))", "[*map(told, [1]), told(2), *map(told, [3])]", "max(*map(told, [1, 2]))"])  # fmt: skip
@program(hits=0)
def test_what_happens_between_the_items(t, expression):
    """A consumer that adds, hashes or compares does so item by item: between two calls of the function, and it may raise there."""

    class Adds:
        def __add__(self, other):
            print("added")
            return self

        def __hash__(self):
            print("hashed")
            return 1

        def __eq__(self, other):
            print("compared")
            return self is other

    def told(v):
        print("told", v if isinstance(v, (int, str, tuple)) else type(v).__name__)
        return v

    f = t.compile(function(expression, told=told, adds=Adds(), hashed=Adds()))
    t.calls(f, lambda: (torch.ones(3), [3, 1, 2]))


@pytest.mark.parametrize("expression", ["list(map(fails, ks))", "sum(map(fails, ks))", "sorted(ks, key=fails)", "min(ks, key=fails)", "max([], key=fails)", "list(filter(fails, ks))",
                                        "list(map(ends, ks))", "list(filter(ends, ks))", "list(itertools.starmap(ends, [(1,), (3,), (1,)]))", "sorted(ks, key=ends)", "list(map(fails, 3))",
                                        "list(itertools.combinations(ks, -1))", "list(itertools.islice(ks, -1))", "list(map(int, ['1', 'x']))", "sorted([1, 'a'], key=lambda v: v)"])  # fmt: skip
@program(hits=0)
def test_exceptions(t, expression):
    def fails(v):
        if v == 1:
            raise KeyError(v)
        return v

    def ends(v):
        if v == 3:
            raise StopIteration(v)
        return v

    f = t.compile(function(expression, fails=fails, ends=ends))
    t.calls(f, lambda: (torch.ones(3), [3, 1, 2]))
    t.calls(f, lambda: (torch.ones(3), [5, 2]))
    t.calls(f, lambda: (torch.ones(3), [5, 1, 3]))


@program(hits=0)
def test_loops_over_maps_that_change_their_list(t):
    @t.compile
    def f(x):
        items, seen = [x], []
        for y in map(torch.sin, items):
            seen.append(y)
            if len(items) < 3:
                items.append(y)
        return seen

    t.calls(f, lambda: (torch.ones(3),))
