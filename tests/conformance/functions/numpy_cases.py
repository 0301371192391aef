"""Numeric work in NumPy: 34 functions of the corpus."""

from __future__ import annotations


import numpy as np

from functions.cases import case


@case(lambda g: (g.a(g.n, 3), g.a(5, 3)), "broadcast")
def n_pairwise_distances(x, y):
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


@case(lambda g: (g.a(4 * g.n, 2), g.a(3, 2)), "mask loop index")
def n_kmeans_step(points, centres):
    d = ((points[:, None] - centres[None]) ** 2).sum(2)
    label = d.argmin(1)
    new = centres.copy()
    for k in range(len(centres)):
        mine = points[label == k]
        if len(mine):
            new[k] = mine.mean(0)
    return new, label, d.min(1).sum()


@case(lambda g: (g.a(g.n, 4), g.i(3, g.n), g.a(4, 3) * 0.1, 0.1), "loop fancy-index")
def n_softmax_regression(x, y, w, rate):
    onehot = np.eye(3)[y]
    losses = []
    for _ in range(5):
        z = x @ w
        z -= z.max(1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(1, keepdims=True)
        losses.append(-np.log(p[np.arange(len(y)), y]).mean())
        w = w - rate * x.T @ (p - onehot) / len(x)
    return w, losses


@case(lambda g: (100 * g.u(g.n) + 50, 100.0, g.u(g.n), 0.02, 0.3), "python-float")
def n_black_scholes(spot, strike, t, r, sigma):
    d1 = (np.log(spot / strike) + (r + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)
    cdf = lambda z: 0.5 * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return spot * cdf(d1) - strike * np.exp(-r * t) * cdf(d2)


@case(lambda g: (-2.0, 0.5, 24 + g.seed, 16, 20), "complex mask inplace loop scalars-only")
def n_mandelbrot(x0, x1, w, h, limit):
    c = np.linspace(x0, x1, w)[None, :] + 1j * np.linspace(-1.2, 1.2, h)[:, None]
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.int32)
    for k in range(limit):
        alive = np.abs(z) <= 2
        z[alive] = z[alive] ** 2 + c[alive]
        count[alive] = k
    return count


@case(lambda g: (g.a(5 + g.seed, 3), g.a(5 + g.seed, 3) * 0.1, g.u(5 + g.seed), 0.01, 4), "mutates-args loop inplace")
def n_nbody(pos, vel, mass, dt, steps):
    for _ in range(steps):
        d = pos[None] - pos[:, None]
        r2 = (d**2).sum(-1) + 1e-3
        vel += dt * (mass[None, :, None] * d * (r2**-1.5)[..., None]).sum(1)
        pos += dt * vel
    return 0.5 * (mass * (vel**2).sum(1)).sum()


@case(lambda g: (g.i(2, 12 + g.seed, 12), 3), "int roll bool")
def n_game_of_life(board, steps):
    for _ in range(steps):
        n = sum(np.roll(np.roll(board, dy, 0), dx, 1) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))
        board = ((n == 3) | ((board == 1) & (n == 2))).astype(board.dtype)
    return board


@case(lambda g: (g.a(16, 12 + g.seed), g.a(3, 3)), "slicing loop inplace")
def n_convolution_by_slicing(image, kernel):
    h, w = image.shape
    kh, kw = kernel.shape
    out = np.zeros((h - kh + 1, w - kw + 1))
    for i in range(kh):
        for j in range(kw):
            out += kernel[i, j] * image[i : i + h - kh + 1, j : j + w - kw + 1]
    return out


@case(lambda g: (g.a(64 + g.seed), 0.2), "fft complex mask inplace")
def n_fft_low_pass(signal, cut):
    spectrum = np.fft.rfft(signal)
    spectrum[np.fft.rfftfreq(len(signal)) > cut] = 0
    return np.fft.irfft(spectrum, n=len(signal))


@case(lambda g: (g.a(10 + g.seed),), "loop linalg lists")
def n_kalman_filter(z):
    f, h, q, r = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), 0.01 * np.eye(2), np.array([[0.5]])
    x, p, track = np.zeros((2, 1)), np.eye(2), []
    for value in z:
        x, p = f @ x, f @ p @ f.T + q
        k = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        x = x + k * (value - (h @ x))
        p = (np.eye(2) - k @ h) @ p
        track.append(x[0, 0])
    return np.array(track), p


