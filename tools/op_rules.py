"""Writes tests/graph/op_rules.tsv: the result dtype of every elementwise row, reduction and composite, asked of torch and NumPy.

Columns: domain, op, first operand, then cells second operand=result ("-": no second operand; "!": refused). Operands are dtype:kind, kind
t = a value with dims, z = a 0-d value, w = a Python number. Cells are missing where the call takes no Python number at all.
Run with a Python that has both libraries: python tools/op_rules.py > tests/graph/op_rules.tsv
"""

import warnings

import numpy
import torch

warnings.simplefilter("ignore")

TORCH_DTYPES = {
    "b8": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}  # fmt: skip
NUMPY_DTYPES = {
    "b8": numpy.bool_, "u8": numpy.uint8, "i8": numpy.int8, "i16": numpy.int16, "i32": numpy.int32, "i64": numpy.int64,
    "u16": numpy.uint16, "u32": numpy.uint32, "u64": numpy.uint64, "f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64,
}  # fmt: skip
NUMBERS = {"b8": True, "i64": 2, "f64": 1.5}

UNARY = (
    "neg abs sign sqrt rsqrt reciprocal floor ceil round trunc relu logical_not bitwise_not isnan isinf isfinite signbit exp exp2 expm1"
    " log log2 log10 log1p sin cos tan atan asin acos sinh cosh tanh erf sigmoid"
).split()
BINARY = (
    "add sub mul div floor_div remainder fmod pow atan2 hypot maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or"
    " logical_xor bitwise_and bitwise_or bitwise_xor shift_left shift_right copysign"
).split()
REDUCTIONS = "sum prod amax amin argmax argmin any all mean var softmax log_softmax logsumexp".split()

TORCH_NAMES = {"floor_div": "floor_divide", "shift_left": "bitwise_left_shift", "shift_right": "bitwise_right_shift"}
NUMPY_NAMES = {
    "neg": "negative", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sub": "subtract", "mul": "multiply", "div": "divide",
    "floor_div": "floor_divide", "pow": "power", "atan2": "arctan2", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "shift_left": "left_shift", "shift_right": "right_shift",
}  # fmt: skip
NOT_NUMPY = {"rsqrt", "relu", "erf", "sigmoid", "softmax", "log_softmax", "logsumexp"}


def value(library, dtypes, spec):
    name, kind = spec
    if kind == "w":
        return NUMBERS[name]
    shape = (3, 3) if kind == "t" else ()
    return library.ones(shape, dtype=dtypes[name])


def ask(library, dtypes, function, specs):
    names = {library.ones((), dtype=dtype).dtype: name for name, dtype in dtypes.items()}
    try:
        return names.get(function(*(value(library, dtypes, spec) for spec in specs)).dtype, "!")
    except TypeError as error:
        return "?" if "must be Tensor" in str(error) else "!"
    except Exception:  # every other refusal counts alike
        return "!"


def unary_rows(ops, library, dtypes, function):
    for op in ops:
        for name in dtypes:
            yield op, (name, "t"), ["-=" + ask(library, dtypes, function(op), [(name, "t")])]


def binary_rows(ops, library, dtypes, function):
    seconds = [(name, kind) for kind in "tz" for name in dtypes] + [(name, "w") for name in NUMBERS]
    for op in ops:
        for name in dtypes:
            first = (name, "t")
            answers = [(second, ask(library, dtypes, function(op), [first, second])) for second in seconds]
            yield op, first, [f"{spec}:{kind}={answer}" for (spec, kind), answer in answers if answer != "?"]


def rows(domain, library, dtypes, names):
    def function(op):
        if op == "where":
            condition = library.ones((3, 3), dtype=dtypes["b8"])
            return lambda x, y: library.where(condition, x, y)
        if op in REDUCTIONS:
            axis = {"axis": 1} if domain == "numpy" else {"dim": 1}
            return lambda x: getattr(library, op)(x, **axis)
        return getattr(library, names.get(op, op))

    skip = NOT_NUMPY if domain == "numpy" else set()
    yield from unary_rows([op for op in UNARY + REDUCTIONS if op not in skip], library, dtypes, function)
    yield from binary_rows(BINARY + ["where"], library, dtypes, function)


def main():
    print("domain\top\tfirst\tsecond=result")
    for domain, library, dtypes, names in (
        ("torch", torch, TORCH_DTYPES, TORCH_NAMES),
        ("numpy", numpy, NUMPY_DTYPES, NUMPY_NAMES),
    ):
        for op, (name, kind), cells in rows(domain, library, dtypes, names):
            print(domain, op, f"{name}:{kind}", " ".join(cells), sep="\t")


if __name__ == "__main__":
    main()
