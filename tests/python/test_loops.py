"""Loops: long, nested, with break, continue and else, while on data, entered in the middle, over many kinds of iterables."""
import pytest
import torch
from twice import UNCHECKED, program


@program
def test_long_loop(t):
    @t.compile
    def f(a, n):
        for i in range(n):
            a = a * 0.99 + i
        return a

    for n in (3, 3, 100, 100, 300, 0, 1, 64, 65, 300):
        t.call(f, torch.ones(3), n)


@program
def test_one_call_only(t):
    """Compiled within the same call, from some turn on."""

    @t.compile
    def f(a, log):
        for i in range(400):
            a = a * 0.99 + i
            if i % 100 == 0:
                t.settle()
                log.append(a.sum())
        return a, i

    t.call(f, torch.ones(3), [])


@program
def test_nested(t):
    @t.compile
    def f(a, n, m):
        for i in range(n):
            for j in range(m):
                a = a + i * j
            a = a * 0.5
        return a, i, j

    for n, m in ((2, 3), (2, 3), (3, 2), (70, 2), (2, 70), (70, 70), (2, 3)):
        t.call(f, torch.ones(2), n, m)


@program
def test_break_continue_else(t):
    @t.compile
    def f(a, n, stop):
        for i in range(n):
            if i == stop:
                break
            if i % 2:
                continue
            a = a + i
        else:
            a = a * 10
        return a, i

    for n, stop in ((4, 9), (4, 9), (4, 2), (4, 2), (100, 50), (100, 500), (1, 0), (4, 9)):
        t.call(f, torch.ones(2), n, stop)


@program
def test_break_on_data(t):
    @t.compile
    def f(a, limit):
        steps = 0
        for _ in range(200):
            a = a * 1.1
            steps += 1
            if a.sum() > limit:
                break
        return a, steps

    for limit in (3.0, 3.0, 30.0, 1e9, 1e30, 0.0, 3.0):
        t.call(f, torch.ones(2), limit)


@program
def test_while_counted(t):
    @t.compile
    def f(a, n):
        while n:
            n -= 1
            a = a + n
            if n == 150:
                a = a * 2
        return a, n

    for n in (3, 3, 200, 200, 0, 65):
        t.call(f, torch.ones(2), n)


@program
def test_carried_numbers(t):
    @t.compile
    def f(a, n):
        x, y, z = 0, 1.5, True
        for i in range(n):
            x += i
            y = y * 0.5 + x
            z = not z
            a = a + y if z else a - x
        return a, x, y, z

    for n in (5, 5, 100, 100, 7):
        t.call(f, torch.ones(2), n)


@program
def test_number_that_changes_its_kind(t):
    @t.compile
    def f(a, n):
        x = 1
        for i in range(n):
            a = a + x
            x = x / 2 if i == 70 else x * 2 if i < 70 else x + 1
        return a, x

    for n in (3, 3, 100, 100):
        t.call(f, torch.ones(2, dtype=torch.float64), n)


@program(hits=UNCHECKED)
def test_tensor_that_changes_its_shape(t):
    @t.compile
    def f(a, n):
        for i in range(n):
            a = torch.cat([a, a[:1] * i])
        return a, a.shape

    for n in (3, 3, 80, 80):
        t.call(f, torch.ones(2), n)


@program
def test_containers_grow(t):
    @t.compile
    def f(a, n):
        out, seen = [], {}
        for i in range(n):
            a = a * 0.9
            out.append(a)
            seen[i] = a.sum()
        return out, seen, len(out)

    for n in (3, 3, 90, 90):
        t.call(f, torch.ones(2), n)


@program
@pytest.mark.parametrize("kind", ["list", "tuple", "enumerate", "zip", "reversed", "dict", "items", "set", "string", "iterator", "map", "generator"])
def test_iterables(t, kind):
    make = {
        "list": lambda n: list(range(n)),
        "tuple": lambda n: tuple(range(n)),
        "enumerate": lambda n: enumerate([5] * n),
        "zip": lambda n: zip(range(n), range(1, n + 1), strict=True),
        "reversed": lambda n: reversed(range(n)),
        "dict": lambda n: dict.fromkeys(range(n), 1),
        "items": lambda n: {i: i * 2 for i in range(n)}.items(),
        "set": lambda n: set(range(n)),
        "string": lambda n: "x" * n,
        "iterator": lambda n: iter(range(n)),
        "map": lambda n: map(abs, range(n)),
        "generator": lambda n: (i for i in range(n)),
    }[kind]

    @t.compile
    def f(a, items):
        for x in items:
            if isinstance(x, tuple):
                a = a + x[0] * x[1]
            elif isinstance(x, str):
                a = a + len(x)
            else:
                a = a + x
        return a

    for n in (3, 3, 4, 80, 80, 0, 3):
        t.call(f, torch.ones(2), make(n))


