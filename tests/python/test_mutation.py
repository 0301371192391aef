"""Mutation: lists, dicts, attributes, globals, cells, tensors and arrays in place; what is written is seen, once, in order."""
import numpy as np
import pytest
import torch
from twice import program


class Box:
    def __init__(self, **values):
        self.__dict__.update(values)


@program
def test_list_writes(t):
    @t.compile
    def f(a, items):
        items[0] = a * 2
        items.append(a + 1)
        items[-2] += 1
        return items[0] + items[-1]

    t.calls(f, lambda: (torch.arange(3.0), [torch.ones(3), torch.zeros(3)]))


@program
def test_list_methods(t):
    @t.compile
    def f(a, items):
        items.extend([a, a + 1])
        items.insert(0, a * 2)
        last = items.pop()
        items.reverse()
        return last, len(items), items[0]

    t.calls(f, lambda: (torch.arange(3.0), [1, 2]))


@program
def test_same_list_every_call(t):
    history = []

    @t.compile
    def f(a):
        history.append(a.sum())
        return a * len(history)

    for n in range(6):
        t.call(f, torch.full((2,), float(n)))
    t.note(history)


@program
def test_list_slices(t):
    @t.compile
    def f(a, items):
        items[1:3] = [a, a * 2, a * 3]
        del items[0]
        return items[0] + items[1], items[::2]

    t.calls(f, lambda: (torch.arange(2.0), [1, 2, 3, 4]))


@program
def test_dict_writes(t):
    @t.compile
    def f(a, d):
        d["x"] = a + 1
        d["count"] = d.get("count", 0) + 1
        old = d.pop("old", None)
        d.setdefault("y", a)
        d.update(z=a * 2)
        del d["y"]
        return old, d["x"] + d["z"], list(d)

    for start in ({}, {}, {"old": 1}, {"old": 1}, {"count": 3, "y": 1}, {}):
        t.call(f, torch.arange(2.0), dict(start))


@program
@pytest.mark.law(2)
def test_counter_in_dict(t):
    state = {"n": 0}

    @t.compile
    def f(a):
        state["n"] += 1
        return a + state["n"]

    t.calls(f, lambda: (torch.zeros(2),), 8)
    t.note(state)


@program
def test_attribute_writes(t):
    box = Box(n=0, value=None)

    @t.compile
    def f(a, box):
        box.n += 1
        box.value = a * box.n
        box.last = box.value.sum()
        return box.value + 1

    t.calls(f, lambda: (torch.ones(3), box), 6)
    t.note(box)


@program
def test_attribute_removed(t):
    @t.compile
    def f(a, box):
        del box.gone
        box.new = a
        return hasattr(box, "gone"), hasattr(box, "new"), a + 1

    for _ in range(4):
        t.call(f, torch.ones(2), Box(gone=1))
    t.call(f, torch.ones(2), Box())
    t.call(f, torch.ones(2), Box(gone=2, new=1))


@program
def test_setattr_and_property(t):
    class Guarded:
        def __init__(self):
            self.log = []
            self.held = 1

        def __setattr__(self, name, value):
            if name != "log":
                self.log.append(name)
            object.__setattr__(self, name, value)

        @property
        def double(self):
            return self.held * 2

        @double.setter
        def double(self, value):
            self.held = value / 2

    @t.compile
    def f(a, g):
        g.held = a + 1
        g.double = a * 4
        return g.double

    t.calls(f, lambda: (torch.arange(2.0), Guarded()))


@program
def test_slots(t):
    class Slotted:
        __slots__ = ("x", "y")

    @t.compile
    def f(a, s):
        s.x = a * 2
        s.y = s.x + 1
        return s.y

    for _ in range(4):
        s = Slotted()
        t.call(f, torch.ones(2), s)
        t.note(s.x, s.y)


@program
@pytest.mark.law(7)
def test_global_counter(t):
    m = t.module(
        """
        n = 0
        scale = 2
        def f(a):
            global n, last
            n += 1
            last = a * scale
            return last + n
        """
    )
    f = t.compile(m.f)
    t.calls(f, lambda: (torch.ones(2),), 5)
    t.note(m.n, m.last)
    m.n = 100
    m.scale = 3
    t.calls(f, lambda: (torch.ones(2),), 5)
    t.note(m.n, m.last)


@program
def test_nonlocal(t):
    def make():
        total = 0

        def f(a):
            nonlocal total
            total = total + a.sum()
            return total * 2

        return f, lambda: total

    f, read = make()
    f = t.compile(f)
    for n in range(6):
        t.call(f, torch.full((3,), float(n)))
        t.note(read())


