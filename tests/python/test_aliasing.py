"""Aliasing: one object under two names, two views of one memory, containers that are the same or not."""
import numpy as np
import pytest
import torch
from twice import program


class Box:
    pass


@program
@pytest.mark.law(3)
def test_same_list_twice(t):
    @t.compile
    def f(p, q, a):
        p.append(a)
        q.append(a * 2)
        return len(p), len(q), p[-1] + 1

    for _ in range(3):
        t.call(f, [], [], torch.ones(2))
    for _ in range(3):
        x = []
        t.call(f, x, x, torch.ones(2))
    t.call(f, [], [], torch.ones(2))


@program
@pytest.mark.law(3)
def test_same_object_twice(t):
    @t.compile
    def f(p, q, a):
        p.x = a + 1
        q.x = a + 2
        return p.x * 10

    for _ in range(3):
        t.call(f, Box(), Box(), torch.ones(2))
    for _ in range(3):
        x = Box()
        t.call(f, x, x, torch.ones(2))


@program
@pytest.mark.law(3)
def test_same_dict_twice(t):
    @t.compile
    def f(p, q, a):
        p["k"] = a
        if "k" in q:
            return a * 3
        return a * 2

    for same in (False, False, False, True, True, False):
        p = {}
        t.call(f, p, p if same else {}, torch.ones(2))


@program
@pytest.mark.law(3)
def test_same_tensor_twice(t):
    @t.compile
    def f(a, b):
        a.add_(1)
        return a * b

    for same in (False, False, False, True, True, False):
        a = torch.arange(3.0)
        t.call(f, a, a if same else torch.arange(3.0))


@program
@pytest.mark.law(3)
def test_overlapping_views(t):
    @t.compile
    def f(a, b):
        a.mul_(2)
        b.add_(a.sum())
        return a + b

    for shift in (4, 4, 4, 2, 2, 1, 0, 0, 4):
        base = torch.arange(8.0)
        t.call(f, base[:4], base[shift : shift + 4])
        t.note(base)


@program
@pytest.mark.law(3)
def test_overlapping_arrays(t):
    @t.compile
    def f(a, b):
        a *= 2
        b += a
        return a - b

    for shift in (4, 4, 4, 2, 2, 1, 0, 0, 4):
        base = np.arange(8.0)
        t.call(f, base[:4], base[shift : shift + 4])
        t.note(base)


@program
def test_array_and_tensor_share(t):
    @t.compile
    def f(a, x):
        a.add_(1)
        x *= 2
        return a * 1, x * 1

    for share in (False, False, False, True, True, False):
        x = np.arange(4.0)
        t.call(f, torch.from_numpy(x if share else x.copy()), x)
        t.note(x)


@program
def test_overlap_without_write(t):
    @t.compile
    def f(a, b):
        return a * b + a

    for shift in (4, 4, 2, 2, 0, 0):
        base = torch.arange(8.0)
        t.call(f, base[:4], base[shift : shift + 4])


@program
def test_view_of_argument_returned(t):
    @t.compile
    def f(a):
        return a[1:], a.view(-1), a.t(), a.detach(), a.reshape(3, 2), a.unsqueeze(0)

    t.calls(f, lambda: (torch.arange(6.0).reshape(2, 3),))


@program
def test_view_of_local_returned(t):
    @t.compile
    def f(a):
        b = a * 2
        return b[0], b, b.t()

    for _ in range(4):
        result = t.call(f, torch.arange(6.0).reshape(2, 3))
        result[0].add_(5)
        t.note(result)


@program
def test_written_through_other_name(t):
    @t.compile
    def f(d, inner, a):
        d["list"].append(a)
        return len(inner), a + len(inner)

    for same in (True, True, True, False, False, True):
        inner = []
        t.call(f, {"list": inner if same else []}, inner, torch.ones(2))


@program
def test_global_is_argument(t):
    m = t.module(
        """
        shared = []
        def f(items, a):
            items.append(1)
            return a * len(shared)
        """
    )
    f = t.compile(m.f)
    for same in (False, False, False, True, True, False):
        t.call(f, m.shared if same else [], torch.ones(2))
    t.note(m.shared)


@program
def test_attribute_and_dict_spelling(t):
    @t.compile
    def f(box, a):
        box.x = a
        vars(box)["y"] = a * 2
        return box.__dict__["x"] + getattr(box, "y")

    t.calls(f, lambda: (Box(), torch.ones(2)))


@program
def test_list_holds_itself(t):
    @t.compile
    def f(items, a):
        items.append(items)
        items[-1].append(a)
        return len(items), items[1] is items, a + 1

    for _ in range(4):
        t.call(f, [0], torch.ones(2))


@program
def test_same_tensor_in_list(t):
    @t.compile
    def f(items):
        items[0].add_(1)
        return items[1] * 2, items[0] is items[1]

    for same in (True, True, True, False, False, True):
        a = torch.ones(3)
        t.call(f, [a, a if same else torch.ones(3)])


@program
def test_expanded_input(t):
    @t.compile
    def f(a, b):
        b.add_(1)
        return a * b

    for _ in range(4):
        base = torch.ones(1)
        t.call(f, base.expand(4), torch.ones(4))
    base = torch.ones(4)
    t.call(f, base[:1].expand(4), base)


@program
def test_return_same_object_twice(t):
    @t.compile
    def f(a):
        b = a + 1
        items = [b]
        return b, b, items, items, (b, a)

    t.calls(f, lambda: (torch.ones(2),))
