"""Graph breaks: output in its order, several per function, inside inlined frames, at any stack depth."""
import torch
from twice import UNCHECKED, program


@program(hits=4)
def test_print_between(t):
    @t.compile
    def f(a):
        b = a + 1
        print("b", b.tolist())
        c = b * 2
        print("c", c.sum().item())
        return c - b

    for n in range(6):
        t.call(f, torch.full((3,), float(n)))


@program
def test_break_in_inlined(t):
    def inner(a, log):
        b = a * 2
        print("inner", float(b.sum()))
        log.append("inner")
        return b + 1

    def middle(a, log):
        c = inner(a + 1, log)
        log.append("middle")
        return c - 1

    @t.compile
    def f(a):
        log = []
        d = middle(a, log) * 3
        return d, log

    for n in range(6):
        t.call(f, torch.full((3,), float(n)))


@program
def test_break_within_expression(t):
    def say(x):
        print(x)
        return len(x)

    @t.compile
    def f(a):
        return (a + 1) * say("one") + (a * 2) * say("three") - say("x")

    t.calls(f, lambda: (torch.arange(3.0),), 5)


@program
def test_break_within_calls_and_displays(t):
    def say(x):
        print(x)
        return x

    @t.compile
    def f(a):
        d = {"a": a + say(1), say("k"): [a * say(2), a]}
        g = lambda *p, **k: (p, k)  # noqa: E731
        return d, g(a + 1, say(3), k=a * say(4)), f"{say(5)} {a.shape}"

    t.calls(f, lambda: (torch.arange(3.0),), 5)


@program(hits=UNCHECKED)
def test_item_and_tolist(t):
    @t.compile
    def f(a):
        s = (a * 2).sum().item()
        items = (a + s).tolist()
        return items, int(a[0]), float(a[1]), bool(a[2]), len(a)

    for n in range(5):
        t.call(f, torch.arange(3.0) + n)


@program
def test_unknown_library(t):
    import json
    import re

    @t.compile
    def f(a, text):
        b = a * 2
        n = len(re.findall("a", text))
        c = b + n
        return c, json.loads(json.dumps({"n": n}))

    for text in ("aaa", "aaa", "aba", "", "aaa"):
        t.call(f, torch.ones(2), text)


@program
def test_break_in_init(t):
    class Thing:
        def __init__(self, a):
            self.a = a * 2
            print("made")
            self.b = self.a + 1

    @t.compile
    def f(a):
        thing = Thing(a + 1)
        return thing.a + thing.b

    t.calls(f, lambda: (torch.ones(2),), 5)


@program
def test_break_in_property_and_operator(t):
    class Odd:
        def __init__(self, a):
            self.a = a

        @property
        def double(self):
            print("double")
            return self.a * 2

        def __add__(self, other):
            print("add")
            return self.a + other

        def __getitem__(self, k):
            print("item", k)
            return self.a[k]

        def __call__(self, x):
            print("call")
            return self.a * x

        def __len__(self):
            print("len")
            return 3

        def __bool__(self):
            print("bool")
            return True

    @t.compile
    def f(a):
        o = Odd(a + 1)
        b = o.double + 1
        c = o + b
        d = o[0] + c
        e = o(d) * len(o)
        return e if o else a

    t.calls(f, lambda: (torch.ones(2),), 5)


@program
def test_break_in_comparison_jump(t):
    class Loud:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            print("lt")
            return self.n < other

        def __eq__(self, other):
            print("eq")
            return self.n == other

        def __contains__(self, x):
            print("in")
            return x == self.n

    @t.compile
    def f(a, k):
        b = a + 1
        if k < 3 and k == 2:
            b = b * 2
        if 2 in k:
            b = b - 1
        return b

    for n in (2, 2, 2, 3, 3, 1, 2):
        t.call(f, torch.ones(2), Loud(n))


@program
def test_break_in_with_and_for(t):
    class Loud:
        def __enter__(self):
            print("enter")
            return 2

        def __exit__(self, *what):
            print("exit", what[0])
            return False

        def __iter__(self):
            print("iter")
            return iter([1, 2])

    @t.compile
    def f(a):
        with Loud() as n:
            a = a * n
            for x in Loud():
                a = a + x
        return a

    t.calls(f, lambda: (torch.ones(2),), 5)


@program
def test_locals_and_frames(t):
    import sys

    def where():
        f = sys._getframe(1)
        return f.f_code.co_name, f.f_lineno, sorted(f.f_locals)

    @t.compile
    def f(a):
        b = a + 1
        first = where()
        c = b * 2
        return first, where(), sorted(locals()), c

    t.calls(f, lambda: (torch.ones(2),), 5)


@program
def test_many_breaks(t):
    @t.compile
    def f(a):
        out = []
        for i in range(8):
            a = a * 1.5 + i
            print(i, round(float(a.sum()), 3))
            out.append(a)
        return out

    t.calls(f, lambda: (torch.ones(2),), 5)


@program
def test_warning_between(t):
    import warnings

    @t.compile
    def f(a, n):
        b = a + 1
        if n > 1:
            warnings.warn(f"n is {n}", RuntimeWarning, stacklevel=1)
        return b * n

    for n in (1, 1, 2, 2, 2, 1):
        t.call(f, torch.ones(2), n)


@program
def test_torch_print_options(t):
    @t.compile
    def f(a):
        b = a * 2
        print(b, b.shape, b.dtype)
        return str(b), repr(b + 1), f"{b.mean():.3f}"

    t.calls(f, lambda: (torch.arange(3.0),), 5)


@program
def test_random_numbers_keep_their_order(t):
    @t.compile
    def f(a):
        b = a + torch.rand(3)
        print("x")
        c = b * torch.randn(3)
        return c + torch.nn.functional.dropout(a, 0.5)

    torch.manual_seed(3)
    t.calls(f, lambda: (torch.ones(3),), 6)


@program
def test_break_with_handler_open(t):
    @t.compile
    def f(a, n):
        b = a + 1
        try:
            print("in try")
            b = b * (1 // n)
        except ZeroDivisionError:
            print("in except")
            b = b - 5
        finally:
            print("in finally")
            b = b + 0.5
        return b

    for n in (1, 1, 1, 0, 0, 0, 1):
        t.call(f, torch.ones(2), n)
