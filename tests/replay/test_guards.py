"""Every kind of guard holds where it should and fails where it should; reading has no effect."""
from __future__ import annotations

import gc
import sys
import types

import numpy as np
import pytest
import torch
from segments import Segment, add_two, empty, kind, reads


def hit(plan, *slots, **more) -> bool:
    outcome = plan.run(list(slots), **more)
    assert kind(outcome) in ("committed", "guard_failed"), outcome
    return kind(outcome) == "committed"


def guarded(guard: str, *, constants=(), anchors=(), **fields) -> Segment:
    """One guard on slot 0, which is returned."""
    segment = reads(("slot", 0, 0))
    segment.constants, segment.anchors = list(constants), list(anchors)
    segment.guard(guard, 0, **fields)
    return segment


def a_function():
    return 1


CASES = [
    ("is", dict(anchors=[a_function], expected=0), [a_function], [lambda: 1, None]),
    ("type", dict(anchors=[list], expected=0), [[], [1]], [(), {}, type("L", (list,), {})()]),
    ("number_type", dict(anchors=[int], expected=0), [0, 10**30], [0.0, True, "0"]),
    ("equal", dict(constants=[3], expected=0), [3], [4, 3.0, True, "3", None]),
    ("equal", dict(constants=[0.0], expected=0), [0.0], [-0.0, 0, float("nan")]),
    ("equal", dict(constants=[float("nan")], expected=0), [float("nan")], [0.0]),
    ("equal", dict(constants=[(1, ("a", 2.0))], expected=0), [(1, ("a", 2.0))], [(1, ("a", 2)), (1,), [1]]),
    ("equal", dict(constants=["ab"], expected=0), ["".join("ab")], ["b", b"ab"]),
    ("equal", dict(constants=[slice(1, 2)], expected=0), [slice(1, 2)], [slice(1, 3), 1]),
    ("equal", dict(constants=[torch.Size([2, 3])], expected=0), [torch.Size([2, 3])], [torch.Size([2, 4]), (2, 3)]),
    ("equal", dict(constants=[torch.device("cpu")], expected=0), [torch.device("cpu")], [torch.device("meta"), "cpu"]),
    ("equal", dict(constants=[np.float32(1.5)], expected=0), [np.float32(1.5)], [np.float32(1.0), np.float64(1.5), 1.5]),
    ("length", dict(expected=2), [[1, 2], (1, 2), {1: 1, 2: 2}, "ab", {1, 2}, range(2)], [[1], (), {}, "abc", 2]),
    ("keys", dict(constants=[("a", 1)], expected=0), [{"a": 0, 1: 0}], [{1: 0, "a": 0}, {"a": 0}, {"a": 0, True: 0}, []]),
    ("absent", dict(constants=["a"], expected=0), [{}, {"b": 1}], [{"a": 1}, []]),
    ("truth", dict(value=("source", 0), expected=1), [1, 0.5, True, np.float32(1)], [0, 0.0, False, "x", []]),
    ("truth", dict(value=("source", 0), expected=0), [0, 0.0, False], [1, float("nan")]),
    ("numpy_scalar", dict(anchors=[np.float64], expected=0), [np.float64(2)], [2.0, np.float32(2), np.array(2.0)]),
]


@pytest.mark.parametrize("guard, fields, yes, no", CASES, ids=lambda c: c if isinstance(c, str) else "")
def test_guard(guard, fields, yes, no) -> None:
    plan = guarded(guard, **fields).plan()
    for _ in range(2):  # a second time with everything remembered
        assert all(hit(plan, value) for value in yes)
        assert not any(hit(plan, value) for value in no)
    assert not hit(plan, empty)


class Holder:
    def __init__(self) -> None:
        self.x = "x"


def test_own_attributes() -> None:
    segment = reads(("slot", 0, 0), ("attribute", 0, 0, "x"))
    segment.guard("no_attribute", 0, expected=segment.constant("y"))
    plan = segment.plan()
    holder = Holder()
    assert plan.run([holder])[1] == "x" and hit(plan, holder)
    holder.x = "other"
    assert plan.run([holder])[1] == "other"
    holder.y = 1
    assert not hit(plan, holder)
    del holder.y
    assert hit(plan, holder)
    vars(holder)["y"] = 1
    assert not hit(plan, holder)
    holder.__dict__ = {"x": "replaced"}
    assert plan.run([holder])[1] == "replaced"
    del holder.x
    assert not hit(plan, holder)
    assert not hit(plan, 3)


