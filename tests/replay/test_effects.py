"""Effects are stored in order, all or none; exits give the frames as recorded."""
from __future__ import annotations

import sys
import types
import weakref

import numpy as np
import pytest
import torch
from segments import Segment, empty, kind, reads


def writing(*effects) -> Segment:
    """Slot 0 is the target, slot 1 a value; nothing is returned."""
    segment = reads(("slot", 0, 0), ("slot", 0, 1))
    for name, fields in effects:
        segment.effect(name, 0, **{k: segment.value(v) if k == "key" else v for k, v in fields.items()})
    segment.returns = segment.value(None)
    return segment


VALUE = ("source", 1)


def run(segment: Segment, *slots) -> str:
    return kind(segment.plan().run(list(slots)))


class Holder:
    pass


def test_dicts() -> None:
    d, value = {"old": 1, "gone": 2}, object()
    segment = writing(("dict_set", dict(key="old", value=VALUE)), ("dict_set", dict(key=(1, "t"), value=VALUE)), ("dict_remove", dict(key="gone")))
    assert run(segment, d, value) == "committed" and list(d.items()) == [("old", value), ((1, "t"), value)]
    assert run(segment, {"old": 1}, value) == "compute_failed"  # nothing to remove
    assert run(segment, type("D", (dict,), {})(gone=1), value) == "compute_failed"


def test_everything_is_undone_when_one_store_fails() -> None:
    d = {"a": 1}
    before = dict(d)
    segment = writing(("dict_set", dict(key="a", value=VALUE)), ("dict_set", dict(key="new", value=VALUE)), ("dict_remove", dict(key="missing")))
    value = object()
    count = sys.getrefcount(value)
    assert run(segment, d, value) == "compute_failed" and d == before and list(d) == ["a"] and sys.getrefcount(value) == count


def test_lists_and_cells() -> None:
    items, value = [1, 2, 3], object()
    segment = writing(("list_append", dict(value=VALUE)), ("list_set", dict(position=3, value=("source", 0))), ("list_set", dict(position=0, value=VALUE)))
    assert run(segment, items, value) == "committed" and items == [value, 2, 3, items]
    items.clear(), items.extend([1, 2])
    assert run(segment, items, value) == "compute_failed" and items == [1, 2]
    cell = types.CellType(1)
    assert run(writing(("cell_set", dict(value=VALUE))), cell, value) == "committed" and cell.cell_contents is value
    assert run(writing(("cell_set", {})), cell, value) == "committed"
    with pytest.raises(ValueError):
        cell.cell_contents


def test_attributes() -> None:
    holder, value = Holder(), object()
    assert run(writing(("attribute_set", dict(key="x", value=VALUE)), ("attribute_set", dict(key="y", value=VALUE))), holder, value) == "committed"
    assert vars(holder) == {"x": value, "y": value}
    assert run(writing(("attribute_remove", dict(key="x"))), holder, value) == "committed" and vars(holder) == {"y": value}
    assert run(writing(("attribute_remove", dict(key="x"))), holder, value) == "compute_failed"

    class Guarded:
        p = property(lambda self: 1, lambda self, v: pytest.fail("a setter ran"))

    assert run(writing(("attribute_set", dict(key="p", value=VALUE))), Guarded(), value) == "compute_failed"
    assert run(writing(("attribute_set", dict(key="p", value=VALUE))), object(), value) == "compute_failed"


def test_old_values_that_die_loudly_refuse_the_store() -> None:
    class Loud:
        def __del__(self):
            died.append(inside)

    died, inside = [], True
    segment = writing(("dict_set", dict(key="k", value=VALUE)))
    d = {"k": Loud()}
    assert run(segment, d, 1) == "compute_failed" and isinstance(d["k"], Loud)
    inside, quiet = False, Holder()
    d = {"k": quiet}
    watch = weakref.ref(quiet, lambda _: None)
    assert run(segment, d, 1) == "compute_failed" and d["k"] is quiet and watch() is quiet
    assert died == [False]  # with its dictionary, here


def test_old_values_die_after_the_last_store() -> None:
    class Noisy:
        def __init__(self, d):
            self.d = d

        def __del__(self):
            seen.append(dict(self.d))

    seen, d = [], {}
    d["k"] = [Noisy(d)]  # the list dies quietly, what it holds does not
    assert run(writing(("dict_set", dict(key="k", value=VALUE)), ("dict_set", dict(key="z", value=VALUE))), d, 1) == "committed"
    assert seen == [{"k": 1, "z": 1}]


def in_place(sample, op: str = "add", count: int = 1) -> Segment:
    segment = Segment()
    x = segment.input(segment.slot(0), sample)
    made = segment.kernel(op, sample + sample, x, x)
    segment.effect("inplace", 0, value=("node", made), count=count)
    segment.returns = ("source", 0)
    return segment


@pytest.mark.parametrize("make", [lambda: torch.rand(3, 4), lambda: torch.rand(4, 3).t(), lambda: torch.rand(8)[1:7:2], lambda: torch.tensor(2.0),
                                  lambda: torch.rand(0, 3)])
