"""Tensors made by us behave as torch.empty_strided's, whatever they stand on."""
import copy
import gc
import io
import os
import pickle
import sys
import threading
import pytest
import torch
import python_door as door
from strangers import NAMES

assert door.ready()
LARGE = 1 << 19                                             # float32 elements: 2 MiB


@pytest.fixture(params=["small", "adopted", "fresh"])
def make(request):
    n = 16 if request.param == "small" else LARGE
    door.large_way(request.param == "fresh")
    if request.param != "small":
        assert door.large_way(None) == request.param
    yield lambda *shape: door.make("f32", shape or (n,), torch.empty(shape or (n,), device="meta").stride())
    door.large_way(False)


def test_a_fresh_tensor(make):
    t = make()
    like = torch.empty(t.shape)
    assert type(t) is torch.Tensor and t._version == 0 and not t.requires_grad and t.is_leaf and t._base is None and not t._is_view()
    assert torch._C._dispatch_keys(t) == torch._C._dispatch_keys(like) and t.stride() == like.stride() and t.dtype is torch.float32 and t.device == like.device
    assert t.untyped_storage().nbytes() == like.untyped_storage().nbytes() and t.untyped_storage().resizable() and t.data_ptr() % 64 == 0
    assert sys.getrefcount(t) == sys.getrefcount(like) and not t.is_inference() and t.storage_offset() == 0
    t.fill_(3)
    assert t._version == 1 and t.sum() == 3 * t.numel() and door.plain(t)


def test_resizing(make):
    t = make().fill_(3)
    n = t.numel()
    t.resize_(2 * n)
    assert t[:n].eq(3).all() and t.untyped_storage().nbytes() == 8 * n
    t = make()
    t.untyped_storage().resize_(0)
    assert t.untyped_storage().nbytes() == 0
    t.untyped_storage().resize_(4 * n)
    t.fill_(1)


def test_sharing_and_saving(make):
    t = make().fill_(3)
    assert pickle.loads(pickle.dumps(t)).eq(3).all() and copy.deepcopy(t).eq(3).all()
    file = io.BytesIO()
    torch.save(t, file)
    file.seek(0)
    assert torch.load(file).eq(3).all()
    array = t.numpy()
    assert array.sum() == 3 * t.numel() and array.ctypes.data == t.data_ptr()
    t.share_memory_()
    assert t.is_shared() and t.eq(3).all()
    u = make()
    u.set_(torch.ones(4))
    assert u.numel() == 4
    v = make()
    v.data = torch.ones(3)
    assert v.shape == (3,)


def test_views_and_gradients(make):
    t = make().fill_(3)
    view = t[1:]
    t.add_(1)
    assert view.eq(4).all() and view._base is t and view._version == t._version
    w = make().fill_(2).requires_grad_()
    (w * 2).sum().backward()
    assert w.grad.eq(2).all()


def test_lazy_clones(make):
    t = make().fill_(3)
    lazy = torch._lazy_clone(t)
    lazy.add_(1)
    assert t.eq(3).all() and lazy.eq(4).all()


def test_inference_mode(make):
    with torch.inference_mode():
        t = make()
        assert t.is_inference() == torch.empty(3).is_inference() is True
        assert torch._C._dispatch_keys(t) == torch._C._dispatch_keys(torch.empty(3))


@pytest.mark.parametrize("dtype", NAMES, ids=str)
def test_every_dtype_and_layout(dtype):
    for shape, stride in (((), ()), ((3,), (1,)), ((2, 3), (3, 1)), ((2, 3), (1, 2)), ((0, 4), (4, 1)), ((2, 3), (10, 2)), ((3, 4), (0, 1)), ((2,) * 7, tuple(2 ** i for i in range(7))),
                          ((700, 800), (1, 700)), ((300, 2, 2000), (4000, 2000, 1))):
        t, like = door.make(NAMES[dtype], shape, stride), torch.empty_strided(shape, stride, dtype=dtype)
        assert t.shape == like.shape and t.stride() == like.stride() and t.dtype is dtype and t.untyped_storage().nbytes() == like.untyped_storage().nbytes()
        assert t.is_contiguous() == like.is_contiguous() and t.numel() == like.numel()
    door.release_blocks()


def test_blocks_are_given_back():
    assert door.large_way(None) == "adopted"
    door.release_blocks()
    block = LARGE * 4

    def make():
        return door.make("f32", (LARGE,), (1,))
    t = make()
    pointer, view = t.data_ptr(), t[5:]
    del t
    assert door.idle_bytes() == 0
    box = [view]
    del view
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert door.idle_bytes() == block
    t = make()
    assert t.data_ptr() == pointer and door.idle_bytes() == 0
    t.resize_(2 * LARGE)
    assert door.idle_bytes() == block
    door.release_blocks()
    for _ in range(300):
        make().fill_(1)
    gc.collect()
    assert door.idle_bytes() <= 2 * block and door.release_blocks() > 0 and door.idle_bytes() == 0


def test_the_cache_is_bounded():
    door.limit_blocks(5 * 4 * LARGE)
    try:
        held = [door.make("f32", (LARGE,), (1,)) for _ in range(9)]
        del held
        assert door.idle_bytes() == 5 * 4 * LARGE
        big = door.make("f32", (LARGE * 8,), (1,))
        del big
        assert door.idle_bytes() == 5 * 4 * LARGE           # larger than the limit: not kept
        door.limit_blocks(0)
        assert door.idle_bytes() == 0
    finally:
        door.limit_blocks(1 << 30)


def test_errors_are_torchs():
    with pytest.raises(RuntimeError):
        door.make("f32", (1 << 44,), (1,))
    with pytest.raises(RuntimeError):
        door.make("f32", (1 << 40, 1 << 40), (1 << 40, 1))
    with pytest.raises(RuntimeError):
        door.make("f32", (-2,), (1,))


def test_fork_while_blocks_are_held():
    t = door.make("f32", (LARGE,), (1,)).fill_(2)
    pid = os.fork()
    if pid == 0:
        ok = float(t[7]) == 2.0
        del t
        u = door.make("f32", (LARGE,), (1,))
        os._exit(0 if ok and u.numel() == LARGE else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert float(t[7]) == 2.0


def test_aliases():
    base = torch.arange(24.0).reshape(4, 6)
    a = door.alias(base, (3, 2), (6, 2), 7)
    assert a.equal(base.as_strided((3, 2), (6, 2), 7)) and a._base is None and a.untyped_storage()._cdata == base.untyped_storage()._cdata
    assert door.alias(base[1:], (2,), (1,), 8).tolist() == [8.0, 9.0]
    base.add_(1)
    assert a[0, 0] == 8.0 and a._version == 0
    for bad in ((25,), (1,), 0), ((2,), (1,), 23), ((2,), (1,), -1):
        with pytest.raises(ValueError):
            door.alias(base, *bad)
    with pytest.raises(TypeError):
        door.alias(torch.ones(2).to_sparse(), (1,), (1,), 0)
