"""Objects with fixed fields: slots, properties that are set, named tuples, classes with a length, and reduce() over what is known."""
import collections
import dataclasses
import functools
import typing

import numpy as np
import pytest
import torch
from twice import program


class Slotted:
    __slots__ = ("scale", "seen", "_shift")

    def __init__(self, scale):
        self.scale = scale
        self.seen = 0
        self._shift = torch.ones(3)

    @property
    def shift(self):
        return self._shift

    @shift.setter
    def shift(self, value):
        self._shift = value * 1
        self.seen += 1


class Child(Slotted):  # with a dict as well
    def __init__(self, scale):
        super().__init__(scale)
        self.extra = 2.0


Pair = collections.namedtuple("Pair", "first second", defaults=[2.0])


class Point(typing.NamedTuple):
    x: torch.Tensor
    y: float = 1.5

    def moved(self, by):
        return Point(self.x + by, self.y)

    @property
    def total(self):
        return self.x * self.y


class Sized:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        return self.items[k]


@pytest.mark.parametrize("kind", [Slotted, Child])
@program
def test_slots_are_read_and_set(t, kind):
    def f(o, x):
        y = x * o.scale + o.shift
        o.seen += 1
        o.shift = y
        o._shift = o._shift + 1
        return y, o.shift * 2, o.seen

    f = t.compile(f)
    o = kind(2.0)
    for k in range(6):
        t.call(f, o, torch.arange(3.0) + k)
        t.note(o.scale, o.seen, o._shift)
    o.scale = 3.0
    t.call(f, o, torch.arange(3.0))
    t.call(f, kind(2.5), torch.arange(3.0))


@pytest.mark.parametrize("kind", [Slotted, Child])
@program
def test_slotted_objects_made_here(t, kind):
    @t.compile
    def f(x, s):
        o = kind(s)
        o.shift = x
        o.seen = o.seen + 4
        return o.shift + o.scale, o.seen, o

    def show(x, s):
        y, seen, o = f(x, s)
        return y, seen, o.scale, o.seen, o._shift, type(o).__name__, getattr(o, "extra", None)

    for k in range(5):
        t.call(show, torch.arange(3.0) + k, 2.0)


@program(hits=0)
def test_empty_slots_raise(t):
    @t.compile
    def f(o, x):
        y = x + 1
        return y, o.seen

    def g(o, x):
        y = x * 2
        o.other = y
        return y

    o = Slotted(1.0)
    del o.seen
    for _ in range(3):
        t.call(f, o, torch.ones(2))
        t.call(t.compile(g), o, torch.ones(2))
    o.seen = 5
    t.calls(f, lambda: (o, torch.ones(2)))


@program
def test_slots_change_class(t):
    class A:
        __slots__ = ("v",)

    @t.compile
    def f(o, x):
        return x + o.v

    o = A()
    o.v = 1.0
    t.calls(f, lambda: (o, torch.ones(2)))
    A.v = property(lambda self: 7.0)
    t.calls(f, lambda: (o, torch.ones(2)))


@dataclasses.dataclass(slots=True)
class State:
    w: torch.Tensor
    steps: int = 0


@program
def test_slotted_dataclasses(t):
    @t.compile
    def f(s, x):
        s.w = s.w + x
        s.steps += 1
        return s.w * 2

    s = State(torch.zeros(3))
    for _ in range(5):
        t.call(f, s, torch.ones(3))
        t.note(s.w, s.steps)


@program
def test_properties_are_set(t):
    class Model:
        def __init__(self):
            self.log = []
            self._rate = 0.5

        @property
        def rate(self):
            return self._rate

        @rate.setter
        def rate(self, value):
            self.log.append(value)
            self._rate = value

    @t.compile
    def f(m, x):
        m.rate = 0.25
        y = x * m.rate
        m.rate = 0.5
        return y + m.rate

    m = Model()
    for _ in range(4):
        t.call(f, m, torch.ones(3))
        t.note(m.log, m._rate)


@program(hits=0)
def test_properties_that_cannot_be_set(t):
    class Model:
        @property
        def rate(self):
            return 1.0

    @t.compile
    def f(m, x):
        y = x + 1
        m.rate = y
        return y

    t.calls(f, lambda: (Model(), torch.ones(3)))


@program
def test_named_tuples_from_outside(t):
    @t.compile
    def f(p, x):
        a, b = p
        return p.first * x, p.second + x, p[0] + p[-1], a * b + x, len(p), p[1:], [v + x for v in p]

    t.calls(f, lambda: (Pair(torch.ones(3)), torch.arange(3.0)))
    t.calls(f, lambda: (Pair(2.0, torch.ones(3)), torch.arange(3.0)))


