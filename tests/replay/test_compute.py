"""Kernels, eager calls, numbers and results: what a replay returns equals what Python returns, and a failure leaves no trace."""
from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from segments import Segment, add_two, kind, probe, reads


def committed(plan, *slots, **more):
    outcome = plan.run(list(slots), **more)
    assert kind(outcome) == "committed", outcome
    return outcome[1]


def test_two_tensors() -> None:
    a, b = torch.rand(5, 7), torch.rand(5, 7)
    plan = add_two(a, b).plan()
    for x, y in [(a, b), (b, a), (a, a)]:
        made = committed(plan, x, y)
        assert torch.equal(made, x + y) and type(made) is torch.Tensor and made._version == 0 and not made.requires_grad
    assert committed(plan, a, b) is not committed(plan, a, b)


def test_two_arrays() -> None:
    a, b = np.random.rand(5, 7), np.random.rand(5, 7)
    made = committed(add_two(a, b, "mul").plan(), a, b)
    assert type(made) is np.ndarray and made.dtype == a.dtype and (made == a * b).all() and made.flags.owndata and made.flags.writeable


@pytest.mark.parametrize("make", [lambda: torch.rand(4, 6).t(), lambda: torch.rand(4, 3, 2).permute(2, 0, 1), lambda: torch.rand(8)[::2],
                                  lambda: np.asfortranarray(np.random.rand(4, 6)), lambda: torch.tensor(2.0), lambda: torch.rand(3, 0)])
def test_strides_are_those_of_eager(make) -> None:
    a, b = make(), make()
    made, eager = committed(add_two(a, b).plan(), a, b), a + b
    assert (made == eager).all() and made.shape == eager.shape
    assert (made.stride() == eager.stride()) if isinstance(made, torch.Tensor) else made.strides == eager.strides


def test_numpy_scalars_stay_scalars() -> None:
    a, b = np.array(2.0), np.array(3.0)
    segment = Segment()
    x, y = segment.input(segment.slot(0), a), segment.input(segment.slot(1), b)
    segment.returns = ("node", segment.kernel("add", a + b, x, y, numpy_scalar=True))
    made = committed(segment.plan(), a, b)
    assert type(made) is np.float64 and made == 5.0


def test_inference_mode() -> None:
    with torch.inference_mode():
        a, b = torch.rand(4), torch.rand(4)
        plan = add_two(a, b).plan()
        assert committed(plan, a, b).is_inference()
    assert plan.run([a, b])[0] == "guard_failed"


def test_one_node_is_one_object() -> None:
    a, b = torch.rand(3), torch.rand(3)
    segment = add_two(a, b)
    node = segment.returns
    segment.returns = segment.new("tuple", node, node, segment.new("list", node), ("source", 0))
    first, second, third, fourth = committed(segment.plan(), a, b)
    assert first is second and third[0] is first and fourth is a


def test_chain_with_a_temporary_and_a_number() -> None:
    a = torch.rand(100)
    segment = Segment()
    x = segment.input(segment.slot(0), a)
    segment.slot(1)
    segment.guard("number_type", 1, expected=segment.anchor(float))
    n = segment.scalar_input("f64", segment.number("binary", ("source", 1), segment.value(2.0), op=5))
    hidden = segment.kernel("mul", a, x, x, output=False)
    doubled = segment.kernel("add", a, hidden, x)
    segment.returns = segment.new("tuple", ("node", doubled), segment.scalar_values[0])
    plan = segment.plan()
    made, number = committed(plan, a, 4.0)
    assert torch.equal(made, a * a + a) and number == 8.0
    assert n == 1 and plan.run([a, 4])[0] == "guard_failed"


