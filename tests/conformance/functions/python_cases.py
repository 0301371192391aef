"""Python around numbers: state, closures, classes, containers, exceptions; 30 functions of the corpus."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import operator
import random
import sys
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from functions.cases import case


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class State:
    position: Any
    velocity: Any
    step: int = 0
    log: list = dataclasses.field(default_factory=list)


class Running:
    """A class with a property, __call__, operators and a length."""

    def __init__(self, scale=1.0):
        self.scale, self.total, self.count = scale, 0.0, 0

    @property
    def mean(self):
        return self.total / max(self.count, 1)

    @mean.setter
    def mean(self, value):
        self.total = value * max(self.count, 1)

    def __call__(self, x):
        self.total = self.total + (x * self.scale).sum()
        self.count += x.numel()
        return self.mean

    def __add__(self, other):
        r = Running(self.scale)
        r.total, r.count = self.total + other.total, self.count + other.count
        return r

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.total * i


COUNTER = 0
HISTORY: list = []
SETTINGS = {"rate": 0.5}


@case(lambda g: (g.t(4),), "global-write global-read")
def p_global_counter(x):
    global COUNTER
    COUNTER += 1
    HISTORY.append(float(x[0]))
    return x * COUNTER * SETTINGS["rate"]


@case(lambda g: (g.t(4),), "print io")
def p_print_inside(x):
    print("shape", tuple(x.shape))
    y = x * 2
    print(f"max {y.max().item():.3f}", end="|\n")
    sys.stdout.write("done\n")
    return y + 1


@case(lambda g: ({"w": g.t(3), "b": [g.t(3), g.t(3)]}, g.t(3)), "dict mutates-args key-order")
def p_dict_state(params, x):
    params["w"] = params["w"] - 0.1 * x
    params["b"].append(x)
    params.setdefault("steps", 0)
    params["steps"] += 1
    return {k: (v if k != "b" else sum(v)) for k, v in params.items()}, list(params)


@case(lambda g: (State(g.t(3), g.t(3)), 0.1), "dataclass mutates-args")
def p_dataclass_state(s, dt):
    s.position = s.position + dt * s.velocity
    s.step += 1
    s.log.append(s.step)
    return dataclasses.replace(s, velocity=s.velocity * 0.9)


@case(lambda g: (Point(g.t(3), g.t(3)),), "namedtuple")
def p_namedtuple(p):
    q = p._replace(x=p.x + p.y)
    return Point(q.y, q.x), q._fields, q == q or True


@case(lambda g: (g.t(3), 2.0), "closure nonlocal", state=True)
def p_closure_counter(env):
    calls = 0
    env["calls"] = lambda: calls

    def run(x, k):
        nonlocal calls
        calls += 1

        def scale(v):
            return v * k + calls

        return scale(x)

    return run


@case(lambda g: (g.t(9),), "generator next")
def p_generator(x):
    def chunks(v, n):
        for i in range(0, len(v), n):
            yield v[i : i + n]

    g = chunks(x, 4)
    first = next(g)
    return first, [c.sum() for c in g], sum(i * i for i in range(5))


@case(lambda g: (g.t(5),), "generator-result lazy")
def p_returns_generator(x):
    def squares():
        for i, v in enumerate(x):
            yield i, v * v

    return list(itertools.islice(squares(), 3)), next(squares())


@case(lambda g: ([g.t(3), g.t(4) if g.seed else g.t(3)],), "try-except exception", seeds=(0, 1, 0))
def p_try_except(ts):
    try:
        y = torch.stack(ts).sum()
    except RuntimeError as e:
        y = "cannot stack" if "size" in str(e) else "other"
    finally:
        done = True
    return y, done


@case(lambda g: (g.t(3), g.seed), "raise exception mutates-before-raise", seeds=(0, 1, 0, 1))
def p_raises(x, n):
    x.add_(1)
    if n:
        raise ValueError(f"bad value {n}")
    return x


@case(lambda g: (g.t(3), 1, 2, 3), "varargs kwargs defaults")
def p_varargs(x, *rest, scale=2.0, **options):
    def inner(a, b=5, *c, d, **e):
        return a * b + len(c) + d + len(e)

    return inner(x, *rest[:1], d=scale, extra=1), inner(*[x, 2, 9, 9], d=0), options, rest


@case(lambda g: (g.t(3),), "mutable-default", state=True)
def p_mutable_default(env):
    def run(x, seen=[]):
        seen.append(x.sum().item())
        return x * len(seen), list(seen)

    return run


@case(lambda g: (g.t(4), g.t(2, 4)), "object call property state", state=True)
def p_callable_object(env):
    r = env["running"] = Running(2.0)

    def run(x, y):
        a = r(x)
        b = r(y)
        r.mean = 1.0
        both = r + Running()
        return a, b, r.mean, len(both), both[2], bool(r)

    return run


@case(lambda g: (Running(0.5), g.t(4)), "object mutates-args attribute")
def p_object_argument(r, x):
    r(x)
    r.extra = x + 1
    return r.mean, hasattr(r, "extra"), getattr(r, "missing", -1)


@case(lambda g: (g.t(4), g.seed), "functools partial lru_cache", state=True)
def p_functools(env):
    hits = env.setdefault("hits", [])

    @functools.lru_cache(maxsize=None)
    def table(n):
        hits.append(n)
        return [math.sin(i) for i in range(n)]

    def affine(x, a, b=0.0):
        return a * x + b

    def run(x, n):
        f = functools.partial(affine, b=1.0)
        return functools.reduce(operator.add, [f(x, k) for k in range(3)]), x * torch.tensor(table(4 + n)).sum(), table.cache_info().hits

    return run


@case(lambda g: (g.t(3, 3), [3, 1, 2]), "comprehension sorted zip")
def p_comprehensions(x, order):
    rows = [x[i - 1] * w for i, w in zip(order, (0.5, 1.0, 2.0))]
    table = {f"r{i}": r.sum() for i, r in enumerate(rows) if i != 1}
    return (
        rows,
        table,
        {i % 2 for i in order},
        sorted(order, key=lambda v: -v),
        max(order),
        any(v > 2 for v in order),
        [a for r in [[1, 2], [3]] for a in r],
    )


@case(lambda g: ([g.t(2) for _ in range(3 + g.seed)],), "list unpack mutates-args")
def p_list_surgery(xs):
    first, *middle, last = xs
    xs.insert(0, first + last)
    xs.reverse()
    del xs[1]
    xs[:] = xs + [middle[0]]
    head = xs.pop()
    return head, len(xs), xs[::2], xs.index(xs[0])


@case(lambda g: (g.t(4), 3 + g.seed), "recursion", seeds=(0, 1, 2, 0))
def p_recursion(x, depth):
    return x if depth == 0 else p_recursion(torch.sin(x), depth - 1) + 1


@case(lambda g: (g.t(4), [1, 2.5, True, None, "s", (1, 2)][g.seed % 6]), "type-change recompile", seeds=(0, 1, 2, 3, 4, 5, 0))
def p_argument_types(x, v):
    if isinstance(v, bool):
        return x if v else -x
    if isinstance(v, (int, float)):
        return x * v
    if v is None:
        return x.sum()
    return x + len(v)


@case(lambda g: (g.t(2, 3 + g.seed),), "shape-change recompile", seeds=(0, 1, 2, 3, 4, 0))
def p_shape_dependent(x):
    b, n = x.shape
    if n % 2:
        return x.view(-1) / n, f"{b}x{n}"
    return x.reshape(b, 2, n // 2).mean(1), [n] * b


@case(lambda g: (g.t(4),), "random python-rng")
def p_python_random(x):
    k = random.random()
    random.shuffle(order := list(range(4)))
    return x * k, x[order], random.randint(0, 9)


@case(lambda g: (g.t(4),), "context-manager", state=True)
def p_context_manager(env):
    log = env.setdefault("log", [])

    @contextlib.contextmanager
    def scope(name):
        log.append("in " + name)
        try:
            yield len(log)
        finally:
            log.append("out " + name)

    def run(x):
        with scope("a") as n, scope("b"):
            y = x * n
        return y, list(log)

    return run


@case(lambda g: (g.t(3), g.t(3)), "identity is id")
def p_identity(a, b):
    same = a is a.contiguous()
    seen = {id(a): "a", id(b): "b"}
    return same, seen[id(a)], a is not b, [v is b for v in (a, b)], type(a) is torch.Tensor


@case(lambda g: (g.t(6), 2), "string-format")
def p_strings(x, k):
    name = "_".join(["layer", str(k), "%02d" % k])
    return name.upper(), f"{x.shape[0]:>4}|{k!r}", name.split("_")[-1].isdigit(), x * len(name)


@case(lambda g: (g.t(5, 2), g.ti(2, 5)), "collections counter defaultdict deque")
def p_collections(x, label):
    groups = collections.defaultdict(list)
    for v, k in zip(x, label.tolist()):
        groups[k].append(v)
    q = collections.deque(maxlen=2)
    for v in x:
        q.append(v.sum())
    return (
        {k: torch.stack(v).mean(0) for k, v in sorted(groups.items())},
        list(q),
        collections.Counter(label.tolist()).most_common(1)[0][1],
        collections.OrderedDict(a=1),
    )


@case(lambda g: (g.t(4), "relu tanh sigmoid".split()[g.seed % 3]), "getattr dispatch match", seeds=(0, 1, 2, 0))
def p_dispatch(x, name):
    match name:
        case "relu":
            f = F.relu
        case _:
            f = getattr(torch, name)
    table = {"relu": 1, "tanh": 2}
    return f(x), table.get(name, -1), {"tanh": torch.tanh}.get(name, lambda v: v)(x)


@case(lambda g: (g.t(4),), "walrus chained-comparison ternary")
def p_syntax(x):
    out = []
    for i in range(10):
        if (v := i * i) > 30:
            break
        elif v % 2:
            continue
        out.append(v)
    else:
        out.append(-1)
    a, (b, c) = 1, (2, 3)
    a, b = b, a
    return (
        out,
        0 < a < c,
        x if not out else x[:2],
        [*out, *(b, c)],
        {**{"k": 1}, "j": 2},
        ~a,
        a**-1,
        7 // -2,
        7 % -2,
        divmod(-7, 2),
        1e308 * 10,
        int("12"),
        round(2.5),
    )


@case(lambda g: (g.t(4),), "class-in-function inheritance super", state=True)
def p_local_class(env):
    class Base:
        factor = 2

        def apply(self, x):
            return x * self.factor

        @classmethod
        def make(cls):
            return cls()

        @staticmethod
        def shift(x):
            return x + 1

    class Child(Base):
        factor = 3

        def apply(self, x):
            return super().apply(x) - 1

    env["cls"] = lambda: Child.factor

    def run(x):
        c = Child.make()
        Child.factor += 1
        return c.apply(x), Base.shift(x), isinstance(c, Base), type(c).__name__

    return run


@case(lambda g: (g.t(4),), "later-rebinding stale", state=True)
def p_rebinding(env):
    space = {"k": 2.0}
    helper = lambda v: v + 1

    def swap():
        nonlocal helper
        space["k"] *= 2
        old = helper
        helper = (lambda v: old(v) * 10) if space["k"] == 8.0 else helper

    def run(x):
        y = helper(x * space["k"])
        swap()
        return y

    return run


@case(lambda g: (lambda x: x**3 - x - 2, 1.0, 2.0), "callable-argument scalars-only while", seeds=(0, 0), kind="python")
def p_bisection(f, a, b):
    while b - a > 1e-9:
        m = (a + b) / 2
        a, b = (m, b) if f(a) * f(m) > 0 else (a, m)
    return (a + b) / 2