@program(hits=0)
def test_named_tuples_are_arguments(t):
    @t.compile
    def f(x, y):
        return torch.stack(Pair(x, y)), torch.cat(Pair(x * 2, y)), torch.stack(Point(x, y))

    t.calls(f, lambda: (torch.ones(2), torch.zeros(2)))
    t.calls(f, lambda: (torch.ones(2, requires_grad=True), torch.zeros(2)))


@program
def test_named_tuples_made_here(t):
    @t.compile
    def f(x, s):
        p = Pair(x + 1, s)
        q = Pair(first=x)
        r = Point(x * 2).moved(s)
        return p, q.second, p.first * q.first, r, r.total, r.y, len(r), sum(q.first for q in (p, q))

    t.calls(f, lambda: (torch.arange(3.0), 2.5))
    t.calls(f, lambda: (np.arange(3.0), 2.5))


@program(hits=0)
def test_named_tuples_of_other_lengths(t):
    @t.compile
    def f(p, x):
        return x + len(p), p.first * x

    t.calls(f, lambda: (Pair(1.0, 2.0), torch.ones(2)))
    t.calls(f, lambda: (tuple.__new__(Pair, (1.0, 2.0, 3.0)), torch.ones(2)))
    t.calls(f, lambda: (tuple.__new__(Pair, ()), torch.ones(2)))
    t.call(t.compile(lambda x: Pair(x, 1, 2)), torch.ones(2))
    t.call(t.compile(lambda x: Pair(x)._replace(second=x + 1)), torch.ones(2))


@program(hits=0)
def test_named_tuples_with_ways_of_their_own(t):
    class Odd(Pair):
        def __getitem__(self, k):
            return super().__getitem__(k) * 10

        def __len__(self):
            return 7

    class Made(Pair):
        def __new__(cls, v):
            return super().__new__(cls, v, v * 2)

    @t.compile
    def f(p, x):
        return p[0] + x, len(p), p.first + x, [v + x for v in p], Made(x)

    t.calls(f, lambda: (Odd(1.0, 2.0), torch.ones(2)))


@program
def test_fields_that_are_replaced(t):
    Local = collections.namedtuple("Local", "a b")

    @t.compile
    def f(p, x):
        return p.a + x, p[1] * x

    t.calls(f, lambda: (Local(1.0, 2.0), torch.ones(2)))
    Local.a = property(lambda self: 100.0)
    t.calls(f, lambda: (Local(1.0, 2.0), torch.ones(2)))
    Local.__getitem__ = lambda self, k: 5.0
    t.calls(f, lambda: (Local(1.0, 2.0), torch.ones(2)))


@program
def test_lengths_of_classes(t):
    @t.compile
    def f(s, x):
        y = x
        for k in range(len(s)):
            y = y * s[k]
        return y, len(s) + 1

    t.calls(f, lambda: (Sized([1.0, 2.0]), torch.ones(2)))
    t.calls(f, lambda: (Sized([1.0, 2.0, 3.0]), torch.ones(2)))


@program(hits=0)
def test_lengths_that_are_none(t):
    def sized(n):
        class Of:
            def __len__(self):
                return n

        return Of()

    f = t.compile(lambda s, x: (x + 1, len(s)))
    for n in (True, -1, 1.5, 1 << 80, np.int64(3), None):
        t.calls(f, lambda n=n: (sized(n), torch.ones(2)))


@program
def test_reduce(t):
    @t.compile
    def f(x, ys):
        return (functools.reduce(lambda a, b: a + b, [x, x * 2, x * 3]), functools.reduce(torch.add, ys, x), functools.reduce(lambda a, b: a * b, (y + 1 for y in ys)),
                functools.reduce(lambda a, b: a - b, [x]), functools.reduce(lambda a, b: a - b, [], x))

    t.calls(f, lambda: (torch.arange(3.0), [torch.ones(3), torch.ones(3) * 2]))