@case(lambda g: (g.u(g.n) * 5,), "while data-dependent")
def n_newton_square_root(a):
    x = np.ones_like(a)
    steps = 0
    while np.max(np.abs(x * x - a)) > 1e-10:
        x = 0.5 * (x + a / x)
        steps += 1
        if steps > 50:
            raise RuntimeError("no convergence")
    return x, steps


@case(lambda g: (g.u(8, 8 + g.seed),), "while inplace views")
def n_jacobi_heat(u):
    u = u.copy()
    change, k = 1.0, 0
    while change > 5e-3 and k < 200:
        old = u[1:-1, 1:-1].copy()
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        change = float(np.abs(u[1:-1, 1:-1] - old).max())
        k += 1
    return u, k


@case(lambda g: (g.a(20, 3 + g.seed),), "linalg eigh sort")
def n_pca(x):
    x = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(x.T @ x / (len(x) - 1))
    order = np.argsort(values)[::-1]
    return values[order], np.abs(vectors[:, order])


@case(lambda g: (g.a(g.n, 3), g.a(g.n)), "linalg lstsq")
def n_least_squares(x, y):
    a = np.column_stack([np.ones(len(x)), x])
    coef = np.linalg.solve(a.T @ a, a.T @ y)
    resid = y - a @ coef
    return {"coef": coef, "r2": 1 - (resid**2).sum() / ((y - y.mean()) ** 2).sum()}


@case(lambda g: (g.a(g.n, g.n), 1.5), "where nan")
def n_robust_clip(x, limit):
    z = (x - np.median(x)) / np.std(x)
    x = np.where(np.abs(z) > limit, np.nan, x)
    return np.nanmean(x, axis=0), np.isnan(x).sum(), np.nan_to_num(x, nan=-1.0)


@case(lambda g: (g.i(6, 40 + g.seed),), "unique histogram data-dependent-shape")
def n_histogram_unique(x):
    values, counts = np.unique(x, return_counts=True)
    h, edges = np.histogram(x, bins=3)
    return values, counts, h, edges, np.bincount(x, minlength=8)


@case(lambda g: (g.a(30 + g.seed), 5), "strides window")
def n_moving_average(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w)
    c = np.cumsum(np.insert(x, 0, 0.0))
    return windows.mean(-1), (c[w:] - c[:-w]) / w, np.convolve(x, np.ones(w) / w, mode="valid")


@case(lambda g: (2000 + g.seed,), "random global-rng")
def n_monte_carlo_pi(n):
    p = np.random.rand(n, 2)
    return 4.0 * np.mean((p**2).sum(1) < 1.0)


@case(lambda g: (6 + g.seed, 12), "random generator-object")
def n_random_walk(walkers, steps):
    rng = np.random.default_rng(7)
    return rng.choice([-1, 1], size=(walkers, steps)).cumsum(axis=1)


@case(lambda g: (g.a(4, 5 + g.seed), g.a(5 + g.seed, 6), g.a(6)), "einsum")
def n_einsum_chain(a, b, c):
    return np.einsum("ij,jk,k->i", a, b, c), np.einsum("ij->ji", a), np.einsum("ij,ij->", a, a)


@case(
    lambda g: (np.array([250, 255, 3], dtype=np.uint8), np.array([1, 2, 3], dtype=np.int8), np.float32(1.5), g.a(3, dtype=np.float32)),
    "dtype-promotion overflow",
    seeds=(0, 0),
)
def n_promotion(a, b, s, f):
    with np.errstate(all="ignore"):
        return (
            a + np.uint8(10),
            a + b,
            a / 2,
            a // 2,
            b * 100,
            f * 2,
            f * s,
            f + np.float64(1),
            a + 1.0,
            (a > 3) + a,
            np.mean(a),
            np.sum(b),
            f.astype(np.float16) * 3,
        )


@case(lambda g: (np.array([7, -7, 5, 0]), np.array([3, 3, -2, 5])), "int-division", seeds=(0, 0))
def n_integer_division(a, b):
    return a // b, a % b, np.divmod(a, b), a / b, np.power(a, 2), a**3, a << 2, a >> 1, ~a, a & b, a ^ b


@case(lambda g: (np.array([1.0, 0.0, -1.0, np.inf, np.nan]), np.array([0.0, 0.0, 0.0, np.inf, 1.0])), "nan inf warnings", seeds=(0, 0))
def n_special_values(a, b):
    with np.errstate(divide="ignore", invalid="ignore"):
        return a / b, np.sqrt(a), np.log(a), np.maximum(a, b), np.fmax(a, b), np.sign(a), np.isfinite(a), a == b, np.where(a > 0, a, -0.0)


