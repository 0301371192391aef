"""Containers made in a function that change after something looked at them: a library call, a view, an iterator, a break."""
import collections

import pytest
import torch
from twice import program

Pair = collections.namedtuple("Pair", "a b")


class Open(Pair):
    """Without __slots__: its instances have attributes of their own."""


def after_a_library_call(x, d):
    xs = [x + 1, x + 2]
    y = torch._foreach_add(xs, 1)
    xs.append(x * 2)
    return xs, y, torch._foreach_add(xs, 1)


def in_a_tuple_after_a_library_call(x, d):
    inner = [x + 1]
    xs = (inner, inner)
    y = torch._foreach_add(inner, 1)
    inner.insert(0, x * 2)
    return xs, y


def keys(x, d):
    made = {"a": x + 1}
    seen = made.keys()
    made["b"] = x + 2
    return [made[k] for k in seen]


def values(x, d):
    made = {"a": x + 1}
    seen = made.values()
    made["a"] = x + 2
    return list(seen)


def given_keys(x, d):
    seen = d.keys()
    y = x + 1
    d["z"] = y
    return list(seen), y


def given_values(x, d):
    seen = d.values()
    y = x + 1
    d["a"] = y
    return list(seen), [v for v in d.values()]


def enumerated(x, d):
    made = {"a": x + 1}
    later = enumerate(made.items())
    made["a"] = x + 5
    return list(later)


def reversed_list(x, d):
    xs = [x + 1, x + 2, x + 3]
    later = reversed(xs)
    xs[0] = x * 9
    xs.append(x)
    return list(later)


def growing_while_reversed(x, d):
    xs, n = [x + 1, x + 2, x + 3], 0
    for _ in reversed(xs):
        n += 1
        xs.append(x)
        print(end="")
    return xs, n


def started(x, d):
    xs = [x + 1, x + 2]
    it = iter(xs)
    first = next(it)
    xs[1] = x * 9
    xs.append(x)
    return first, list(it), list(it)


def ended(x, d):
    xs = [x + 1]
    it = iter(xs)
    first = list(it)
    xs.append(x + 2)
    return first, list(it), next(it, None)


def grown_while_iterated(x, d):
    made, y = {"a": x + 1}, x * 3
    for k in made:
        d[k + "b"] = y
        made[k + "b"] = y * 2
        print(end="")
    return made


def attribute_of_a_named_tuple(x, d):
    p = Open(x, x + 1)
    p.extra = x * 2
    return p, p.extra, len(p)


@pytest.mark.parametrize("f", [after_a_library_call, in_a_tuple_after_a_library_call, keys, values, given_keys, given_values, enumerated, reversed_list, growing_while_reversed,
                               started, ended, grown_while_iterated, attribute_of_a_named_tuple])  # fmt: skip
@program(hits=0)
def test_changed_later(t, f):
    t.calls(t.compile(f), lambda: (torch.ones(2), {"a": torch.zeros(2)}))