def test_numbers_compute_as_python() -> None:
    segment = reads(("slot",), ("slot", 0, 1))
    a, b = ("source", 0), ("source", 1)
    steps = [segment.number("binary", a, b, op=op) for op in (0, 2, 5, 6, 8, 10, 11)]
    steps += [segment.number("compare", a, b, op=op) for op in range(6)]
    steps += [segment.number(k, a) for k in ("negative", "positive", "not", "to_float", "to_bool", "abs")]
    steps.append(segment.number("call", a, b, callable=segment.anchor(max)))
    segment.returns = segment.new("tuple", *steps)
    plan = segment.plan()
    for x, y in [(7, 2), (-7, 2), (7.5, -2), (True, 3), (10**20, 3), (np.float64(2), 3)]:
        eager = (x + y, x // y, x * y, x % y, x**y, x - y, x / y, x < y, x <= y, x == y, x != y, x > y, x >= y, -x, +x, not x, float(x), bool(x), abs(x), max(x, y))
        made = committed(plan, x, y)
        assert made == eager and [type(m) for m in made] == [type(e) for e in eager]
    assert plan.run([1, 0])[0] == "compute_failed" and plan.run([10**400, 1.0])[0] == "compute_failed"


def test_eager_calls() -> None:
    a, b = torch.rand(4, 5), torch.rand(5, 3)
    segment = Segment()
    x, y = segment.slot(0), segment.slot(1)
    segment.input(x, a), segment.input(y, b)
    product = segment.extern(torch.matmul, [("source", x), ("source", y)], like=a @ b)
    doubled = segment.kernel("add", a @ b, product[1], product[1])
    total = segment.extern(torch.sum, [("node", doubled), segment.value(1)], like=torch.sum(a @ b, 1), kwnames=("dim",))
    item = segment.extern(torch.Tensor.numel, [("node", doubled)])
    segment.returns = segment.new("tuple", ("node", doubled), total, item)
    outcome = segment.plan().run([a, b])
    assert kind(outcome) == "committed" and outcome[3:] == (1, 3)
    first, second, third = outcome[1]
    assert torch.equal(first, a @ b + a @ b) and torch.equal(second, (a @ b + a @ b).sum(dim=1)) and third == 12


def test_results_that_come_out_differently_fail() -> None:
    results = {"value": torch.rand(2, 3)}
    segment = Segment()
    segment.returns = segment.extern(lambda: results["value"], [], like=torch.rand(2, 3))
    plan = segment.plan()
    assert committed(plan) is results["value"]
    for other in [torch.rand(3, 2), torch.rand(3, 2).t(), torch.rand(2, 3).double(), np.ones((2, 3)), None, torch.nn.Parameter(torch.rand(2, 3))]:
        results["value"] = other
        assert plan.run([])[0] == "compute_failed"
    assert sys.exc_info() == (None, None, None)


def raising(*_):
    raise ValueError("from inside")


def test_a_failed_call_leaves_no_trace() -> None:
    a = torch.rand(3)
    d, items = {}, []
    segment = Segment()
    x = segment.input(segment.slot(0), a)
    segment.slot(1), segment.slot(2)
    made = segment.kernel("add", a, x, x)
    segment.extern(raising, [("node", made)])
    segment.effect("dict_set", 1, key=segment.value("k"), value=("node", made))
    segment.effect("list_append", 2, value=("node", made))
    segment.effect("inplace", 0, value=("node", made))
    segment.returns = segment.value(None)
    before, counts = a.clone(), [sys.getrefcount(o) for o in (a, d, items)]
    version = a._version
    assert segment.plan().run([a, d, items])[0] == "compute_failed"
    assert d == {} and items == [] and torch.equal(a, before) and a._version == version
    assert [sys.getrefcount(o) for o in (a, d, items)] == counts


def test_references_are_given_back() -> None:
    a, b = torch.rand(3), torch.rand(3)
    plan = add_two(a, b).plan()
    committed(plan, a, b)
    counts = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(10):
        result = committed(plan, a, b)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == counts and sys.getrefcount(result) == 2
    died = weakref.ref(result)
    del result
    assert died() is None
    watch = weakref.ref(a)
    del a
    assert watch() is None


def test_nothing_is_kept_by_the_plan() -> None:
    class Thing:
        pass

    thing = Thing()
    thing.x = torch.rand(3)
    segment = reads(("slot",), ("attribute", 0, 0, "x"))
    segment.input(1, thing.x)
    plan = segment.plan()
    committed(plan, thing)
    watch, tensor = weakref.ref(thing), weakref.ref(thing.x)
    del thing, segment
    assert watch() is None and tensor() is None and plan.run([Thing()])[0] == "guard_failed"


def test_death_of_an_anchor_retires_the_plan() -> None:
    def f():
        return 1

    segment = reads(("slot",))
    segment.guard("is", 0, expected=segment.anchor(f))
    plan = segment.plan()
    del segment
    committed(plan, f)
    assert not plan.stale()
    del f
    gc.collect()
    assert plan.stale() and plan.run([None])[0] == "guard_failed"
    assert "gone" in plan.failure([None])[2]


def test_an_anchor_that_cannot_be_watched_retires_the_plan_at_once() -> None:
    segment = reads(("slot",))
    segment.guard("is", 0, expected=segment.anchor([]))
    assert segment.plan().stale()


def test_numpy_flags() -> None:
    a, b = np.array([1.0, 2.0]), np.array([1.0, 0.0])
    with np.errstate(divide="warn", invalid="warn"):
        segment = add_two(a, np.array([1.0, 1.0]), "div")
        segment.numpy_flags = True
        plan = segment.plan()
        assert (committed(plan, a, np.array([1.0, 4.0])) == [1.0, 0.5]).all()
        assert plan.run([a, b])[0] == "compute_failed"
    with np.errstate(divide="ignore", invalid="ignore"):
        segment = add_two(a, np.array([1.0, 1.0]), "div")
        segment.numpy_flags = True
        assert np.isinf(committed(segment.plan(), a, b)[1])


def test_numpy_calls_warn_natively_only(recwarn) -> None:
    a = np.array([1.0, 0.0])
    segment = Segment()
    segment.input(segment.slot(0), np.array([1.0, 2.0]))
    segment.returns = segment.extern(np.log, [("source", 0)], like=np.log(np.array([1.0, 2.0])))
    segment.numpy_externs = True
    plan = segment.plan()
    before = np.geterr()
    assert (committed(plan, np.array([1.0, 2.0])) == np.log([1.0, 2.0])).all()
    assert plan.run([a])[0] == "compute_failed" and not recwarn.list and np.geterr() == before


def test_interrupts() -> None:
    a = torch.rand(3)
    plan = add_two(a, a).plan()
    probe.interrupt(True)
    assert plan.run([a, a])[0] == "compute_failed"
    committed(plan, a, a)  # a request stops one replay


def test_other_threads_go_on_during_long_kernels() -> None:
    a = torch.rand(6_000_000)
    plan = add_two(a, a).plan()
    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        during = 0
        for _ in range(5):
            before = turns[0]
            made = committed(plan, a, a)
            during += turns[0] - before
    finally:
        stop.set()
        thread.join()
    assert torch.equal(made, a + a) and during > 0


def test_two_threads_run_one_plan() -> None:
    a = [torch.full((400_000,), float(i)) for i in range(2)]
    plan = add_two(a[0], a[0], "mul").plan()
    wrong = []

    def work(x):
        for _ in range(20):
            made = committed(plan, x, x)
            if not torch.equal(made, x * x):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in a]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_nested_replays_of_one_plan() -> None:
    a = torch.rand(3)
    depth = []
    segment = Segment()
    x = segment.input(segment.slot(0), a)

    def again(tensor):
        depth.append(1)
        if len(depth) < 3:
            committed(plan, tensor)
        return tensor.clone()

    made = segment.extern(again, [("source", 0)], like=a)
    segment.returns = ("node", segment.kernel("add", a, x, made[1]))
    plan = segment.plan()
    assert torch.equal(committed(plan, a), a + a) and len(depth) == 3


