"""Random torch programs: views, in-place operators, reductions, matrix products, indexing, dtype conversions, branches on shapes and on
data, loops, containers, closures, global state, mutated arguments, random numbers, prints, exceptions and autograd.

Deterministic for each seed. A failing program is cut down and kept in the record as Python.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import harness
import programs
from backends import Backend
from programs import Program

PRELUDE = {
    "torch": "import torch",
    "F": "import torch.nn.functional as F\n",
    "STATE": 'STATE = {"count": 0}\n',
    "TABLE": "TABLE = [1, 2, 3]\n",
    "BOX": """class Box:
    def __init__(self):
        self.scale = 1.5
        self.seen = None
    def step(self, t):
        self.scale += 0.5
        return t * self.scale

BOX = Box()
""",
}
SHAPES = ("(n, m)", "(n, m)", "(n, m)", "(m,)", "(n, 1)", "(1, m)", "()", "(2, n, m)", "(n, n)", "(m, n)")
DTYPES = (
    "dt",
    "dt",
    "dt",
    "dt",
    "torch.float32",
    "torch.float64",
    "torch.int64",
    "torch.int32",
    "torch.bool",
    "torch.bfloat16",
    "torch.uint8",
    "torch.float16",
)
SIZES = (
    "[(3, 4), (3, 4), (5, 2), (1, 4)]",
    "[(2, 8), (2, 8), (8, 2), (2, 3)]",
    "[(4, 4), (4, 4), (3, 3), (4, 4)]",
    "[(1, 5), (1, 5), (2, 5), (0, 5)]",
    "[(17, 33), (17, 33), (16, 32), (1, 1)]",
)

FLIPS = (
    "[(0.0, False), (0.0, False), (0.5, True), (0.0, True)]",
    "[(0.5, True), (0.5, True), (0.0, False), (1.0, True)]",
    "[(1.0, False), (0.0, True), (1.0, True), (0.5, False)]",
)

# Templates; programs.Picks says what the letters stand for.
EXPRESSIONS: tuple[tuple[int, str], ...] = (
    (
        8,
        """
        {f}.sin()|{f}.cos()|{f}.tanh()|{f}.sigmoid()|{f}.clamp(-4, 4).exp()|{f}.abs().sqrt()|torch.log1p({f}.abs())
        F.gelu({f})|F.silu({f})|torch.erf({f})|{f}.floor()|{f}.round()|{f}.reciprocal()|torch.rsqrt({f}.abs() + 1)
        -{a}|{a}.abs()|{a}.relu()|{a}.sign()|{a}.square()|torch.isnan({a})|{a}.logical_not()|{a}.clamp({k}, 3)|~{a}
        {a} ** 2|{f}.frac()|torch.nan_to_num({f} / 0)|F.leaky_relu({f}, 0.1)|F.softplus({f})|{f}.expm1()""",
    ),
    (
        10,
        """
        {a} + {b}|{a} - {b}|{a} * {b}|{a} / {b}|{a} + {s}|{a} * {s}|{s} - {a}|{a} / {s}|{s} / {f}|{a} // {s}|{a} % 3
        torch.maximum({a}, {b})|torch.minimum({a}, {b})|torch.where({a} > {s}, {a}, {b})|{a} > {b}|{a} == {b}
        {a} <= {s}|{a} & {b}|{a} ^ {b}|torch.add({a}, {b}, alpha={k})|torch.lerp({f}, {f}, 0.25)|torch.atan2({f}, {f})
        torch.addcmul({a}, {a}, {b}, value=0.5)|{a} * 2 + {b} * {s}|({a} - {b}).abs() + {a}|torch.fmod({a}, 2)
        {a}.remainder(-3)|torch.floor_divide({a}, 2)|{a} << 1|torch.hypot({f}, {f})|{a}.where({a} != 0, {s})""",
    ),
    (
        6,
        """
        {a}.sum()|{a}.sum({d})|{a}.sum({d}, keepdim=True)|{f}.mean()|{f}.mean({d}, keepdim=True)|{a}.amax({d})|{a}.max()
        {a}.amin({d}, keepdim=True)|{a}.argmax({d})|{a}.any({d})|{a}.all()|{a}.prod({d})|{a}.cumsum({d})
        {f}.var({d})|{f}.std({d}, unbiased=False)|{f}.logsumexp({d})|{f}.norm()|{f}.norm(dim={d})|{a}.max({d}).values
        {a}.min({d}).indices|torch.count_nonzero({a})|{a}.sum(dtype=torch.float64)|F.softmax({f}, {d})
        F.log_softmax({f}, {d})|F.layer_norm({f}, {f}.shape[-1:])|{a}.cumprod({d})|{a}.sum(({d}, {e}))""",
    ),
    (
        8,
        """
        {a}.t()|{a}.transpose({d}, {e})|{a}.reshape(-1)|{a}.view(-1)|{a}.unsqueeze({d})|{a}.squeeze()|{a}[0]|{a}[-1]
        {a}[..., 0]|{a}[:, 1:]|{a}[::2]|{a}[:, ::2]|{a}[None]|{a}.expand(2, *{a}.shape)|{a}.narrow({d}, 0, 1)|{a}.mT
        {a}.select({d}, 0)|{a}.diagonal()|{a}.flatten()|{a}.chunk(2, {d})[-1]|{a}.split(1, {d})[0]|{a}.unbind({d})[0]
        {a}.permute(*range({a}.dim() - 1, -1, -1))|{a}.contiguous()|{a}.clone()|{a}.detach()|{a}.view_as({b})
        {a}.flip({d})|{a}.roll(1, {d})|{a}.repeat(2, 1)|{a}.movedim(0, -1)|{a}.unfold({d}, 2, 1)|{a}.alias()
        {a}.as_strided((2, 2), (1, 2))|{a}.tril()|{a}.expand_as({b})""",
    ),
    (
        5,
        """
        {a}[{a} > 0]|{a}[[0, -1]]|{a}[torch.arange({a}.shape[0]) % 2 == 0]|{a}.index_select({d}, torch.tensor([0, 0]))
        {a}.gather({d}, {a}.argsort({d}))|{a}[{l} % {a}.shape[0]]|{a}.masked_fill({a} > 1, {s})|{a}.nonzero()
        {a}.scatter({d}, torch.zeros_like({a}, dtype=torch.int64), {b})|{a}.take({l} % {a}.numel())|{a}.sort({d}).values
        {a}.index_add(0, torch.tensor([0]), {a}[:1])|{a}[{a}.shape[0] - 1, ...]|{a}.topk(1).values|{a}.unique()
        torch.where({a})[0]|torch.searchsorted({a}.flatten().sort().values, {a})|{a}[{k}]|{a}[:, {k}]""",
    ),
    (
        3,
        """
        {a} @ {b}|{a} @ {a}.transpose(-1, -2)|torch.mm({a}, {a}.t())|torch.outer({a}.flatten(), {a}.flatten())
        torch.einsum('ij,kj->ik', {a}, {a})|F.linear({a}, {b})|torch.bmm({a}, {a}.mT)|torch.dot({a}, {a})
        torch.addmm({b}, {a}, {a})|{a}.matmul({b}.t()).relu()|torch.tensordot({a}, {a}, dims=({d}, {d}))""",
    ),
    (
        4,
        """
        {a}.to({t})|{a}.float()|{a}.double()|{a}.long()|{a}.bool()|{a}.int()|{a}.half()|{a}.bfloat16()|{a}.type_as({b})
        {a}.to({b})|{a}.to('cpu')|{a}.cpu()|{a}.to({t}, copy=True)|{a}.float() + {b}""",
    ),
    (
        3,
        """
        torch.zeros_like({a})|torch.ones({a}.shape)|torch.arange({a}.numel()).view({a}.shape)|torch.full_like({a}, {k})
        torch.eye({a}.shape[0])|torch.tensor([1.0, {s}])|torch.linspace(0, 1, {a}.shape[-1])|{a}.new_zeros(2, 3)
        torch.arange(0, {k} + 3, 1.0)|torch.full((2,), {s})|torch.tensor({a}.tolist())|torch.tensor({s})""",
    ),
    (
        3,
        """
        torch.cat([{a}, {a}], {d})|torch.stack([{a}, {a} * 2], {d})|torch.cat([{a}, {b}])|torch.stack([{a}, {b}], -1)
        F.pad({a}, (1, 1))|torch.cat([{a}.flatten(), {b}.flatten()])|F.one_hot({l} % 3, 3)|sum([{a}, {b}, {a}])""",
    ),
    (
        1,
        """
        torch.rand({a}.shape)|torch.randn(3)|torch.randint(0, 5, (2,))|F.dropout({f}, 0.5)|torch.randperm(4)
        {f} + torch.rand_like({f})|torch.bernoulli({f}.sigmoid())""",
    ),
    (
        5,
        """
        {a}.shape[0]|{a}.numel()|{a}.dim()|len({a})|{a}.shape|tuple({a}.stride())|{a}.dtype|{a}.is_contiguous()
        {a}.sum().item()|int({a}.abs().sum())|float({a}.max())|bool({a}.any())|{a}.tolist()|str({a}.dtype)
        [{a}, {b}]|({a}, {b}.shape)|{{'x': {a}, 'y': {b}}}|[t * {s} for t in ({a}, {b})]|{c}|len({c})|{s} * 2 + {k}
        {{i: r for i, r in enumerate({a})}}|list(zip({a}.shape, {a}.stride()))|sorted({a}.flatten().tolist())
        max([{a}, {b}], key=lambda t: t.numel())|f'{{{a}.dim()}} {{tuple({a}.shape)}}'|{a} is {b}|type({a}).__name__
        sum(t.sum() for t in [{a}, {b}])|BOX.step({a})|BOX.scale|STATE['count']|TABLE[{k} % 3]|{a}.requires_grad
        isinstance({a}, torch.Tensor)|(lambda t, w={s}: t * w)({a})|{a} if {k} > 1 else {b}|{a}.item() if {a}.numel() == 1 else None
        any(r.sum() > 0 for r in {a})|hash({a}.shape)|torch.Size([2, *{a}.shape])|reversed([1, 2]).__next__()""",
    ),
    (
        5,
        """
        torch.cat(xs)|torch.stack(xs)|sum(xs)|[t * {s} for t in xs]|torch.stack([t.sum() for t in xs])|len(xs)|xs[0] + xs[-1]|torch.cat(xs).reshape(2, -1)
        torch.einsum('i,i->i', xs)|list(map(torch.sin, xs))|torch.cat([*xs, xs[0]])|torch.stack(tuple(xs), 1)|torch.meshgrid(*xs, indexing='ij')
        max(xs, key=lambda t: t.numel())|torch.block_diag(*xs)|{{i: t for i, t in enumerate(xs)}}|torch.cat(list(filter(lambda t: t.dim() == 1, xs)))
        torch.vstack(xs)|torch._foreach_mul(xs, 2)|xs[:1]|xs[w % 2] * q""",
    ),
    (
        4,
        """
        F.dropout({f}, q, True)|F.leaky_relu({a}, q)|{a}.sum({d}, keepdim=flag)|F.pad({a}, (w % 2, 1))|torch.roll({a}, w)|{a}.repeat_interleave(w % 2 + 1, 0)
        F.relu({a} + 0, inplace=flag)|{a}.to(torch.float32, copy=flag)|torch.clamp({a}, q)|{a}.narrow(0, 0, 1 + w % 2)|{a} * q|{a} ** w|{a} if flag else {b}
        F.dropout({f}, 0.5, flag)|torch.flatten({a}, w % 2)|{a}.expand(1 + w % 2, *{a}.shape)|torch.where({a} > q, {a}, {b})|{a}.tile(w % 2 + 1)|q + w|not flag""",
    ),
    (
        2,
        """
        torch.autograd.grad(({a} * {a}).sum(), {a})[0]|torch.autograd.grad({a}.sin().sum(), {a}, create_graph=True)[0]
        {a}.grad|{a}.is_leaf|{a}.detach().requires_grad_()|({a} * 2).requires_grad""",
    ),
)
ACTIONS = """
    {a}.add_({b})|{a}.mul_({s})|{a}[0] = {s}|{a}[{a} > 0] = 0|{a}.copy_({b})|{a}.zero_()|{a}.fill_({s})|{a}.relu_()
    {a}.clamp_(-1, 1)|{a} += {b}|{a} *= 2|{a} -= {s}|{a}[:, 0] += 1|{a}[..., -1] *= {s}|{a}.t_()|{a}.unsqueeze_(0)
    {a}.index_fill_({d}, torch.tensor([0]), {s})|{a}.masked_fill_({a} < 0, {k})|{a}.sub_({b}, alpha=2)|{a}[::2] = {b}[::2]
    torch.add({a}, {b}, out={a})|{a}.diagonal().fill_({k})|{a}.squeeze_()|{a}.detach().add_(1)|{a}.data.mul_(2)
    {a}.index_add_(0, torch.tensor([0, 0]), {a}[:1].expand(2, -1).clone())|{a}.reshape(-1)[0] = {k}|{a}[0], {a}[-1] = 1, 2
    STATE['count'] += 1|STATE['last'] = {k}|TABLE.append({k})|BOX.scale = {s}|BOX.seen = {a}.shape|TABLE[0] += 1
    print('shape', tuple({a}.shape), {a}.dtype)|print({a}.sum().item())|print(f'{{{a}.dim()=}}')|print({a}.tolist())
    ({a} * 3).sum().backward()|{a}.sum().backward()|assert {a}.dim() < 3, 'too deep'|assert {a}.sum() < 100, f'{{{a}.shape}}'
    {c}.append({a})|{c}.append({k})|{c}.reverse()|{c}.pop()|{c}[0] = {b}|{c}.extend([{k}, {s}])|del {c}[0]
    xs[0].add_(1)|xs[-1][0] = {s}|xs.append(xs[0] * 2)|xs[0] = xs[-1]|xs[w % 2].mul_(q)|torch.cat(xs).sum().backward()
    {a}.set_({a}.clone())|{a}.swapaxes_(0, -1)|torch.manual_seed({k})|setattr(BOX, 'extra', {k})|{a}.requires_grad_(False)
