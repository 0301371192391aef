"""Runs plain programs with the last bits of inexact operations moved, and in wider dtypes: what a tolerance is measured by.

torch: a dispatch mode moves the results of gated and ordered operators. NumPy: the module's functions are replaced by moving ones, and
arrays are a subclass whose ufuncs move, which reaches methods and operators. Nothing here runs while a backend is under test.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

TORCH_INEXACT = frozenset(
    """
    sin cos tan tanh sigmoid exp exp2 expm1 log log1p log2 log10 sqrt rsqrt erf erfc erfinv gelu silu softplus pow mean var std norm
    linalg_vector_norm logsumexp _softmax _log_softmax native_layer_norm native_group_norm native_batch_norm reciprocal lerp atan atan2
    asin acos sinh cosh hypot addcdiv linspace index_add scatter_add sin_backward sigmoid_backward tanh_backward gelu_backward elu
    silu_backward softplus_backward _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward leaky_relu addcmul
    var_mean std_mean logaddexp mish selu lgamma digamma cumsum logcumsumexp _scaled_dot_product_flash_attention_for_cpu convolution
    scaled_dot_product_attention nll_loss_forward mse_loss huber_loss smooth_l1_loss linalg_inv_ex _linalg_solve_ex linalg_cholesky_ex
    _linalg_svd _linalg_eigh linalg_qr _fft_r2c _fft_c2r _fft_c2c upsample_bilinear2d upsample_bicubic2d avg_pool2d _adaptive_avg_pool2d
""".split()
)
TORCH_ORDERED = frozenset("sum mm bmm addmm baddbmm dot mv addmv prod cumprod linear einsum".split())
TORCH_ROUNDED = frozenset("add sub mul div rsub remainder fmod".split())  # inexact in the narrow dtypes only
NARROW = (torch.bfloat16, torch.float16)
INTEGER = {torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
NUMPY_INEXACT = frozenset(
    """
    sin cos tan exp exp2 log log1p log2 log10 tanh sinh cosh arcsin arccos arctan cbrt expm1 arctan2 hypot mean var std linspace kron median
    trace power float_power logaddexp logaddexp2 average percentile quantile corrcoef cov interp convolve
