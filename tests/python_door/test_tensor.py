"""Tensors read by the proved offsets say what torch's public calls say; what is not plain is never read."""
import sys
import pytest
import torch
import python_door as door
from strangers import check, strangers

assert door.ready(), door.refusal()
SOURCE = door.source()
DTYPES = {getattr(torch, n): door.dtype_number(k) for n, k in
          dict(bool="b8", uint8="u8", int8="i8", int16="i16", int32="i32", int64="i64", float16="f16", bfloat16="bf16", float32="f32", float64="f64", complex64="c64", complex128="c128").items()}
DEVICES = {"cpu": 0, "cuda": 1, "meta": 14}


def test_layout_is_proved():
    assert door.refusal() is None


def test_three_thousand_strangers():
    plain = sum(check(door, t) for t in strangers(3000))
    assert 2000 < plain < 3000                              # some conj tensors are among them


@pytest.fixture
def samples():
    generator = SOURCE["samples"](DTYPES, DEVICES)
    yield next(generator)
    generator.close()


def test_right_samples_are_proved(samples):
    assert door.probe(samples) is None


@pytest.mark.parametrize("fact", ["impl", "keys", "storage", "data", "nbytes", "numel", "ndim", "dtype", "device", "version", "offset", "leaf_grad", "grad_fn", "grad", "fw_grad", "checked"])
def test_a_falsified_fact_is_refused(samples, fact):
    at = next(i for i, (t, f) in enumerate(samples) if fact in f and not f.get("inference"))
    wrong = [(t, dict(f, **{fact: f[fact] ^ (0x55 if fact not in ("leaf_grad", "grad_fn", "fw_grad", "checked") else 1)}) if i == at else f) for i, (t, f) in enumerate(samples)]
    assert door.probe(wrong)


@pytest.mark.parametrize("keep", [lambda i, t: i < 1, lambda i, t: i < 4, lambda i, t: t.dim() == 1, lambda i, t: t.dtype is torch.float32])
def test_too_few_samples_are_refused(samples, keep):
    assert door.probe([s for i, s in enumerate(samples) if keep(i, s[0])])


def test_no_samples_are_refused():
    assert door.probe([])


class Sub(torch.Tensor):
    pass


@pytest.mark.parametrize("odd", [torch.ones(2).as_subclass(Sub), 3, None, torch.Tensor, object(), torch.ones(2).to_sparse(), torch.ones(2, dtype=torch.complex64).conj(),
                                 torch.ones(2, dtype=torch.complex64).conj().imag, torch._efficientzerotensor(2), torch.empty(2, device="meta"), torch._lazy_clone(torch.ones(2)),
                                 torch.nn.UninitializedParameter(), torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)], ids=lambda o: type(o).__name__)
def test_odd_objects_are_not_plain(odd):
    assert not door.plain(odd) and door.read(odd) is None
    with pytest.raises(TypeError):
        door.matches(odd, odd)


def test_duals_and_transformed_tensors_are_not_plain():
    import torch.autograd.forward_ad as fwd
    with fwd.dual_level():
        assert not door.plain(fwd.make_dual(torch.ones(2), torch.ones(2)))
    seen = []
    torch.func.vmap(lambda x: (seen.append(door.plain(x)), x)[1])(torch.ones(3, 2))
    torch.func.grad(lambda x: (seen.append(door.plain(x)), x.sum())[1])(torch.ones(3))
    assert seen == [False, False]


def test_matching_compares_every_fact():
    a = torch.empty(3, 4)
    assert door.matches(a, torch.empty(3, 4)) and door.matches(a, a)
    for other in (torch.empty(3, 5), torch.empty(4, 3).t(), torch.empty(3, 4, dtype=torch.int32), torch.empty(3, 4, requires_grad=True), torch.nn.Parameter(a, requires_grad=False),
                  torch.empty(12), torch.empty(3, 4, 1), torch._lazy_clone(torch.empty(3, 4)), torch.empty(3, 4, device="meta"), None, 3.0):
        assert not door.matches(a, other)
    with torch.inference_mode():
        assert not door.matches(a, torch.empty(3, 4))
    assert door.matches(a, torch.empty(3, 4)[:, :])
    assert not door.matches(a.detach().requires_grad_() * 2, a)


def test_an_open_size_matches_any_number():
    a = torch.empty(3, 4)
    assert door.matches(a, torch.empty(7, 4), 0) and not door.matches(a, torch.empty(7, 5), 0) and not door.matches(a, torch.empty(7, 4), 1)


def test_versions():
    t = torch.zeros(3)
    view = t[1:]
    door.bump(t)
    assert t._version == view._version == 1 and door.read(view)["version"] == 1
    with torch.inference_mode():
        u = torch.zeros(3)
    door.bump(u)
    assert door.read(u)["version"] == 0
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    door.bump(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_reads_change_no_count():
    t = torch.randn(3, 4, requires_grad=True)
    before = sys.getrefcount(t)
    uses = torch._C._use_count(t) if hasattr(torch._C, "_use_count") else None
    for _ in range(100):
        door.read(t), door.plain(t), door.matches(t, t), door.bump(t)
    assert sys.getrefcount(t) == before
    assert uses is None or torch._C._use_count(t) == uses


def test_a_changed_tensor_is_read_anew():
    t = torch.zeros(2, 3)
    t.resize_(4, 4)
    assert door.read(t)["sizes"] == (4, 4)
    t.data = torch.ones(5, dtype=torch.float64)
    assert door.read(t)["dtype"] == "f64" and door.read(t)["data"] == t.data_ptr()
    t = torch.zeros(3, requires_grad=True)
    t.sum().backward()
    assert door.read(t)["has_grad"]
    t.requires_grad_(False)
    assert not door.read(t)["requires_grad"]
