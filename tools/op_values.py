"""Writes tests/graph/op_values.tsv: what torch and NumPy compute, bit for bit, on special and random values.

Lines: `vector name dtype hex` defines an operand; `domain call operands dtype hex` is an answer (`!` in place of dtype: eager raises).
Operands are vector names or Python numbers. Elements are little-endian hex, back to back.
Run: python tools/op_values.py > tests/graph/op_values.tsv
"""

import itertools
import warnings

import numpy
import torch
import torch.nn.functional as functional

warnings.simplefilter("ignore")
torch.set_num_threads(1)

INF, NAN = float("inf"), float("nan")
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -7.25, 1e-3, 100.0, INF, -INF, NAN, 65504.0, -2.5, 6e-8]
LEFT = [0.0, -0.0, 1.0, -1.5, 7.0, -6.0, 0.1, INF, -INF, NAN, 2.5, 1000.0]
INTEGERS = {
    "u8": [0, 1, 2, 7, 200, 255, 3, 16],
    "i8": [0, 1, -1, 7, -7, 127, -128, 3],
    "i32": [0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 40],
    "i64": [0, 1, -1, 7, -7, 2**63 - 1, -(2**63), 1000003],
}
TORCH = {
    "b8": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}  # fmt: skip
NUMPY = {"b8": "?", "u8": "u1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8", "u16": "u2", "u32": "u4", "u64": "u8"}
FLOAT_TYPES = ("f16", "bf16", "f32", "f64")

UNARY = "neg abs sign sqrt reciprocal floor ceil round trunc relu logical_not bitwise_not isnan isinf isfinite signbit exp log tanh".split()
BINARY = (
    "add sub mul div floor_div remainder fmod maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor"
    " bitwise_and bitwise_or bitwise_xor shift_left shift_right copysign pow"
).split()
TORCH_NAMES = {"floor_div": "floor_divide", "shift_left": "bitwise_left_shift", "shift_right": "bitwise_right_shift"}
NUMPY_NAMES = {
    "neg": "negative", "sub": "subtract", "mul": "multiply", "div": "divide", "floor_div": "floor_divide", "pow": "power", "eq": "equal",
    "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "shift_left": "left_shift",
    "shift_right": "right_shift",
}  # fmt: skip
NOT_NUMPY = {"relu"}

vectors = {}


def hex_of(value):
    if isinstance(value, torch.Tensor):
        value = value.contiguous()
        value = value.view(torch.int16).numpy() if value.dtype == torch.bfloat16 else value.numpy()
    return numpy.ascontiguousarray(value).tobytes().hex()


def name_of(value):
    table = TORCH if isinstance(value, torch.Tensor) else {name: numpy.dtype(code) for name, code in NUMPY.items()}
    return next((name for name, dtype in table.items() if dtype == value.dtype), "?")


def vector(name, tensor):
    vectors[name] = tensor
    print("vector", name, name_of(tensor), hex_of(tensor), sep="\t")
    return name


def operand(domain, spec):
    if spec not in vectors:
        return float(spec) if "." in spec else int(spec)
    return vectors[spec] if domain == "torch" else vectors[spec].numpy()


def answer(domain, call, specs, function):
    try:
        result = function(*(operand(domain, spec) for spec in specs))
        # NumPy's integer division by zero only warns; the replay then runs natively, so it is no answer.
        print(domain, call, " ".join(specs), name_of(result), hex_of(result), sep="\t")
    except Exception as error:  # whatever eager raises; but a call that takes no Python number is no question
        if "must be Tensor" in str(error):
            return
        print(domain, call, " ".join(specs), "!", "", sep="\t")


