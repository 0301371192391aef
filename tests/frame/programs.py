"""Plain Python programs for the evaluator's tests: each is called without arguments and gives the same value every time."""
import contextlib
import os
import sys
import types


class Plain:
    def __init__(self, x, *, scale=1):
        self.x = x * scale

    def times(self, y):
        return self.x * y

    @property
    def next(self):
        return self.x + 1


class Special:
    """Every slot that reaches Python code."""

    def __init__(self, items):
        object.__setattr__(self, "items", items)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, (name, value))

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __contains__(self, item):
        return item in self.items

    def __bool__(self):
        return len(self.items) > 2

    def __iter__(self):
        return Counter(len(self.items))

    def __call__(self, a, *rest, b=2, **more):
        return a, rest, b, sorted(more.items())

    def __enter__(self):
        self.items.append("in")
        return self.items

    def __exit__(self, kind, value, traceback):
        self.items.append(kind and kind.__name__)
        return True


class Counter:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


def keyword_only(a, *, k=3):
    return a + k


def smoke(a=3, b=4):
    s = 0
    for i in range(10):
        s += i * a
        if i % 3 == 0:
            continue
        s -= keyword_only(i, k=b)
    squares = [x * x for x in range(5)]
    table = {k: v for k, v in zip("abc", squares)}
    plain = Plain(3, scale=2)
    first, *others = squares
    text = f"{a!r:>5}{b}{plain.x:03d}"
    try:
        try:
            1 / 0
        finally:
            s += 1
    except ZeroDivisionError:
        s += 2

    def inner(q):
        nonlocal s
        s += 1
        return q + s

    with open(os.devnull) as file:
        empty = file.read()
    return s, squares, table, plain.times(2), plain.next, first, others, text, inner(3), squares[1:3], empty


def loops():
    total, words = 0, ""
    for i in range(4):
        for j in (1, 2, 3):
            if j == 2 and i == 1:
                break
            total += i * j
        else:
            total += 100
    while total > 300:
        total -= 7
    n = 0
    while True:
        n += 1
        words += str(n)
        if n > 5:
            break
    return total, words, [(a, b) for a in range(3) for b in range(a) if a != b], {x % 3 for x in range(7)}


def generators():
    done = []

    def numbers(n):
        try:
            for i in range(n):
                got = yield i * 2
                if got:
                    yield got
        finally:
            done.append(n)

    def delegates(n):
        result = yield from numbers(n)
        yield from [7, 8]
        return result

    out = list(numbers(4))
    g = numbers(3)
    out += [next(g), g.send(7)]
    g.close()
    h = delegates(2)
    out += [next(h), h.send(5), *h]
    k = numbers(2)
    next(k)
    try:
        k.throw(KeyError("thrown"))
    except KeyError as e:
        out.append(str(e))
    return out, sum(numbers(5)), done


def nested_try():
    out = []
    for i in range(3):
        try:
            try:
                out.append(i)
                if i == 1:
                    raise ValueError(i)
                if i == 2:
                    [][1]
            except ValueError as e:
                out.append(repr(e))
                raise KeyError(i) from e
            finally:
                out.append("fin")
        except (KeyError, IndexError) as e:
            line = e.__traceback__.tb_lineno - nested_try.__code__.co_firstlineno
            out.append((type(e).__name__, line, type(e.__cause__).__name__, type(e.__context__).__name__, sys.exc_info()[0].__name__))
    return out


def with_blocks():
    log = []
    with Special(log) as a, Special(log) as b:
        log.append(a is b)
        raise OSError("x")
    with Special(log):
        pass
    with contextlib.suppress(KeyError):
        {}[1]
    return log


def special_methods():
    s = Special([1, 2])
    out = [bool(s), not s, 1 in s, 5 not in s, list(s), s[0]]
    s[1] = 9
    s.name = 4
    out += [s.name, s.items]
    for i in s:
        out.append(i)
    if s:
        out.append("true")
    out.append(s or "other")
    out[-1] = out[-1] == "other"
    s.items.append(3) if isinstance(s.items, list) else None
    while s:
        s.items.pop()
        out.append("popped")
    return out, s(1), s(1, 2, 3, b=4, c=5), s(*[1, 2], **{"b": 3})