"""
CONDITIONS = """
    {a}.shape[0] > 2|{a}.dim() == 2|{a}.numel() == 0|{a}.sum() > 0|bool({a}.any())|{a}.max().item() > 1|{k} > w|w > 2
    {a}.dtype == torch.float32|{a}.is_contiguous()|{a}.shape[-1] % 2 == 0|len({c}) > 2|STATE['count'] % 2|{a}.requires_grad
    (({a} > 0).sum() > 2).item()|{a} is {b}|{a}.shape == {b}.shape and {a}.stride() == {b}.stride()|BOX.scale > 2
    {a}.mean() > 0|not {a}.shape[0]|torch.allclose({a}, {a})|torch.is_grad_enabled()|w is not None and w % 2
"""
LOOPS = """
    for i in range(3):|for i in range({a}.shape[0]):|for row in {a}:|for i, row in enumerate({a}.unbind(0)):
    for row in [{a}, {b}]:|with torch.no_grad():|for i in TABLE:|for row, i in zip({a}, range(2)):|with torch.enable_grad():
    while STATE['count'] < 4 and not STATE.update(count=STATE['count'] + 1):
"""
COMPOUND = [
    "def h{u}(t):\n    return t * {b} + {s}\n{v} = h{u}({a})",
    "def h{u}(t, total=0):\n    def add(x):\n        nonlocal total\n        total = total + x\n    add(t)\n    add({k})\n"
    "    return total\n{v} = h{u}({a})",
    "try:\n    {v} = {a}.view(7, 13)\nexcept RuntimeError as error:\n    {v} = str(error)[:30]",
    "try:\n    if {a}.sum() > 0:\n        raise ValueError(f'sum of {{tuple({a}.shape)}}')\n    {v} = {a}\n"
    "except ValueError as error:\n    {v} = error.args\nfinally:\n    STATE['count'] += 1",
    "if {a}.sum() > {k}:\n    raise ValueError(f'large {{tuple({a}.shape)}}')",
    "if {a}.shape[0] > 4:\n    raise KeyError({a}.shape[0])",
    "def g{u}(t):\n    for r in t:\n        yield r * {s}\n{v} = list(g{u}({a}))",
    "{v} = []\nfor r in {a}:\n    if r.sum() > 0:\n        {v}.append(r)\n    else:\n        break",
    "{v} = {a}\nfor j in range({k}):\n    if j == 2:\n        continue\n    {v} = {v} * {s} + j",
    "{v}, *rest = {a}.split(1)",
    "fs{u} = [lambda t, j=j: t + j for j in range(3)]\n{v} = [fn({a}) for fn in fs{u}]",
    "class K{u}:\n    def __init__(self, t):\n        self.t = t\n    def __add__(self, o):\n        return self.t + o\n"
    "{v} = K{u}({a}) + {b}",
    "{v} = {a}[0]\n{v} += 1",
    "{v} = {a}.view(-1)\n{a}.mul_(2)\n{v} = {v} + 1",
    "match {a}.dim():\n    case 1:\n        {v} = {a} + 1\n    case 2 | 3:\n        {v} = {a}.sum(0)\n    case _:\n        {v} = {a}",
]


class Picks(programs.Picks):
    """Fills a template's letters."""

    array = torch.Tensor
    types = DTYPES[4:]

    def is_float(self, value: Any) -> bool:
        return value.is_floating_point()

    def is_index(self, value: Any) -> bool:
        return value.dtype == torch.int64