@case(lambda g: (np.zeros((0, 3)), np.zeros((4, 0))), "zero-size", seeds=(0, 0))
def n_zero_size(a, b):
    return (
        a.sum(),
        a.sum(0),
        a.mean(0) if len(a) else None,
        b @ np.zeros((0, 2)),
        np.concatenate([a, np.ones((1, 3))]),
        a.reshape(3, 0),
        b.any(),
        b.all(),
        a.max(initial=-1.0),
    )


@case(lambda g: (np.array(3.0), np.float64(2.0), 5), "0-d numpy-scalar", seeds=(0, 0))
def n_zero_dim(a, b, c):
    d = a + b
    return (
        d,
        type(d).__name__,
        a * c,
        np.asarray(c).shape,
        a[()],
        (a + np.ones(2))[0],
        float(a),
        d.item(),
        type((np.ones(2) * 2).sum()).__name__,
    )


@case(lambda g: (g.a(6, 8).T[::2], np.broadcast_to(g.a(4), (3, 4)), np.asfortranarray(g.a(3, 4))), "strided expanded fortran", seeds=(0, 0))
def n_strided(a, b, c):
    return (
        a * 2,
        b + c,
        a.ravel(),
        c.ravel(order="K"),
        a[::-1, ::-2],
        np.ascontiguousarray(a),
        (b + c).flags["C_CONTIGUOUS"],
        c.T.flags["C_CONTIGUOUS"],
    )


@case(lambda g: (g.a(4, 6),), "alias views mutates-args")
def n_views_alias(x):
    row, col, flat = x[1], x[:, 2], x.reshape(-1)
    row += 10
    col[:] = 0
    flat[::5] *= -1
    return row, flat[3:6], x.T


@case(lambda g: (g.a(g.n), g.i(4, g.n)), "inplace scatter")
def n_scatter_add(values, where):
    out = np.zeros(4)
    np.add.at(out, where, values)
    peak = np.full(4, -np.inf)
    np.maximum.at(peak, where, values)
    return out, peak, np.argsort(where, kind="stable"), np.searchsorted(np.sort(values), 0.0)


@case(lambda g: (g.a(g.n, 3), "abc"[g.seed % 3]), "string-branch")
def n_norm_by_name(x, kind):
    if kind == "a":
        return np.abs(x).sum(1)
    elif kind == "b":
        return np.sqrt((x * x).sum(1))
    return np.abs(x).max(1)


@case(lambda g: (g.a(5, 5), g.a(5, 5)), "out-argument mutates-args")
def n_out_argument(a, b):
    np.multiply(a, 2.0, out=a)
    np.add(a, b, out=b)
    return np.dot(a, b, out=np.empty((5, 5)))


@case(lambda g: (g.u(3, 3),), "loop matrix-power")
def n_markov_stationary(p):
    p = p / p.sum(1, keepdims=True)
    v = np.full(len(p), 1 / len(p))
    for _ in range(100):
        nxt = v @ p
        if np.allclose(nxt, v, atol=1e-12):
            break
        v = nxt
    return v, np.linalg.matrix_power(p, 5)


@case(lambda g: (g.u(4, 4) * 255,), "astype round uint8")
def n_image_to_uint8(img):
    grey = img.mean(-1)
    return np.clip(img.round(), 0, 255).astype(np.uint8), grey.astype(int), img.astype(np.float32).dtype.name


@case(lambda g: (g.a(6, 4), g.a(6)), "structured record", seeds=(0, 0))
def n_structured_array(x, y):
    rec = np.zeros(len(y), dtype=[("id", "i4"), ("value", "f8")])
    rec["id"] = np.arange(len(y))
    rec["value"] = y
    rec.sort(order="value")
    return rec["id"].copy(), rec["value"] + x[:, 0]


@case(lambda g: (g.a(3, 4),), "method-chain comparison", seeds=(0, 0, 1))
def n_masked_assign(x):
    x = x.copy()
    x[x < 0] = 0
    x[x > 1] **= 2
    x[[0, 2], [1, 3]] = 9.0
    i, j = np.nonzero(x)
    return x, i, j, x[i, j], np.argwhere(x == 9.0)
