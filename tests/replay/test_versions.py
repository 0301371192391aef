"""Remembered dict look-ups stay sound: whatever changes a dict, in whichever way, the next replay sees what Python sees."""
from __future__ import annotations

import random

import pytest
import torch
from segments import kind, reads


class Holder:
    pass


CHANGES = [
    lambda d: d.__setitem__("k", object()), lambda d: d.update(k=object()), lambda d: d.pop("k"), lambda d: d.clear(), lambda d: d.popitem(),
    lambda d: d.setdefault("k", object()), lambda d: d.__delitem__("k"), lambda d: d.__ior__({"k": object()}), lambda d: d.update({i: i for i in range(50)}),
    lambda d: (d.clear(), d.update(k=object())), lambda d: d.update(other=1), lambda d: (d.pop("k", None), d.__setitem__("k", object())),
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_dict(change) -> None:
    plan = reads(("slot",), ("dict_item", 0, 0, "k")).plan()
    d = {"a": 1, "k": object()}
    for _ in range(3):
        assert plan.run([d])[1] is d["k"]
    change(d)
    outcome = plan.run([d])
    assert (outcome[1] is d["k"]) if "k" in d else kind(outcome) == "guard_failed"


def test_random_changes_of_instances_and_modules() -> None:
    plan = reads(("slot",), ("attribute", 0, 0, "m"), ("attribute", 1, 0, "_parameters"), ("dict_item", 2, 0, "w")).plan()
    rng = random.Random(7)
    models = []
    for _ in range(3):
        holder = Holder()
        holder.m = Holder()
        holder.m._parameters = {"w": object()}
        models.append(holder)
    ways = [
        lambda h: setattr(h.m, "_parameters", {"w": object()}), lambda h: h.m._parameters.__setitem__("w", object()),
        lambda h: setattr(h, "m", models[rng.randrange(3)].m), lambda h: vars(h).update(other=1), lambda h: setattr(h.m, "__dict__", {"_parameters": {"w": 1}}),
        lambda h: h.m.__dict__.__setitem__("_parameters", {"w": object()}), lambda h: vars(h), lambda h: h.m._parameters.update(z=1),
        lambda h: setattr(h.m, "fresh_name_%d" % rng.randrange(99), 1), lambda h: None,
    ]
    for _ in range(2000):
        holder = rng.choice(models)
        assert plan.run([holder])[1] is holder.m._parameters["w"]
        rng.choice(ways)(holder)
        for other in models:
            assert plan.run([other])[1] is other.m._parameters["w"]


def test_an_instance_that_gets_a_dict_later() -> None:
    plan = reads(("slot",), ("attribute", 0, 0, "x")).plan()
    holder = Holder()
    holder.x = 1
    assert plan.run([holder])[1] == 1
    own = vars(holder)
    assert plan.run([holder])[1] == 1
    own["x"] = 2
    assert plan.run([holder])[1] == 2
    holder.x = 3
    assert plan.run([holder])[1] == 3


def test_a_dict_at_the_address_of_a_dead_one() -> None:
    plan = reads(("slot",), ("dict_item", 0, 0, "k")).plan()
    for i in range(300):
        d = {"k": i}
        assert plan.run([d])[1] == i and plan.run([d])[1] == i
        del d


def test_tensors_behind_unchanged_dicts_are_read_each_time() -> None:
    model = torch.nn.Linear(3, 3)
    segment = reads(("slot",), ("attribute", 0, 0, "_parameters"), ("dict_item", 1, 0, "weight"))
    segment.input(2, model.weight)
    plan = segment.plan()
    assert kind(plan.run([model])) == kind(plan.run([model])) == "committed"
    model.weight.requires_grad_(False)
    assert kind(plan.run([model])) == "guard_failed"
    model.weight.requires_grad_(True)
    assert kind(plan.run([model])) == "committed"
    model.weight.data = torch.rand(4, 3)
    assert kind(plan.run([model])) == "guard_failed"


def test_types_behind_unchanged_dicts_are_read_each_time() -> None:
    class Other(Holder):
        pass

    segment = reads(("slot",), ("dict_item", 0, 0, "k"))
    segment.guard("type", 1, expected=segment.anchor(Holder))
    plan = segment.plan()
    d = {"k": Holder()}
    assert kind(plan.run([d])) == kind(plan.run([d])) == "committed"
    d["k"].__class__ = Other
    assert kind(plan.run([d])) == "guard_failed"
