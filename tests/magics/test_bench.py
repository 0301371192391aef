"""The measuring and its figures: interleaving, statistics, agreement; what is said when a contestant cannot run."""

import math

import numpy
import pytest

from dyno.magics import agreement, bench, bench_page, timing
from dyno.magics.page_text import text


def test_contestants_are_interleaved_abba():
    order = []
    contestants = [timing.Contestant(name, lambda name=name: order.append(name)) for name in "AB"]
    timing.measure(contestants, 1e-9)
    assert [contestant.number for contestant in contestants] == [1, 1]
    steady = order[sum(contestant.warmup_calls for contestant in contestants) :]
    assert "".join(steady[:8]) == "ABBAABBA"
    assert all(len(contestant.samples) == timing.LEAST_SAMPLES for contestant in contestants)
    assert [contestant.runs for contestant in contestants] == [order.count("A"), order.count("B")]


def test_short_calls_are_batched_and_the_asked_time_is_spent():
    contestant = timing.Contestant("A", lambda: None)
    timing.measure([contestant], 0.05)
    assert contestant.number > 100 and sum(contestant.samples) * contestant.number >= 0.05 and len(contestant.samples) >= 20


def test_sample_enters_its_context_once_and_restores_the_collector():
    import gc

    entered = []

    class Inside:
        def __enter__(self):
            entered.append(1)

        def __exit__(self, *_):
            return False

    contestant = timing.Contestant("A", lambda: None, Inside)
    timing.sample(contestant, 7)
    assert entered == [1] and contestant.runs == 7 and gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        timing.sample(timing.Contestant("B", lambda: 1 / 0), 1)
    assert gc.isenabled()


