"""Lists and dicts that a function is given, or finds in an attribute, and changes: what they hold afterwards, and what it saw meanwhile."""
import gc
import weakref

import pytest
import torch
from twice import program


def reverse(x, xs):
    y = x + 1
    xs.reverse()
    return y + xs[0], xs[-1]


def insert(x, xs):
    y = x + 1
    xs.insert(0, y)
    xs.insert(-1, y)
    xs.insert(100, y)
    xs.insert(-100, y * 2)
    return y + xs[1], len(xs)


def extend(x, xs):
    y = x + 1
    xs.extend([y, x])
    xs += (y,)
    xs += {"k": 1}
    xs.extend(x + k for k in range(2))
    return y + xs[-1] + xs[0], xs[3]


def delete(x, xs):
    y = x + 1
    del xs[0]
    del xs[-1]
    return y + xs[0], len(xs), bool(xs)


def pop(x, xs):
    y = x + 1
    last, first = xs.pop(), xs.pop(0)
    return y + last, first, xs[0], xs.copy()


def clear(x, xs):
    y = x + 1
    xs.clear()
    xs.append(y)
    return y, len(xs)


def slices(x, xs):
    y = x + 1
    xs[1:2] = [y, y * 2]
    del xs[:1]
    xs[len(xs) :] = (x,)
    return xs[1:], y


def items_and_moves(x, xs):
    xs[0] = x + 5
    xs.append(x + 6)
    a = xs[-1] + xs[0]
    xs.reverse()
    xs[1] = x + 7
    xs.append(a)
    return [v + 1 for v in xs], xs.index


def length_in_a_loop(x, xs):
    for k in range(3):
        xs.append(x + k)
        if len(xs) > 4:
            return x * 2, k
    return x


def history(x, xs):
    xs.append(x * 2)
    while len(xs) > 3:
        xs.pop(0)
    return torch.stack(xs).mean(0)


def grown_in_its_own_loop(x, xs):
    n = 0
    for v in xs:
        n += 1
        if n < 4:
            xs.append(v + 1)
    return xs[-1] * n


def grown_in_its_own_loop_and_broken(x, xs):
    n = 0
    for v in xs:
        n += 1
        if n < 4:
            xs.append(v + 1)
        else:
            print(n)
    return xs[-1] * n


def shrunk_in_its_own_loop(x, xs):
    seen = []
    for v in xs:
        seen.append(v * 2)
        xs.pop()
    return seen, x + 1


def stored_in_its_own_loop(x, xs):
    seen = []
    for v in xs:
        seen.append(v * 2)
        xs[1] = x + 1
        xs[-1] = x + 2
    return seen


def library_call_between(x, xs):
    xs.append(x + 1)
    a = torch.stack(xs)
    b = torch._foreach_add(xs, 1)
    xs.reverse()
    c = torch._foreach_add(xs, 2)
    return a, b, c, torch.cat(xs)


def itself(x, xs):
    y = x + 1
    xs.extend(xs)
    xs.insert(0, xs)
    return y, xs[0] is xs, len(xs)


def a_break_between(x, xs):
    xs.insert(0, x + 1)
    print(len(xs))
    xs.reverse()
    return xs[0] * 2


def raising_later(x, xs):
    xs.insert(0, x + 1)
    xs.pop(1)
    return 1 // (len(xs) - 3)


def pop_of_nothing(x, xs):
    y = x + 1
    xs.clear()
    try:
        xs.pop()
    except IndexError as e:
        return y, str(e)
    return y


FUNCTIONS = [reverse, insert, extend, delete, pop, clear, slices, items_and_moves, length_in_a_loop, history, grown_in_its_own_loop, grown_in_its_own_loop_and_broken, shrunk_in_its_own_loop,
             stored_in_its_own_loop, library_call_between, itself, a_break_between, raising_later, pop_of_nothing]  # fmt: skip
ONE_GRAPH = [reverse, insert, extend, delete, pop, clear, slices, length_in_a_loop, history, grown_in_its_own_loop, shrunk_in_its_own_loop, stored_in_its_own_loop, library_call_between, itself]


