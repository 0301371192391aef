"""Never stale: whatever a compiled function relied on is changed behind its back, and the next call must see it."""
import importlib
import sys

import numpy as np
import pytest
import torch
from twice import program

pytestmark = pytest.mark.law(7)


def ones():
    return (torch.ones(2),)


@program
def test_redefined_helper(t):
    m = t.module(
        """
        def helper(a):
            return a + 1
        def f(a):
            return helper(a) * 2
        """
    )
    f = t.compile(m.f)
    t.calls(f, ones)
    exec("def helper(a):\n    return a + 100", vars(m))
    t.calls(f, ones)
    m.helper = lambda a: a - 1
    t.calls(f, ones)
    del m.helper
    t.calls(f, ones, 2)


@program
def test_new_object_at_an_old_address(t):
    """What was relied on dies, and something else takes its place in memory."""
    m = t.module(
        """
        def f(a):
            return helper(a) * 2
        """
    )
    f = t.compile(m.f)
    m.helper = lambda a: a
    for n in range(12):
        made = {}
        exec(f"def helper(a):\n    return a + {n}", made)
        m.helper.__code__ = made["helper"].__code__  # the old one dies, the one after the next is made where it was
        made.clear()
        t.calls(f, ones, 2)


@program
def test_code_replaced(t):
    def helper(a):
        return a + 1

    def other(a):
        return a * 50

    def f(a):
        return helper(a) * 2

    g = t.compile(f)
    t.calls(g, ones)
    helper.__code__ = other.__code__
    t.calls(g, ones)

    def new(a):
        return helper(a) - 7

    f.__code__ = new.__code__
    t.calls(g, ones)


@program
@pytest.mark.law(8)
@pytest.mark.parametrize("values", [(1, 2, 3), (1.5, 2.5, -0.0, 0.0), (True, 1, 1.0, 2), ("a", "b"), (None, 1), ((1, 2), (1, 3), [1, 2])])
def test_global_rebound(t, values):
    m = t.module(
        """
        g = None
        def f(a):
            if g is None:
                return a + 1
            if isinstance(g, (str, tuple, list)):
                return a * len(g), g
            return a * g, g
        """
    )
    f = t.compile(m.f)
    for value in (*values, *values):
        m.g = value
        t.calls(f, ones, 3)


@program
def test_global_tensor_rebound(t):
    m = t.module("def f(a):\n    return a * w", w=torch.ones(2))
    f = t.compile(m.f)
    t.calls(f, ones)
    for w in (torch.ones(2) * 3, torch.ones(3, 2), torch.ones(2, dtype=torch.float64), 3):
        m.w = w
        t.calls(f, ones, 2)


@program
@pytest.mark.law(8)
def test_builtin_shadowed(t):
    m = t.module("def f(a):\n    return a * len([1, 2]) + max(1, 2)")
    f = t.compile(m.f)
    t.calls(f, ones)
    m.len = lambda x: 50
    t.calls(f, ones)
    del m.len
    t.calls(f, ones)
    m.max = min
    t.calls(f, ones)


@program
def test_builtins_changed(t):
    import builtins

    m = t.module("def f(a):\n    return a * some_new_builtin")
    f = t.compile(m.f)
    try:
        builtins.some_new_builtin = 2
        t.calls(f, ones)
        builtins.some_new_builtin = 3
        t.calls(f, ones)
        del builtins.some_new_builtin
        t.calls(f, ones, 1)
    finally:
        vars(builtins).pop("some_new_builtin", None)


@program
def test_torch_function_replaced(t):
    @t.compile
    def f(a):
        return torch.relu(a - 2) + 1

    kept = torch.relu
    t.calls(f, ones)
    try:
        torch.relu = lambda a: a * 100
        t.calls(f, ones)
        torch.relu = torch.tanh
        t.calls(f, ones)
    finally:
        torch.relu = kept
    t.calls(f, ones)


