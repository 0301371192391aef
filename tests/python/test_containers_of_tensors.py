"""Tensors inside lists, tuples and dicts that a function is given: what is true of a tensor alone (it requires grad, it was changed) is true of it there."""
import collections

import pytest
import torch
from twice import program

Pair = collections.namedtuple("Pair", "a b c")
CALLS = {
    "cat": lambda xs: torch.cat(xs),
    "stack": lambda xs: torch.stack(xs, 1),
    "vstack": lambda xs: torch.vstack(xs),
    "sum": lambda xs: sum(xs),
    "einsum": lambda xs: torch.einsum("i,i,i->i", xs),
    "star": lambda xs: torch.block_diag(*xs),
    "foreach": lambda xs: torch._foreach_add(xs, 1),
    "meshgrid": lambda xs: torch.meshgrid(*xs, indexing="ij"),
    "nested": lambda xs: [torch.cat([x, x]) for x in xs],
    "linear": lambda xs: torch.nn.functional.pad(torch.cat(xs), (1, 1)),
    "multi_dot": lambda xs: torch.linalg.multi_dot([x[None].mT @ x[None] for x in xs]),
    "norm": lambda xs: torch.nn.utils.parameters_to_vector(xs),
}
CONTAINERS = {"list": list, "tuple": tuple, "named tuple": lambda xs: Pair(*xs), "nested": lambda xs: [xs], "dict": lambda xs: {"k": xs}}


def parts(which):
    made = [torch.arange(3.0) + k for k in range(3)]
    if which is not None:
        made[which].requires_grad_()
    return made


def unpacked(container, given):
    return given[0] if container == "nested" else given["k"] if container == "dict" else given


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", CALLS)
@program(hits=0)
def test_gradients(t, name, container):
    call, wrap = CALLS[name], CONTAINERS[container]
    f = t.compile(lambda given: call(unpacked(container, given)))
    for which in (None, None, 0, 0, 0, 2, 2, None, 1):
        t.call(f, wrap(parts(which)))
        with torch.no_grad():
            t.call(f, wrap(parts(which)))


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", CALLS)
@program(hits=0)
def test_changed_before(t, name, container):
    call, wrap = CALLS[name], CONTAINERS[container]

    @t.compile
    def f(given):
        xs = unpacked(container, given)
        xs[0].add_(1)
        xs[2][1] = 7
        return call(xs)

    t.calls(f, lambda: (wrap(parts(None)),))


@pytest.mark.parametrize("name", CALLS)
@program(hits=0)
def test_of_unknown_size(t, name):
    call = CALLS[name]

    @t.compile
    def f(xs):
        return call([x[x > 0.5] for x in xs])

    t.calls(f, lambda: (parts(None),))
    t.call(f, [torch.zeros(3)] * 3)


@program(hits=0)
def test_training_with_lists(t):
    @t.compile
    def f(xs, w):
        loss = (torch.cat(xs) * w).sum() + torch.stack(xs).mean()
        loss.backward()
        return loss.detach(), [x.grad for x in xs], w.grad

    t.calls(f, lambda: (parts(1), torch.ones(9, requires_grad=True)))