def three():
    return torch.ones(2), [torch.zeros(2) + k for k in range(3)]


@pytest.mark.parametrize("f", FUNCTIONS)
@program(hits=0)
def test_given(t, f):
    t.calls(t.compile(f), three)
    for n in (3, 2, 4, 1, 3):
        t.call(t.compile(f), torch.ones(2), [torch.zeros(2) + k for k in range(n)])


@pytest.mark.parametrize("f", FUNCTIONS)
@program(hits=0)
def test_of_an_attribute(t, f):
    class Holder:
        pass

    holder = Holder()

    @t.compile
    def g(x):
        return f(x, holder.xs)

    for n in (3, 3, 3, 3, 2, 3):
        holder.xs = kept = [torch.zeros(2) + k for k in range(n)]
        t.call(g, torch.ones(2))
        t.note(holder.xs, holder.xs is kept)


@pytest.mark.parametrize("f", FUNCTIONS)
@program(hits=0)
def test_kept_from_call_to_call(t, f):
    xs = [torch.zeros(2) + k for k in range(3)]
    g = t.compile(f)
    for k in range(6):
        t.call(g, torch.ones(2) * k, xs)
        del xs[4:]
        xs.extend(torch.zeros(2) for _ in range(3 - len(xs)))


@pytest.mark.parametrize("f", ONE_GRAPH)
def test_whole(f):
    import dyno
    from twice import BREAKS, NO_HITS

    compiled = dyno.compile(f)
    for _ in range(3):
        compiled(*three())
        dyno.wait()
    before = dyno.stats()
    compiled(*three())
    after = dyno.stats()
    assert BREAKS or NO_HITS or (after["hits"] - before["hits"], after["captures"] - before["captures"]) == (1, 0)
    assert BREAKS or NO_HITS or "break " not in str(dyno.explain(compiled))


@program(hits=2, hits_broken=0)
def test_two_that_may_be_one(t):
    @t.compile
    def f(x, a, b):
        a.insert(0, x + 1)
        b.reverse()
        return a[0] + b[0], len(a), len(b)

    for same in (False, False, False, True, True, True, False):
        a = [torch.zeros(2), torch.ones(2)]
        t.call(f, torch.ones(2), a, a if same else [torch.ones(2) * 4, torch.ones(2) * 5])


@program(hits=2, hits_broken=0)
def test_one_item_twice(t):
    @t.compile
    def f(x, xs):
        xs.reverse()
        xs[0] += 1
        return xs[0] * xs[-1]

    for same in (False, False, False, True, True, True, False):
        a = torch.ones(2)
        t.call(f, a, [a, a if same else torch.ones(2)])


@program(hits=0)
def test_sorted(t):
    @t.compile
    def f(x, ns, reverse):
        y = x + 1
        ns.sort()
        first = ns[0]
        ns.sort(reverse=True)
        made = [3, 1, 2]
        made.sort()
        return y * ns[0] + first, made

    for ns in ([3, 1, 2], [3, 1, 2], [3, 1, 2], [1, 5, 2], [1.5, 2.5], ["b", "a"], [3, "a"], [3, 1, 2]):
        t.call(f, torch.ones(2), ns, True)


@program(hits=0)
def test_finalisers_and_weak_references(t):
    deaths = []

    class Loud:
        def __del__(self):
            deaths.append(len(xs))

    @t.compile
    def f(x, xs):
        y = x + 1
        xs.pop(0)
        del xs[0]
        xs.insert(0, y)
        return y * 2

    for kind in (Loud, Loud, object, object, object, Loud):
        xs = [kind(), kind(), torch.ones(2)]
        t.call(f, torch.ones(2), xs)
        t.note(list(deaths))
    for _ in range(4):
        xs = [torch.ones(2), torch.ones(2), torch.ones(2)]
        watch = weakref.ref(xs[0], lambda _: deaths.append(len(xs)))  # noqa: B023
        t.call(f, torch.ones(2), xs)
        t.note(list(deaths), watch() is None)
    for _ in range(4):
        xs = [torch.ones(2), torch.ones(2), torch.ones(2)]
        watch = weakref.ref(xs[1])
        f(torch.ones(2), xs)
        gc.collect()
        t.note(watch() is None)


