"""Random NumPy programs: ufuncs, broadcasting, slices, views, in-place operators, `where=`, `out=`, promotion with Python scalars,
reductions, fancy indexing, 0-d and empty arrays, branches, loops and containers.

Deterministic for each seed. A failing program is cut down and kept in the record as Python.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import harness
import programs
from backends import Backend
from programs import Program

# Templates; programs.Picks says what the letters stand for.
PRELUDE = {"np": "import numpy as np\n", "TABLE": "TABLE = [1, 2, 3]\n", "STATE": 'STATE = {"count": 0}\n'}
SHAPES = ("(n, m)", "(n, m)", "(n, m)", "(m,)", "(n, 1)", "(1, m)", "()", "(2, n, m)", "(n, n)", "(0, m)")
SIZES = (
    "[(3, 4), (3, 4), (5, 2), (1, 4)]",
    "[(2, 8), (2, 8), (8, 2), (2, 3)]",
    "[(4, 4), (4, 4), (3, 3), (4, 4)]",
    "[(1, 5), (1, 5), (2, 5), (0, 5)]",
    "[(17, 33), (17, 33), (16, 32), (1, 1)]",
)
TYPES = (
    "np.float64",
    "np.float64",
    "np.float32",
    "np.float32",
    "np.int64",
    "np.int32",
    "np.int8",
    "np.uint8",
    "bool",
    "np.float16",
    "np.complex128",
    "np.uint64",
)
EXPRESSIONS: tuple[tuple[int, str], ...] = (
    (
        7,
        """
        np.sin({f})|np.cos({f})|np.exp({f})|np.log1p(np.abs({f}))|np.tanh({f})|np.sqrt(np.abs({f}))|np.floor({f})|-{a}
        np.rint({f})|np.abs({a})|np.sign({a})|np.square({a})|np.isnan({a})|np.logical_not({a})|~{a}|np.reciprocal({f})
        np.clip({a}, -1, {k})|{a} ** 2|np.cbrt({f})|np.negative({a})|np.conj({a})|{a}.real|np.signbit({f})|np.log({f})
        np.spacing({f})|np.positive({a})|np.trunc({f})|np.expm1({f})|np.modf({f})|np.frexp({f})|np.isfinite({a})""",
    ),
    (
        10,
        """
        {a} + {b}|{a} - {b}|{a} * {b}|{a} / {b}|{a} // {b}|{a} % {b}|{a} + {s}|{a} * {s}|{s} - {a}|{a} / {s}|{s} / {a}
        {a} > {b}|{a} == {b}|{a} <= {s}|{a} != {s}|{a} & {b}|np.bitwise_or({a}, {b})|{a} ^ {b}|{a} << 1|{a} >> 1|np.maximum({a}, {b})
        np.where({a} > {s}, {a}, {b})|np.fmin({a}, {b})|np.power({a}, 2)|np.arctan2({f}, {f})|np.hypot({f}, {f})
        np.add({a}, {b}, where={a} > 0, out=np.zeros(np.broadcast({a}, {b}).shape, dtype=np.result_type({a}, {b})))
        np.multiply({a}, {b}, dtype=np.float64)|np.divmod({a}, 3)|{a} * 2 + {b} * {s}|np.copysign({f}, {f})
        np.subtract({a}, {s}, dtype=np.float32, casting='same_kind')|np.logical_and({a}, {b})|np.floor_divide({a}, 2)
        np.add.outer({a}, {b})|np.fmod({a}, 2)|np.nextafter({f}, 1)|np.gcd({l}, 6)|np.float32(1.5) * {a}|np.int8(3) + {a}
        {a} + 1.5|{a} + 300|{a} * 1j|{a} + np.float64(0.5)|{a} + True|np.heaviside({f}, 0.5)|np.ldexp({f}, 2)""",
    ),
    (
        6,
        """
        np.sum({a})|np.sum({a}, axis={d})|np.sum({a}, axis={d}, keepdims=True)|np.mean({a})|np.mean({a}, axis={d})
        {a}.max()|{a}.min(axis={d})|{a}.argmax()|np.argmin({a}, axis={d})|{a}.any()|{a}.all(axis={d})|np.prod({a})
        np.cumsum({a}, axis={d})|np.var({a}, axis={d})|np.std({a})|np.ptp({a})|np.sum({a}, where={a} > 0)
        np.add.reduce({a}, axis={d})|np.maximum.reduce({a}, axis={d}, initial={k})|np.add.accumulate({a})
        np.count_nonzero({a})|np.sum({a}, dtype=np.float64)|np.nansum({a})|np.median({a})|np.sum({a}, axis=None)
        np.max({a}, axis=(0, 1))|np.logical_or.reduce({a})|np.multiply.reduce({a}, axis={d})|np.any({a}, axis={d})""",
    ),
    (
        8,
        """
        {a}.T|{a}.reshape(-1)|{a}.ravel()|{a}[0]|{a}[-1]|{a}[..., 0]|{a}[:, 1:]|{a}[::2]|{a}[::-1]|{a}[None]|{a}[:, None]
        {a}[1:, ::-2]|np.broadcast_to({a}, (2, *{a}.shape))|{a}.squeeze()|np.swapaxes({a}, {d}, 0)|{a}.copy()|{a}[()]
        np.expand_dims({a}, {d})|np.diagonal({a})|{a}.flatten()|np.moveaxis({a}, 0, -1)|{a}.view()|np.ascontiguousarray({a})
        np.flip({a}, {d})|np.roll({a}, 1)|np.repeat({a}, 2)|np.tile({a}, 2)|np.atleast_2d({a})|{a}.transpose()|{a}[{k}:]
        {a}.view(np.uint8)|np.asfortranarray({a})|np.array_split({a}, 2)[0]|np.tril({a})|{a}[:0]|np.array({a}, copy=True)""",
    ),
    (
        5,
        """
        {a}[{a} > 0]|{a}[[0, -1]]|{a}[np.arange({a}.shape[0]) % 2 == 0]|np.take({a}, [0, 0], axis={d})|np.sort({a})
        np.argsort({a}, axis={d}, kind='stable')|{a}[{l} % {a}.shape[0]]|np.nonzero({a})|{a}[[0, 1], [1, 0]]|np.unique({a})
        np.take_along_axis({a}, np.argsort({a}, axis={d}, kind='stable'), axis={d})|np.choose({l} % 2, [{a}, {b}])
        np.searchsorted(np.sort({a}.ravel()), {b})|np.where({a})|np.compress([True, False], {a}, axis={d})|{a}[{k}]
        {a}[..., [0]]|{a}[np.ix_([0], [0, 1])]|np.select([{a} > 0, {a} < 0], [{a}, {b}], 0)|np.argwhere({a})|{a}.flat[{k}]
        np.bincount({l} % 4)|np.diff({a})|np.digitize({f}, [0, 1])|np.histogram({a}, 3, (-2, 2))[0]""",
    ),
    (
        3,
        """
        np.matmul({a}, {b})|np.dot({a}, {a})|np.outer({a}, {b})|np.einsum('ij,kj->ik', {a}, {a})|np.matmul({a}, {a}.T)
        np.tensordot({a}, {a}, 1)|np.inner({a}, {a})|np.vdot({a}, {a})|np.trace({a})|np.kron({a}, {b})""",
    ),
    (
        4,
        """
        {a}.astype({t})|{a}.astype({t}, copy=False)|np.asarray({a}, dtype={t})|np.array({a}, dtype={t})|np.float32({s})
        np.result_type({a}, {s})|np.can_cast({a}.dtype, {t})|np.promote_types({a}.dtype, {t})|{a}.dtype.kind|{a}.item(0)""",
    ),
    (
        3,
        """
        np.zeros_like({a})|np.ones({a}.shape)|np.arange({a}.size).reshape({a}.shape)|np.full_like({a}, {k})|np.eye(3)
        np.array([1.0, {s}])|np.linspace(0, 1, 5)|np.array({s})|np.arange({k}, 7, 2)|np.zeros(0)|np.full((2,), {s})
        np.concatenate([{a}, {b}])|np.stack([{a}, {a}], axis={d})|np.hstack([{a}, {b}])|np.pad({a}, 1)|np.array([{a}, {a}])
        np.concatenate([{a}, {b}], axis=None)|np.vstack([{a}, {b}])|np.indices((2, 3))|np.meshgrid({a}, {b})[0]""",
    ),
    (1, "np.random.rand(3)|np.random.randint(0, 5, {a}.shape)|np.random.default_rng({k}).normal(size=2)"),
    (
        5,
        """
        {a}.shape[0]|{a}.size|{a}.ndim|len({a})|{a}.shape|{a}.strides|{a}.dtype|{a}.flags['C_CONTIGUOUS']|{a}.base is None
        float(np.sum({a}))|int({a}.max())|bool({a}.any())|{a}.tolist()|[{a}, {b}]|({a}, {b}.shape)|{{'x': {a}, 'y': {b}}}
        [t * {s} for t in ({a}, {b})]|{c}|len({c})|{s} * 2 + {k}|{{i: r for i, r in enumerate({a})}}|sum([{a}, {b}])
        sorted({a}.ravel().tolist())|max([{a}, {b}], key=lambda t: t.size)|{a} is {b}|type({a}[0]).__name__|str({a}.dtype)
        (lambda t, w={s}: t * w)({a})|{a} if {k} > 1 else {b}|any(r.sum() > 0 for r in {a})|np.shares_memory({a}, {b})
        {a}.sum() if {a}.ndim else {a}|STATE['count']|np.isscalar({a})|{a}.itemsize * {k}|np.array_equal({a}, {b})""",
    ),
)
ACTIONS = """
    {a} += {b}|{a} *= 2|{a} -= {s}|{a} /= 2|{a} //= 2|{a}[0] = {s}|{a}[{a} > 0] = 0|{a}[...] = {b}|{a}[:] = {s}|{a}.fill({s})
    {a}[:, 0] += 1|{a}[..., -1] *= {s}|np.add({a}, {b}, out={a})|np.multiply({a}, 2, out={a}, where={a} > 0)|{a} **= 2
    np.sin({f}, out={f})|np.copyto({a}, {b}, where={a} > 1)|{a}[1:] = {a}[:-1]|{a}[::-1] += {a}|{a}[[0, 0]] += 1
    np.add.at({a}, [0, 0], 1)|{a}.sort()|np.put({a}, [0], {s})|np.putmask({a}, {a} < 0, {k})|{a}.T[0] = {k}|{a} &= 3
    {a}.reshape(-1)[0] = {k}|{a}.resize((2, 3))|{a}.setflags(write=False)|np.fill_diagonal({a}, {k})|np.random.shuffle({a})
    np.cumsum({a}, out={a})|np.clip({a}, -1, 1, out={a})|{a}[{k}] = {b}[{k}]|{a}[0], {a}[-1] = 1, 2|np.random.seed({k})
    {c}.append({a})|{c}.append({k})|{c}.reverse()|{c}[0] = {b}|STATE['count'] += 1|TABLE.append({k})|TABLE[0] += 1
    print('shape', {a}.shape, {a}.dtype)|print({a})|print(repr({a}[..., :2]))|print(f'{{np.sum({a}):.3f}}')
    assert {a}.ndim < 3, 'too deep'|assert np.sum({a}) < 100, f'{{{a}.shape}}'