def test_type_attributes() -> None:
    class Base:
        def f(self):
            return 1

    class Derived(Base):
        pass

    segment = guarded("type", anchors=[Derived, Base.f], expected=0)
    segment.guard("type_attribute", 0, name=segment.constant("f"), expected=1)
    segment.guard("type_attribute", 0, name=segment.constant("g"))
    plan = segment.plan()
    thing = Derived()
    assert hit(plan, thing) and hit(plan, thing)
    Derived.unrelated = 1
    assert hit(plan, thing)
    Base.g = 1
    assert not hit(plan, thing)
    del Base.g
    assert hit(plan, thing)
    original = Base.f
    Base.f = lambda self: 2
    assert not hit(plan, thing)
    Base.f = original
    assert hit(plan, thing)
    Derived.f = original
    assert hit(plan, thing)
    thing.__class__ = Base
    assert not hit(plan, thing)


def test_a_property_is_trusted_only_while_its_type_is_unchanged() -> None:
    class Thing:
        @property
        def p(self):
            return 1

    segment = guarded("type", anchors=[Thing, vars(Thing)["p"]], expected=0)
    segment.guard("type_attribute", 0, name=segment.constant("p"), expected=1)
    plan = segment.plan()
    assert not plan.stale() and hit(plan, Thing())
    Thing.p = property(lambda self: 2)
    assert not hit(plan, Thing())


def test_paths_into_functions() -> None:
    def outer():
        inside = "cell"

        def inner(a=1, *, k="kw"):
            return inside

        return inner

    function = outer()
    for path, expected in [
        ([("function",), ("closure", 0, 0), ("cell_contents", 1)], "cell"),
        ([("function",), ("default", 0, 0)], 1),
        ([("function",), ("kwdefault", 0, 0, "k")], "kw"),
        ([("function",), ("function_globals", 0), ("dict_item", 1, 0, "__name__")], __name__),
        ([("slot",), ("type_of", 0)], int),
        ([("slot",), ("tuple_item", 0, 1)], None),
    ]:
        plan = reads(*path).plan()
        outcome = plan.run([5], function=function, globals={})
        assert outcome[1] == expected if kind(outcome) == "committed" else expected is None
    function.__defaults__ = None
    assert not hit(reads(("function",), ("default", 0, 0)).plan(), 5, function=function)


def test_methods_lists_and_modules() -> None:
    assert reads(("slot",), ("method_self", 0)).plan().run([[].append])[0] == "guard_failed"
    holder = Holder()
    method = types.MethodType(a_function, holder)
    assert reads(("slot",), ("method_self", 0)).plan().run([method])[1] is holder
    assert reads(("slot",), ("method_function", 0)).plan().run([method])[1] is a_function
    plan = reads(("slot",), ("list_item", 0, 1)).plan()
    assert plan.run([[1, 2]])[1] == 2 and not hit(plan, [1]) and not hit(plan, (1, 2))
    plan = reads(("slot",), ("module_dict", 0), ("dict_item", 1, 0, "path")).plan()
    assert plan.run([sys])[1] is sys.path and not hit(plan, {})


def test_globals_and_builtins() -> None:
    segment = reads(("global", 0, 0, "g"), ("builtin", 0, 0, "len"))
    segment.returns = segment.new("tuple", ("source", 0), ("source", 1))
    plan = segment.plan()
    globals_ = {"g": 1}
    assert plan.run([], globals=globals_)[1] == (1, len) and hit(plan, globals=globals_)
    globals_["len"] = 2
    assert not hit(plan, globals=globals_)
    del globals_["len"]
    assert hit(plan, globals=globals_)
    del globals_["g"]
    assert not hit(plan, globals=globals_)
    only_builtin = reads(("builtin", 0, 0, "len")).plan()
    assert hit(only_builtin, globals={}) and not hit(only_builtin, globals={"len": 1})


def test_identity() -> None:
    for guard, same, apart in [("same", True, False), ("distinct", False, True)]:
        segment = reads(("slot", 0, 0), ("slot", 0, 1))
        segment.guard(guard, 0, other=1)
        plan = segment.plan()
        x, y = [], []
        assert hit(plan, x, x) == same and hit(plan, x, y) == apart


def test_tensor_facts() -> None:
    a, b = torch.rand(2, 3), torch.rand(2, 3)
    plan = add_two(a, b).plan()
    assert hit(plan, a, b) and hit(plan, torch.ones(2, 3), b)
    for other in [a.double(), torch.rand(3, 2), torch.rand(3, 2).t(), a[None], torch.rand(2, 3, requires_grad=True), torch.nn.Parameter(a), None,
                  a.numpy(), torch.empty(2, 3, device="meta"), torch.rand(2, 3).to_sparse()]:
        assert not hit(plan, other, b)
    with torch.inference_mode():
        assert not hit(plan, a, b)
    with torch.no_grad():
        assert not hit(plan, a, b)  # another ambient word
    assert hit(plan, a, b)


