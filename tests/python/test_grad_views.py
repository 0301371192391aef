"""Views of a tensor that requires grad, made under no_grad(): they require grad as well, and what is made of them later has a gradient."""
import pytest
import torch
from twice import program

VIEWS = {
    "item": lambda x: x[0], "slice": lambda x: x[1:], "narrow": lambda x: x.narrow(0, 0, 1), "split": lambda x: x.split(1, 0)[0], "chunk": lambda x: x.chunk(2)[1],
    "unbind": lambda x: x.unbind(0)[0], "t": lambda x: x.t(), "select": lambda x: x.select(0, 1), "reshape": lambda x: x.reshape(-1), "detach": lambda x: x.detach(),
    "copy": lambda x: x * 1,
}  # fmt: skip


@pytest.mark.parametrize("how", VIEWS)
@program(hits=0)
def test_made_inside(t, how):
    view = VIEWS[how]

    @t.compile
    def f(x):
        with torch.no_grad():
            y = view(x)
        c = y.clamp(-4, 4).exp()
        return y.requires_grad, y.is_leaf, c.requires_grad, c

    t.calls(f, lambda: (torch.ones(4, 3).requires_grad_(),))


@pytest.mark.parametrize("how", VIEWS)
@program(hits=0)
def test_given(t, how):
    view = VIEWS[how]

    @t.compile
    def f(y):
        c = y * 2
        return c.requires_grad, c + 1

    def make(grad):
        x = torch.ones(4, 3).requires_grad_(grad)
        with torch.no_grad():
            return (view(x),)

    t.calls(f, lambda: make(False))
    t.calls(f, lambda: make(True))
    t.calls(f, lambda: make(False))


@program(hits=0)
def test_base_that_is_told_later(t):
    @t.compile
    def f(y):
        return y * 2

    x = torch.ones(4, 3)
    y = x[0]
    t.calls(f, lambda: (y,))
    x.requires_grad_()
    t.calls(f, lambda: (y,))
    t.note(y.requires_grad)
