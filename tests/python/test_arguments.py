"""How calls come by their function and arguments: functools.partial, starred iterables, builtins of several numbers, modules made on the way."""
import functools

import numpy as np
import torch
from twice import program


def scaled(x, y=1, *rest, k=2, **more):
    return (x + y + sum(rest)) * k, tuple(more)


@program(hits_broken=0)
def test_partials(t):
    twice = functools.partial(scaled, k=4)
    nested = functools.partial(twice, torch.ones(3), extra=1)
    gelu = functools.partial(torch.nn.functional.gelu, approximate="tanh")
    method = functools.partial(torch.Tensor.add, alpha=3)

    @t.compile
    def f(x):
        a, _ = twice(x, x * 2)
        b, names = nested(x, 2, k=1, later=2)
        return a + b, names, gelu(x), method(x, x)

    for k in range(4):
        t.call(f, torch.arange(3.0) - k)


@program(hits_broken=0)
def test_partials_change(t):
    m = t.module("""
        import functools
        def g(x, k):
            return x * k
        p = functools.partial(g, k=2)
        def f(x):
            return p(x) + 1
    """)
    f = t.compile(m.f)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.p.keywords["k"] = 5
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.p = functools.partial(m.g, k=7)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.p = functools.partial(lambda x: x - 1)
    for k in range(3):
        t.call(f, torch.ones(2) * k)
    m.p.keywords["wrong"] = 1
    t.call(f, torch.ones(2))
    m.p = functools.partial(m.g, k=8)
    m.p.__setstate__((m.g, (), {"k": 9}, None))
    for k in range(3):
        t.call(f, torch.ones(2) * k)


@program(hits_broken=0)
def test_starred(t):
    @t.compile
    def f(x, parts):
        a, _ = scaled(*(x * k for k in (1, 2, 3)))
        b = torch.stack([x, *(x * k for k in (1, 2)), *parts.values()])
        c = torch.cat([*[x, x * 3], *(y for y in parts.values())])
        return a, b, c

    for k in range(4):
        t.call(f, torch.arange(3.0) - k, {"a": torch.ones(3), "b": torch.zeros(3)})


@program(hits_broken=0)
def test_largest_and_smallest(t):
    @t.compile
    def f(x, sizes, a, b):
        return x * max(sizes) + min(a, b, 3) - max([a, b]) + min((a, 2.5)), max(x.shape), max(sizes), min([b, a, 1])

    for a, b in ((1, 2), (2, 1), (3, 3), (5, 1.5), (2.5, 2.5), (-1, 7)):
        t.call(f, torch.ones(2, 3), (1, 4, 2), a, b)
        t.call(f, torch.ones(2, 3), [1, 4, 9], b, a)


@program(hits_broken=0)
def test_absolute_values(t):
    @t.compile
    def f(x, a):
        return abs(x) + 1, abs(a) * 2, abs(a.sum())

    for k in range(4):
        t.call(f, torch.arange(3.0) - k, np.arange(4.0) - k)
        t.call(f, torch.arange(3) - k, np.arange(4, dtype=np.int8) - np.int8(k))


@program(hits_broken=0)
def test_containers_of_another_kind_are_not_equal(t):
    @t.compile
    def f(x, mode, value):
        return x + 1 if mode != "full" and not (value == [1]) and () != [] else x - 1

    for mode, value in (({}, (1,)), ("full", [1]), ("part", {1: 2}), ({"full": 1}, 3), (None, [1]), ("part", [1])):
        for _ in range(2):
            t.call(f, torch.ones(2), mode, value)


@program(hits_broken=0)
def test_modules_made_on_the_way(t):
    @t.compile
    def f(x):
        m = torch.nn.Softmax(-1)
        return m(x) * 2, torch.nn.GELU(approximate="tanh")(x), torch.nn.ReLU()(x)

    @t.compile
    def escapes(x):
        m = torch.nn.Tanh()
        return m(x + 1), m

    for k in range(4):
        t.call(f, torch.arange(3.0) - k)
        t.call(escapes, torch.arange(3.0) - k)


@program(hits_broken=0)
def test_slices_of_modules(t):
    layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(4)]).eval()

    @t.compile
    def f(x, n):
        for k, layer in enumerate(layers[:n]):
            x = layer(x) * k
        for a, b in zip(layers[:2], layers[2:], strict=False):
            x = x + a(x) + b(x)
        return x, len(layers[:n]), len(list(layers[1:1]))

    with torch.no_grad():
        for n in (0, 1, 3, 3, 2, 2):
            t.call(f, torch.ones(2, 3), n)


@program(hits_broken=0)
def test_containers_that_are_edited(t):
    class Box:
        pass

    @t.compile
    def f(x, d, n):
        items = [x, x + 1, x * 2]
        items.insert(1, x - 1)
        items.insert(-1, x * 5)
        items.insert(99, x)
        second = items.pop(1)
        del items[0], items[-1]
        table = {"a": x, "b": 2, "c": 3}
        del table["b"]
        kinds = {k % 3 for k in range(7)}
        box = Box()
        box.a, box.b = x, 1
        del box.b
        first = d.setdefault("first", x * 3)
        again = d.setdefault("first", None)
        d.setdefault("none")
        copied = items.copy()
        items.clear()
        return second, copied, items, table, kinds, vars(box), first is again, hasattr(box, "b")

    for k in range(4):
        d = {} if k % 2 else {"first": torch.ones(1)}
        t.call(f, torch.arange(2.0) + k, d, k)
        t.note(d)


@program(hits_broken=0)
def test_attributes_that_go_while_their_dict_is_looked_at(t):
    class Box:
        pass

    @t.compile
    def f(x):
        box = Box()
        box.a, box.b = x * 2, 1
        d = box.__dict__
        del box.b
        return list(d), d["a"] + 1, "b" in d

    for k in range(4):
        t.call(f, torch.ones(2) * k)


@program(hits_broken=0)
def test_edits_that_fail(t):
    class Box:
        pass

    @t.compile
    def f(x, how):
        y = x * 2
        items, table, box = [y, x], {"a": y}, Box()
        if how == "pop":
            items.pop(5)
        if how == "del":
            del items[7]
        if how == "key":
            del table["z"]
        if how == "attribute":
            del box.nothing
        return items, table

    for how in ("", "", "pop", "del", "key", "attribute", ""):
        t.call(f, torch.ones(2), how)


@program(hits_broken=0)
def test_values_that_hold_themselves(t):
    class Node:
        pass

    @t.compile
    def f(x):
        node = Node()
        node.me, node.value = node, x * 2
        items = [x]
        items.append(items)
        table = {"x": x}
        table["table"] = table
        y = torch.cat([items[0], node.me.value, table["table"]["x"]])
        return y, node, items, table

    @t.compile
    def breaks(x):
        node, items = Node(), [x + 1]
        node.items, node.me = items, node
        items.append(node)
        print("broken", x.tolist())
        return node.me.items[0] * 2, items[1] is node, node

    def look(result):
        y, node, items, table = result
        return y, node.me is node, node.value, items[1] is items, table["table"] is table, list(table)

    for k in range(4):
        t.note(look(f(torch.ones(2) * k)))
        y, same, node = breaks(torch.ones(2) * k)
        t.note(y, same, node.me is node, node.items[1] is node, node.items[0])
        t.settle()