def test_twins_make_the_views() -> None:
    a = torch.rand(2, 3)
    segment = Segment()
    x = segment.input(segment.slot(0), a)
    made = segment.kernel("add", a, x, x)
    view = segment.extern(torch.Tensor.view, [("node", made), segment.value(6)], scheduled=False)
    node = segment.node("reshape", (a + a).view(6), made, output=True, twin=view, by_twin=True)
    segment.steps.append(("extern", view, node))
    segment.returns = segment.new("tuple", ("node", made), ("node", node))
    first, second = committed(segment.plan(), a)
    assert second._base is first and second.shape == (6,) and torch.equal(second, (a + a).view(6))


def test_checked_replays() -> None:
    a, b = torch.rand(4), torch.rand(4)
    segment = add_two(a, b)
    twin = segment.extern(torch.add, [("source", 0), ("source", 1)], scheduled=False)
    segment.nodes[segment.returns[1]]["twin"] = twin
    outcome, mismatch, compared = segment.plan().run_checked([a, b])
    assert kind(outcome) == "committed" and not mismatch and compared == 1 and torch.equal(outcome[1], a + b)
    segment.externs[twin]["callable"] = torch.sub
    outcome, mismatch, compared = segment.plan().run_checked([a, b])
    assert kind(outcome) == "compute_failed" and "in place of" in mismatch and compared == 1
