"""Version facts of this CPython: dict and type versions, attributes read without making a dict, tracing. No torch, no NumPy."""
import gc
import sys
import python_door as door


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes) if attributes.get("through_dict") else [setattr(self, k, v) for k, v in attributes.items()]


class Slots:
    __slots__ = ("a",)


class IntLike(int):
    pass


class ListLike(list):
    pass


def test_owned_counts():
    assert door.counts(object()) == (1, 2, 1, 1, 0)


def test_dict_versions():
    assert door.have_dict_versions()
    d = {"a": 1}
    seen = {door.dict_version(d)}
    for change in (lambda: d.update(b=2), lambda: d.pop("b"), lambda: d.__setitem__("a", 2), d.clear, lambda: d.setdefault("z", 3)):
        change()
        assert door.dict_version(d) not in seen
        seen.add(door.dict_version(d))
    now = door.dict_version(d)
    d.get("a"), list(d), d.copy(), d == {}, len(d)
    assert door.dict_version(d) == now


def test_type_versions():
    class A:
        x = 1

    class B(A):
        pass
    a, b = door.type_version(A), door.type_version(B)
    assert a and b and a != b and (door.type_version(A), door.type_version(B)) == (a, b)
    A.x = 2
    assert door.type_version(B) != b and door.type_version(A) != a and door.type_version(int)


def test_attributes_stay_inline():
    p = Plain(a=1, b="two")
    assert door.is_inline(p) and door.attribute(p, "a") == 1 and door.attribute(p, "b") == "two"
    for missing in ("c", "x" * 3, "__init__", "__class__"):
        assert door.attribute(p, missing) is NotImplemented
    assert door.is_inline(p) and door.dict_if_any(p) is NotImplemented
    del p.a
    assert door.attribute(p, "a") is NotImplemented and door.is_inline(p)


def test_attributes_of_a_made_dict():
    p = Plain(a=1)
    d = p.__dict__
    assert door.dict_if_any(p) is d and not door.is_inline(p)
    assert door.attribute(p, "a") == 1
    d["late"] = 5
    assert door.attribute(p, "late") == 5
    p.a = 7
    assert door.attribute(p, "a") == 7
    p.__dict__ = {"a": 9}
    assert door.attribute(p, "a") == 9 and door.attribute(p, "late") is NotImplemented


def test_many_attributes_and_deletions():
    p = Plain(**{f"n{i}": i for i in range(60)})
    assert all(door.attribute(p, f"n{i}") == i for i in range(60))
    del p.n7
    assert door.attribute(p, "n7") is NotImplemented and door.attribute(p, "n59") == 59


def test_objects_of_other_kinds():
    s = Slots()
    s.a = 1
    assert door.attribute(s, "a") is NotImplemented and door.dict_if_any(s) is NotImplemented
    for make in (lambda: IntLike(1 << 70), lambda: ListLike([1, 2]), lambda: ValueError("x"), lambda: (lambda: 0), lambda: type(sys)("m")):
        o = make()
        o.extra = "e"
        assert door.attribute(o, "extra") == "e" and door.attribute(o, "other") is NotImplemented
    assert door.attribute(sys, "path") is sys.path and door.dict_if_any(3) is NotImplemented


def test_keys_that_are_not_strings_run_no_code():
    class Key:
        def __hash__(self): return hash("a")

        def __eq__(self, other): raise AssertionError("called")
    p = Plain()
    p.__dict__[Key()] = 1
    assert door.attribute(p, "a") is NotImplemented
    dict.__init__(p.__dict__, {})
    p.b = 3
    assert door.attribute(p, "b") == 3


def test_names_that_are_not_interned():
    p = Plain(abc=1)
    assert door.attribute(p, "".join(["a", "bc"])) == 1


def test_slots_of_values():
    class C:
        def __init__(self, a, b):
            self.a, self.b = a, b
    one, two = C(1, 2), C(3, 4)
    index, value = door.slot_attribute(one, two, "b")
    assert index >= 0 and value == 4
    two.__dict__
    assert door.slot_attribute(one, two, "b")[1] == 4
    two.b = 5
    assert door.slot_attribute(one, two, "b")[1] == 5
    two.__dict__ = {"b": 6}
    assert door.slot_attribute(one, two, "b")[1] == 6
    del one.b
    assert door.slot_attribute(two, one, "b")[1] is NotImplemented
    assert door.slot_attribute(one, C(1, 9), "none")[1] is NotImplemented
    # another type, and one made where a dead one's keys may have lain
    for _ in range(50):
        D = type("D", (), {})
        d = D()
        d.z, d.a, d.b = 7, 8, 9
        assert door.slot_attribute(C(1, 2), d, "b")[1] == 9
        del D, d
        gc.collect(0)


def test_reads_change_no_count():
    value = object()
    p = Plain(a=value)
    before = sys.getrefcount(value), sys.getrefcount(p)
    for _ in range(50):
        door.attribute(p, "a"), door.slot_attribute(p, p, "a"), door.dict_if_any(p)
    assert (sys.getrefcount(value), sys.getrefcount(p)) == before


def test_tracing_states():
    def nothing(*args): return None
    assert door.tracing() == 0
    sys.setprofile(nothing)
    try: assert door.tracing() & 2
    finally: sys.setprofile(None)
    sys.settrace(nothing)
    try: assert door.tracing() & 1
    finally: sys.settrace(None)
    inside = []
    sys.settrace(lambda *a: inside.append(door.tracing()))
    try: (lambda: 0)()
    finally: sys.settrace(None)
    assert inside and inside[0] & 4
    assert door.tracing() == 0
    if sys.version_info >= (3, 12):
        m = sys.monitoring
        m.use_tool_id(4, "door")
        try:
            for event in (m.events.PY_START, m.events.LINE, m.events.RAISE, m.events.PY_UNWIND, m.events.CALL):
                m.set_events(4, event)
                assert door.tracing() == 8
        finally:
            m.set_events(4, 0)
            m.free_tool_id(4)
        assert door.tracing() == 0
