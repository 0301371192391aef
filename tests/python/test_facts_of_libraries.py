"""Questions to libraries whose answers follow from what is guarded: named tuples' methods, NumPy's functions about types and shapes."""
import collections
import dataclasses
import typing

import numpy as np
import pytest
import torch
from twice import program

Pair = collections.namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    a: torch.Tensor
    b: int = 2


class Open(Pair):
    pass


@dataclasses.dataclass
class Record:
    a: object
    b: object = 2


@pytest.mark.parametrize("kind", [Pair, Typed, Open])
@program(hits=2, hits_broken=0)
def test_named_tuples(t, kind):
    @t.compile
    def f(p):
        x = p.a + 1
        q = p._replace(a=x)
        made = kind(x * 2, 3)._replace(b=x, a=p.b)
        return q, made, made._asdict(), p._asdict()["a"], p._fields, kind._make([x, 1]), p._replace(), type(q) is kind

    t.calls(f, lambda: (kind(torch.ones(2), 5),))


@program(hits=0)
def test_named_tuples_that_differ(t):
    class Mine(Pair):
        @classmethod
        def _make(cls, items):
            return super()._make([3, *list(items)[1:]])

    @t.compile
    def f(p, q):
        x = q + 1
        return p._replace(b=x), x

    for kind in (Pair, Pair, Pair, Mine, Mine, Open, Pair):
        t.call(f, kind(torch.ones(2), 5), torch.ones(2))


@program(hits=0)
def test_fields_that_are_none(t):
    @t.compile
    def f(p):
        x = p.a + 1
        return p._replace(c=x)

    t.calls(f, lambda: (Pair(torch.ones(2), 5),))


@program(hits=2, hits_broken=0)
def test_a_method_replaced_later(t):
    class Later(Pair):
        pass

    f = t.compile(lambda p: p._replace(b=p.a + 1))
    t.calls(f, lambda: (Later(torch.ones(2), 5),))
    Later._make = classmethod(lambda cls, items: (7, *items))
    t.calls(f, lambda: (Later(torch.ones(2), 5),))
    Later._replace = lambda self, **kw: (8, self.a)
    t.calls(f, lambda: (Later(torch.ones(2), 5),))


@program(hits=2, hits_broken=0)
def test_dataclasses(t):
    @t.compile
    def f(x):
        r = Record(x + 1)
        s = dataclasses.replace(r, b=x * 2)
        return s.a + s.b, len(dataclasses.fields(s)), r.b

    t.calls(f, lambda: (torch.ones(2),))


@program(hits=2, hits_broken=0)
def test_numpy(t):
    @t.compile
    def f(x, k):
        y = x + 1
        if np.isscalar(y) or not np.isscalar(k) or np.ndim(y) != 1:
            return y
        if np.can_cast(y.dtype, np.float64) and np.result_type(y, np.float32) != np.int8:
            y = y.astype(np.result_type(y, np.float32, 1)) * np.promote_types(np.int8, np.float32).itemsize
        return y * np.size(y) + np.shape(y)[0], np.iscomplexobj(y), np.size(y, 0)

    for dtype in (np.float32, np.float32, np.float32, np.int64, np.int64, np.int64, np.int8, np.float32):
        t.call(f, np.arange(3).astype(dtype), 3)
        t.call(f, np.arange(3).astype(dtype), 2.5)
    t.call(f, np.arange(4.0).reshape(2, 2), 3)
    t.call(f, np.float32(3), 3)
    t.call(f, np.arange(3.0), [3])


GAPS = {"columns": lambda b: b[:, 1:3], "steps": lambda b: b[::2], "transposed": lambda b: b[1:, :2].T, "a column": lambda b: b[:, 0]}


@pytest.mark.parametrize("part", GAPS)
@program(hits=2, hits_broken=0)
def test_in_place_with_gaps(t, part):
    @t.compile
    def f(x):
        x += 1
        x.mul_(2) if isinstance(x, torch.Tensor) else np.multiply(x, 2, out=x)
        x[0] = 7
        return x * 2

    for make in (torch.from_numpy, lambda a: a):
        for _ in range(4):
            base = make(np.arange(20, dtype=np.float32).reshape(4, 5).copy())
            t.call(f, GAPS[part](base))
            t.note(base)


@program(hits=0)
def test_in_place_with_gaps_between_one_another(t):
    @t.compile
    def f(a, b):
        a += b
        b *= 2
        return a + b

    for first, second in ((0, 1), (0, 1), (0, 1), (0, 0), (1, 0)):
        base = torch.arange(20.0).reshape(4, 5)
        t.call(f, base[:, first::2][:, :2], base[:, second::2][:, :2])
        t.note(base)


@program(hits=0)
def test_in_place_with_overlaps(t):
    @t.compile
    def f(a):
        b = a + 1
        a += 1
        return b * 2

    for _ in range(3):
        base = np.zeros(6)
        t.call(f, np.lib.stride_tricks.as_strided(base, (3, 2), (8, 8)))
        t.call(f, torch.zeros(3).expand(2, 3))
        t.note(base)