class TorchPrograms(programs.Domain):
    """Statements over tensors, and what is observed of tensors."""

    expressions, actions, conditions, loops, compound = EXPRESSIONS, ACTIONS, CONDITIONS, LOOPS, COMPOUND
    picks = Picks

    def start(self) -> Program:
        rng = self.rng
        make = [
            f"g = torch.Generator().manual_seed({rng.randrange(1000)} + k)",
            f"n, m = {rng.choice(SIZES)}[k]",
            f"dt = [torch.float32, torch.float32, torch.float32, {rng.choice(['torch.float64', 'torch.float32'])}][k]",
        ]
        params = ["x", "y", "z"][: rng.randint(1, 3)]
        for i, name in enumerate(params):
            shape, dtype = rng.choice(SHAPES), "dt" if i == 0 else rng.choice(DTYPES)
            make.append(f"{name} = (torch.randint(-8, 9, {shape}, generator=g) / 4).to({dtype})")
            make += self.vary(name, dtype)
        make += [f"w = [{rng.randrange(5)}, {rng.randrange(5)}, 2, 3][k]", "c = [k, 1.5]"]
        make += ["xs = [(torch.randint(-8, 9, (m,), generator=g) / 4) for _ in range(2)]", f"q, flag = {rng.choice(FLIPS)}[k]"]
        if rng.random() < 0.4:  # of some inputs only
            make.append(f"[t.requires_grad_() for t in xs[{rng.choice(['k % 2:', ':k % 3', '1:'])}]]")
        return Program(PRELUDE, make, [*params, "w", "c", "xs", "q", "flag"])

    def vary(self, name: str, dtype: str) -> list[str]:
        """Now and then: other strides, gradients."""
        roll = self.rng.random()
        if roll < 0.12:
            return [f"{name} = {name}.mT.contiguous().mT if {name}.dim() > 1 else {name}"]
        if roll < 0.2:
            return [f"{name} = torch.stack([{name}, {name}], -1)[..., 0]"]
        return [f"{name}.requires_grad_()"] if roll < 0.45 and dtype == "dt" else []

    def first_row(self, value: Any) -> Any:
        return value[0] if value.dim() and len(value) else value

    def returnable(self, value: Any) -> bool:
        return isinstance(value, (torch.Tensor, int, float, str, list, tuple, dict, torch.dtype, type(None)))


list_items = programs.list_items


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    return programs.make_runner(args, backend, TorchPrograms)