def define_vectors():
    generator = torch.Generator().manual_seed(7)
    for name, dtype in TORCH.items():
        if name in FLOAT_TYPES:
            random = torch.randn(24, generator=generator, dtype=torch.float64) * 3
            vector(f"{name}.x", torch.cat([torch.tensor(FLOATS, dtype=torch.float64), random]).to(dtype))
            pairs = list(itertools.product(LEFT, LEFT))
            vector(f"{name}.l", torch.tensor([a for a, _ in pairs], dtype=torch.float64).to(dtype))
            vector(f"{name}.r", torch.tensor([b for _, b in pairs], dtype=torch.float64).to(dtype))
            for letter in "abc":
                vector(f"{name}.{letter}", (torch.randn(67, generator=generator, dtype=torch.float64) * 2).to(dtype))
        else:
            values = INTEGERS.get(name, [0, 1])
            vector(f"{name}.x", torch.tensor(values, dtype=dtype))
            pairs = [(a, b) for a, b in itertools.product(values, values)]
            vector(f"{name}.l", torch.tensor([a for a, _ in pairs], dtype=dtype))
            vector(f"{name}.r", torch.tensor([b for _, b in pairs], dtype=dtype))
            divisors = [(a, b) for a, b in pairs if b != 0 and not (b == -1 and a == min(values))]
            vector(f"{name}.n", torch.tensor([a for a, _ in divisors], dtype=dtype))
            vector(f"{name}.d", torch.tensor([b for _, b in divisors], dtype=dtype))
            small = [(a, b) for a, b in itertools.product(values, (0, 1, 2, 3, 5)) if b < 2 or name != "b8"]
            vector(f"{name}.p", torch.tensor([a for a, _ in small], dtype=dtype))
            vector(f"{name}.q", torch.tensor([b for _, b in small], dtype=dtype))
    vector("wide", torch.tensor([0.0, -0.7, 255.9, -129.0, 70000.0, 2147483648.0, 3e9, -3e9, 1e19, NAN, INF, -INF, 9.3e18], dtype=torch.float64))
    vector("wide32", vectors["wide"].float())
    vector("ties", torch.tensor([1 + 2**-11, 1 + 2**-11 + 2**-40, 65519.0, 65520.0, 1 + 2**-8, 3e38, 1e-8, -6e-8], dtype=torch.float64))
    vector("classes", torch.tensor([3, 0, 10, -100, 7, 5], dtype=torch.int64))
    vector("outside", torch.tensor([3, 0, 11, -100, 7, 5], dtype=torch.int64))
    vector("big", torch.tensor([2**24 + 1, 2**53 + 1, 2**60 + 2**36 + 1, -(2**62) - 1, 65520, 16777217], dtype=torch.int64))


def rows():
    for domain, library, names in (("torch", torch, TORCH_NAMES), ("numpy", numpy, NUMPY_NAMES)):
        types = [name for name in TORCH if domain == "torch" or name != "bf16"]
        for op in UNARY:
            if domain == "numpy" and op in NOT_NUMPY:
                continue
            for name in types:
                answer(domain, op, [f"{name}.x"], getattr(library, names.get(op, op)))
        for op in BINARY:
            for name in types:
                function = getattr(library, names.get(op, op))
                left, right = f"{name}.l", f"{name}.r"
                if name not in FLOAT_TYPES and op in ("floor_div", "remainder", "fmod"):
                    left, right = f"{name}.n", f"{name}.d"
                if name not in FLOAT_TYPES and op == "pow":
                    left, right = f"{name}.p", f"{name}.q"
                answer(domain, op, [left, right], function)
                for number in ("0.1", "-3.0", "3"):
                    if op in ("pow",) and name not in FLOAT_TYPES:
                        continue
                    answer(domain, op, [f"{name}.x", number], function)
        for exponent in ("0.5", "2", "3", "-1.0", "-2.0", "-0.5", "0", "1"):
            for name in FLOAT_TYPES:
                if name in types:
                    answer(domain, "pow", [f"{name}.x", exponent], lambda x, y: x**y)
        for source in ("wide", "wide32", "ties", "big", "u8.x", "i8.x", "f16.x", "b8.x"):
            for name in types:
                target = TORCH[name] if domain == "torch" else NUMPY[name]
                convert = (lambda x, t=target: x.to(t)) if domain == "torch" else (lambda x, t=target: x.astype(t))
                answer(domain, f"cast_{name}", [source], convert)