def test_tensors_in_place(make) -> None:
    a = make()
    expected, version, pointer = a + a, a._version, a.data_ptr()
    plan = in_place(a, count=2).plan()
    outcome = plan.run([a])
    assert kind(outcome) == "committed" and outcome[1] is a
    assert torch.equal(a, expected) and a._version == version + 2 and a.data_ptr() == pointer


def test_arrays_in_place() -> None:
    base = np.arange(12.0)
    a = base[::3]
    expected = a + a
    assert run(in_place(a), a) == "committed" and (base[::3] == expected).all() and base[1] == 1.0


def test_swap_in_place() -> None:
    a, b = torch.rand(4), torch.rand(4)
    before = a.clone(), b.clone()
    segment = Segment()
    x, y = segment.input(segment.slot(0), a), segment.input(segment.slot(1), b)
    segment.effect("inplace", 0, value=("node", y))
    segment.effect("inplace", 1, value=("node", x))
    segment.nodes[x]["output"] = segment.nodes[y]["output"] = True
    segment.returns = segment.value(None)
    assert run(segment, a, b) == "committed" and torch.equal(a, before[1]) and torch.equal(b, before[0])


def test_versions_without_a_store() -> None:
    a = torch.rand(3)
    segment = Segment()
    segment.input(segment.slot(0), a)
    segment.effect("bump", 0, count=3)
    segment.returns = segment.value(None)
    assert run(segment, a) == "committed" and a._version == 3


def test_iterators_advance() -> None:
    for iterable in [[1, 2, 3], (1, 2, 3), range(1, 4)]:
        iterator = iter(iterable)
        assert run(writing(("iterator_advance", dict(count=2))), iterator, None) == "committed" and list(iterator) == [3]


def test_a_change_during_an_eager_call_stops_the_commit() -> None:
    d = {"k": 1}
    segment = reads(("slot", 0, 0), ("dict_item", 0, 0, "k"))
    segment.guard("equal", 1, expected=segment.constant(1))
    segment.extern(lambda: d.update(k=2) or 5, [])
    segment.effect("dict_set", 0, key=segment.value("seen"), value=("source", 1))
    segment.returns = segment.value(None)
    assert run(segment, d) == "compute_failed" and d == {"k": 2}


def test_new_objects() -> None:
    def outer(free):
        def inner(x=1):
            return free, x

        return inner

    inner = outer(0)
    segment = reads(("slot", 0, 0))
    value = ("source", 0)
    cell = segment.new("cell", value)
    function = segment.new("function", segment.value(inner.__code__), segment.value(globals()), None, segment.new("tuple", segment.value(5)), None,
                           segment.new("tuple", cell), None)
    looped = segment.new("list")
    segment.fresh[looped[1]]["parts"] = [value, looped]
    holder = segment.new("instance", segment.value("a"), value, segment.value("b"), cell, type=segment.anchor(Holder))
    segment.returns = segment.new(
        "tuple", segment.new("dict", segment.value("k"), value), segment.new("set", segment.value(1)), segment.new("slice", segment.value(1), segment.value(2), segment.value(None)),
        function, looped, holder, segment.new("range", segment.value(1), segment.value(9), segment.value(2)),
        segment.new("list_iterator", segment.new("list", segment.value(1), segment.value(2)), position=1), segment.new("method", function, value))
    thing = object()
    d, s, sl, f, loop, made, r, iterator, method = segment.plan().run([thing])[1]
    assert d == {"k": thing} and s == {1} and sl == slice(1, 2) and f() == (thing, 5) and f.__globals__ is globals() and f.__name__ == "inner"
    assert loop[0] is thing and loop[1] is loop and list(r) == [1, 3, 5, 7] and list(iterator) == [2] and method() == (thing, thing)
    assert type(made) is Holder and list(vars(made)) == ["a", "b"] and made.b.cell_contents is thing and f.__closure__[0] is made.b


def test_frames_at_a_break() -> None:
    a = torch.rand(3)

    def inner():
        pass

    segment = Segment()
    x = segment.input(segment.slot(0), a)
    node = ("node", segment.kernel("add", a, x, x))
    shared = segment.new("list", node)
    function = ("source", segment.source("function"))
    segment.frames = [{"function": function, "unit": 4, "locals": [("source", 0), None, shared], "stack": [shared]},
                      {"function": segment.value(inner), "unit": 9, "locals": [node], "stack": []}]
    outcome = segment.plan().run([a], function=inner)
    assert kind(outcome) == "committed"
    (first_function, first_unit, first_locals, first_stack), (second_function, second_unit, second_locals, _) = outcome[1]
    assert first_unit == 4 and second_unit == 9 and first_function is inner and second_function is inner
    assert first_locals[0] is a and first_locals[1] is empty and first_locals[2] is first_stack[0] and first_locals[2][0] is second_locals[0]
    assert torch.equal(second_locals[0], a + a)