@program
@pytest.mark.law(2)
def test_tensor_in_place(t):
    @t.compile
    def f(a, b):
        a.add_(b)
        a.mul_(2)
        c = a + 1
        a[0] = 7
        a[1:] -= b[1:]
        return c

    t.calls(f, lambda: (torch.arange(4.0), torch.ones(4)), 5)


@program
def test_tensor_augmented(t):
    @t.compile
    def f(a, b):
        a += b
        a *= 3
        a /= 2
        a -= 1
        b **= 2
        return a

    t.calls(f, lambda: (torch.arange(4.0), torch.ones(4) * 3), 5)


@program(hits=0)
def test_in_place_returns_same_object(t):
    @t.compile
    def f(a):
        b = a.add_(1)
        return b is a, b

    t.calls(f, lambda: (torch.arange(4.0),), 5)


@program
def test_in_place_through_view(t):
    @t.compile
    def f(a):
        row = a[1]
        row += 10
        column = a[:, 0]
        column.mul_(2)
        a.t()[0].zero_()
        return row, column, a.sum()

    t.calls(f, lambda: (torch.arange(6.0).reshape(2, 3),), 5)


@program
def test_read_write_read(t):
    @t.compile
    def f(a):
        before = a * 1
        a.add_(1)
        middle = a * 1
        a.zero_()
        after = a * 1
        return before, middle, after

    t.calls(f, lambda: (torch.arange(3.0),), 5)


@program
def test_out_and_copy(t):
    @t.compile
    def f(a, b, out):
        torch.add(a, b, out=out)
        b.copy_(a)
        a.fill_(3)
        return out * 2

    t.calls(f, lambda: (torch.arange(3.0), torch.ones(3), torch.empty(3).fill_(-1)), 5)


@program
def test_array_in_place(t):
    @t.compile
    def f(a, b):
        a += b
        a[0] = 9
        a[1:3] *= 2
        np.add(a, 1, out=b)
        b[::2] = -b[::2]
        return a - b

    t.calls(f, lambda: (np.arange(4.0), np.ones(4)), 5)


@program
def test_masked_writes(t):
    @t.compile
    def f(a, x):
        a[a > 1] = 0
        x[x > 1] = 0
        return a + 1, x + 1

    t.calls(f, lambda: (torch.arange(4.0), np.arange(4.0)), 5)


@program
def test_version_counter(t):
    @t.compile
    def f(a):
        a.add_(1)
        a.add_(1)
        b = a * 2
        b.mul_(3)
        return b, a._version, b._version

    a = torch.zeros(3)
    for _ in range(5):
        t.call(f, a)


@program
def test_leaf_in_place_raises(t):
    @t.compile
    def f(a, w):
        b = a * 2
        w.add_(b)
        return b

    for need in (False, False, False, True, True, False):
        t.call(f, torch.ones(2), torch.ones(2, requires_grad=need))


@program
def test_container_argument_kept(t):
    @t.compile
    def f(a, store):
        store["a"] = a
        store["b"] = [a, a * 2]
        return store

    for _ in range(4):
        store = {}
        result = t.call(f, torch.ones(2), store)
        t.note(result is store, store["b"][0] is store["a"])


@program
def test_local_containers_escape(t):
    @t.compile
    def f(a):
        out = []
        d = {}
        for i in range(3):
            out.append(a * i)
            d[i] = out[-1]
        return out, d, (out, [d])

    t.calls(f, lambda: (torch.arange(2.0),))


@program
def test_swap_and_chain(t):
    @t.compile
    def f(a, b, box):
        a, b = b, a
        box.x = box.y = a - b
        box.x, box.z = box.y * 2, box.x
        return a, b

    for _ in range(4):
        box = Box()
        t.call(f, torch.zeros(2), torch.ones(2), box)
        t.note(vars(box))


@program
def test_delete_local(t):
    @t.compile
    def f(a, n):
        b = a + 1
        del a
        if n:
            return b * a  # noqa: F821
        return b

    for n in (0, 0, 0, 1, 1, 0):
        t.call(f, torch.ones(2), n)


@program
def test_equal_values_are_two_objects(t):
    # The second value is made of a second cast: what two passes find equal must stay two.
    @t.compile
    def f(z):
        a = z.float() + z
        b = z.float() + z
        return a, b

    for _ in range(3):
        a, b = t.call(f, torch.arange(4))
        t.note(a is b, a.data_ptr() == b.data_ptr())


