"""The containers of ``collections``, made and used in a function."""
import collections
from collections import Counter, OrderedDict, defaultdict, deque

import pytest
import torch
from twice import program


def lists_by_key(x):
    d = defaultdict(list)
    for k in ("a", "b", "a"):
        d[k].append(x + 1)
    return d["a"][0] + d["b"][0] * len(d["a"]), len(d), "c" in d, d.get("c")


def numbers_by_key(x):
    d = defaultdict(int)
    for k in "abac":
        d[k] += 1
    e = defaultdict(float, a=0.5)
    e["b"] += 1
    return x * d["a"] + e["a"], d, e


def factory_of_the_call(x):
    d = defaultdict(lambda: x * 0 + 1)
    for k in ("a", "b", "a"):
        d[k] = d[k] + x
    return d, d.default_factory is None, list(d.items())


def nested_defaults(x):
    d = defaultdict(lambda: defaultdict(list))
    d["a"]["b"].append(x + 1)
    d["a"]["c"].append(x + 2)
    return {k: dict(v) for k, v in d.items()}, d["a"]["b"][0]


def no_factory(x):
    d = defaultdict(None, {"a": x + 1})
    try:
        d["b"]
    except KeyError as e:
        return x * 2, str(e), d
    return None


def raising_factory(x):
    y = x + 1
    d = defaultdict(lambda: 1 // 0)
    d["a"] = y
    return d["b"]


def copied_defaults(x):
    d = defaultdict(list)
    d["a"].append(x + 1)
    e = d.copy()
    f = dict(d)
    e["b"].append(x)
    return d, e, f, e["a"] is d["a"], isinstance(d, dict), type(f) is dict


def deleted_default(x):
    d = defaultdict(list, {1: [x + 1]})
    del d[1]
    d[1].append(x * 2)
    return d.pop(1), d, d.setdefault(3, x), bool(d)


def a_break_in_the_factory(x):
    y = x + 1

    def make():
        print("made")
        return y * 2

    d = defaultdict(make)
    return d["a"] + d["b"], d["a"] + y


def window(x):
    q = deque([x, x + 1], maxlen=2)
    q.append(x * 2)
    y = q.popleft()
    q.appendleft(y)
    q[0] = q[1] + 1
    return sum(q) + q[-1] + len(q), q, q.maxlen


def turned(x):
    q = deque(maxlen=None)
    for k in range(5):
        q.append(x + k)
    q.rotate(2)
    q.rotate(-1)
    q.extendleft([x, x * 2])
    q.reverse()
    r = q.copy()
    r.pop()
    q += (x * 3, x * 4)
    q.extend(x + k for k in range(2))
    del q[1]
    return q, r, [v.sum() for v in reversed(r)], bool(deque())


def moved_through(x):
    q = deque([x + 1])
    n = 0
    while q:
        y = q.popleft()
        if n < 3:
            q.append(y * 2)
            q.append(y + 1)
        n += 1
    return y, n


def grown_while_iterated(x):
    q = deque([x + 1])
    for v in q:
        q.append(v * 2)
    return q


def grown_while_iterated_and_broken(x):
    q = deque([x + 1])
    for v in q:
        q.append(v * 2)
        print(len(q))
    return q


def emptied(x):
    q, y = deque([x + 1]), x * 2
    q.pop()
    try:
        q.pop()
    except IndexError as e:
        return y, str(e)
    return None


def of_itself(x):
    q = deque([x + 1], maxlen=3)
    q.extend(q)
    q.append(q)
    return q[0] + q[1], q[2] is q


def bound_of_zero(x):
    q = deque([x], 0)
    q.append(x + 1)
    return q, x + len(q)


def counted(x):
    c = Counter("abca")
    c["z"] += 1
    c.update(["a", "q"])
    return x * c["a"] + c["missing"] + len(c), c, list(c), "missing" in c


def counters_added(x):
    a, b = Counter(a=2, b=1), Counter({"a": 1})
    a.update(b)
    return x * a["a"], a, a + b


def counter_deleted(x):
    c, y = Counter("aab"), x + 1
    del c["a"]
    del c["nothing"]
    return y * c["b"], c


def ordered(x):
    d = OrderedDict()
    d["a"] = x
    d["b"] = x + 1
    d["c"] = x + 2
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    d["b"] = x * 5
    return torch.cat(list(d.values())), d, d.popitem(last=False), d.popitem(), list(d)


def ordered_of_pairs(x):
    d = OrderedDict([("a", x), ("b", x + 1)])
    e = OrderedDict(d, c=x)
    y = x
    for k, v in e.items():
        y = y + v
    del d["a"]
    d["a"] = y
    return y, d, e, dict(d), list(reversed([*d.keys()])), d.pop("zz", None)


def ordered_by_the_dict_behind(x):
    d = OrderedDict(a=x + 1, b=x + 2)
    dict.pop(d, "a")
    return x * 2, len(d)


def missing_move(x):
    d, y = OrderedDict(a=x + 1), x * 2
    try:
        d.move_to_end("b")
    except KeyError as e:
        return y, str(e)
    return None


def of_zipped(x):
    d = dict(zip(("a", "b"), (x + 1, x + 2)))
    e = dict([("a", x * 2), ["c", x * 3]])
    f = dict(enumerate([x, x + 5]))
    d.update(e)
    return d, e, f, dict(d.items())


def not_pairs(x):
    y = x + 1
    return y, dict([("a", x, 1)])


def changed_after_a_call(x):
    d = OrderedDict(a=x + 1)
    y = torch.stack(list(d.values()))
    d["b"] = y
    print("there")
    d["c"] = y + 1
    return d


def attribute_of_a_counter(x):
    c, y = Counter("a"), x + 1
    c.name = y
    return c, c.name


FUNCTIONS = [
    lists_by_key, numbers_by_key, factory_of_the_call, nested_defaults, no_factory, raising_factory, copied_defaults, deleted_default, a_break_in_the_factory, window, turned, moved_through,
    grown_while_iterated, grown_while_iterated_and_broken, emptied, of_itself, bound_of_zero, counted, counters_added, counter_deleted, ordered, ordered_of_pairs, ordered_by_the_dict_behind,
    missing_move, of_zipped, not_pairs, changed_after_a_call, attribute_of_a_counter,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
@program(hits=0)
def test_made_here(t, f):
    t.calls(t.compile(f), lambda: (torch.tensor([1.0, 2.0]),))


WHOLE = [lists_by_key, numbers_by_key, factory_of_the_call, nested_defaults, copied_defaults, deleted_default, window, turned, moved_through, bound_of_zero, counted, ordered, ordered_of_pairs, of_zipped]


@pytest.mark.parametrize("f", WHOLE)
def test_whole(f):
    import dyno
    from twice import BREAKS, NO_HITS

    compiled = dyno.compile(f)
    for _ in range(3):
        compiled(torch.tensor([1.0, 2.0]))
        dyno.wait()
    before = dyno.stats()
    compiled(torch.tensor([1.0, 2.0]))
    after = dyno.stats()
    assert BREAKS or NO_HITS or (after["hits"] - before["hits"], after["captures"] - before["captures"]) == (1, 0)
    assert BREAKS or NO_HITS or "break " not in str(dyno.explain(compiled))


@program(hits=2, hits_broken=0)
def test_patched_counter(t):
    f = t.compile(lambda x: x * 2 + Counter("ab")["zz"])
    t.calls(f, lambda: (torch.ones(2),))
    missing = Counter.__missing__
    try:
        Counter.__missing__ = lambda self, key: 7
        t.calls(f, lambda: (torch.ones(2),), 3)
    finally:
        Counter.__missing__ = missing
    t.calls(f, lambda: (torch.ones(2),), 2)


@program(hits=2, hits_broken=0)
def test_given_names(t):
    """Keys and values that come from outside are looked at anew in each call."""

    @t.compile
    def f(names, xs):
        d = dict(zip(names, xs))
        c = Counter(names)
        q = deque(xs, maxlen=2)
        return d["a"] * 2 + c["a"], d, q

    for names in (["a", "b"], ["a", "b"], ["a", "b"], ["a", "c", "a"], ["a", "c", "a"], ["a", "c", "a"]):
        t.call(f, names, [torch.ones(2) + k for k in range(len(names))])


@program(hits=2, hits_broken=0)
def test_stored_outside(t):
    class Holder:
        pass

    holder = Holder()

    @t.compile
    def f(x):
        q = deque([x + 1])
        holder.last = q
        q.append(x + 2)
        holder.table = d = collections.defaultdict(list)
        d["k"].append(q)
        return q

    for _ in range(4):
        q = t.call(f, torch.ones(2))
        t.note(holder, holder.last is q, holder.table["k"][0] is q, holder.table.default_factory)