@program
def test_numpy_function_replaced(t):
    @t.compile
    def f(x):
        return np.add(x, 2) * 3

    kept = np.add
    t.calls(f, lambda: (np.ones(3),))
    try:
        np.add = np.subtract
        t.calls(f, lambda: (np.ones(3),))
    finally:
        np.add = kept
    t.calls(f, lambda: (np.ones(3),))


@program
def test_tensor_method_replaced(t):
    @t.compile
    def f(a):
        return a.relu() + 1

    t.calls(f, ones)
    try:
        torch.Tensor.relu = lambda self: self * 100
        t.calls(f, ones)
    finally:
        del torch.Tensor.relu
    t.calls(f, ones)


@program
def test_class_attribute_and_method(t):
    class Base:
        scale = 2

        def step(self, a):
            return a * self.scale

    class Derived(Base):
        pass

    @t.compile
    def f(o, a):
        return o.step(a) + o.scale

    o = Derived()
    t.calls(f, lambda: (o, torch.ones(2)))
    Base.scale = 3
    t.calls(f, lambda: (o, torch.ones(2)))
    Derived.scale = 4
    t.calls(f, lambda: (o, torch.ones(2)))
    o.scale = 5
    t.calls(f, lambda: (o, torch.ones(2)))
    Base.step = lambda self, a: a - self.scale
    t.calls(f, lambda: (o, torch.ones(2)))
    Derived.step = lambda self, a: a
    t.calls(f, lambda: (o, torch.ones(2)))
    o.step = lambda a: a * 1000
    t.calls(f, lambda: (o, torch.ones(2)))
    del o.step, o.scale
    t.calls(f, lambda: (o, torch.ones(2)))
    Derived.scale = property(lambda self: 9)
    t.calls(f, lambda: (o, torch.ones(2)))


@program
def test_class_of_instance_changed(t):
    class A:
        def go(self, a):
            return a + 1

    class B:
        def go(self, a):
            return a + 2

    @t.compile
    def f(o, a):
        return o.go(a) * 2

    o = A()
    t.calls(f, lambda: (o, torch.ones(2)))
    o.__class__ = B
    t.calls(f, lambda: (o, torch.ones(2)))
    del B.go
    t.calls(f, lambda: (o, torch.ones(2)), 2)


@program
def test_getattr_added(t):
    class A:
        pass

    @t.compile
    def f(o, a):
        return a * getattr(o, "n", 2)

    o = A()
    t.calls(f, lambda: (o, torch.ones(2)))
    A.__getattr__ = lambda self, name: 10
    t.calls(f, lambda: (o, torch.ones(2)))
    o.n = 3
    t.calls(f, lambda: (o, torch.ones(2)))
    A.__getattribute__ = lambda self, name: 20
    t.calls(f, lambda: (o, torch.ones(2)))


@program
def test_instance_dict_replaced(t):
    class A:
        pass

    @t.compile
    def f(o, a):
        return a * o.n

    o = A()
    o.n = 2
    t.calls(f, lambda: (o, torch.ones(2)))
    o.__dict__ = {"n": 3}
    t.calls(f, lambda: (o, torch.ones(2)))
    o.__dict__["n"] = 4
    t.calls(f, lambda: (o, torch.ones(2)))
    vars(o).clear()
    t.calls(f, lambda: (o, torch.ones(2)), 2)


@program
@pytest.mark.law(8)
def test_containers_changed(t):
    config = {"n": 2, "list": [1, 2, 3], "tuple": (1, 2)}

    @t.compile
    def f(a):
        for x in config["list"]:
            a = a + x
        for k, v in config.items():
            if k == "n":
                a = a * v
        return a, len(config)

    t.calls(f, ones)
    config["n"] = 3
    t.calls(f, ones)
    config["list"].append(4)
    t.calls(f, ones)
    config["list"][0] = 100
    t.calls(f, ones)
    config["new"] = 1
    t.calls(f, ones)
    del config["n"]
    t.calls(f, ones)
    config["n"] = 5
    t.calls(f, ones)


@program
def test_operator_added_to_class(t):
    class A:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return other + self.n

    @t.compile
    def f(o, a):
        return o + a * 2

    o = A(1)
    t.calls(f, lambda: (o, torch.ones(2)))
    A.__add__ = lambda self, other: other - self.n
    t.calls(f, lambda: (o, torch.ones(2)))
    del A.__add__
    t.calls(f, lambda: (o, torch.ones(2)), 2)


