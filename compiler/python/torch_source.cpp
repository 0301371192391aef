// The samples and switches of the proof, as Python that only torch's own calls can be trusted to answer.
// It must leave no trace: no random number drawn, no CUDA started, no mode of the user's run, all state put back.
#include "compiler/python/torch_source.h"

namespace dyno::python {

const char* const torch_source = R"python(
import contextlib
import functools
import torch

C = torch._C
F32 = torch.float32


def ready():
    """Is this thread in a state in which samples come out plain? Modes and transforms see every call; they are left in peace."""
    return C._len_torch_dispatch_stack() == 0 and C._functorch.peek_interpreter_stack() is None and C._is_torch_function_enabled()


@contextlib.contextmanager
def clean_state():
    """No function mode (a default device is one), no autocast, grad on, inference mode off; then everything as it was."""
    modes = []
    autocast = [d for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)]
    while C._len_torch_function_stack():
        modes.append(C._pop_torch_function_stack())
    try:
        for device in autocast:
            torch.set_autocast_enabled(device, False)
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for device in autocast:
            torch.set_autocast_enabled(device, True)
        while modes:
            C._push_on_torch_function_stack(modes.pop())


def gelu_drops_zero_sign():
    """oneDNN's code for it differs from processor to processor."""
    with clean_state():
        zeros = torch.zeros(2, dtype=F32, device="cpu").neg()
        return not torch._C._nn.gelu(zeros).signbit().any().item()


def facts(t, dtype_ids, device_ids, **more):
    """What the public calls say; a fact that a tensor cannot answer is left out."""
    out = {"impl": t._cdata, "keys": C._dispatch_keys(t).raw_repr(), "numel": t.numel(), "ndim": t.dim(), "sizes": tuple(t.shape),
           "dtype": dtype_ids[t.dtype], "device": device_ids[t.device.type] | ((-1 if t.device.index is None else t.device.index) & 0xFF) << 8,
           "conj": int(t.is_conj()), "neg": int(t.is_neg()), "zero": int(t._is_zerotensor())}
    if t.is_inference():
        out["inference"] = 1
    else:
        out["version"] = t._version
    if t.layout is torch.strided:
        storage = t.untyped_storage()
        out.update(strides=tuple(t.stride()), offset=t.storage_offset(), storage=storage._cdata, nbytes=storage.nbytes())
        if not more.get("checked"):
            with contextlib.suppress(Exception):
                out["data"] = storage.data_ptr()
                out["checked"] = 0
    if t.requires_grad or t.grad_fn is not None:
        out["meta"] = 1
    out["leaf_grad"] = int(t.is_leaf and t.requires_grad)
    out["grad_fn"] = int(t.grad_fn is not None)
    if t.is_leaf and t.grad is not None:
        out["grad"] = t.grad._cdata
    out.update(more)
    return out


def shaped_samples(add, dtypes):
    for n, dtype in enumerate(dtypes):
        add(torch.empty(2, 3 + n, dtype=dtype, device="cpu"), meta=0)
    for ndim in range(9):
        shape = tuple(range(2, 2 + ndim))[::-1] if ndim < 6 else (2, 1, 3, 1, 2, 1, 4, 3, 1)[:ndim]
        t = torch.empty(shape, dtype=F32, device="meta" if ndim > 6 else "cpu")
        add(t.transpose(0, -1) if ndim > 1 else t)
    base = torch.empty(120, dtype=F32, device="cpu")
    add(base.as_strided((3, 4), (1, 7), 5))
    add(base.as_strided((2, 2, 2), (40, 9, 2), 11))
    add(base[17:31].expand(6, 14), fw_grad=0)
    for n in (96, 280):
        add(torch.frombuffer(bytearray(n), dtype=torch.float64))     # here the data is not the context of its deleter
    add(torch.empty(0, 4, dtype=F32, device="cpu"))
    add(torch.empty(3, 7, dtype=F32, device="meta"), meta=0)


def odd_samples(add):
    z = torch.empty(4, 5, dtype=torch.complex64, device="cpu")
    add(z.conj())
    add(z.conj().imag)
    add(z.real)
    add(torch._efficientzerotensor((2, 9), dtype=F32, device="cpu"))
    add(torch.eye(3, dtype=F32, device="cpu").to_sparse())
    for bumps in (1, 4, 9):
        t = torch.zeros(bumps, 2, dtype=F32, device="cpu")
        for _ in range(bumps):
            t.add_(1)
        add(t)
    with torch.inference_mode():
        add(torch.empty(5, 2, dtype=F32, device="cpu"))
        add(torch.empty(3, dtype=F32, device="cpu"))
    for n in (2, 5, 9, 40):
        add(torch._lazy_clone(torch.empty(n, 3, dtype=F32, device="cpu")), checked=1)