"""
CONDITIONS = """
    {a}.shape[0] > 2|{a}.ndim == 2|{a}.size == 0|np.sum({a}) > 0|{a}.any()|{a}.max() > 1|{k} > w|w > 2|{a}.dtype == np.float64
    {a}.flags.c_contiguous|{a}.shape[-1] % 2 == 0|len({c}) > 2|STATE['count'] % 2|({a} > 0).sum() > 2|{a} is {b}|{a}.ndim
    {a}.shape == {b}.shape|np.all({a} == {b})|np.isscalar({a})|{a}.flags.writeable|{a}.dtype.kind in 'iu'
"""
LOOPS = """
    for i in range(3):|for i in range({a}.shape[0]):|for row in {a}:|for i, row in enumerate({a}):|for row in [{a}, {b}]:
    for i in TABLE:|with np.errstate(all='ignore'):|for row, i in zip({a}, range(2)):|with np.errstate(divide='raise'):
"""
COMPOUND = [
    "def h{u}(t):\n    return t * {b} + {s}\n{v} = h{u}({a})",
    "def h{u}(t, total=0):\n    def add(x):\n        nonlocal total\n        total = total + x\n    add(t)\n    add({k})\n"
    "    return total\n{v} = h{u}({a})",
    "try:\n    {v} = {a}.reshape(7, 13)\nexcept ValueError as error:\n    {v} = str(error)",
    "if np.sum({a}) > {k}:\n    raise ValueError(f'large {{{a}.shape}}')",
    "{v} = np.empty_like({a})\nfor j in range({a}.size):\n    {v}.flat[j] = {a}.flat[j] * 2 + j",
    "{v} = []\nfor r in {a}:\n    if r.sum() > 0:\n        {v}.append(r)\n    else:\n        break",
    "{v} = 0\nfor r in {a}.ravel():\n    {v} += r * {s}",
    "{v} = {a}[0]\n{v} += 1",
    "{v} = {a}.view()\n{a} *= 2\n{v} = {v} + 1",
    "{v}, *rest = {a}",
    "def g{u}(t):\n    for r in t:\n        yield r * {s}\n{v} = list(g{u}({a}))",
]


class Picks(programs.Picks):
    """Fills a template's letters."""

    types = TYPES
    array = np.ndarray

    def is_float(self, value: Any) -> bool:
        return value.dtype.kind == "f"

    def is_index(self, value: Any) -> bool:
        return value.dtype == np.int64