@program(hits=0)
def test_reduce_raises(t):
    @t.compile
    def empty(x):
        y = x + 1
        return y, functools.reduce(torch.add, [])

    @t.compile
    def inside(x):
        y = x + 1
        return y, functools.reduce(lambda a, b: a // 0, [1, 2])

    for f in (empty, inside, t.compile(lambda x: functools.reduce(torch.add, 3, x + 1))):
        t.calls(f, lambda: (torch.ones(2),))


@program
def test_ordered_dicts(t):
    @t.compile
    def f(d, x):
        y = x
        for key, value in d.items():
            y = y * value if key == "scale" else y + value
        return y, list(d.keys()), [v * x for v in d.values()], [(k, v) for k, v in (*d.items(), *{}.items())]

    def make(*keys):
        return collections.OrderedDict((k, float(n + 2)) for n, k in enumerate(keys))

    t.calls(f, lambda: (make("scale", "shift"), torch.ones(2)))
    t.calls(f, lambda: (make("shift", "scale"), torch.ones(2)))
    moved = make("scale", "shift")
    moved.move_to_end("scale")  # the table's own order is the old one
    t.calls(f, lambda: (moved, torch.ones(2)))
    t.calls(f, lambda: (collections.OrderedDict(), torch.ones(2)))


@program
def test_ordered_dicts_change_their_order(t):
    """By move_to_end(), which leaves the table and its version alone."""

    @t.compile
    def f(d, x):
        y = x
        for key, value in d.items():
            y = y * value if key == "scale" else y + value
        return y

    class Holder:
        pass

    h = Holder()
    h.d = d = collections.OrderedDict(scale=2.0, shift=3.0, other=1.0)
    g = t.compile(lambda x: [k for k in h.d] + [v * x for v in h.d.values()])
    for key in ("other", "scale", "shift", "scale", "scale"):
        t.calls(f, lambda: (d, torch.ones(1)), 3)
        t.calls(g, lambda: (torch.ones(1),), 3)
        d.move_to_end(key)
    d["late"] = 4.0
    t.calls(f, lambda: (d, torch.ones(1)), 3)
    del d["scale"]
    t.calls(f, lambda: (d, torch.ones(1)), 3)


@program
def test_views_of_ordered_dicts_at_a_break(t):
    @t.compile
    def f(d, x):
        view, walk = d.items(), iter(d.values())
        y = x + next(walk)
        print("here")
        return y, list(view), list(walk), type(view).__name__

    t.calls(f, lambda: (collections.OrderedDict(a=1.0, b=2.0), torch.ones(2)))


@program
def test_hooks_are_called(t):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x) * 2

    torch.manual_seed(0)
    m = Layer().eval()
    m.inner.register_forward_hook(lambda module, args, output: output + 1)
    m.inner.register_forward_pre_hook(lambda module, args: (args[0] * 3,))
    m.register_forward_hook(lambda module, args, output: None)

    @t.compile
    def f(x):
        with torch.no_grad():
            return m(x) > 0, m(x).shape

    t.calls(f, lambda: (torch.arange(4.0).reshape(2, 2),))
    m.inner.register_forward_hook(lambda module, args, output: output * -1)
    t.calls(f, lambda: (torch.arange(4.0).reshape(2, 2),))


@program
def test_merged_dicts(t):
    @t.compile
    def f(a, b, x):
        c = a | {"y": x * 2} | b
        return list(c), c["x"] + c["y"], {k: v * 2 for k, v in c.items()}, a | b

    t.calls(f, lambda: ({"x": torch.ones(2)}, {"z": 1.0}, torch.arange(2.0)))
    t.calls(f, lambda: ({"x": torch.ones(2), "z": 0.5}, {"x": 1.0}, torch.arange(2.0)))


@program(hits=0)
def test_dicts_that_do_not_merge(t):
    @t.compile
    def f(a, b, x):
        y = x + 1
        return y, a | b

    t.calls(f, lambda: ({}, [], torch.ones(2)))
    t.calls(f, lambda: ({"a": 1}, collections.OrderedDict(b=2), torch.ones(2)))


@program
def test_modules_that_forward_their_attributes(t):
    m = t.module("scale = 2.0")
    from torch.backends import PropModule

    outer = PropModule(m, "outer")

    @t.compile
    def f(x):
        return x * outer.scale

    t.calls(f, lambda: (torch.ones(2),))
    m.scale = 3.0
    t.calls(f, lambda: (torch.ones(2),))


@program
def test_repeats_by_a_number(t):
    @t.compile
    def f(x, n):
        y = (x + 1).repeat_interleave(n, dim=0)
        return y * 2, y.shape, torch.repeat_interleave(x, 2)[1:]

    t.calls(f, lambda: (torch.arange(3.0), 2))
    t.calls(f, lambda: (torch.arange(3.0), 3))


@program
def test_dropout_that_drops_nothing(t):
    @t.compile
    def f(x):
        y = x[x > 0]
        z = torch.nn.functional.dropout(y, 0.5, False)
        return z * 2, z

    t.calls(f, lambda: (torch.arange(-2.0, 3.0),))


@program
def test_fields_of_library_records(t):
    outputs = pytest.importorskip("transformers.modeling_outputs")

    @t.compile
    def f(x):
        out = outputs.BaseModelOutputWithPooling(last_hidden_state=x + 1, pooler_output=x * 2)
        out.pooler_output = out.pooler_output + out.last_hidden_state
        return out, out.pooler_output * 2, out["pooler_output"] + 1, list(out.keys()), {k: v * 2 for k, v in out.items() if k != "last_hidden_state"}

    @t.compile
    def g(x):
        out = outputs.BaseModelOutputWithPooling(last_hidden_state=x + 1)
        out.pooler_output = x * 3
        return out, out.to_tuple()

    for _ in range(4):
        for h in (f, g):
            r = t.call(lambda x, h=h: [dict(h(x)[0].items()), *h(x)[1:]], torch.arange(3.0))
            t.note(r)
