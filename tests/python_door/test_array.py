"""Arrays and NumPy scalars are read and made as NumPy itself says and makes them; errstate is the one np.geterr speaks of."""
import contextvars
import sys
import threading
import numpy as np
import pytest
import python_door as door

assert door.numpy_ready()
NAMES = {"bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "f16",
         "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}


def shapes(dtype):
    a = np.arange(120).astype(dtype)
    yield from (a, a.reshape(2, 3, 20), np.asfortranarray(a.reshape(4, 30)), a.reshape(4, 5, 6).transpose(2, 0, 1), a[::-3], a.reshape(10, 12)[2:7, ::5], a[:0], np.zeros((), dtype),
                np.broadcast_to(a[:4], (3, 4)), a.view(), np.empty((3, 0, 2), dtype), a.reshape((1,) * 9 + (120,)))


@pytest.mark.parametrize("dtype", NAMES)
def test_reads_equal_numpys_own(dtype):
    for a in shapes(dtype):
        for writeable in (a.flags.writeable, False):
            if not writeable: a.flags.writeable = False
            assert door.read_array(a) == {"data": a.ctypes.data, "shape": a.shape, "strides": a.strides, "size": a.size, "dtype": NAMES[dtype], "writeable": writeable,
                                          "owns_data": a.flags.owndata, "base": a.base, "c": a.flags.c_contiguous, "f": a.flags.f_contiguous}
            assert door.array_matches(a, a)
        if a.base is None: a.flags.writeable = True


def test_reads_change_no_count():
    base = np.zeros((3, 4))
    a, x = base[1:], np.float64(3)
    before = sys.getrefcount(a), sys.getrefcount(base), sys.getrefcount(a.dtype), sys.getrefcount(x)
    for _ in range(100):
        door.read_array(a), door.array_matches(a, a), door.scalar(x), door.make_array("f64", (3,))
    assert (sys.getrefcount(a), sys.getrefcount(base), sys.getrefcount(a.dtype), sys.getrefcount(x)) == before


class Sub(np.ndarray):
    pass


def unaligned():
    raw = np.zeros(41, np.uint8)
    return raw[1:].view(np.float64)


ODD = [np.zeros(3).view(Sub), np.zeros(3, ">f8"), unaligned(), np.zeros(3, [("a", "f8")]), np.zeros(3, object), np.zeros(3, "U3"), np.zeros(3, np.longdouble), np.zeros(3, np.longlong),
       np.zeros(3, "M8[s]"), np.zeros(3, np.dtype("f8", metadata={"a": 1})), np.ma.zeros(3), np.zeros((2, 2)).view(np.matrix), [1.0], 3, None, np.float64(2)]


@pytest.mark.parametrize("odd", ODD, ids=lambda o: f"{type(o).__name__}-{getattr(o, 'dtype', '')}")
def test_odd_arrays_are_not_plain(odd):
    assert door.read_array(odd) is None and not door.array_matches(np.zeros(3), odd)


def test_matching_compares_every_fact():
    a = np.zeros((3, 4))
    frozen = np.zeros((3, 4))
    frozen.flags.writeable = False
    for other in (np.zeros((3, 5)), np.zeros(12), np.zeros((3, 4), order="F"), np.zeros((3, 4), np.float32), frozen, np.zeros((3, 4, 1))):
        assert not door.array_matches(a, other)
    assert door.array_matches(a, np.ones((3, 4)))


@pytest.mark.parametrize("dtype", NAMES)
def test_scalars(dtype):
    for value in (0, 1, 77):
        x = np.dtype(dtype).type(value)
        name, again = door.scalar(x)
        assert name == NAMES[dtype] and type(again) is type(x) and again == x and again.dtype == x.dtype
    if np.dtype(dtype).kind in "fc":
        _, again = door.scalar(np.dtype(dtype).type("nan"))
        assert again != again


def test_scalars_that_are_not_numpys():
    class F(np.float64):
        pass
    assert door.scalar(np.True_)[1] is np.True_ and door.scalar(np.False_)[1] is np.False_
    for other in (1.0, 1, True, 1j, F(2), np.longdouble(1), np.longlong(2), np.datetime64(3, "s"), np.str_("a"), np.zeros(()), None):
        assert door.scalar(other) is None


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (3, 4, 5), (600, 700)])
def test_made_arrays_are_as_numpys(dtype, shape):
    like = np.empty(shape, dtype)
    a = door.make_array(NAMES[dtype], shape)
    assert type(a) is np.ndarray and a.dtype is like.dtype and a.shape == shape and a.strides == like.strides and a.base is None
    assert str(a.flags) == str(like.flags) and sys.getrefcount(a) == sys.getrefcount(like)
    a[...] = 1
    assert (a == 1).all() and door.read_array(a) is not None


