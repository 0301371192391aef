"""NumPy: scalars stay scalars, dtypes and strides are eager's, warnings follow errstate, views and in-place writes, order."""
import numpy as np
import pytest
from twice import program


def ramp(*shape, dtype="f8"):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@program
def test_scalars_stay_scalars(t):
    @t.compile
    def f(x):
        s = x.sum()
        m = x[0] + 1
        return s, m, s * 2, x * s, type(s).__name__, x.mean() + m, -s, s > 1, float(s), np.float64(3) + s

    for dtype in ("f8", "f8", "f4", "i8", "i4", "u1", "b1", "f2", "f8"):
        t.call(f, np.ones(3, dtype))


@program
def test_zero_dimensional_arrays(t):
    @t.compile
    def f(x):
        return x + 1, x * 2.0, x[()], np.add(x, x), x.reshape(1), np.array(3.0) * x

    t.calls(f, lambda: (np.array(2.0),))
    t.calls(f, lambda: (np.float64(2.0),))
    t.calls(f, lambda: (np.array(2),))


@program
def test_promotion(t):
    @t.compile
    def f(x, y):
        return x + y, x * y, x / 2, x + 1, x + 1.5, x == y, np.maximum(x, y)

    for a in ("f8", "f4", "i8", "i4", "u1", "b1", "c16"):
        for b in ("f8", "f4", "i8", "u1"):
            t.call(f, np.ones(3, a), np.ones(3, b))
            t.call(f, np.ones(3, a), np.ones(3, b))


@program
def test_python_numbers(t):
    @t.compile
    def f(x, n):
        return x + n, x * n, n - x, x**2, x > n

    for n in (2, 2, 3, 2.5, True, np.float32(2), np.int64(2), np.float64(1.5), 300, 2):
        t.call(f, np.ones(3, "f4"), n)
        t.call(f, np.ones(3, "u1"), n)


@program
def test_strides_and_order(t):
    @t.compile
    def f(x):
        return x + 1, x.T * 2, x[::-1] + x, np.exp(x * 0), x.sum(0), x.copy(), x.ravel(), x.reshape(-1) + 1

    for x in (ramp(3, 4), ramp(3, 4), np.asfortranarray(ramp(3, 4)), ramp(3, 4).T, ramp(6, 8)[::2, ::2], ramp(3, 4)[::-1, ::-1],
              np.broadcast_to(ramp(4), (3, 4)), ramp(3, 4)):
        t.call(f, x)


@program
def test_views(t):
    @t.compile
    def f(x):
        row, column, rest, turned = x[0], x[:, 1], x[1:, ::2], x.T
        return row, column, rest, turned, x[...], x[None], x.reshape(4, 3), x.view()

    for _ in range(4):
        x = ramp(3, 4)
        row, *_ = t.call(f, x)
        row += 1
        t.note(x)


@program
@pytest.mark.law(2)
def test_in_place(t):
    @t.compile
    def f(x, y):
        x += y
        x[0] *= 3
        y[:, 1] = x[:, 0]
        x[x > 5] = 0
        np.multiply(x, 2, out=y)
        x.sort(axis=0)
        return x + y

    t.calls(f, lambda: (ramp(3, 4), np.ones((3, 4))), 5)


@program
def test_in_place_casting_error(t):
    @t.compile
    def f(x, y):
        z = y * 2
        x += z
        return x

    for dtype in ("i8", "i8", "f8", "f8", "i8"):
        t.call(f, np.ones(3, "i8"), np.ones(3, dtype))


@program
def test_read_only(t):
    @t.compile
    def f(x, y):
        y = y + 1
        x[0] = 5
        return x + y

    for write in (True, True, True, False, False, True):
        x = np.ones(3)
        x.flags.writeable = write
        t.call(f, x, np.ones(3))


@program
def test_warnings(t):
    @t.compile
    def f(x, y):
        return x / y, np.log(x), np.sqrt(x), x / y * 1e308

    for x, y in ((1.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0), (-1.0, 2.0), (1.0, 1.0)):
        t.call(f, np.full(3, x), np.full(3, y))


