"""Recording: shadows sit where their values are, calls are inlined, stops and rebuilt frames change nothing."""
import frame_probe
import programs


def clean(counts):
    assert counts["mismatches"] == 0, counts["first_problem"]
    assert counts["bugs"] == 0


def test_shadows_follow_every_value():
    for program in programs.all_programs():
        want = program()
        assert frame_probe.record(program) == want, program.__name__
        clean(frame_probe.counts())
        assert frame_probe.record(program, inline=True) == want, program.__name__
        counts = frame_probe.counts()
        clean(counts)
        assert counts["before"] >= 2
        if not counts["failed"] and not counts["strangers"]:
            assert counts["left"] == counts["entered"] + 1


def test_every_value_has_a_shadow():
    """Programs without handlers and with blocks, whose saved exceptions have none."""
    for program in (programs.loops, programs.data, programs.cells, programs.special_methods, programs.recursive):
        frame_probe.record(program, inline=True)
        counts = frame_probe.counts()
        assert counts["unknown"] == 0, counts["first_problem"]
        assert counts["before"] > 5, program


def test_calls_are_inlined():
    frame_probe.record(programs.recursive, inline=True)
    counts = frame_probe.counts()
    assert counts["redirected"] == counts["entered"] == 464 and counts["left"] == 465
    assert counts["strangers"] == counts["failed"] == 0


def test_special_methods_are_inlined():
    assert frame_probe.record(programs.special_operators, inline=True) == programs.special_operators()
    counts = frame_probe.counts()
    clean(counts)
    assert counts["entered"] >= 20 and counts["strangers"] == counts["failed"] == 0, counts


def test_break_everywhere():
    for program in programs.all_programs():
        want = program()
        for inline in (False, True):
            assert frame_probe.record(program, everywhere=True, inline=inline) == want, program.__name__
            counts = frame_probe.counts()
            clean(counts)
            assert counts["records"] >= 2
        assert frame_probe.record(program, everywhere=True, walk_others=True) == want, program.__name__
        clean(frame_probe.counts())


def test_stop_at_every_instruction():
    for program in (programs.smoke, programs.special_methods, programs.cells, programs.with_blocks):
        want = program()
        for at in range(1, 400):
            assert frame_probe.record(program, inline=True, stop_at=at) == want, (program.__name__, at)
            counts = frame_probe.counts()
            clean(counts)
            if counts["before"] < at:
                break


def test_unannounced_frames_end_the_recording():
    log = []

    class Noisy:
        def __del__(self):
            log.append("gone")

        def __eq__(self, other):
            log.append("compared")
            return True

        __hash__ = None

    def drops():
        x = Noisy()
        x = None
        return 1

    def compares():
        x = Noisy()
        return [x] == [3]

    def through_c():
        return sorted([3, 1], key=lambda v: -v)

    for program, want in ((drops, 1), (compares, True), (through_c, [3, 1])):
        assert frame_probe.record(program, checks=False) == want  # a recorder that checks keeps the values alive
        counts = frame_probe.counts()
        assert counts["strangers"] == 1 and counts["left"] == 0, (program.__name__, counts)
    assert log == ["gone", "compared", "gone"]


def test_generator_functions_are_not_entered():
    def makes():
        def numbers():
            yield 1
        return numbers()

    assert list(frame_probe.record(makes, inline=True)) == [1]
    counts = frame_probe.counts()
    assert counts["entered"] == 0 and counts["strangers"] == 0 and counts["left"] == 1


def test_init_must_return_none():
    class Bad:
        def __init__(self):
            return 5

    def makes():
        try:
            Bad()
        except TypeError as e:
            return str(e)

    assert frame_probe.record(makes, inline=True) == makes()
    assert frame_probe.counts()["entered"] == 1


# ---- frames from data

def plain(a, b):
    x = a * 2
    return probe(x) + b + x


def probe(v):
    return v + 1


def with_cells(a, *args, k, **kw):
    y = a

    def inc():
        nonlocal y
        y += 1
        return y

    inc()
    z = probe(y)
    inc()
    return z, y, args, k, sorted(kw.items()), [f() for f in [inc]]


def keywords():
    return with_cells(1, 2, 3, k=4, m=5)


def free_variables():
    q = 10

    def uses(p):
        nonlocal q
        q += p
        s = probe(q)
        q += s
        return q

    return uses(1) + uses(2)


def deep(n=5):
    if n == 0:
        return probe(0) + 1
    return deep(n - 1) + n


def handled():
    log = []
    try:
        raises(log)
    except ValueError as e:
        lines = []
        tb = e.__traceback__
        while tb:
            if tb.tb_frame.f_code is handled.__code__:
                lines.append(tb.tb_lineno - handled.__code__.co_firstlineno)
            tb = tb.tb_next
        return "caught", str(e), lines
    finally:
        log.append("end")


def raises(log):
    v = probe(1)
    raise ValueError(v)


class Made:
    def __init__(self, v):
        self.v = probe(v)

    def method(self, *, w=2):
        return self.v + probe(w)


def objects():
    m = Made(5)
    return m.v + m.method(w=3)


def looped():
    out = []
    for i in range(3):
        for j in (10, 20):
            out.append(plain(i, j))
    return out


def long_way():
    scope = {}
    exec("def pad(x): return x + 1\ndef far(n, f):\n    t = 0\n" + "".join(f"    t += {k}.5\n" for k in range(280)) +
         "    for i in range(n):\n        t += f(i)\n    return t", scope)
    return scope["far"](2, probe)


def rebuilds(program, only_in=None, most=400):
    """Every second time the outermost frame is walking already and a replay moves it."""
    want = program()
    n = 0
    for at in range(1, most):
        try:
            frame_probe.record(program, inline=True, stop_at=at, take_state=True, only_in=only_in)
        except frame_probe.Abandoned:
            pass
        else:
            break
        got = frame_probe.resume(at % 2)
        assert got == want, (program.__name__, at, got, want)
        n += 1
    return n


def test_rebuild_at_every_instruction():
    total = 0
    for program in (lambda: plain(3, 4), keywords, free_variables, deep, handled, objects, looped, programs.special_methods, programs.special_operators, programs.recursive, programs.smoke,
                    programs.loops, programs.data, programs.cells, long_way):
        n = rebuilds(program)
        assert n >= 3, program
        total += n
    assert total > 600, total


def test_state_is_outermost_first():
    try:
        frame_probe.record(deep, inline=True, stop_at=1, take_state=True, only_in=probe.__code__)
    except frame_probe.Abandoned:
        pass
    state = frame_probe.state()
    assert [s[0].__name__ for s in state] == ["deep"] * 6 + ["probe"]
    assert frame_probe.resume(False) == deep()


def test_errors_pass_through_rebuilt_frames():
    def outer():
        try:
            return raises([])
        except ValueError as e:
            return str(e), sum(1 for _ in traces(e))

    def traces(e):
        tb = e.__traceback__
        while tb:
            yield tb
            tb = tb.tb_next

    try:
        frame_probe.record(outer, inline=True, stop_at=2, take_state=True, only_in=raises.__code__)
    except frame_probe.Abandoned:
        pass
    assert len(frame_probe.state()) == 2
    assert frame_probe.resume(False) == outer() == ("2", 2)