class NumPyPrograms(programs.Domain):
    """Statements over arrays, and what is observed of arrays."""

    expressions, actions, conditions, loops, compound = EXPRESSIONS, ACTIONS, CONDITIONS, LOOPS, COMPOUND
    picks = Picks

    def start(self) -> Program:
        rng = self.rng
        make = [f"rng = np.random.default_rng({rng.randrange(1000)} + k)", f"n, m = {rng.choice(SIZES)}[k]"]
        params = ["x", "y", "z"][: rng.randint(1, 3)]
        for name in params:
            kinds = rng.choice(TYPES)
            last = rng.choice(TYPES[:8]) if rng.random() < 0.3 else kinds
            low = 0 if "uint" in kinds + last else -8
            make.append(f"{name} = (rng.integers({low}, 9, {rng.choice(SHAPES)}) / 4)")
            make.append(f"{name} = np.asarray({name}).astype({kinds} if k < 3 else {last})")
            roll = rng.random()
            if roll < 0.2:
                make.append(f"{name} = np.asfortranarray({name})" if roll < 0.1 else f"{name} = np.repeat({name}, 2, -1)[..., ::2]")
        make += [f"w = [{rng.randrange(5)}, {rng.randrange(5)}, 2, 3][k]", "c = [k, 1.5]"]
        return Program(PRELUDE, make, [*params, "w", "c"])

    def first_row(self, value: Any) -> Any:
        return value[0] if value.ndim and len(value) else value

    def returnable(self, value: Any) -> bool:
        return isinstance(value, (np.ndarray, np.generic, int, float, str, list, tuple, dict, np.dtype, type(None)))


list_items = programs.list_items


def make_runner(args: argparse.Namespace, backend: Backend) -> harness.RunItem:
    return programs.make_runner(args, backend, NumPyPrograms)