def grad_samples(add):
    for n in (3, 6):
        p = torch.nn.Parameter(torch.zeros(n, 2, dtype=F32, device="cpu"))
        q = torch.zeros(n + 1, dtype=F32, device="cpu", requires_grad=True)
        r = torch.zeros(n, dtype=F32, device="cpu", requires_grad=True)
        y = p + p                                                    # saves nothing: hooks on saved tensors are not called
        p.grad = torch.zeros_like(p)                                 # by hand: the engine and its threads are the user's to start
        q.grad = torch.zeros_like(q)
        for t in (p, q, r, y, y[1:]):
            add(t, fw_grad=0)


def samples(dtype_ids, device_ids):
    """Some fifty tensors; each fact takes several values, and no two facts move together."""
    made = []

    def add(t, **more):
        made.append((t, facts(t, dtype_ids, device_ids, **more)))

    with clean_state():
        shaped_samples(add, tuple(dtype_ids))
        odd_samples(add)
        grad_samples(add)
        if torch.cuda.is_initialized():                              # never the proof that starts CUDA
            for d in range(torch.cuda.device_count()):
                add(torch.empty(3, 4 + d, dtype=F32, device=f"cuda:{d}"), meta=0)
                add(torch.empty(5, 4 + d, dtype=F32, device=f"cuda:{d}")[1:])
        level = C._enter_dual_level()                                # forward_ad.make_dual would script functions at its first use
        try:
            for n in (4, 3):
                add(torch._VF._make_dual(torch.zeros(n, dtype=F32, device="cpu"), torch.zeros(n, dtype=F32, device="cpu"), level), fw_grad=1)
            yield made                                               # the tangents die with the level
        finally:
            C._exit_dual_level(level)


def plain_keys(device):
    with clean_state():
        plain = torch.empty(2, dtype=F32, device=device)
        with torch.inference_mode():
            inference = torch.empty(2, dtype=F32, device=device)
        return [C._dispatch_keys(plain).raw_repr(), C._dispatch_keys(inference).raw_repr()]


def entered(make):
    open_ones = []

    def on():
        manager = make()
        manager.__enter__()
        open_ones.append(manager)

    return on, lambda: open_ones.pop().__exit__(None, None, None)


def nothing(x):
    return x


def switches():
    """Switches of this thread, then of the process. `off` puts back what `on` changed; the process's own are single C calls."""
    class Function(torch.overrides.TorchFunctionMode):
        pass

    class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
        pass

    call = functools.partial
    with clean_state():
        deterministic, warn = C._get_deterministic_algorithms(), C._get_deterministic_algorithms_warn_only()
        fill = C._get_deterministic_fill_uninitialized_memory()
        out = [
            ("grad", call(C._set_grad_enabled, False), call(C._set_grad_enabled, True), True),
            ("inference", *entered(torch.inference_mode), True),
            ("view replay", call(C._set_view_replay_enabled, not C._is_view_replay_enabled()), call(C._set_view_replay_enabled, C._is_view_replay_enabled()), False),
            ("dispatch mode", call(C._push_on_torch_dispatch_stack, Dispatch()), call(C._pop_torch_dispatch_stack, None), True),
            ("transform", call(C._functorch._vmap_increment_nesting, 2, "error"), C._functorch._vmap_decrement_nesting, True),
            ("autocast", call(torch.set_autocast_enabled, "cpu", True), call(torch.set_autocast_enabled, "cpu", False), True),
            ("autocast", call(torch.set_autocast_enabled, "cuda", True), call(torch.set_autocast_enabled, "cuda", False), True),
            ("function mode", call(C._push_on_torch_function_stack, Function()), C._pop_torch_function_stack, True),
            ("function disabled", *entered(C.DisableTorchFunctionSubclass), True),
            ("function disabled", *entered(C.DisableTorchFunction), True),
            ("hooks", call(C._autograd._push_saved_tensors_default_hooks, nothing, nothing), C._autograd._pop_saved_tensors_default_hooks, False),
            ("deterministic", call(C._set_deterministic_algorithms, not deterministic, warn_only=not warn), call(C._set_deterministic_algorithms, deterministic, warn_only=warn), True),
            ("fill", call(C._set_deterministic_fill_uninitialized_memory, not fill), call(C._set_deterministic_fill_uninitialized_memory, fill), False),
        ]
        with contextlib.suppress(Exception):                         # raises where old and new spellings were mixed
            if not C._get_cublas_allow_tf32() and C._get_float32_matmul_precision() == "highest":
                out.append(("tf32", call(C._set_cublas_allow_tf32, True), call(C._set_cublas_allow_tf32, False), False))
        yield out
)python";

} // namespace dyno::python
