"""Entries by key, their order, their death with the code object, and the never-slower rule."""
from __future__ import annotations

import gc

import pytest
import torch
from segments import add_two, empty, no_code, probe, reads


@pytest.fixture(autouse=True)
def clean():
    yield
    probe.cache_reset(None)
    gc.collect()


def a_plan():
    a = torch.rand(3)
    return add_two(a, a).plan()


def test_entries_are_found_by_code_unit_and_shape() -> None:
    code, other = no_code(), no_code()
    assert probe.cache_entries(code, 0, 0) is None
    probe.cache_install(a_plan(), code, 0, 0)
    probe.cache_install(a_plan(), code, 4, 7)
    assert probe.cache_entries(code, 0, 0) == [0] and probe.cache_entries(code, 4, 7) == [0]
    assert probe.cache_entries(code, 4, 8) is None and probe.cache_entries(other, 0, 0) is None


def test_the_newest_hit_comes_first() -> None:
    code = no_code()
    for _ in range(3):
        probe.cache_install(a_plan(), code)
    probe.cache_hit(code, 2, 1000.0, 0.0)
    assert probe.cache_entries(code) == [1, 0, 0]
    probe.cache_hit(code, 1, 1000.0, 0.0)
    probe.cache_hit(code, 0, 1000.0, 0.0)
    assert probe.cache_entries(code) == [2, 1, 0]


def test_old_entries_leave() -> None:
    code = no_code()
    for _ in range(20):
        probe.cache_install(a_plan(), code)
    assert len(probe.cache_entries(code)) == 16


def test_entries_die_with_the_code_object() -> None:
    before = probe.cache_codes()
    code = no_code()
    probe.cache_install(a_plan(), code)
    assert probe.cache_codes() == before + 1
    del code
    assert probe.cache_codes() == before


def test_an_entry_does_not_keep_its_own_code() -> None:
    namespace = {}
    exec("def f(a): return a", namespace)
    before = probe.cache_codes()
    segment = reads(("slot",))
    segment.code = namespace["f"].__code__
    segment.guard("is", 0, expected=segment.anchor(namespace["f"]))
    probe.cache_install(segment.plan(), namespace["f"].__code__)
    del segment
    assert probe.cache_codes() == before + 1
    namespace.clear()
    gc.collect()
    assert probe.cache_codes() == before


def test_stale_entries_are_swept() -> None:
    code = no_code()

    def f():
        return 0

    segment = reads(("slot",))
    segment.guard("is", 0, expected=segment.anchor(f))
    probe.cache_install(segment.plan(), code)
    probe.cache_install(a_plan(), code)
    del segment, f
    gc.collect()
    assert probe.cache_sweep(code) == 1 and len(probe.cache_entries(code)) == 1


def test_reset() -> None:
    first, second = no_code(), no_code()
    for code in (first, second, second):
        probe.cache_install(a_plan(), code)
    freed = probe.cache_reset(second)
    assert probe.cache_entries(second) == [] and probe.cache_entries(first) == [0]
    assert freed > 0 and probe.cache_reset(None) * 2 == freed  # bytes: one entry's code against two
    assert probe.cache_reset(None) == 0


@pytest.mark.parametrize("compiled, eager, drops", [(10_000, 5_000, True), (6_000, 5_000, False), (5_100, 5_000, False), (100_000, 99_000, False),
                                                    (110_000, 100_000, True), (10_000, 0, False), (3_000, 5_000, False)])
def test_never_slower(compiled, eager, drops) -> None:
    code = no_code()
    probe.cache_install(a_plan(), code)
    hits, dropped = probe.cache_counters()
    answers = [probe.cache_hit(code, 0, float(compiled), float(eager)) for _ in range(20)]
    assert [a[0] for a in answers].index(True) == 15 if drops else not any(a[0] for a in answers)
    assert sum(a[0] for a in answers) == drops and bool(answers[-1][1]) == drops
    assert probe.cache_counters() == (hits + 20, dropped + drops)


@pytest.mark.parametrize("compiled, eager, rests", [(10_000, 5_000, True), (6_000, 5_000, False), (100_000, 99_000, False), (110_000, 100_000, True), (10_000, 0, False)])
def test_first_code_is_not_judged(compiled, eager, rests) -> None:
    """Hits of level 0 drop nothing, however slow: the entry rests after the third; level 2 has its sixteen hits all the same."""
    code = no_code()
    probe.cache_install(a_plan(), code)
    answers = [probe.cache_hit(code, 0, float(compiled), float(eager), False) for _ in range(20)]
    assert not any(a[0] for a in answers)
    assert [a[2] for a in answers] == [False] * 2 + [rests] * 18
    assert not any(probe.cache_hit(code, 0, 1000.0, float(eager))[0] for _ in range(20))


def test_one_slow_first_hit_does_not_rest() -> None:
    code = no_code()
    probe.cache_install(a_plan(), code)
    assert not any(probe.cache_hit(code, 0, 1000.0 if i == 1 else 1e7, 5000.0, False)[2] for i in range(3))


def test_hits_of_a_busy_machine_do_not_drop() -> None:
    code = no_code()
    probe.cache_install(a_plan(), code)
    assert not any(probe.cache_hit(code, 0, 1e7 if i < 11 else 1000.0, 5000.0)[0] for i in range(16))


def test_shapes() -> None:
    x = object()
    shapes = {probe.cache_shape(slots, depth) for slots, depth in [([x, x], 0), ([x, empty], 0), ([empty, x], 0), ([x, x], 1), ([x, x, x], 1), ([empty] * 70, 0),
                                                                    ([empty] * 69 + [x], 0)]}
    assert len(shapes) == 7
    assert probe.cache_shape([x, 1], 0) == probe.cache_shape([2, 3], 0)
