"""Threads, recursion, generators, coroutines: several frames of one code at once."""
import asyncio
import gc
import sys
import threading

import dyno
import pytest
import torch
from twice import NO_HITS, program


@pytest.mark.parametrize("same", [True, False])
def test_two_threads_call(same):
    def make():
        def f(a, n):
            b = a * n
            total = b.sum()
            if n > 5:
                return b + total, n
            return b - total, n

        return f

    plain = make()
    first = dyno.compile(make())
    functions = [first, first if same else dyno.compile(make())]
    wrong, switch = [], sys.getswitchinterval()
    dropped = dyno.stats()["dropped"]

    def work(g, seed, turns=150):
        for k in range(turns):
            a = torch.arange(4.0) + seed + k % 3
            n = k % 10
            got, want = g(a, n), plain(a, n)
            if not torch.equal(got[0], want[0]) or got[1] != want[1]:
                wrong.append((k, got, want))

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(g, 10 * i)) for i, g in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert not wrong
    if NO_HITS:
        return
    dyno.wait()
    hits = dyno.stats()["hits"]
    for k in range(20):
        work(first, k, 10)
    # Nothing that happened meanwhile has spoilt the code for good. (Threads that switch all the time can make it look slow: then it was given up.)
    assert dyno.stats()["hits"] > hits or dyno.stats()["dropped"] > dropped


def test_threads_write_one_counter():
    state = {"n": 0}
    lock = threading.Lock()

    @dyno.compile
    def f(a):
        with lock:
            state["n"] += 1
        return a * 2

    def work():
        for _ in range(100):
            assert f(torch.ones(2))[0] == 2

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state["n"] == 200