@program(hits=2, hits_broken=0)
def test_subclasses_stay_native(t):
    class Mine(list):
        def insert(self, k, v):
            super().insert(k, v * 3)

    @t.compile
    def f(x, xs):
        y = x + 1
        xs.insert(0, y)
        xs.reverse()
        return xs[0] + y

    for kind in (list, list, list, Mine, Mine, list):
        t.call(f, torch.ones(2), kind([torch.zeros(2), torch.ones(2)]))


@program(hits=0)
def test_long_lists(t):
    @t.compile
    def f(x, xs):
        y = x + 1
        xs.append(y)
        xs[0] = y
        z = xs[1] * 2
        xs.pop(0)
        return z, len(xs)

    t.calls(f, lambda: (torch.ones(2), [torch.zeros(2)] * 300))
    t.calls(f, lambda: (torch.ones(2), [torch.zeros(2)] * 30))


@program(hits=2, hits_broken=0)
def test_dicts(t):
    @t.compile
    def f(x, d):
        y = x + 1
        del d["a"]
        gone = d.pop("b")
        none = d.pop("b", None)
        d["a"] = y
        d.update({"c": y * 2, "z": x})
        return gone * 2, none, "b" in d, d["a"], d.get("b"), d["c"]

    t.calls(f, lambda: (torch.ones(2), {"a": torch.zeros(2), "b": torch.ones(2), "c": torch.ones(2)}))
    t.calls(f, lambda: (torch.ones(2), {"a": torch.zeros(2), "c": torch.ones(2)}))
    t.calls(f, lambda: (torch.ones(2), {"b": torch.zeros(2), "a": 3}), 2)


@program(hits=0)
def test_dicts_of_missing_keys(t):
    @t.compile
    def f(x, d):
        y = x + 1
        try:
            d.pop("zz")
        except KeyError as e:
            y = y + 1
            text = str(e)
        d["k"] = y
        del d["k"]
        return y, "k" in d, text

    t.calls(f, lambda: (torch.ones(2), {"a": torch.zeros(2)}))
    t.calls(f, lambda: (torch.ones(2), {"a": torch.zeros(2), "k": 1}))


@program(hits=3, hits_broken=0)
def test_one_that_grows_from_call_to_call(t):
    history = []

    @t.compile
    def f(x):
        history.append(x + 1)
        history.append(x + 2)
        y = x * len(history) + history[-1] - history[-2]
        return (y * 2, len(history)) if len(history) > 4 else (y, len(history))

    for k in range(8):
        t.call(f, torch.ones(2) * k)
    t.note(history)


@program(hits=2, hits_broken=0)
def test_a_length_that_decides(t):
    @t.compile
    def f(x, xs):
        xs.append(x + 1)
        n = len(xs)
        y = x
        for k in range(n):
            y = y + k
        return y, x.repeat(n), xs[n - 1], len(xs)

    for n in (1, 1, 1, 2, 3, 1, 2):
        t.call(f, torch.ones(2), [torch.ones(2)] * n)


@program(hits=2, hits_broken=0)
def test_a_length_and_two_names(t):
    @t.compile
    def f(x, a, b):
        a.append(x + 1)
        return x * len(b), len(a) + len(b)

    for same in (False, False, False, True, True, True, False):
        a = [1, 2]
        t.call(f, torch.ones(2), a, a if same else [4])


@program()
def test_list_that_grows_is_not_recorded_for_ever(t):
    """Read as a whole it would be held to its length, which the next call has outgrown: the work before it is compiled instead."""
    log = []

    @t.compile
    def f(x, history):
        y = x * 2 + 1
        history.append(y.shape)
        return y, list(history)

    for _ in range(7):
        t.call(f, torch.ones(3), log)
