"""Compares two results of one call: equal, agreeing within the type's precision, or different, with the largest error.

Input: any two Python values. Output: a dict of words and numbers. It never raises for odd types: what it cannot compare it says so.
"""

import math
import sys

# Largest error in units of the largest magnitude that a reordered sum or another polynomial may cause.
TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "complex64": 1e-4, "float64": 1e-9, "complex128": 1e-9}
WORST = {"verdict": "equal", "error": 0.0}
ORDER = ("equal", "agree", "unknown", "differ")


def as_array(value):
    """(array in double precision, dtype name) of a tensor, array or number, else ``None``."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        plain = value.detach().cpu()
        if numpy is None:
            return None
        return (plain.double() if value.is_floating_point() else plain).numpy(), name
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        array = numpy.asarray(value)
        return None if array.dtype.hasobject else (array, str(array.dtype))
    return None


def compare(expected, got):
    """``verdict`` (equal, agree, differ, unknown) and the largest ``error`` relative to the largest magnitude."""
    if isinstance(expected, float) and isinstance(got, float):
        return floats(expected, got)
    left, right = as_array(expected), as_array(got)
    if left is not None and right is not None:
        return arrays(*left, *right)
    if type(expected) is not type(got):
        return {"verdict": "differ", "error": None}
    if isinstance(expected, (list, tuple)):
        return worst([compare(a, b) for a, b in zip(expected, got)]) if len(expected) == len(got) else {"verdict": "differ", "error": None}
    if isinstance(expected, dict):
        return (
            worst([compare(expected[key], got[key]) for key in expected])
            if expected.keys() == got.keys()
            else {"verdict": "differ", "error": None}
        )
    try:
        return WORST if expected is got or bool(expected == got) else {"verdict": "unknown", "error": None}
    except Exception:
        return {"verdict": "unknown", "error": None}


def worst(parts):
    """The least favourable of several comparisons."""
    return max(parts, key=lambda part: (ORDER.index(part["verdict"]), part["error"] or 0.0), default=WORST)


def floats(expected, got):
    """Two Python floats."""
    if expected == got or (math.isnan(expected) and math.isnan(got)):
        return WORST
    if not (math.isfinite(expected) and math.isfinite(got)):
        return {"verdict": "differ", "error": None}
    error = abs(expected - got) / max(abs(expected), sys.float_info.min)
    return {"verdict": "agree" if error <= TOLERANCE["float64"] else "differ", "error": error}


def arrays(expected, name, got, other_name):
    """Two arrays; the looser of the two types decides."""
    import numpy

    if expected.shape != got.shape:
        return {"verdict": "differ", "error": None}
    inexact = name in TOLERANCE or other_name in TOLERANCE
    if numpy.array_equal(expected, got, equal_nan=inexact):
        return WORST
    if not inexact:
        return {"verdict": "differ", "error": None}
    with numpy.errstate(all="ignore"):
        same = (expected == got) | (numpy.isnan(expected) & numpy.isnan(got))
        gap = numpy.where(same, 0.0, abs(expected - got))
        finite = numpy.abs(expected[numpy.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    error = float(gap.max()) / scale if scale > 0 else math.inf
    limit = max(TOLERANCE.get(name, 0.0), TOLERANCE.get(other_name, 0.0))
    if not math.isfinite(error):
        return {"verdict": "differ", "error": None}
    return {"verdict": "agree" if error <= limit else "differ", "error": error}


def words(found):
    """The comparison as a clause."""
    if found["verdict"] == "equal":
        return "results equal"
    if found["verdict"] == "unknown":
        return "results cannot be compared"
    verb = "agree" if found["verdict"] == "agree" else "DIFFER"
    return f"results {verb}" + (
        f" (largest error {found['error']:.1e} of the largest value)" if found["error"] is not None else " (other shape, type or value)"
    )