def test_error_in_thread_stays_there():
    @dyno.compile
    def f(a, n):
        return a * 2 / (1 // n)

    for _ in range(3):
        f(torch.ones(2), 1)
        dyno.wait()
    caught = []

    def work():
        try:
            f(torch.ones(2), 0)
        except ZeroDivisionError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert f(torch.ones(2), 1)[0] == 2
    thread.join()
    assert len(caught) == 1


@program
def test_recursion(t):
    @t.compile
    def f(a, n):
        if n == 0:
            return a
        return f(a * 2, n - 1) + 1

    for n in (3, 3, 3, 4, 0, 60, 60, 3):
        t.call(f, torch.ones(2), n)


@program
def test_recursion_by_plain_name(t):
    def f(a, n):
        if n == 0:
            return a
        return f(a * 2, n - 1) + 1

    g = t.compile(f)
    for n in (3, 3, 3, 4, 0, 60, 60, 3):
        t.call(g, torch.ones(2), n)


@program
def test_mutual_recursion(t):
    def even(a, n):
        return a if n == 0 else odd(a + 1, n - 1) * 2

    def odd(a, n):
        return a if n == 0 else even(a - 1, n - 1)

    f = t.compile(even)
    for n in (4, 4, 5, 4, 20):
        t.call(f, torch.ones(2), n)


@program(hits=0)
def test_recursion_error(t):
    @t.compile
    def f(a, n):
        return f(a + 1, n + 1) if n >= 0 else a

    def shallow(n):
        try:
            return f(torch.ones(1), n)
        except RecursionError as error:
            return type(error).__name__, str(error)[:32]

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        for n in (-1, -1, 0, -1, 0):
            t.note(shallow(n))
            t.settle()
    finally:
        sys.setrecursionlimit(limit)
    t.call(f, torch.ones(1), -1)
    t.call(f, torch.ones(1) * 2, -1)


@program
def test_tree(t):
    @t.compile
    def f(tree):
        if isinstance(tree, torch.Tensor):
            return tree * 2
        return [f(x) for x in tree]

    a = torch.ones(2)
    for tree in (a, a, [a, a], [a, a], [a, [a, [a]]], [a, [a, [a]]], [], a):
        t.call(f, tree)


@program
def test_generator_consumed(t):
    def parts(a, n):
        for i in range(n):
            got = yield a * i
            if got:
                a = a + got
        return a

    def through(a, n):
        last = yield from parts(a, n)
        yield last * 10

    @t.compile
    def f(a, n):
        total = a * 0
        for x in parts(a, n):
            total = total + x
        g = parts(a, n)
        next(g)
        sent = g.send(2) if n > 1 else None
        return total, sent, list(through(a, n)), sum(x for x in parts(a, n))

    for n in (2, 2, 3, 1, 70, 2):
        t.call(f, torch.ones(2), n)


@program(hits=0)
def test_generator_compiled(t):
    @t.compile
    def f(a, n):
        for i in range(n):
            a = a * 2
            yield a + i

    for n in (2, 2, 2, 5):
        t.call(lambda n=n: list(f(torch.ones(2), n)))
    g = f(torch.ones(2), 3)
    t.note(next(g))
    t.note(next(g))
    g.close()
    t.note(list(g))


@program
def test_generator_abandoned_and_thrown(t):
    def parts(a, log):
        try:
            yield a
            yield a * 2
        except ValueError:
            log.append("value")
            yield a * 3
        finally:
            log.append("closed")

    @t.compile
    def f(a, how):
        log = []
        g = parts(a + 1, log)
        b = next(g)
        if how == "throw":
            b = b + g.throw(ValueError)
        if how == "close":
            g.close()
        if how == "error":
            g.throw(KeyError("k"))
        del g
        return b * 2, log

    for how in ("", "", "throw", "throw", "close", "error", ""):
        t.call(f, torch.ones(2), how)


@program(hits=0)
def test_coroutines(t):
    async def helper(a):
        await asyncio.sleep(0)
        return a * 2

    @t.compile
    async def f(a):
        b = await helper(a + 1)
        return b - 1

    def run(a):
        return asyncio.run(f(a))

    t.calls(run, lambda: (torch.ones(2),), 4)


@program
def test_function_called_from_coroutine(t):
    @t.compile
    def f(a, n):
        return a * n + 1

    async def worker(n, out):
        for k in range(4):
            out.append(f(torch.ones(2), n + k))
            await asyncio.sleep(0)

    async def main():
        out = []
        await asyncio.gather(worker(1, out), worker(2, out))
        return out

    for _ in range(3):
        t.call(lambda: asyncio.run(main()))


@program
@pytest.mark.law(5)
def test_frames_of_finalisers_are_strangers(t):
    """A finaliser's frame runs the helper's code in the middle of an instruction of the recorded frame."""

    def helper(a):
        return a + 1

    class Loud:
        def __del__(self):
            seen.append(helper(torch.zeros(2)))

    @t.compile
    def f(a, box):
        b = a * 2
        box["k"] = None
        c = helper(b)
        return c - 1

    seen = []
    for kind in (Loud, Loud, object, object, Loud, object, object):
        t.call(f, torch.ones(2), {"k": kind()})
    t.note(seen)


@program
@pytest.mark.law(5)
def test_frames_of_collected_garbage_are_strangers(t):
    """Whatever allocates may run finalisers: their frames start in the middle of instructions that call nothing."""

    class Loud:
        def __init__(self, n):
            self.me, self.n = self, n

        def __del__(self):
            seen.append(self.n)
            if self.n:
                Loud(self.n - 1)

    def helper(a, n):
        parts = [[a], [n], [a * n]]
        return parts[0][0] + parts[2][0], [n]

    @t.compile
    def f(a, n):
        b, rest = helper(a, n)
        c, more = helper(b, n + 1)
        return b * c, rest, more, [[c]]

    seen = []
    thresholds = gc.get_threshold()
    gc.collect()
    try:
        for n in (1, 1, 2, 2, 1):
            seen.clear()
            Loud(40)
            gc.set_threshold(1)
            result = f(torch.ones(2), n)
            gc.set_threshold(*thresholds)
            gc.disable()
            t.note(result)
            t.settle()
            gc.enable()
            while gc.collect(0):
                pass
            t.note(seen)
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


@program
@pytest.mark.law(5)
def test_frames_of_equality_are_strangers(t):
    """A key's __eq__ and __hash__ run Python, with tensors, under a dict look-up."""

    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            log.append(("hash", self.n))
            return 1

        def __eq__(self, other):
            log.append(("eq", self.n, other.n, float((torch.ones(1) * self.n).sum())))
            return self.n == other.n

    @t.compile
    def f(a, d, key):
        b = a * 2
        c = d[key]
        return b + c

    log = []
    d = {Key(1): 10, Key(2): 20, Key(3): 30}
    for n in (2, 2, 2, 3, 3, 1):
        t.call(f, torch.ones(2), d, Key(n))
    t.note(log)


@program
@pytest.mark.law(5)
def test_frames_under_native_code_are_strangers(t):
    def key(x):
        seen.append(float((x * 2).sum()))
        return seen[-1]

    @t.compile
    def f(a, items):
        b = a + 1
        first = min(items, key=key)
        rest = sorted(items, key=key, reverse=True)
        return b * first, rest, list(filter(lambda x: key(x) > 2, items))

    seen = []
    t.calls(f, lambda: (torch.ones(2), [torch.ones(1) * 3, torch.ones(1)]), 5)
    t.note(seen)


@program
def test_signal_in_the_middle(t):
    import signal

    seen = []

    def handler(number, frame):
        seen.append(float((torch.ones(2) * 3).sum()))

    @t.compile
    def f(a):
        b = a * 2
        signal.raise_signal(signal.SIGUSR1)
        return b + 1

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        t.calls(f, lambda: (torch.ones(2),), 5)
    finally:
        signal.signal(signal.SIGUSR1, old)
    t.note(seen)