@program
@pytest.mark.parametrize("how", ["ignore", "warn", "raise", "print"])
def test_errstate(t, how):
    @t.compile
    def f(x, y):
        z = x * 2
        with np.errstate(divide=how, invalid=how):
            w = z / y
        return w + 1

    for y in (1.0, 1.0, 1.0, 0.0, 0.0, 2.0):
        t.call(f, np.ones(3), np.full(3, y))


@program
def test_integer_traps(t):
    @t.compile
    def f(x, y):
        return x // y, x % y, x * y, abs(x)

    for y in (1, 1, 2, 0, -1, 1):
        t.call(f, np.array([5, -7, 100]), np.full(3, y))


@program
def test_reductions(t):
    @t.compile
    def f(x):
        return (x.sum(), x.sum(axis=1), x.sum(axis=0, keepdims=True), x.max(), x.min(axis=1), x.argmax(), x.any(), x.all(axis=0), x.prod(axis=0),
                (x > 3).sum(), x.cumsum(axis=1))

    for x in (ramp(3, 4), ramp(3, 4), ramp(3, 4, dtype="i4"), ramp(3, 4, dtype="f4"), ramp(1, 4), ramp(3, 1), ramp(3, 4)):
        t.call(f, x)


@program
def test_empty_reductions(t):
    @t.compile
    def f(x):
        y = x * 2
        return y.sum(), y.max()

    for n in (2, 2, 3, 0, 0, 2):
        t.call(f, np.ones(n))


@program
def test_fancy_indexing(t):
    @t.compile
    def f(x, i):
        return x[i] * 2, x[i, 1], x[:, i % 2], np.take(x, i, axis=0), np.where(x > 3, x, -x)

    for i in ([0, 1], [0, 1], [2, 2], [0, 3], [-1, 0], [0, 1]):
        t.call(f, ramp(3, 4), np.array(i))


@program
def test_structured_and_objects(t):
    @t.compile
    def f(x, y):
        y = y + 1
        return x[0], x, y

    t.calls(f, lambda: (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), np.ones(2)))
    t.calls(f, lambda: (np.array([1, "x", None], dtype=object), np.ones(2)))
    t.calls(f, lambda: (np.array(["a", "bc"]), np.ones(2)))
    t.calls(f, lambda: (np.array(["2020-01-01"], dtype="M8[D]"), np.ones(2)))


