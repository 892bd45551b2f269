"""Coefficients of the polynomials in crates/simd/src/lanes, in 50 digits: by Chebyshev interpolation, or minimax if
one rounding less matters.

    python3 fit.py

needs mpmath. An interpolant at Chebyshev nodes is within a small factor of the best polynomial of its degree,
and the error is far below one f32 rounding here; the last column shows it.
"""

from mpmath import mp, mpf, cos, exp, log, pi, lu_solve, matrix, sqrt

mp.dps = 50


def interpolate(f, low, high, degree):
    """Coefficients, lowest first, of the polynomial through f at the Chebyshev nodes of [low, high]."""
    n = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    a = matrix(n, n)
    b = matrix(n, 1)
    for i, x in enumerate(nodes):
        for j in range(n):
            a[i, j] = x**j
        b[i] = f(x)
    return list(lu_solve(a, b))


def show(name, f, low, high, degree, weight, digits=9):
    c = interpolate(f, low, high, degree)
    worst = mpf(0)
    for k in range(2001):
        x = low + (high - low) * k / 2000
        if abs(x) > mpf(10) ** -6:
            worst = max(worst, abs(sum(a * x**j for j, a in enumerate(c)) - f(x)) * weight(x))
    print(f"{name}, degree {degree}: relative error of the result {float(worst):.2e}")
    for a in c:
        print(f"    {float(a):.{digits}e},")


def lawson(name, f, basis, n, reach, points=160, rounds=400):
    """Coefficients of the n basis functions that minimise the maximum of |sum - f| on [-reach, reach] (C. L. Lawson, 1961)."""
    x = [reach * cos(pi * (2 * k + 1) / (2 * points)) for k in range(points)]
    rows, want, weight = [[basis(r, j) for j in range(n)] for r in x], [f(r) for r in x], [mpf(1) / points] * points
    best = None
    for _ in range(rounds):
        a, b = matrix(n, n), matrix(n, 1)
        for row, y, w in zip(rows, want, weight):
            for i in range(n):
                b[i] += w * row[i] * y
                for j in range(n):
                    a[i, j] += w * row[i] * row[j]
        c = lu_solve(a, b)
        error = [abs(sum(c[j] * row[j] for j in range(n)) - y) for row, y in zip(rows, want)]
        if best is None or max(error) < best[0]:
            best = (max(error), list(c))
        total = sum(w * e for w, e in zip(weight, error))
        weight = [w * e / total for w, e in zip(weight, error)]
    print(f"{name}: relative error of the result {float(best[0]):.2e}")
    for a in best[1]:
        print(f"    {float(a):.9e},")


if __name__ == "__main__":
    half = log(2) / 2
    # e^r = 1 + r + r^2 p(r)
    show("exp", lambda r: (exp(r) - 1 - r) / r**2 if abs(r) > mpf(10) ** -12 else mpf(1) / 2 + r / 6, -half, half, 4, lambda r: r**2 / exp(r))
    # ln(1 + f) = f - f^2/2 + f^3 q(f), f in [sqrt(1/2) - 1, sqrt(2) - 1]
    show("ln", lambda f: (log(1 + f) - f + f**2 / 2) / f**3 if abs(f) > mpf(10) ** -12 else mpf(1) / 3 - f / 4, sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1, 8,
         lambda f: abs(f**3 / log(1 + f)))
    # 2^r, |r| <= 1/2: weights of attention, where relative errors of 1e-7 are below those of the scores
    show("exp2", lambda r: mpf(2) ** r, -mpf(1) / 2, mpf(1) / 2, 5, lambda r: mpf(2) ** -r)
    lawson("2^r = 1 + r p(r)", lambda r: (mpf(2) ** r - 1) / mpf(2) ** r, lambda r, j: r ** (j + 1) / mpf(2) ** r, 5, mpf(1) / 2)
    # The same for f64, where interpolation is within a rounding of the best.
    show("2^r = 1 + r p(r) in f64", lambda r: (mpf(2) ** r - 1) / r if abs(r) > mpf(10) ** -15 else log(2) + log(2) ** 2 * r / 2, -mpf(1) / 2, mpf(1) / 2, 10,
         lambda r: abs(r) * mpf(2) ** -r, digits=17)