def test_quartiles_and_interval():
    assert timing.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)
    assert timing.quartiles([2.0]) == (2.0, 2.0, 2.0)
    ratio, low, high = timing.ratio_interval([2.0 + i / 100 for i in range(30)], [1.0 + i / 200 for i in range(30)])
    assert ratio == pytest.approx(2.0) and low < 2.0 < high and high - low < 0.3
    assert timing.ratio_interval([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == timing.ratio_interval([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])


A = numpy.linspace(-1, 1, 100, dtype="f4")


@pytest.mark.parametrize(
    ("expected", "got", "verdict"),
    [
        (A, A.copy(), "equal"),
        (A, A + numpy.float32(1e-6), "agree"),
        (A, A + numpy.float32(1e-2), "differ"),
        (A, A[:-1], "differ"),
        (A.astype("f8"), A.astype("f8") + 1e-6, "differ"),
        (numpy.array([1, 2]), numpy.array([1, 3]), "differ"),
        (numpy.array([math.nan, 1.0]), numpy.array([math.nan, 1.0]), "equal"),
        (numpy.array([math.inf, 1.0]), numpy.array([1.0, 1.0]), "differ"),
        (numpy.array([math.inf, 1.0]), numpy.array([math.inf, 1.0 + 1e-12]), "agree"),
        (numpy.zeros(3), numpy.array([0.0, 0.0, 1e-30]), "differ"),
        ((A, {"k": 1}), (A, {"k": 1}), "equal"),
        ((A, {"k": 1}), (A, {"k": 2}), "unknown"),
        ([A], [A, A], "differ"),
        (1.0, 1.0 + 1e-15, "agree"),
        (math.nan, math.nan, "equal"),
        (object(), object(), "unknown"),
        (1, 1.0, "differ"),
    ],
)
def test_agreement(expected, got, verdict):
    assert agreement.compare(expected, got)["verdict"] == verdict


def test_torch_results_are_compared_and_copied():
    torch = pytest.importorskip("torch")
    x = torch.ones(3, dtype=torch.bfloat16)
    assert agreement.compare(x, x.clone())["verdict"] == "equal"
    assert agreement.compare(x, torch.ones(3).numpy())["verdict"] == "equal"
    (copy,) = bench.copies((x,))
    copy += 1
    assert float(x[0]) == 1.0


def bench_report(shell, line):
    (bundle,) = shell.magic(line)
    return next(value for name, value in bundle.items() if name.endswith("bench.v1+json")), bundle["text/plain"]


def test_bench_counts_checks_and_keeps_every_sample(shell, core):
    shell.run(
        "import numpy as np\nseen = []\ndef add(x):\n    seen.append(1)\n    return x + 1\ndef other(x):\n    return x + 2\nx = np.ones(4)"
    )
    report, shown = bench_report(shell, "%dyno bench add(x) --vs eager,numpy,other --min-time 0.01")
    names = [row["name"] for row in report["contestants"]]
    assert names == ["interpreted", "compiled", "numpy", "other"]
    assert len(shell.ip.user_ns["seen"]) == sum(row["runs"] for row in report["contestants"] if row["name"] != "other")
    assert f"The call ran {report['runs']} times" in shown
    verdicts = {row["name"]: row["agreement"] and row["agreement"]["verdict"] for row in report["contestants"]}
    assert verdicts == {"interpreted": None, "compiled": "equal", "numpy": "equal", "other": "differ"} and "DIFFER" in shown
    assert all(len(row["samples_s"]) >= 20 for row in report["contestants"])
    assert core.depth == 0


def test_bench_repeats_a_call_that_writes_into_its_argument(shell):
    shell.run("import numpy as np\ndef bump(x):\n    x += 1\n    return x.copy()\nx = np.zeros(4)")
    report, _ = bench_report(shell, "%dyno bench bump(x) --min-time 0.01")
    assert report["contestants"][1]["agreement"]["verdict"] == "equal"


def test_bench_says_what_could_not_run(shell):
    shell.run("def unbox(b):\n    return b.v\nclass Box:\n    v = 1\nb = Box()")
    shell.run("def bad(b):\n    raise RuntimeError('no\\nsecond line')")
    report, shown = bench_report(shell, "%dyno bench unbox(b) --vs bad --min-time 0.01")
    assert report["absent"] == [{"name": "bad", "reason": "RuntimeError: no"}] and "bad: not measured: RuntimeError: no" in shown


def test_bench_does_not_pass_interpreted_calls_off_as_compiled(shell, core, monkeypatch):
    monkeypatch.setattr(core.Compiled, "__call__", lambda self, *args: self.__wrapped__(*args))  # no hit is ever counted
    report, shown = bench_report(shell, "%dyno bench g() --min-time 0.01")
    assert report["hits"] == 0 and "g ran interpreted in the compiled row too, because it meets no tensor or array" in shown


def test_first_call_is_timed_only_where_it_is_the_first(shell, core):
    report, shown = bench_report(shell, "%dyno bench h(1) --min-time 0.01")
    assert report["contestants"][1]["first_call_s"] > 0
    report, shown = bench_report(shell, "%dyno bench step(1, 2) --min-time 0.01")
    assert report["contestants"][1]["first_call_s"] is None and "its first call was not timed" in shown


@pytest.mark.parametrize(
    ("low", "high", "median", "sentence"),
    [
        (0.4, 0.6, 1e-3, "not worth compiling: 0.50x"),
        (0.4, 0.6, 5e-6, "too small to gain: at this size the call itself costs more than its work"),
        (0.9, 1.1, 1e-3, "no difference"),
        (1.5, 1.9, 1e-3, "worth it after 12 calls; 1 kernel, compiled in 340 ms in the background"),
    ],
)
def test_readings(low, high, median, sentence):
    import fake_core

    report = fake_core.load("bench")
    report["contestants"][1].update(speedup_interval=[low, high], speedup=(low + high) / 2, median_s=median)
    assert sentence in text(bench_page.page(report, {}))


def test_break_even():
    eager = {"median_s": 1.0}
    row = {"first_call_s": 3.0, "speedup_interval": [1.9, 2.1], "median_s": 0.5}
    assert bench.break_even(eager, row, 1.0) == 6
    assert bench.break_even(eager, {**row, "speedup_interval": [0.9, 2.1]}, 1.0) is None
    assert bench.break_even(eager, {**row, "first_call_s": None}, 1.0) is None


@pytest.mark.parametrize(("value", "words"), [(3.9, "3.9 s"), (0.0413, "41.3 ms"), (5.2e-05, "52 us"), (2e-07, "200 ns"), (None, "")])
def test_seconds(value, words):
    assert bench_page.seconds(value) == words


def test_peak_memory_is_what_the_call_touches():
    from dyno.magics import memory

    block = 64 * 2**20
    found = memory.peak_of(lambda: bytes(bytearray(block)))
    if found is None:
        pytest.skip("the system does not tell")
    assert 1.5 * block < found < 3 * block  # a bytearray and its copy
    assert memory.peak_of(lambda: None) < 2**20
    assert [memory.in_words(size) for size in (None, 0, 1.5 * 2**20, 192 * 2**20)] == ["", "0 MB", "1.5 MB", "192 MB"]
