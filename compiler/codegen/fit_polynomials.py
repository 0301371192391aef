"""Makes polynomials.inc: minimax polynomials for vector_math.cpp, by Remez exchange in 60 digits.

Each fit minimises max |w(x) (P(x) - f(x))| on an interval; coefficients are printed highest power first.
Usage: python fit_polynomials.py > polynomials.inc
"""
import mpmath as mp

mp.mp.dps = 60


def remez(f, w, lo, hi, degree, turns=12):
    n = degree + 2
    points = [(lo + hi) / 2 - (hi - lo) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    for _ in range(turns):
        system = mp.matrix(n, n)
        right = mp.matrix(n, 1)
        for r, x in enumerate(points):
            for c in range(degree + 1):
                system[r, c] = x**c
            system[r, degree + 1] = (-1) ** r / w(x)
            right[r] = f(x)
        solved = mp.lu_solve(system, right)
        coefficients = [solved[c] for c in range(degree + 1)]

        def error(x):
            return w(x) * (mp.polyval(coefficients[::-1], x) - f(x))

        grid = [lo + (hi - lo) * (1 - mp.cos(mp.pi * k / (24 * n))) / 2 for k in range(24 * n + 1)]
        values = [error(x) for x in grid]
        extremes, start = [], 0
        for k in range(1, len(grid) + 1):
            if k == len(grid) or mp.sign(values[k]) != mp.sign(values[start]):
                best = max(range(start, k), key=lambda j: abs(values[j]))
                extremes.append(best)
                start = k
        while len(extremes) > n:
            extremes.pop(0 if abs(values[extremes[0]]) < abs(values[extremes[-1]]) else -1)
        if len(extremes) < n:
            break
        points = [grid[k] for k in extremes]
    return coefficients[::-1], max(abs(v) for v in values)


def show(name, f, w, lo, hi, degree):
    coefficients, error = remez(f, w, mp.mpf(lo), mp.mpf(hi), degree)
    print(f"// {name}: error {mp.nstr(error, 3)} on [{mp.nstr(mp.mpf(lo), 6)}, {mp.nstr(mp.mpf(hi), 6)}]")
    print(f"constexpr double {name}[] = {{" + ", ".join(mp.nstr(c, 20) for c in coefficients) + "};")


def series(f, limit=mp.mpf("1e-40")):
    """f with care near 0, where the quotient forms cancel: evaluated by doubling the precision."""
    def g(x):
        with mp.workdps(160):
            y = x if abs(x) > limit else limit
            return +f(y)
    return g


half_ln2 = mp.log(2) / 2 * mp.mpf("1.001")
exp_tail = series(lambda r: (mp.exp(r) - 1 - r) / r**2)
log_z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
log_tail = series(lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z)
tanh_tail = series(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z)
erf_tail = series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1)
erfc_t = lambda t: (lambda y: mp.exp(y * y) * mp.erfc(y))(2 * (1 + t) / (1 - t))
log2_erfc = lambda y: mp.log(mp.erfc(y)) / mp.log(2)
quarter = (mp.pi / 4 * mp.mpf("1.001")) ** 2
sin_tail = series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z)
cos_tail = series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2)
one = lambda x: mp.mpf(1)

print("// Made by fit_polynomials.py: do not edit.")
for bits, degrees in (("f32", (4, 3, 5, 6, 7, 2, 2)), ("f64", (9, 6, 11, 12, 19, 5, 5))):
    show(f"exp_{bits}", exp_tail, lambda r: r * r + mp.mpf("1e-3"), -half_ln2, half_ln2, degrees[0])
    show(f"log_{bits}", log_tail, one, 0, log_z, degrees[1])
    show(f"tanh_{bits}", tanh_tail, lambda z: z + mp.mpf("1e-2"), 0, "0.3136", degrees[2])
    show(f"erf_{bits}", erf_tail, one, 0, "1.0", degrees[3])
    show(f"erfc_{bits}", erfc_t, lambda t: mp.exp(-((2 * (1 + t) / (1 - t)) ** 2) / 2), -mp.mpf(1) / 3, mp.mpf(1) / 2 if bits == "f64" else mp.mpf(1) / 3, degrees[4])
    show(f"sin_{bits}", sin_tail, lambda z: z + mp.mpf("1e-3"), 0, quarter, degrees[5])
    show(f"cos_{bits}", cos_tail, lambda z: z * z + mp.mpf("1e-3"), 0, quarter, degrees[6])
show("log2_erfc_f32", log2_erfc, mp.erfc, 1, 4, 6)
