"""Random tensors that the proof has not seen, and what torch's public calls say of them."""
import random
import torch

NAMES = {torch.bool: "b8", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint16: "u16", torch.uint32: "u32",
         torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128"}
PLAIN = {torch._C._dispatch_keys(torch.empty(1)).raw_repr()}
with torch.inference_mode():
    PLAIN.add(torch._C._dispatch_keys(torch.empty(1)).raw_repr())


def strangers(n, seed=0):
    rng = random.Random(seed)
    for _ in range(n):
        shape = [rng.randint(0, 4) for _ in range(rng.randint(0, 7))]
        with torch.inference_mode(rng.random() < 0.1):
            t = torch.empty(shape, dtype=rng.choice(list(NAMES)))
            for _ in range(rng.randint(0, 3)):
                t = changed(t, rng.randint(0, 7))
        if rng.random() < 0.1 and t.is_floating_point() and not t.is_inference():
            t = torch.nn.Parameter(t.detach())
        yield t


def changed(t, kind):
    if kind == 0 and t.dim() > 1: return t.transpose(0, 1)
    if kind == 1 and t.dim() and t.shape[0] > 1: return t[1:]
    if kind == 2: return t.unsqueeze(0).expand(3, *t.shape)
    if kind == 3 and t.is_floating_point() and not t.is_inference(): return t.detach().requires_grad_()
    if kind == 4 and t.is_floating_point(): return t * 2
    if kind == 5 and t.is_complex(): return t.conj()
    if kind == 6 and not t.requires_grad and not t.is_inference() and t.dtype not in (torch.uint16, torch.uint32, torch.uint64) and t._base is None: t.zero_()
    if kind == 7 and t.dim() and t.shape[-1] > 2: return t[..., ::2]
    return t


def expected(t):
    """None where the tensor is not plain."""
    keys = torch._C._dispatch_keys(t).raw_repr()
    if keys not in PLAIN or t.dtype not in NAMES:
        return None
    storage = t.untyped_storage()
    return {"sizes": tuple(t.shape), "strides": t.stride(), "numel": t.numel(), "offset": t.storage_offset(), "dtype": NAMES[t.dtype], "device_type": 0, "device_index": -1,
            "requires_grad": t.requires_grad, "has_grad_fn": t.grad_fn is not None, "keys": keys, "storage": storage._cdata, "nbytes": storage.nbytes(),
            "inference": t.is_inference(), "version": 0 if t.is_inference() else t._version, "has_grad": t.is_leaf and t.grad is not None}


def check(door, t):
    got, want = door.read(t), expected(t)
    assert door.plain(t) == (want is not None)
    if want is None:
        assert got is None
        return 0
    data = got.pop("data")
    assert got == want
    if t.numel():
        assert data == t.data_ptr()
    return 1