def special_operators():
    """The same by operators and statements only, so that no C function calls back."""
    s = Special([1, 2])
    out = [1 in s, 5 not in s, s[0], not s]
    s[1] = 9
    s.name = 4
    out.append(s.name)
    for i in s:  # its end is an error inside __next__, which no recording contains: left before
        out.append(i)
        break
    if s:
        out.append("true")
    x = s or 5
    out.append(x)
    with s as items:
        items.append(7)
    while s:
        s.items.pop()
        out.append("popped")
    return out, s(1), s(1, 2, 3, b=4, c=5), s(*(1, 2), **{"b": 3}), Plain(2, scale=3).next


def cells():
    suffix = "!"

    def outer(a, *args, k, **kw):
        y = a

        def bump():
            nonlocal y
            y += 1
            return y

        bump()
        z = y + 1
        bump()
        return z, y, args, k, sorted(kw.items()), [f() for f in [bump]]

    class Local:
        name = "Local" + suffix
        both = [x for x in name]

        def who(self):
            return __class__.name

    class Derived(Local):
        def who(self):
            return "derived " + super().who()

    return outer(1, 2, 3, k=4, m=5), Derived().who(), Local.both


def module_code():
    source = """
a: int = 1
class K:
    z = a + 1
    def f(self): return self.z
b = [K().f() for _ in range(3)]
import os.path as q
from os.path import join
c = join('a', 'b') + q.join('c', 'd')
del q
def g(x=a, *, y=2): return x + y
a += 1
"""
    scope = {}
    exec(compile(source, "module", "exec"), scope)
    return scope["a"], scope["b"], scope["c"], scope["g"](), scope["__annotations__"]["a"].__name__, "q" in scope


def patterns():
    def shape(value):
        match value:
            case {"kind": "circle", "r": r, **rest}:
                return "circle", r, rest
            case {"kind": kind}:
                return "other", kind
            case [x, y]:
                return "pair", x, y
            case [x, *others]:
                return "many", x, others
            case str() | bytes():
                return "text"
            case None:
                return "none"
            case _:
                return "anything"

    values = [{"kind": "circle", "r": 1, "c": 2}, {"kind": "box"}, (1, 2), [1, 2, 3], "s", None, 5, []]
    return [shape(v) for v in values]


def data():
    a, b, *c = range(5)
    (d, e), f = "xy", 3
    g = [*c, a, *"uv"]
    h = {**{"k": 1}, "l": 2}
    i = {*g, 1}
    j = g[1:3], g[:2], g[-1], g[::2]
    g[1:2] = [7, 8]
    del g[0], h["k"]
    k = a < b < 3, a is None, a is not None, -a, +b, ~b, not a
    m = f"{a}{b!r:>4}{c!s}{d!a}{3.14159:.2f}{'%'}"
    n = lambda *, z=4: z  # noqa: E731
    text = ""
    for ch in "hello":
        text += ch
    return a, b, c, d, e, f, g, h, sorted(map(str, i)), j, k, m, n(), text, a and b, a or b, (b if a else c)


def recursive(n=12):
    return n if n < 2 else recursive(n - 1) + recursive(n - 2)


def many_arguments():
    """Needs EXTENDED_ARG: more than 256 constants and a long jump."""
    scope = {}
    lines = "\n".join(f"        t += {k} + {k / 2}" for k in range(300))
    exec(f"def long(n):\n    t = 0\n    for i in range(n):\n{lines}\n    return t\n", scope)
    return scope["long"](3)


def swallowed_errors():
    out = []
    for make in (
        lambda: [*5], lambda: {**5}, lambda: keyword_only(**{"b": 1}), lambda: f"{object():q}", lambda: nowhere, lambda: {[]: 1},  # noqa: F821
        lambda: iter(5), lambda: [i for i in 5], lambda: (lambda a: a)(), lambda: 1 + "a", lambda: (1).nothing, lambda: [].pop(), lambda: keyword_only(1, k=[]),
    ):
        try:
            make()
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return out


def all_programs():
    return [f for f in list(globals().values()) if isinstance(f, types.FunctionType) and f.__name__ not in ("all_programs", "keyword_only")]
