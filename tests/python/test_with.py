"""With statements: torch's grad modes above all, managers written in Python, breaks and errors inside."""
import torch
from test_generators import whole
from twice import BREAKS, NO_HITS, program
import pytest

linear = torch.nn.Linear(3, 3)


class Scaled:
    """A manager that keeps count in the instance."""

    def __init__(self, factor):
        self.factor = factor
        self.log = []

    def __enter__(self):
        self.log.append("in")
        return self.factor

    def __exit__(self, kind, error, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return kind is KeyError


def without_grad(x):
    with torch.no_grad():
        y = linear(x).relu()
    return y * 2


def nested_modes(x):
    with torch.no_grad():
        y = linear(x)
        with torch.enable_grad():
            z = x * 2
        w = y + 1
    return y, z, w, torch.is_grad_enabled()


@torch.no_grad()
def decorated(x):
    return linear(x) + 1


def by_decoration(x):
    return decorated(x) * 3


def by_function(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = linear(x) * 2
    torch.set_grad_enabled(before)
    return y + 1


def by_manager(x):
    m = Scaled(3)
    with m as factor:
        y = x * factor
    return y, m.log


@pytest.mark.skipif(BREAKS or NO_HITS, reason="nothing is replayed there, or every operation is a segment")
@pytest.mark.parametrize("fn", [without_grad, nested_modes, by_decoration, by_function, by_manager], ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", [True, False])
def test_is_one_graph(fn, mode):
    with torch.set_grad_enabled(mode):
        assert whole(fn, torch.ones(2, 3))
        assert torch.is_grad_enabled() == mode


@program(hits_broken=0)
def test_modes(t):
    for fn in (without_grad, nested_modes, by_decoration, by_function, by_manager):
        f = t.compile(fn)
        for mode in (True, False):
            with torch.set_grad_enabled(mode):
                for k in range(4):
                    t.call(f, torch.ones(2, 3) * k)
                    t.note(torch.is_grad_enabled())
                t.call(f, torch.ones(2, 3, requires_grad=True))


@program(hits_broken=0)
def test_a_mode_that_is_left_behind(t):
    @t.compile
    def off(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y, linear(x) + 1

    @t.compile
    def on(x):
        y = x - 1
        torch.set_grad_enabled(True)
        return y.relu()

    try:
        for k in range(4):
            t.call(off, torch.ones(2, 3) * k)
            t.note(torch.is_grad_enabled())
            t.call(on, torch.ones(2, 3) * k)
            t.note(torch.is_grad_enabled())
    finally:
        torch.set_grad_enabled(True)


@program(hits_broken=0)
def test_breaks_and_errors_inside(t):
    @t.compile
    def prints(x):
        with torch.no_grad():
            y = linear(x) * 2
            print("inside", torch.is_grad_enabled())
            z = y + 1
        return z * 2, torch.is_grad_enabled()

    @t.compile
    def raises(x, bad):
        m = Scaled(2)
        with m as k:
            y = x * k
            if bad:
                raise bad("inside")
            y = y + 1
        return y, m.log

    @t.compile
    def fails(x):
        with torch.no_grad():
            y = x * 2
            return y.reshape(5, 7)

    @t.compile
    def returns(x):
        with torch.no_grad():
            return linear(x)

    @t.compile
    def loops(x):
        for k in range(3):
            with torch.no_grad():
                x = linear(x)
                if k == 1:
                    break
        return x, torch.is_grad_enabled()

    for k in range(4):
        for f in (prints, fails, returns, loops):
            t.call(f, torch.ones(2, 3) * k)
            t.note(torch.is_grad_enabled())
        for bad in (None, KeyError, ValueError):
            t.call(raises, torch.ones(2, 3) * k, bad)


@program(hits_broken=0)
def test_parameters_changed_under_no_grad(t):
    w = torch.nn.Parameter(torch.ones(3))

    @t.compile
    def step(x, g):
        with torch.no_grad():
            w.sub_(g * 0.1)
            y = w * x
        return y, w.requires_grad, y.requires_grad

    for k in range(4):
        t.call(step, torch.ones(3) * k, torch.ones(3))
        t.note(w)


@program(hits_broken=0)
def test_managers_change(t):
    m = t.module("""
        class M:
            def __enter__(self):
                return 2
            def __exit__(self, *error):
                return False
        def f(x):
            with M() as k:
                y = x * k
            return y
    """)
    f = t.compile(m.f)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.M.__enter__ = lambda self: 7
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.M.__exit__ = lambda self, *error: print("left")
    for k in range(3):
        t.call(f, torch.ones(2) * k)


@program(hits_broken=0)
def test_context_variables_that_are_set_at_a_break(t):
    m = t.module("""
        from contextvars import ContextVar
        kind = ContextVar("kind", default="none")
        def inner(x):
            y = x * 2
            print("kind", kind.get())
            return y + 1
        def f(x, name):
            token = kind.set(name)
            try:
                y = inner(x.relu())
            finally:
                kind.reset(token)
            return y * 3, kind.get()
        def fails(x, name):
            token = kind.set(name)
            try:
                y = (x + 1).reshape(9, 9)
            finally:
                kind.reset(token)
            return y
        def stays(x, name):
            kind.set(name)
            y = x * 2
            print("now", kind.get())
            return y + 1
    """)
    for name in ("f", "fails", "stays"):
        f = t.compile(getattr(m, name))
        for k in range(4):
            t.call(f, torch.ones(2) * k, "ab"[k % 2])
            t.note(m.kind.get())


@program(hits_broken=0)
def test_managers_made_of_generators(t):
    m = t.module("""
        import contextlib
        @contextlib.contextmanager
        def scaled(k, log):
            log.append("in")
            try:
                yield k * 2
            finally:
                log.append("out")
        @contextlib.contextmanager
        def plain(k):
            yield k
        def f(x, log):
            with scaled(3, log) as k:
                y = x * k
            with plain(2) as n:
                y = y + n
            return y, log
        def fails(x, log):
            with scaled(3, log) as k:
                y = (x * k).reshape(9, 9)
            return y
    """)
    for name in ("f", "fails"):
        f = t.compile(getattr(m, name))
        for k in range(4):
            t.call(f, torch.ones(2) * k, [])
