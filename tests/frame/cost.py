"""Nanoseconds per instruction: CPython, a hook that declines, walking, recording with a recorder that does nothing.

    FRAME_PROBE=<folder of frame_probe> python tests/frame/cost.py
"""
import sys
import time

import conftest  # noqa: F401  finds the probe

import frame_probe


class Point:
    def __init__(self):
        self.v = 1


def arithmetic(n):
    s = 0
    for i in range(n):
        a = i * 3
        b = a + 7
        if b > 5:
            s += b
        else:
            s -= a
    return s


def attributes(n):
    p = Point()
    q = 0
    for i in range(n):
        p.v = i
        q = p.v + q
        x = [i, q]
        y = x[0]
        z = (y, x)
    return q, z


def add(a, b):
    return a + b


def python_calls(n):
    s = 0
    for i in range(n):
        s = add(s, i)
    return s


def c_calls(n):
    s = 0
    items = []
    for i in range(n):
        items.append(i)
        s += len(items)
    return s


def best(run, repeat=15):
    fastest = 1e9
    for _ in range(repeat):
        start = time.thread_time()
        run()
        fastest = min(fastest, time.thread_time() - start)
    return fastest * 1e9


def hooked(function, n):
    frame_probe.hook(True)
    try:
        return best(lambda: function(n))
    finally:
        frame_probe.hook(False)


def main(n=4000):
    print(sys.version.split()[0], "ns per instruction")
    for function in (arithmetic, attributes, python_calls, c_calls):
        function(n), function(n)
        frame_probe.walk(function, (n,), every_boundary=True)
        instructions = frame_probe.counts()["boundaries"]
        row = {
            "CPython": best(lambda: function(n)),
            "hook": hooked(function, n),
            "walked": best(lambda: frame_probe.walk(function, (n,))),
            "recorded": best(lambda: frame_probe.record(function, (n,), checks=False)),
        }
        print(f"{function.__name__:13}", *(f"{name} {t / instructions:6.2f}" for name, t in row.items()), f"walked x{row['walked'] / row['CPython']:.2f}", f"recorded x{row['recorded'] / row['CPython']:.2f}")


if __name__ == "__main__":
    main()