def test_made_in_another_order():
    like = np.empty((4, 5, 6)).transpose(2, 0, 1)
    a = door.make_array("f64", like.shape, like.strides)
    assert a.strides == like.strides and a.flags.owndata and a.base is None
    a[...] = np.arange(120).reshape(like.shape)
    assert a.sum() == 7140
    f = door.make_array("f32", (700, 600), (4, 2800))
    assert f.flags.f_contiguous and f.flags.owndata


def test_errors_are_numpys():
    with pytest.raises((ValueError, MemoryError)):
        door.make_array("f64", (1 << 40, 1 << 40))
    with pytest.raises(MemoryError):
        door.make_array("f64", (1 << 45,))
    with pytest.raises(TypeError):
        door.make_array("bf16", (3,))


def test_large_arrays_stand_on_blocks():
    door.release_blocks()
    a = door.make_array("f64", (1 << 18,))
    pointer = a.ctypes.data
    assert pointer % 64 == 0 and door.idle_bytes() == 0
    view = a[3:]
    del a
    assert door.idle_bytes() == 0                             # the view keeps it
    del view
    assert door.idle_bytes() == 1 << 21
    assert door.make_array("f64", (1 << 18,)).ctypes.data == pointer
    # Other allocations are not ours, and the user's handler is put back.
    assert np.empty(1 << 18).ctypes.data != pointer
    assert door.release_blocks() == 1 << 21 and door.idle_bytes() == 0


def test_large_arrays_resize_pickle_and_copy():
    import pickle
    a = door.make_array("f64", (1 << 18,))
    a[:] = np.arange(1 << 18)
    assert (pickle.loads(pickle.dumps(a)) == a).all()
    a.resize(1 << 19, refcheck=False)
    assert (a[:1 << 18] == np.arange(1 << 18)).all() and not a[1 << 18:].any()
    a.resize(10, refcheck=False)
    assert (a == np.arange(10)).all()
    a.resize(0, refcheck=False)
    door.release_blocks()


def test_blocks_can_be_switched_off():
    door.release_blocks()
    door.use_blocks(False)
    try:
        a = door.make_array("f64", (1 << 18,))
        del a
        assert door.idle_bytes() == 0
    finally:
        door.use_blocks(True)


def test_freed_on_another_thread():
    box = [door.make_array("f64", (1 << 18,))]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert door.idle_bytes() > 0
    door.release_blocks()


MODES = ("ignore", "warn", "raise", "call", "print", "log")


def mask():
    e = np.geterr()
    return sum(MODES.index(e[k]) << 3 * i for i, k in enumerate(("divide", "over", "under", "invalid"))) | (np.geterrcall() is not None) << 32


def test_errstate_is_geterr():
    assert door.errstate() == mask() == 521
    for i in range(60):
        modes = {k: MODES[(i * p + p) % 6] for k, p in (("divide", 1), ("over", 5), ("under", 7), ("invalid", 11))}
        with np.errstate(**modes):
            assert door.errstate() == mask()
            with np.errstate(all="ignore", call=lambda *a: None):
                assert door.errstate() == mask()
            assert door.errstate() == mask()
    assert door.errstate() == 521


def test_errstate_of_threads_and_contexts():
    other = []
    with np.errstate(all="raise"):
        thread = threading.Thread(target=lambda: other.append((door.errstate(), mask())))
        thread.start()
        thread.join()
        contextvars.Context().run(lambda: other.append((door.errstate(), mask())))
        other.append((door.errstate(), mask()))
    old = np.seterr(over="ignore")
    other.append((door.errstate(), mask()))
    np.seterr(**old)
    assert all(a == b for a, b in other) and door.errstate() == 521