@program
def test_subclasses(t):
    class Mine(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            calls.append(ufunc.__name__)
            return getattr(ufunc, method)(*(np.asarray(i) for i in inputs), **kwargs)

    calls = []

    @t.compile
    def f(x):
        return x * 2 + 1

    t.calls(f, lambda: (np.ones(3),))
    t.calls(f, lambda: (np.ones(3).view(Mine),))
    t.calls(f, lambda: (np.ma.masked_array([1.0, 2.0], [True, False]),))
    t.calls(f, lambda: (np.matrix([[1.0, 2.0]]),))
    t.note(calls)


@program
def test_random_numbers(t):
    @t.compile
    def f(x):
        y = x + np.random.rand(3)
        return y * np.random.randint(5)

    np.random.seed(3)
    t.calls(f, lambda: (np.ones(3),), 5)


@program
def test_loop_over_array(t):
    @t.compile
    def f(x):
        total = 0
        for v in x:
            total = total + v * 2
        for i in range(len(x)):
            x[i] = x[i] + i
        return total, x

    for n in (3, 3, 5, 80, 3):
        t.call(f, np.ones(n))


@program
def test_grid_relaxation(t):
    @t.compile
    def f(u, n):
        for _ in range(n):
            u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        return u

    for n in (2, 2, 70, 100):
        t.call(f, ramp(5, 5), n)


@program
def test_functions_of_numpy(t):
    @t.compile
    def f(x, y):
        return (np.concatenate([x, y]), np.stack([x, y]), np.clip(x, 1, 2), np.abs(-x), np.dot(x, y), x @ y, np.outer(x, y), np.linspace(0, 1, 4),
                np.arange(3) + x, np.zeros_like(x), np.full(3, 2.5), np.round(x / 3, 1), np.floor(x), np.isnan(x), np.minimum(x, 1))

    t.calls(f, lambda: (ramp(3), np.ones(3)))


@program
def test_smallest_integer_divided(t):
    @t.compile
    def f(x, y):
        return x // y

    for dtype in ("i8", "i4", "i2", "i1"):
        for y in (1, 1, -1, -1, 1):
            t.call(f, np.full(9, np.iinfo(dtype).min, dtype), np.full(9, y, dtype))


@program
def test_warnings_of_what_nobody_reads(t):
    # Dead values, values of which a part is read, values whose reader is dead.
    bodies = ["v = -0.75 / x; v = -0.75 / x", "v = (-0.75 / x)[0]", "v = (-0.75 / x) > 1", "x = (1 / x)[1:] + 1", "x = (1 / x)[1] + 1",
              "v = (x.astype(int) // x.astype(int))[0:1]", "v = np.log(x); v = np.log(x)", "x = (1 / x).reshape(3, 1) + np.zeros((1, 0))",
              "v = (x * 1e300).astype(np.float32) > 0", "x = (1 / x)[::-1][:1] + 1", "y = 1 / x; y[0] = 5; x = y", "x = np.where(x > 0, 1 / x, 0)",
              "x = np.concatenate([1 / x, x])[3:] + 1", "v = (1 / x).max() > 3"]
    for body in bodies:
        names = {"np": np}
        exec(compile(f"def f(x):\n    {body}\n    return x\n", "<cell>", "exec"), names)
        f = t.compile(names["f"])
        for x in ([0.0, 1.5, 0.5], [0.0, 1.5, 0.5], [0.0, 2.5, 0.5], [1.0, 1.5, 0.5], [0.0, 1.5, 0.0]):
            t.call(f, np.array(x))
    names = {"np": np}
    exec(compile("def f(x):\n    for row in 1 / x:\n        y = row\n    return y\n", "<cell>", "exec"), names)
    f = t.compile(names["f"])
    for _ in range(4):
        t.call(f, np.array([0.0, 1.5, 0.5]))


CHOSEN = ["where(x > 0, 1 / x, 0)", "where(x > 0, 1.0, 1 / x)", "where(x > 1, 1 / x, 1 / (x - 0.5))", "where(x > 1, sqrt(x - 1), sqrt(-x))", "where(x > 1, x * 1e308, x)",
          "where(x < 1, where(x < 0.2, 0, 1 / x), log(x))", "where(x != 0, log(x), 0.0)", "where(x > 0, x // 1.0, 1 // x)", "where(x > 0, f4(1) / x.astype(f4), f4(0))",
          "where(x > 0, (1 / x).astype(f4), 2)", "where(x > 0, exp(x * 1e4), 2)", "where(isinf(1 / x), 0, 1 / x)", "maximum(where(x > 1, 1 / x, 2), 1 / x)"]  # fmt: skip


@pytest.mark.parametrize("body", CHOSEN)
@program(hits=0)
def test_flags_of_what_is_not_chosen(t, body):
    """Both sides of a choice are computed, as NumPy does, and their warnings come: at every level, in lanes and in what is left of them."""
    f = t.compile(t.module(f"from numpy import where, sqrt, log, exp, isinf, maximum, float32 as f4\ndef f(x):\n    return {body}\n").f)
    g = t.compile(t.module(f"from numpy import where, sqrt, log, exp, isinf, maximum, float32 as f4\ndef g(x):\n    y = {body}\n    y[0] = 5\n    y[1:2] = 3\n    return y\n").g)
    for n in (3, 3, 8, 3, 17, 8, 3):
        for zero in (0, 1, n - 1):
            x = np.full(n, 1.5)
            x[zero] = 0.0
            t.call(f, x)
            t.call(g, x)


FLAGS = ["np.isnan(z.astype(np.uint8)) / np.isnan(z.astype(np.uint8))", "np.zeros(z.shape) / np.zeros(z.shape)", "np.log(np.zeros(z.shape))", "np.sqrt(np.full(z.shape, -1.0))", "np.full(z.shape, 1e308) * np.full(z.shape, 10.0)",
         "np.full(z.shape, 1e300).astype(np.float32)", "np.full(z.shape, np.float32(0)) / np.float32(0)", "-0.75 / z", "1 / np.where(z, 0.0, 1.0)", "np.log(np.where(z, -1.0, 1.0))", "1 / (z * 1.0)", "1 / z.astype(np.int64)", "1.0 / (z.astype(np.int32) * 1.0)", "z / z", "1 / np.where(z, 0, 1)", "1 / z.astype(np.int8)", "np.where(z, 2, 1) / z.astype(np.uint16)",
         "np.where(z, 0.0, 2.0) / np.where(z, 0.0, 3.0)", "np.sqrt(np.where(z, -1.0, 2.0))", "np.where(z, 1e308, 1.0) * np.where(z, 1e10, 1.0)"]  # fmt: skip


@pytest.mark.parametrize("body", FLAGS)
@program(hits=0)
def test_flags_of_choices_among_constants(t, body):
    """What a compiler could work out while it compiles still warns when it runs: at every level of code, in lanes and in what is left of them."""
    f = t.compile(t.module(f"def f(z):\n    return {body}\n", np=np).f)
    for n in (2, 8, 2, 2, 3, 17, 8, 2):
        for one in (True, False):
            z = np.zeros((n, n), bool)
            z[0, -1] = one
            t.call(f, z)


@program
def test_layout_and_dtype_facts(t):
    @t.compile
    def f(b, c):
        y = b + c
        return (y, y.flags["C_CONTIGUOUS"], y.T.flags.f_contiguous, c.T.flags["C_CONTIGUOUS"], b.flags.writeable, y.astype(np.float32).dtype.name, y.dtype.kind, y.dtype.itemsize,
                y.dtype.str, str(y.dtype))

    t.calls(f, lambda: (ramp(3, 4), ramp(3, 4)))
    t.calls(f, lambda: (ramp(3, 4), np.asfortranarray(ramp(3, 4))))
    t.calls(f, lambda: (ramp(3, 4).astype("f4"), ramp(3, 4)[:, ::2].repeat(2, 1)))


@program(hits=0)
def test_flags_that_guards_do_not_hold(t):
    @t.compile
    def f(x):
        y = x * 2
        return y, x.flags.owndata, x.flags["ALIGNED"], x.flags

    for x in (ramp(4), ramp(8)[:4], ramp(4), np.frombuffer(b"x" * 33, "u1")[1:].view("f8")):
        t.call(f, x)


@program(hits=0)
def test_flags_that_are_set(t):
    @t.compile
    def f(x):
        y = x * 2
        y.flags.writeable = False
        try:
            y[0] = 1
        except ValueError as e:
            return str(e), y.flags
        return y

    t.calls(f, lambda: (ramp(3),))


@program
def test_decompositions(t):
    @t.compile
    def f(x):
        values, vectors = np.linalg.eigh(x.T @ x)
        order = np.argsort(values)[::-1]
        q = np.linalg.qr(x)
        return values[order], np.abs(vectors[:, order]), np.linalg.svd(x).S, q.R * 2, np.linalg.slogdet(x.T @ x).logabsdet

    t.calls(f, lambda: (np.cos(ramp(5, 3)),))


@pytest.mark.parametrize("name", ["add", "maximum", "subtract"])
@program
def test_stores_at_indices(t, name):
    @t.compile
    def f(values, where):
        out = np.zeros(4)
        getattr(np, name).at(out, where, values)
        rows = np.ones((3, 2))
        np.add.at(rows, (where % 3, where % 2), values)
        return out * 2, rows

    t.calls(f, lambda: (ramp(5), np.array([0, 1, 2, 1, 0])))
    t.call(f, ramp(5), np.array([0, 1, 2, 1, 9]))
    t.call(f, ramp(4), np.array([3, 3, 3, 3]))


@program
def test_stores_at_indices_of_an_argument(t):
    @t.compile
    def f(x, where):
        np.add.at(x, where, 1.5)
        np.negative.at(x, where[:1])
        return x.sum()

    t.calls(f, lambda: (ramp(4), np.array([0, 0, 3])))


@program
def test_products_into_out(t):
    @t.compile
    def f(x, y):
        out = np.empty((3, 3))
        z = np.dot(x, y, out=out)
        return z is out, out + 1

    t.calls(f, lambda: (ramp(3, 3), ramp(3, 3) - 4))
    t.call(f, ramp(2, 2), ramp(2, 2))
