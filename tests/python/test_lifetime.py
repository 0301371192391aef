"""Identity, reference counts and lifetime: objects live exactly as long as in eager, and nothing grows."""
import gc
import sys
import weakref

import dyno
import numpy as np
import pytest
import torch
from twice import NO_HITS, program


class Thing:
    pass


@program
def test_argument_returned_is_itself(t):
    @t.compile
    def f(a, b, items):
        return a, b + 1, a, items, items[0]

    for _ in range(4):
        a, items = torch.ones(2), [np.ones(2), 5]
        result = t.call(f, a, torch.ones(2), items)
        t.note(result[0] is a, result[2] is a, result[3] is items, result[4] is items[0])


@program
def test_no_copy_operations_return_operand(t):
    @t.compile
    def f(a):
        b = a + 1
        return a.contiguous() is a, a.float() is a, a.to(torch.float32) is a, a.cpu() is a, b.contiguous() is b, +a is a, a[:] is a, b

    for a in (torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 3).t(), torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2)):
        t.call(f, a)


@program
@pytest.mark.law(6)
def test_reference_counts_of_arguments(t):
    @t.compile
    def f(a, x, thing, items):
        b = a * 2
        thing.b = b
        items.append(b)
        return b + 1, x * 2

    a, x, thing = torch.ones(2), np.ones(2), Thing()
    for _ in range(6):
        items = []
        t.call(f, a, x, thing, items)
        t.note(sys.getrefcount(a), sys.getrefcount(x), sys.getrefcount(thing), sys.getrefcount(items), sys.getrefcount(thing.b))


@program
@pytest.mark.law(6)
def test_reference_counts_of_results(t):
    @t.compile
    def f(a):
        b = a + 1
        return b, [b, a * 2], {"k": b}

    for _ in range(5):
        b, items, d = t.call(f, torch.ones(2))
        t.note(sys.getrefcount(items), sys.getrefcount(d), sys.getrefcount(items[1]))


@program
@pytest.mark.law(6)
def test_weak_references_die(t):
    @t.compile
    def f(a, thing):
        b = a * 2
        return b + thing.w

    for _ in range(5):
        a, thing = torch.ones(2), Thing()
        thing.w = torch.ones(2)
        died = []
        refs = [weakref.ref(o, lambda r, n=n: died.append(n)) for n, o in enumerate((a, thing, thing.w))]
        out = f(a, thing)
        t.settle()
        del a
        t.note(list(died))
        del thing
        t.note(list(died), [r() is None for r in refs])
        result = weakref.ref(out)
        del out
        t.note(result() is None)


@program
@pytest.mark.law(6)
def test_deleted_inside(t):
    """`del` inside the function, then a look from outside."""

    @t.compile
    def f(a, look):
        b = a * 2
        c = b + 1
        look.append(weakref.ref(b))
        first = look[-1]() is None
        del b
        second = look[-1]() is None
        return c, first, second

    t.calls(lambda a: f(a, []), lambda: (torch.ones(2),), 5)


@program(hits=0)
def test_finaliser_order(t):
    class Loud:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            print("del", self.name)

    @t.compile
    def f(a, box):
        x = Loud("x")
        b = a + 1
        print("one")
        x = Loud("y")  # noqa: F841
        b = b * 2
        print("two")
        box["k"] = Loud("z")
        return b

    for _ in range(5):
        t.call(f, torch.ones(2), {"k": Loud("old")})


@program
def test_finaliser_of_old_value(t):
    class Loud:
        def __del__(self):
            print("gone", len(box))

    @t.compile
    def f(a, box):
        b = a + 1
        box["k"] = b
        box["n"] = 1
        return b

    for kind in (object, object, object, Loud, Loud, object):
        box = {"k": kind()}
        t.call(f, torch.ones(2), box)


@program
def test_array_can_be_resized_after(t):
    @t.compile
    def f(x):
        return x * 2

    for _ in range(5):
        x = np.ones(3)
        f(x)
        t.settle()
        x.resize(5)
        t.note(x)
    t.calls(f, lambda: (np.ones(3),))


@program
def test_result_can_be_resized_and_pickled(t):
    import copy
    import pickle

    @t.compile
    def f(a, x):
        return a * 2, x + 1

    for _ in range(4):
        a, x = t.call(f, torch.ones(3), np.ones(3))
        x.resize(5)
        t.note(pickle.loads(pickle.dumps((a, x))), copy.deepcopy(a), a.resize_(5)[:3], a.untyped_storage().nbytes(), x.base is None)


def test_redefinitions_do_not_grow():
    """200 functions of one text come and go with their code, entries and tensors."""
    source = "def f(a):\n    b = a * w\n    return (b + 1).sum()\n"

    def once():
        names = {"w": torch.ones(8)}
        exec(source, names)
        f = dyno.compile(names["f"])
        for _ in range(2):
            f(torch.ones(8))
            dyno.wait()
        return weakref.ref(names["f"]), weakref.ref(names["w"]), weakref.ref(names["f"].__code__)

    def objects():
        gc.collect()
        return len(gc.get_objects())

    hits = dyno.stats()["hits"]
    for _ in range(10):
        once()
    before = objects()
    kept = [once() for _ in range(200)]
    after = objects()
    assert all(r() is None for refs in kept for r in refs)
    del kept
    assert after - before < 200 + 3 * 200 + 100  # `kept` itself, not even one object for each function
    assert NO_HITS or dyno.stats()["hits"] - hits >= 200


def test_memory_of_the_process_does_not_grow():
    """Resident memory after many redefinitions: some kilobytes of code each would show."""

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    def once(n):
        names = {"torch": torch}
        exec(f"def f(a):\n    return (torch.relu(a) * {n}.5 + 1).sum(0)\n", names)
        f = dyno.compile(names["f"])
        for _ in range(2):
            f(torch.ones(8, 8))
            dyno.wait()

    for n in range(60):
        once(n)
    gc.collect()
    before = resident()
    for n in range(200):
        once(n)
    gc.collect()
    assert resident() - before < 16 << 20


@pytest.mark.law(6)
def test_first_call_keeps_no_temporaries():
    """Peak memory of a first call: temporaries die as they do in eager."""
    held = []

    class Counted(torch.Tensor):
        pass

    def probe():
        held.append(sum(1 for o in gc.get_objects() if type(o) is torch.Tensor and o.numel() == 12345))

    names = {"probe": probe}
    exec("def f(a):\n    b = a + 1\n    c = b * 2\n    del b\n    d = c - 1\n    del c\n    probe()\n    return d.sum()\n", names)
    f = names["f"]
    f(torch.ones(12345))
    g = dyno.compile(f)
    for _ in range(4):
        g(torch.ones(12345))
        dyno.wait()
    assert held == [held[0]] * 5


@program
def test_reset_frees_and_goes_on(t):
    @t.compile
    def f(a):
        return a * 2 + 1

    t.calls(f, lambda: (torch.ones(2),))
    if t.compiled:
        dyno.reset(f)
    t.calls(f, lambda: (torch.ones(2),))
    if t.compiled:
        dyno.reset()
    t.calls(f, lambda: (torch.ones(2),))


@program
def test_cycle_through_closure_is_collected(t):
    def make():
        w = torch.ones(2)

        @t.compile
        def f(a):
            return a * w + (0 if f is None else 1)

        return f, weakref.ref(w)

    for _ in range(3):
        f, w = make()
        t.calls(f, lambda: (torch.ones(2),), 3)
        del f
        gc.collect()
        t.note(w() is None)
