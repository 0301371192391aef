"""A long function's first call is recorded in part at most and runs on natively; the second is recorded whole, the third replayed."""
import time
import types

import dyno
import pytest
import torch
from twice import BREAKS, NO_HITS, program

pytestmark = pytest.mark.skipif(BREAKS or NO_HITS, reason="nothing is replayed there, or every operation is a segment")


def fresh(function):
    return types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def repeated(operations):
    names = {"torch": torch}
    exec(compile("def f(x):\n" + "    x = x * 1.01\n" * operations + "    return x\n", f"<{operations} operations>", "exec"), names)
    return names["f"]


def after_each_call(compiled, argument, calls):
    rows = []
    for _ in range(calls):
        before = dyno.stats()
        compiled(argument.clone())
        now = dyno.stats()
        rows.append((now["captures"] - before["captures"], now["hits"] - before["hits"]))
    return rows


def is_there_after_the_first_call(compiled, argument):
    """Captured by the first call, replayed by the second. (A finaliser in between may end a segment, whose rest is captured then.)"""
    first, second = after_each_call(compiled, argument, 2)
    return first[0] > 0 and first[1] == 0 and second[1] > 0


@pytest.mark.parametrize("operations", [1, 10, 40])
def test_code_of_forty_operations_is_there_after_the_first_call(operations):
    assert is_there_after_the_first_call(dyno.compile(repeated(operations)), torch.ones(8))


def test_longer_code_is_recorded_at_the_second_call():
    # So long that no machine is slow enough for the operations' own time to pay for it.
    first, second, third = after_each_call(dyno.compile(repeated(800)), torch.ones(8), 3)
    assert first == (0, 0) and second[0] > 0 and third[1] > 0


def test_eight_layers_are_short():
    model = torch.nn.Sequential(*[layer for _ in range(4) for layer in (torch.nn.Linear(4, 4), torch.nn.ReLU())]).eval()
    with torch.no_grad():
        assert is_there_after_the_first_call(dyno.compile(lambda x: model(x)), torch.ones(2, 4))


def test_the_reason_is_told():
    f = repeated(800)
    compiled = dyno.compile(f)
    compiled(torch.ones(3))
    dyno.wait()
    assert "called again" in str(dyno.explain(compiled))
    compiled(torch.ones(3))
    dyno.wait()
    assert "called again" not in str(dyno.explain(compiled))


def test_strict_records_at_once():
    compiled = dyno.compile(repeated(200), strict=True)
    compiled(torch.ones(3))
    before = dyno.stats()["hits"]
    compiled(torch.ones(3))
    assert dyno.stats()["hits"] == before + 1


def test_a_call_that_goes_on_for_long_is_compiled_in_it():
    # The outermost call happens once, and rests after its long beginning; later its time pays for recording again.
    def work(x, until):
        while time.process_time() < until:
            x = (x * 0.5 + 1).relu()
            x = x - 0.25
        return x

    def main(x):
        for k in range(60):
            x = x + k
        return work(x, time.process_time() + 1.5)

    before = dyno.stats()["hits"]
    dyno.compile(main)(torch.ones(5))
    assert dyno.stats()["hits"] > before + 100


@program
def test_nested_long_calls(t):
    def layer(x, k):
        for _ in range(20):
            x = x * 0.99 + k
        return x

    @t.compile
    def f(x):
        for k in range(12):
            x = layer(x, k)
            if k == 7:
                print("at", k)
        return x

    for _ in range(5):
        t.call(f, torch.ones(6))


@program
def test_errors_in_the_part_that_is_not_recorded(t):
    @t.compile
    def f(x, bad):
        for _ in range(70):
            x = x + 1
        try:
            x = x.reshape(bad, 3)
        except RuntimeError as error:
            return type(error).__name__, x
        return x / 0

    for bad in (1, 2, 1, 2, 1, 2):
        t.call(f, torch.ones(3), bad)