""".split()
)
NUMPY_ORDERED = frozenset("sum prod cumsum cumprod matmul dot outer einsum tensordot inner vdot nansum nanmean add multiply".split())


class Shaken(TorchDispatchMode):
    """Moves the results of inexact operators by one unit in the last place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1].rstrip("_")
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, torch.Tensor) and t.dtype in INTEGER and self.inexact(name, func, args, kwargs or {}, t):
                self.move(t)
                if name in TORCH_ORDERED and t.dtype != torch.float64 and not t.isfinite().all():
                    self.reorder(t, self.exactly(func, args, kwargs or {}))
        return out

    @staticmethod
    def inexact(name: str, func: Any, args: Any, kwargs: dict[str, Any], out: torch.Tensor) -> bool:
        if name in TORCH_INEXACT or out.dtype in NARROW and name in TORCH_ORDERED | TORCH_ROUNDED:
            return True
        if name not in TORCH_ORDERED or out.dtype == torch.float64:
            return name in TORCH_ORDERED
        return not torch.equal(Shaken.exactly(func, args, kwargs).to(torch.float64), out.double())

    @staticmethod
    def exactly(func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        wide = [a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
        return func(*wide, **{k: v for k, v in kwargs.items() if k != "dtype"})

    @staticmethod
    def reorder(t: torch.Tensor, exact: torch.Tensor) -> None:
        """Where partial results overflow, infinity or NaN hangs on their order: the result without such overflow, in place."""
        kind = INTEGER[t.dtype]
        bits, other = (v.detach().view(kind).numpy() for v in (t, exact.to(t.dtype)))
        bits[...] = np.where(t.detach().isfinite().numpy(), bits, other)

    def move(self, t: torch.Tensor) -> None:
        """In place, past autograd and version counters."""
        if t.layout != torch.strided or not t.numel():
            return
        bits = t.detach().view(INTEGER[t.dtype]).numpy()
        step = torch.randint(0, 2, t.shape, generator=self.rng).numpy() * 2 - 1  # a step of 0 would say that nothing moves
        plain = t.detach().double().numpy()
        bits += (step * ((plain != 0) & (abs(plain) < 1e30))).astype(bits.dtype)


class MovedArray(np.ndarray):
    """An array whose inexact ufuncs move their results by one unit in the last place."""

    rng: np.random.Generator
    last: Any = None  # what a ufunc moved last: it is not to be moved again, which might put it back

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        bare = [a.view(np.ndarray) if isinstance(a, MovedArray) else a for a in inputs]
        if out:
            kwargs["out"] = tuple(a.view(np.ndarray) if isinstance(a, MovedArray) else a for a in out)
        result = getattr(ufunc, method)(*bare, **kwargs)
        whole = ufunc.__name__ in NUMPY_INEXACT or method in ("reduce", "accumulate", "reduceat") or ufunc.__name__ == "matmul"
        if ufunc.__name__ == "power" and len(inputs) > 1 and np.isscalar(inputs[1]) and inputs[1] in (0, 1, 2):
            whole = False
        moves = whole and ufunc.__name__ in NUMPY_INEXACT | NUMPY_ORDERED
        if moves:
            result = move(result, self.rng)
        if out:
            result = out[0] if len(out) == 1 else out
        elif type(result) is np.ndarray:
            result = result.view(type(self))
        MovedArray.last = result if moves else None
        return result

    def dot(self, other: Any, *out: Any) -> Any:
        return move(super().dot(other, *out), self.rng)


def move(value: Any, rng: np.random.Generator) -> Any:
    """Arrays in place, scalars as new ones; zeros, infinities and NaNs stay."""
    if isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f" and value.dtype.itemsize <= 8:
        toward = rng.choice([-np.inf, np.inf], size=value.shape).astype(value.dtype)
        with np.errstate(all="ignore"):
            shifted = np.where((value == 0) | ~np.isfinite(value), value, np.nextafter(value, toward))
        if isinstance(value, np.ndarray) and value.flags.writeable:  # a 0-d one too: it is what `out=` named
            value[...] = shifted
            return value
        return value.dtype.type(shifted)
    return value


class MovedNumPy:
    """The `numpy` module, with results of inexact functions moved."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in ("linalg", "fft"):
            return MovedModule(found, self.rng)
        if name not in NUMPY_INEXACT and name not in NUMPY_ORDERED or name in ("add", "multiply"):
            return found

        def moved(*args: Any, **kwargs: Any) -> Any:
            with np.errstate(all="ignore"):
                exact = name in NUMPY_ORDERED and is_exact(found, args, kwargs)
            result = found(*args, **kwargs)
            return result if exact or (result is not None and result is MovedArray.last) else move(result, self.rng)

        return moved


class MovedModule:
    """A module of NumPy all of whose functions round."""

    def __init__(self, module: Any, rng: np.random.Generator) -> None:
        self.module, self.rng = module, rng

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if isinstance(found, type) or not callable(found):
            return found

        def moved(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return type(result)(*(move(part, self.rng) for part in result)) if hasattr(result, "_fields") else move(result, self.rng)

        return moved


def is_exact(fn: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether long double gives the same."""
    if "out" in kwargs or "dtype" in kwargs:
        return False
    wide = [a.astype(np.longdouble) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args]
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(np.array_equal(fn(*wide, **kwargs), fn(*args, **kwargs), equal_nan=True))
    return False


class Moving:
    """One moved run: the names to load generated programs with, and the context in which torch's and NumPy's operations move.

    Only calls are made within the context: a function and its arguments are the plain run's own.
    """

    def __init__(self, seed: int, modules: Sequence[Any] = ()) -> None:
        self.modules = [module for module in modules if hasattr(module, "np")]
        self.numpy, self.torch = MovedNumPy(seed), Shaken(seed)
        self.names = {"np": self.numpy}

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        MovedArray.rng = self.numpy.rng
        kept = [module.np for module in self.modules]
        try:
            for module in self.modules:
                module.np = self.numpy
            with self.torch:
                yield
        finally:
            for module, plain in zip(self.modules, kept):
                module.np = plain


def moving_arrays(value: Any) -> Any:
    """The same arguments with arrays of the moving kind; containers are made anew, what else holds arrays is left alone."""
    if type(value) is np.ndarray and value.dtype.kind in "fc":
        return value.view(MovedArray)
    return type(value)(moving_arrays(part) for part in value) if type(value) in (list, tuple) else value


def widened(value: Any) -> Any:
    """The same arguments in the next wider floating dtype."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, torch.nn.Module):
        return value.double()
    if type(value) is np.ndarray and value.dtype.kind == "f":
        return value.astype(np.longdouble if value.dtype.itemsize == 8 else np.float64)
    if type(value) is dict:
        return {key: widened(part) for key, part in value.items()}
    return type(value)(widened(part) for part in value) if type(value) in (list, tuple) else value


@contextlib.contextmanager
def wide() -> Iterator[None]:
    """Within it torch makes float64 where it would make float32."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
