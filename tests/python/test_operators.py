"""Operators that classes define: NotImplemented, reflected methods, attribute errors that know what they are about."""
import torch
from twice import program


class Shy:
    """Leaves every operator to the other side."""

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return NotImplemented

    def __mul__(self, other):
        return NotImplemented if not isinstance(other, int) else self.value * other

    def __eq__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented if not isinstance(other, Shy) else self.value.sum() < 0

    __hash__ = object.__hash__


class Bold:
    """Answers for both sides."""

    def __init__(self, value):
        self.value = value

    def __radd__(self, other):
        return self.value + 10

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "greater"

    __hash__ = object.__hash__


class Lazy:
    blech = 1

    def __getattr__(self, name):
        raise AttributeError


class Named:
    def __getattr__(self, name):
        raise AttributeError("mine", name="other", obj=3)


class Broken(list):
    __new__ = object.__new__


class Strict:
    def __init__(self):
        self.value = 1


@program(hits=0)
def test_not_implemented(t):
    @t.compile
    def f(x):
        shy, bold = Shy(x * 2), Bold(x)
        same = shy == shy, shy == Shy(x), shy != shy, shy == 3, shy == bold, shy < bold
        return shy + bold, same, shy * 3, x.relu()

    @t.compile
    def adds(x):
        return Shy(x) + 1

    @t.compile
    def orders(x):
        return Shy(x) < 3

    @t.compile
    def multiplies(x):
        return Shy(x) * x

    @t.compile
    def both(x):
        return Shy(x) + Shy(x)

    for k in range(4):
        for fn in (f, adds, orders, multiplies, both):
            t.call(fn, torch.ones(2) * k)


@program(hits=0)
def test_attribute_errors_know_their_object(t):
    @t.compile
    def f(x, kind):
        y = x * 2
        thing = kind()
        try:
            return thing.bluch
        except AttributeError as error:
            return y, error.name, type(error.obj).__name__, error.args

    for k in range(3):
        t.call(f, torch.ones(2) * k, Lazy)
        t.call(f, torch.ones(2) * k, Named)


@program(hits=0)
def test_classes_that_cannot_be_made(t):
    @t.compile
    def f(x, kind, *args):
        y = x + 1
        return y, type(kind(*args)).__name__

    for k in range(3):
        t.call(f, torch.ones(2) * k, Broken)
        t.call(f, torch.ones(2) * k, Strict)
        t.call(f, torch.ones(2) * k, Strict, 3)
        t.call(f, torch.ones(2) * k, object, 3)
