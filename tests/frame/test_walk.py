"""Walking: every frame evaluated gives what plain Python gives, and any instruction boundary is a place to hand back."""
import sys
import traceback
import warnings

import frame_probe
import programs

HERE = __file__


def test_walked_programs_equal_plain_ones():
    for program in programs.all_programs():
        want = program()
        assert frame_probe.walk(program) == want, program.__name__
        assert frame_probe.counts()["walked"] > 0
        assert frame_probe.walk(program, every_boundary=True) == want, program.__name__
        assert frame_probe.counts()["boundaries"] > 10


def test_hand_back_at_every_boundary():
    for program in programs.all_programs():
        want = program()
        frame_probe.walk(program, every_boundary=True)
        boundaries = frame_probe.counts()["boundaries"]
        step = max(1, boundaries // 600)
        wrong = [k for k in range(1, boundaries + 1, step) if frame_probe.walk(program, every_boundary=True, hand_back_at=k) != want]
        assert not wrong, (program.__name__, boundaries, wrong[:9])


def leaf(*args, k=2, **kw):
    frame = sys._getframe()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("x", stacklevel=2)
        warnings.warn("y", stacklevel=3)
    chain = []
    up = frame
    while up and up.f_code.co_filename == HERE and not up.f_code.co_name.startswith("test_"):
        chain.append((up.f_code.co_name, up.f_lineno, up.f_lasti))
        up = up.f_back
    stack = [(s.name, s.lineno, s.end_lineno, s.colno) for s in traceback.extract_stack() if s.filename == HERE and not s.name.startswith("test_")]
    return args, k, sorted(kw), [(w.filename == HERE, w.lineno) for w in caught], chain, sorted(frame.f_back.f_locals), sorted(locals()), stack


def middle(a, b=5, *rest, c, d=7):
    local = 1
    x = leaf(a, b, *rest, k=c,
             z=d)
    return x


class Holder:
    def method(self, a):
        return leaf(a)


def stack_levels():
    def closure():
        return middle(1, 2, 3, c=4)

    bound = Holder().method
    return middle(1, c=2), closure(), [middle(*[1, 2, 3], **{"c": 1}) for _ in range(2)], Holder().method(1), bound(2)


def lastis(error):
    tb = error.__traceback__
    while tb:
        yield tb.tb_frame.f_code.co_name, tb.tb_lasti, tb.tb_lineno
        tb = tb.tb_next


def raised_deep():
    def a():
        return b(
            1)

    def b(x):
        items = [1]
        for i in range(2):
            try:
                items[x - x +
                      i]
            finally:
                items.append(1)
                c(i)

    def c(i):
        if i:
            raise ValueError("deep")

    try:
        a()
    except Exception as e:
        return [(s.name, s.lineno, s.colno, s.end_colno, s.line) for s in traceback.extract_tb(e.__traceback__)], list(lastis(e))


def raised_without_caches():
    """Errors in instructions without inline caches, and those CPython words."""
    out = []

    def imports():
        import nope_y  # noqa: F401

    def imports_from():
        from os import nope_z  # noqa: F401

    def unpacks():
        a, b = 1,

    def unpacks_more():
        a, *b = iter([])

    def unpacks_less():
        a, b = iter([1, 2, 3])

    def enters():
        with 5:
            pass

    def iterates():
        for i in 5:
            pass

    def deletes():
        del q
        q = 1

    def raises():
        raise TypeError

    def raises_from():
        raise TypeError from KeyError

    def raises_nothing():
        raise 5

    def reads_global():
        return nope_1  # noqa: F821

    def reads_unbound():
        if not out:
            x = 1
        return x

    def calls():
        (lambda a: a)(**{"b": 1})

    def closes_over():
        def f():
            return y
        f()
        y = 1

    def catches():
        try:
            {}[1]
        except 5:
            pass

    def compares():
        return 1 < "a"

    def asserts():
        assert out == 1, "text"

    def formats():
        return f"{object():q}"

    for f in (imports, imports_from, unpacks, unpacks_more, unpacks_less, enters, iterates, deletes, raises, raises_from, raises_nothing, reads_global,
              reads_unbound, calls, closes_over, catches, compares, asserts, formats):
        try:
            f()
        except Exception as e:
            out.append((f.__name__, type(e).__name__, str(e), list(lastis(e)), type(e.__cause__).__name__, type(e.__context__).__name__))
    return out


def test_lines_positions_and_stack_levels():
    for program in (stack_levels, raised_deep, raised_without_caches):
        want = program()
        assert want
        assert frame_probe.walk(program) == want, program.__name__
        assert frame_probe.walk(program, every_boundary=True) == want, program.__name__


def test_uncaught_error_has_the_plain_traceback():
    def fails():
        items = [3]
        return items[middle_of(1)]

    def middle_of(n):
        raise LookupError(n)

    def seen(call):
        try:
            call()
        except LookupError as e:
            return [t for t in lastis(e) if t[0] in ("fails", "middle_of")], e.args
    want = seen(fails)
    assert len(want[0]) == 2
    assert seen(lambda: frame_probe.walk(fails)) == want


def test_text_is_appended_in_place():
    """Quadratic otherwise: 40,000 appends to a growing text must take about as long as twice 20,000."""
    import time

    def build(n):
        s = ""
        for i in range(n):
            s += "0123456789" * 10
        return len(s)

    def seconds(n):
        times = []
        for _ in range(3):
            start = time.thread_time()
            frame_probe.walk(build, (n,))
            times.append(time.thread_time() - start)
        return min(times)
    assert build(10) == frame_probe.walk(build, (10,))
    assert seconds(60000) < 3 * seconds(30000) + 0.005


def test_nothing_leaks():
    import gc

    def blocks(run, n):
        for _ in range(20):
            run()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(n):
            run()
        gc.collect()
        return sys.getallocatedblocks() - before

    runs = [lambda f: frame_probe.walk(f), lambda f: frame_probe.walk(f, every_boundary=True), lambda f: frame_probe.record(f, inline=True),
            lambda f: frame_probe.record(f, everywhere=True)]
    gc.freeze()  # what other tests have imported is not looked through each time
    for program in (programs.smoke, programs.nested_try, programs.generators, programs.cells, programs.patterns, programs.data, programs.swallowed_errors):
        for n, run in enumerate(runs):  # caches of the interpreter's own may come in between: once clean is clean
            assert any(blocks(lambda: run(program), 60) < 30 for _ in range(8)), (program.__name__, n)
    gc.unfreeze()


def test_a_result_given_at_a_point_leaves_the_frame():
    done = []

    class Told:
        def __del__(self):
            done.append("freed")

    def summed(n):
        keep = Told()
        total = 0
        for i in range(n):
            total += i
        return total

    def without_value(n):
        keep = Told()
        for i in range(n):
            pass

    for program in (summed, without_value):
        done.clear()
        assert frame_probe.walk(program, (10,), result="given", result_after=4) == "given"
        assert done == ["freed"]
        done.clear()
        assert frame_probe.walk(program, (10,)) == program(10)


def test_a_replay_moves_the_frame():
    """A callback at the loop's body runs most iterations and leaves at the loop's test or inside an expression."""
    import dis

    def loop(n, seen):
        total = 0
        for i in range(n):
            total += i * 2
            seen.append(i)
        return total

    test = next(i.offset for i in dis.get_instructions(loop) if i.opname == "FOR_ITER")
    operator = next(i.offset for i in dis.get_instructions(loop) if i.opname == "BINARY_OP")
    want_seen = []
    want = loop(1000, want_seen)
    for leaves_at in ("test", "middle"):
        calls = []

        def segment(code, offset, locals_, stack):
            calls.append(offset)
            if len(calls) > 1:
                return None
            iterator, i = stack
            n, seen, total, _ = locals_
            for _ in range(500):
                total += i * 2
                seen.append(i)
                i = next(iterator)
            if leaves_at == "test":
                total += i * 2
                seen.append(i)
                return test, [n, seen, total, i], [iterator]
            return operator, [n, seen, total, i], [iterator, total, i, 2]

        seen = []
        assert frame_probe.walk(loop, (1000, seen), point=segment) == want
        assert seen == want_seen
        assert 490 < len(calls) < 510


def test_an_error_at_a_point_is_the_instructions():
    def loop(n):
        try:
            for i in range(n):
                pass
        except KeyError as e:
            return "caught", e.args

    def fail(*_):
        raise KeyError("at the point")

    assert frame_probe.walk(loop, (3,), point=fail) == ("caught", ("at the point",))