def test_array_facts() -> None:
    a, b = np.ones((2, 3)), np.ones((2, 3))
    plan = add_two(a, b).plan()
    assert hit(plan, a, b)
    frozen = np.ones((2, 3))
    frozen.flags.writeable = False
    for other in [np.ones((2, 3), "f4"), np.ones((3, 2)), np.asfortranarray(a), a[0], frozen, a.astype(">f8"), a.tolist(), np.matrix(a)]:
        assert not hit(plan, other, b)
    with np.errstate(all="raise"):
        assert not hit(plan, a, b)


def test_memory_apart() -> None:
    base = torch.zeros(10)
    a, b = base[:4], base[4:8]
    segment = add_two(a, b)
    segment.guard("memory", 0, other=1)
    plan = segment.plan()
    assert hit(plan, a, b) and hit(plan, b, a) and hit(plan, a, torch.zeros(4))
    assert not hit(plan, a, a) and not hit(plan, a, base[3:7]) and not hit(plan, base[3:7], a)
    # Extents, not elements: interleaved memory counts as shared.
    c, d = base[0:8:2], base[1:9:2]
    segment = add_two(c, d)
    segment.guard("memory", 0, other=1)
    assert not hit(segment.plan(), c, d)


def test_computed_truth() -> None:
    segment = reads(("slot", 0, 0))
    segment.guard("number_type", 0, expected=segment.anchor(int))
    remainder = segment.number("binary", ("source", 0), segment.value(3), op=6)
    segment.guard("truth", value=remainder, expected=1)
    inverse = segment.number("binary", segment.value(1.0), ("source", 0), op=11)
    segment.returns = inverse
    plan = segment.plan()
    assert plan.run([4])[1] == 0.25 and not hit(plan, 3) and not hit(plan, 0)


def test_reading_makes_no_dict() -> None:
    plan = reads(("slot", 0, 0), ("attribute", 0, 0, "x")).plan()
    holders = [Holder() for _ in range(50)]
    gc.collect()
    before = len(gc.get_objects())
    for holder in holders:
        assert hit(plan, holder)
    assert len(gc.get_objects()) - before < 25


def test_words() -> None:
    def f(a, n):
        return a

    segment = add_two(torch.rand(8, 3), torch.rand(8, 3))
    segment.code = f.__code__
    segment.guard("distinct", 0, other=1)
    plan = segment.plan()
    assert plan.guards()[:1] == ["a is a float32 tensor [8, 3] on cpu"]
    assert plan.failure([torch.rand(11, 3), torch.rand(8, 3)]) == ("a.shape[0] == 8", "8", "11")
    assert plan.failure([torch.rand(8, 3).double(), torch.rand(8, 3)]) == ("a.dtype == float32", "float32", "float64")
    x = torch.rand(8, 3)
    assert plan.failure([x, x]) == ("a is not n", "two objects", "one")
    assert plan.failure([x, torch.rand(8, 3)]) is None
    segment = reads(("slot", 0, 0), ("attribute", 0, 0, "_modules"), ("dict_item", 1, 0, "fc"), ("attribute", 2, 0, "scale"))
    segment.code = (lambda self: self).__code__
    segment.guard("equal", 3, expected=segment.constant(2))
    model = torch.nn.Module()
    model.fc = torch.nn.Linear(2, 2)
    model.fc.scale = 3
    plan = segment.plan()
    assert plan.guards() == ["self.fc.scale == 2"] and plan.failure([model]) == ("self.fc.scale == 2", "2", "3")


def test_names_of_globals_and_modules() -> None:
    segment = reads(("globals_dict",), ("dict_item", 0, 0, "torch"), ("module_dict", 1), ("dict_item", 2, 0, "relu"), ("anchored", 0, 0), ("dict_item", 4, 0, "len"))
    segment.anchor(vars(__import__("builtins")))
    relu, length = segment.anchor(torch.relu), segment.anchor(len)
    segment.guard("is", 3, expected=relu)
    segment.guard("is", 5, expected=length)
    plan = segment.plan()
    assert plan.guards() == ["torch.relu is unchanged", "len is unchanged"] and hit(plan, globals={"torch": torch})
    assert plan.failure([], globals={"torch": np}) is not None


def test_ambient_word_in_words() -> None:
    a = torch.rand(3)
    plan = add_two(a, a.clone()).plan()
    with torch.autocast("cpu"):
        assert "autocast" in plan.failure([a, a])[2]


def test_array_of_one_guard_many_dicts() -> None:
    """Several look-ups in one dict stand in one group; each is noticed."""
    names = [f"k{i}" for i in range(8)]
    segment = reads(("slot", 0, 0), *[("dict_item", 0, 0, n) for n in names])
    for i, _ in enumerate(names):
        segment.guard("equal", i + 1, expected=segment.constant(i))
    plan = segment.plan()
    good = {n: i for i, n in enumerate(names)}
    assert hit(plan, good) and hit(plan, good)
    for n in names:
        assert not hit(plan, {**good, n: -1})
        good[n] = -1
        assert not hit(plan, good)
        good[n] = names.index(n)
        assert hit(plan, good)