@program
def test_copies_into_what_was_made_here(t):
    # What is stored is an input as it is: the result is another object all the same.
    @t.compile
    def f(y):
        v = torch.zeros_like(y)
        v.copy_(y)
        w = torch.empty_like(y)
        w[:] = y
        u = torch.zeros_like(y)
        torch.add(y, 0, out=u)
        return v, w, u

    @t.compile
    def g(y):
        v = np.zeros_like(y)
        v[...] = y
        w = np.empty_like(y)
        np.copyto(w, y)
        return v, w

    for _ in range(4):
        t.call(f, torch.arange(6.0).reshape(2, 3))
        t.call(g, np.arange(6.0))


@program
def test_stores_of_what_stands_for_something_else(t):
    @t.compile
    def then_changed(y):
        v = torch.zeros_like(y)
        v.copy_(y)
        y.add_(1)
        v.mul_(2)
        return v, y

    @t.compile
    def between_inputs(x, y):
        x.copy_(y)
        x += 1
        return x, y

    @t.compile
    def scalar(g):
        v = np.zeros((), np.float32)
        v[...] = g
        w = np.zeros((), np.float32)
        w.fill(g)
        return v, w, g

    @t.compile
    def number(y, s):
        v = y.sum()
        v.fill_(s)
        return v

    for k in range(4):
        t.call(then_changed, torch.arange(6.0))
        t.call(between_inputs, torch.arange(3.0), torch.ones(3) * k)
        t.call(scalar, np.float32(3.25 + k))
        t.call(number, torch.arange(3.0, dtype=torch.float64), 2.5 + k)


@program(hits_broken=0)
def test_in_place_calls_of_the_library(t):
    @t.compile
    def made_here(index, source, x):
        total = torch.zeros(4, 3)
        total.index_add_(0, index, source)
        picked = x * 2
        picked.scatter_(1, index[:, None].expand(3, 2), source[:, :2].contiguous())
        ranks = torch.zeros_like(index)
        ranks[index] = torch.arange(3)
        return total * 2, picked, ranks + 1, picked.cumsum_(0)

    @t.compile
    def argument(x, index, source):
        y = x * 2
        x.index_add_(0, index, source)
        return y, x.sum()

    @t.compile
    def view(x, index, source):
        y = x + 1
        y[1:3].index_copy_(0, index % 2, source[:3])
        y.T[0].index_fill_(0, index, 7.0)
        return y

    @t.compile
    def pairs(x, i, j, v):
        y = x * 1
        y[i, j] = v
        y[i] = v[:, None] * torch.ones(3)
        return y, y.put_(i, v)

    for k in range(5):
        index = torch.tensor([k % 3, (k + 1) % 3, 2])
        t.call(made_here, index, torch.arange(9.0).reshape(3, 3), torch.ones(3, 3) * k)
        t.call(argument, torch.ones(4, 3) * k, index, torch.arange(9.0).reshape(3, 3))
        t.call(view, torch.ones(4, 3) * k, index, torch.arange(9.0).reshape(3, 3)[:, :3])
        t.call(pairs, torch.ones(3, 3), index, torch.tensor([0, 1, 2]), torch.tensor([5.0, 6.0, 7.0]) + k)


@program(hits_broken=0)
def test_in_place_calls_that_fail(t):
    @t.compile
    def f(index, source):
        total = torch.zeros(4, 3)
        total.index_add_(0, index, source)
        ranks = torch.zeros(4)
        ranks[index] = source[:, 0]
        return total, ranks

    for bad in (2, 2, 2, 9, -1, 2):
        t.call(f, torch.tensor([0, 1, bad]), torch.ones(3, 3))


@program(hits_broken=0)
def test_numbers_stored_by_masks(t):
    @t.compile
    def f(x, k, v):
        y = x.clone()
        y[y < -0.5] = 0
        z = x * 2
        z[x > 0] = k
        w = x + 1
        w[z == w] = v
        x[x < 0] = 0.25
        return y, z, w

    @t.compile
    def arrays(a, k):
        b = a.copy()
        b[b < 0] = 0
        c = a * 2
        c[a > 0] = k
        return b, c

    for k in (1, 2, 2.5, -1, 3):
        t.call(f, torch.arange(-3.0, 3.0), k, torch.tensor(7.0))
        t.call(f, torch.arange(-3, 3, dtype=torch.float64).reshape(2, 3), k, torch.tensor(7.0, dtype=torch.float64))
        t.call(arrays, np.arange(-3.0, 3.0), k)


@program(hits_broken=0)
def test_an_in_place_call_that_fails_first(t):
    @t.compile
    def f(index, source):
        total = source * 2
        total.index_add_(0, index, source)
        return total + 1

    for bad in (9, 9, 2, 1, 9, 0):
        t.call(f, torch.tensor([0, 1, bad]), torch.ones(3, 3))