@program
def test_iterables_made_inside(t):
    @t.compile
    def f(a, items):
        for i, x in enumerate(items, 1):
            a = a + i * x
        for x, y in zip(items, items[1:], strict=False):
            a = a * x - y
        for x in reversed(items):
            a = a + x
        for x in sorted(items, reverse=True):
            a = a - x
        for x in items + [1]:
            a = a + x
        return a, [x for x in items if x > 1], max(items), sum(x * a for x in items)

    for items in ([1, 2], [1, 2], [3, 1, 2], list(range(70)), [0.5], [1, 2]):
        t.call(f, torch.ones(2), items)


@program
def test_list_changed_while_iterated(t):
    @t.compile
    def f(a, items):
        for x in items:
            if len(items) < 6:
                items.append(x + 1)
            a = a + x
        return a

    for n in (2, 2, 4, 4, 7):
        t.call(f, torch.ones(2), list(range(n)))


@program
def test_dict_changed_while_iterated(t):
    @t.compile
    def f(a, d):
        for k in d:
            a = a + d[k]
            if k == 1:
                d["new"] = 1
        return a

    for d in ({0: 1}, {0: 1}, {0: 1, 1: 2}, {1: 1, 2: 2}, {0: 1}):
        t.call(f, torch.ones(2), dict(d))


@program
def test_print_in_loop(t):
    @t.compile
    def f(a, n):
        for i in range(n):
            a = a * 2
            if i % 50 == 0:
                print(i, a.sum().item())
            a = a - 1
        return a

    for n in (3, 3, 110, 110):
        t.call(f, torch.full((2,), 1.0), n)


@program
def test_try_in_loop(t):
    @t.compile
    def f(a, items):
        bad = 0
        for x in items:
            try:
                a = a + 10 // x
            except ZeroDivisionError:
                bad += 1
                continue
            finally:
                a = a * 1.5
        return a, bad

    for items in ([1, 2], [1, 2], [1, 0, 2], [0, 0], [1, 2] * 40 + [0], [1, 2]):
        t.call(f, torch.ones(2), items)


@program
def test_entered_in_the_middle(t):
    """The recorded call began with an iterator that was already under way."""

    @t.compile
    def f(a, it):
        for x in it:
            a = a + x
            if x == 2:
                break
        for x in it:
            a = a * x
        return a

    for skip in (0, 0, 1, 2, 3, 0):
        it = iter([0, 1, 2, 3, 4])
        for _ in range(skip):
            next(it)
        t.call(f, torch.ones(2), it)
        t.note(list(it))


@program
def test_state_of_iterator_after(t):
    @t.compile
    def f(a, it):
        return a + next(it), next(it, None)

    for n in (5, 5, 5, 2, 1, 5):
        it = iter(range(n))
        t.call(f, torch.ones(2), it)
        t.note(list(it))


@program
def test_training_by_hand(t):
    @t.compile
    def f(x, y, w, b, n):
        with torch.no_grad():
            for _ in range(n):
                e = x @ w + b - y
                w = w - 0.1 * (x.t() @ e) / len(x)
                b = b - 0.1 * e.mean()
        return w, b

    for n in (2, 2, 100):
        torch.manual_seed(0)
        t.call(f, torch.eye(4), torch.arange(4.0), torch.zeros(4), torch.zeros(()), n)


@program
def test_module_level_loop_of_text(t):
    m = t.module(
        """
        def run(a, n):
            total = 0
            i = 0
            while True:
                i += 1
                if i > n: break
                if i % 3 == 0: continue
                for j in range(i % 4):
                    total = total + a * j
                else:
                    total = total + 1
            return total, i
        """
    )
    f = t.compile(m.run)
    for n in (2, 2, 10, 10, 80, 2):
        t.call(f, torch.ones(2), n)
