"""Signals, threads, recursion, tracing: what the interpreter does to running code happens to evaluated code too."""
import gc
import signal
import sys
import threading
import time
import traceback

import frame_probe


def spin():
    i = 0
    while True:
        i += 1


def spin_caught():
    try:
        spin()
    except KeyboardInterrupt as e:
        return [s.name for s in traceback.extract_tb(e.__traceback__)]


def interrupted(run):
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    start = time.time()
    try:
        return run(), time.time() - start
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_interrupts_are_honoured():
    for run in (lambda: frame_probe.walk(spin_caught), lambda: frame_probe.record(spin_caught, walk_others=True),
                lambda: frame_probe.record(spin_caught, inline=True, checks=True)):
        names, seconds = interrupted(run)
        assert names[:2] == ["spin_caught", "spin"] and seconds < 3
        assert all(name in ("spin_caught", "spin") or "int_handler" in name for name in names), names


def test_other_threads_go_on():
    turns = [0]
    stop = threading.Event()

    def other():
        while not stop.is_set():
            turns[0] += 1

    def busy(n):
        s = 0
        for i in range(n):
            s += i
        return s

    thread = threading.Thread(target=other)
    thread.start()
    before = turns[0]
    assert frame_probe.walk(busy, (1500000,)) == sum(range(1500000))
    advanced = turns[0] - before
    stop.set()
    thread.join()
    assert advanced > 100


def test_threads_evaluate_side_by_side():
    def leaf(x):
        return x + 1

    def work(out):
        s = 0
        for i in range(300):
            s += leaf(i)
        out.append(s)

    out = []
    frame_probe.evaluate_all(True)
    try:
        threads = [threading.Thread(target=lambda: [work(out) for _ in range(20)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        frame_probe.evaluate_all(False)
    assert out == [sum(range(1, 301))] * 80


def down(n):
    return 0 if n == 0 else 1 + down(n - 1)


def endless():
    return endless()


def test_recursion_depth_and_error():
    limit = sys.getrecursionlimit()
    runs = (frame_probe.walk, lambda f, a=(): frame_probe.record(f, a, inline=True, checks=False),
            lambda f, a=(): frame_probe.record(f, a, inline=True))
    try:
        for allowed, depth in ((1000, 800), (20000, 9000)):
            sys.setrecursionlimit(allowed)
            for run in runs:
                assert run(down, (depth,)) == depth
                try:
                    run(endless)
                except RecursionError as e:
                    assert "recursion" in str(e)
                else:
                    raise AssertionError("no RecursionError")
    finally:
        sys.setrecursionlimit(limit)


def test_depth_rule_ends_a_recording():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    try:
        assert frame_probe.record(down, (3000,), inline=True) == 3000
        counts = frame_probe.counts()
        assert counts["failed"] + counts["strangers"] == 1 and counts["left"] == 0, counts
        assert 100 < counts["entered"] < 1300
    finally:
        sys.setrecursionlimit(limit)


def leaf(x):
    y = x + 1
    return y


def calls_leaf(n):
    s = 0
    for i in range(n):
        s += leaf(i)
    return s


NAMES = ("calls_leaf", "leaf", "switches_on")


def test_settrace_sees_the_same():
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name in NAMES:
            events.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    def traced(run):
        events.clear()
        sys.settrace(tracer)
        try:
            run()
        finally:
            sys.settrace(None)
        return list(events)

    want = traced(lambda: calls_leaf(2))
    assert want and traced(lambda: frame_probe.walk(calls_leaf, (2,))) == want
    assert traced(lambda: frame_probe.record(calls_leaf, (2,), inline=True)) == want


def test_settrace_switched_on_inside():
    events = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name in NAMES:
            events.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    def switches_on():
        a = 1
        sys.settrace(tracer)
        sys._getframe().f_trace = tracer
        b = a + 1
        c = leaf(b)
        sys.settrace(None)
        return c

    def traced(run):
        events.clear()
        run()
        return list(events)

    want = traced(switches_on)
    assert want
    assert traced(lambda: frame_probe.walk(switches_on)) == want
    assert traced(lambda: frame_probe.record(switches_on, inline=True)) == want
    assert frame_probe.counts()["left"] == 0


def test_setprofile_sees_the_same():
    events = []

    def profiled(run):
        events.clear()
        sys.setprofile(lambda frame, event, arg: events.append((frame.f_code.co_name, event)))
        try:
            run()
        finally:
            sys.setprofile(None)
        return [e for e in events if e[0] in NAMES]

    want = profiled(lambda: calls_leaf(2))
    assert want and profiled(lambda: frame_probe.walk(calls_leaf, (2,))) == want


def test_monitoring_sees_the_same():
    if not hasattr(sys, "monitoring"):
        return
    monitoring, events = sys.monitoring, []
    tool = 2
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda code, line: events.append((code.co_name, line)))
        monitoring.register_callback(tool, monitoring.events.PY_START, lambda code, offset: events.append((code.co_name, "start")))

        def monitored(run):
            events.clear()
            monitoring.set_events(tool, monitoring.events.LINE | monitoring.events.PY_START)
            run()
            monitoring.set_events(tool, 0)
            return [e for e in events if e[0] in NAMES]

        want = monitored(lambda: calls_leaf(2))
        assert want and monitored(lambda: frame_probe.walk(calls_leaf, (2,))) == want
        events.clear()
        monitoring.set_local_events(tool, leaf.__code__, monitoring.events.LINE)
        frame_probe.walk(calls_leaf, (3,))
        monitoring.set_local_events(tool, leaf.__code__, 0)
        assert len(events) == 6
        assert frame_probe.walk(calls_leaf, (50,)) == calls_leaf(50)
    finally:
        monitoring.free_tool_id(tool)


def test_specialised_code():
    for _ in range(2000):
        calls_leaf(5)
    want = calls_leaf(5)
    assert all(frame_probe.walk(calls_leaf, (5,), every_boundary=True, hand_back_at=k) == want for k in range(1, 120))


def test_collections_in_flight():
    class Node:
        pass

    def cycles(n):
        def numbers():
            for i in range(n):
                a = Node()
                a.self = a
                yield gc.collect() if i % 7 == 0 else i
        return len(list(numbers()))

    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(5)
    try:
        assert frame_probe.walk(cycles, (40,)) == 40
        for k in range(1, 120, 7):
            assert frame_probe.walk(cycles, (15,), every_boundary=True, hand_back_at=k) == 15
        assert frame_probe.record(cycles, (15,), everywhere=True, walk_others=True) == 15
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def test_coroutines_run_natively():
    import asyncio

    async def wait(n):
        await asyncio.sleep(0)
        return n

    async def main():
        return [await wait(k) for k in range(3)] + list(await asyncio.gather(wait(4), wait(5)))

    assert frame_probe.walk(lambda: asyncio.run(main())) == [0, 1, 2, 4, 5]