def compositions():
    calls = {
        "lerp_0.1": lambda a, b, c: torch.lerp(a, b, 0.1),
        "lerp_0.7": lambda a, b, c: torch.lerp(a, b, 0.7),
        "lerp": torch.lerp,
        "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=0.1),
        "addcmul_1": torch.addcmul,
        "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=0.1),
        "addcdiv_1": torch.addcdiv,
        "add_alpha": lambda a, b, c: torch.add(a, b, alpha=0.1),
        "sub_alpha": lambda a, b, c: torch.sub(a, b, alpha=0.3),
        "number_over": lambda a, b, c: 3.3 / a,
        "rsub": lambda a, b, c: 1.1 - a,
        "square": lambda a, b, c: a.square(),
        "clamp": lambda a, b, c: a.clamp(-0.3, 1.1),
        "clamp_tensors": lambda a, b, c: a.clamp(b, c),
        "masked_fill": lambda a, b, c: a.masked_fill(b > 0, 0.1),
        "leaky_relu": lambda a, b, c: functional.leaky_relu(a, 0.1),
        "elu": lambda a, b, c: functional.elu(a, 1.3),
        "hardtanh": lambda a, b, c: functional.hardtanh(a, -0.4, 0.3),
        "hardswish": lambda a, b, c: functional.hardswish(a),
        "hardsigmoid": lambda a, b, c: functional.hardsigmoid(a),
        "logsigmoid": lambda a, b, c: functional.logsigmoid(a),
        "mish": lambda a, b, c: functional.mish(a),
        "glu": lambda a, b, c: functional.glu(a[:66]),
        "mse": lambda a, b, c: functional.mse_loss(a, b, reduction="none"),
        "l1": lambda a, b, c: functional.l1_loss(a, b, reduction="none"),
        "bce": lambda a, b, c: functional.binary_cross_entropy_with_logits(a, (b > 0).to(a.dtype), reduction="none"),
        "nan_to_num": lambda a, b, c: torch.nan_to_num(torch.where(a > 1, INF, torch.where(a < -1, NAN, a))),
        "tril": lambda a, b, c: torch.tril(a[:64].reshape(8, 8), 1).flatten(),
        "softmax": lambda a, b, c: torch.softmax(a[:66].reshape(6, 11), 1).flatten(),
        "log_softmax": lambda a, b, c: torch.log_softmax(a[:66].reshape(6, 11), 1).flatten(),
        "layer_norm": lambda a, b, c: functional.layer_norm(a[:66].reshape(6, 11), (11,), b[:11], c[:11], 1e-5).flatten(),
        "rms_norm": lambda a, b, c: functional.rms_norm(a[:66].reshape(6, 11), (11,), b[:11], 1e-5).flatten(),
        "gelu": lambda a, b, c: functional.gelu(a),
        "gelu_tanh": lambda a, b, c: functional.gelu(a, approximate="tanh"),
        "silu": lambda a, b, c: functional.silu(a),
        "softplus": lambda a, b, c: functional.softplus(a * 10),
        "mean": lambda a, b, c: a[:66].reshape(6, 11).mean(1),
        "var": lambda a, b, c: a[:66].reshape(6, 11).var(1),
        "std": lambda a, b, c: a[:66].reshape(6, 11).std(0, correction=0),
        "sum": lambda a, b, c: a[:66].reshape(6, 11).sum(1),
        "logsumexp": lambda a, b, c: a[:66].reshape(6, 11).logsumexp(1),
        "argmax": lambda a, b, c: a[:66].reshape(6, 11).argmax(1),
    }
    for call, function in calls.items():
        for name in FLOAT_TYPES:
            answer("torch", call, [f"{name}.a", f"{name}.b", f"{name}.c"], function)


def losses():
    for name in FLOAT_TYPES:
        for target in ("classes", "outside"):
            for reduction in ("none", "mean", "sum"):
                answer(
                    "torch", f"cross_entropy_{reduction}", [f"{name}.a", target],
                    lambda x, t, r=reduction: functional.cross_entropy(x[:66].reshape(6, 11), t, reduction=r),
                )  # fmt: skip


define_vectors()
rows()
losses()
compositions()