@program
def test_module_reloaded(t, tmp_path, monkeypatch):
    path = tmp_path / "reloaded_by_test.py"
    path.write_text("scale = 2\n\ndef helper(a):\n    return a * scale\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    sys.modules.pop("reloaded_by_test", None)
    m = importlib.import_module("reloaded_by_test")

    @t.compile
    def f(a):
        return m.helper(a) + m.scale

    t.calls(f, ones)
    path.write_text("scale = 30\n\ndef helper(a):\n    return a * scale + 1\n")
    importlib.invalidate_caches()
    importlib.reload(m)
    t.calls(f, ones)
    sys.modules.pop("reloaded_by_test", None)


@program
@pytest.mark.law(4)
def test_grad_mode_and_default_dtype(t):
    @t.compile
    def f(a):
        b = a * 2 + torch.ones(2)
        return b, torch.is_grad_enabled(), torch.zeros(1)

    w = torch.ones(2, requires_grad=True)
    t.calls(f, lambda: (w,))
    with torch.no_grad():
        t.calls(f, lambda: (w,))
    with torch.inference_mode():
        result = t.call(f, torch.ones(2))
        t.note(result[0].is_inference())
    t.calls(f, lambda: (w,), 2)
    torch.set_default_dtype(torch.float64)
    try:
        t.calls(f, lambda: (w,))
    finally:
        torch.set_default_dtype(torch.float32)
    t.calls(f, lambda: (w,), 2)


@program
@pytest.mark.law(4)
def test_errstate(t):
    @t.compile
    def f(x):
        return x / 0.0 + 1

    make = lambda: (np.array([1.0, 0.0, -1.0]),)  # noqa: E731
    t.calls(f, make)
    with np.errstate(all="ignore"):
        t.calls(f, make)
    with np.errstate(divide="raise"):
        t.calls(f, make, 2)
    with np.errstate(all="ignore"):
        t.calls(f, make, 2)
    t.calls(f, make, 2)


@program
@pytest.mark.law(4)
def test_modes(t):
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", "?"))
            return func(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    @t.compile
    def f(a):
        return (a * 2 + 1).sum()

    seen = []
    t.calls(f, ones)
    for mode in (Functions, Dispatches):
        with mode():
            f(torch.ones(2))
            f(torch.ones(2))
    t.note(seen)
    t.calls(f, ones)


@program
@pytest.mark.law(4)
def test_autocast(t):
    @t.compile
    def f(a, b):
        return torch.mm(a, b) + 1

    make = lambda: (torch.ones(2, 2), torch.ones(2, 2))  # noqa: E731
    t.calls(f, make)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        t.calls(f, make, 3)
    t.calls(f, make, 2)


@program
@pytest.mark.law(4)
def test_tracing(t):
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name in ("traced", "helper"):
            events.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    def helper(a):
        return a + 1

    @t.compile
    def traced(a):
        b = helper(a)
        return b * 2

    t.calls(traced, ones)
    kept = sys.gettrace()
    sys.settrace(tracer)
    try:
        traced(torch.ones(2))
    finally:
        sys.settrace(kept)
    t.note(events)
    t.calls(traced, ones)


@program
def test_subclass_and_override(t):
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", "?"))
            return super().__torch_function__(func, types, args, kwargs or {})

    calls = []

    @t.compile
    def f(a):
        return a * 2 + 1

    t.calls(f, ones)
    t.calls(f, lambda: (torch.ones(2).as_subclass(Mine),))
    t.note(calls)
    t.calls(f, ones, 2)
    t.calls(f, lambda: (torch.nn.Parameter(torch.ones(2)),))


@program(hits=0)  # what warns each time runs natively each time
def test_warning_names_the_line(t):
    m = t.module("def f(a):\n    b = a + 1\n    return b * w", w=np.ones(2))
    f = t.compile(m.f)
    t.calls(f, ones)
