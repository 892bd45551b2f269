"""Coefficients of the table in crates/kernels/src/layers/gelu_table.rs.

    python3 gelu.py > ../../crates/kernels/src/layers/gelu_table.rs

needs mpmath. GELU is x Phi(x). With a = |x| the table holds the tail p(a) = Phi(-a) in segments of width 1/5 about k/5,
k = 0..30, as polynomials of degree 4 in t = 5a - k, by Chebyshev interpolation in 40 digits; segment 31 is 0.
The tanh form has its own tail, p(a) = (1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2.
"""

from mpmath import mp, mpf, cos, erfc, exp, lu_solve, matrix, pi, sqrt

mp.dps = 40
DEGREE = 4


def exact(a):
    return erfc(a / sqrt(2)) / 2


def tanh(a):
    u = sqrt(2 / pi) * (a + mpf("0.044715") * a**3)
    return 1 / (1 + exp(2 * u))


def interpolate(f, low, high):
    """Coefficients, lowest first, through f at the Chebyshev nodes of [low, high]."""
    n = DEGREE + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    a, b = matrix(n, n), matrix(n, 1)
    for i, t in enumerate(nodes):
        for j in range(n):
            a[i, j] = t**j
        b[i] = f(t)
    return list(lu_solve(a, b))


def table(name, about, p):
    rows, worst = [], mpf(0)
    for k in range(31):
        low, high = (mpf(0) if k == 0 else mpf(-1) / 2), mpf(1) / 2
        f = lambda t: p((k + t) / 5)
        c = interpolate(f, low, high)
        for i in range(201):
            t = low + (high - low) * i / 200
            error = abs(sum(x * t**j for j, x in enumerate(c)) - f(t)) * (k + t) / 5
            worst = max(worst, error)
        rows.append(c)
    rows.append([mpf(0)] * (DEGREE + 1))
    print(f"/// {about}; a times the error of the polynomials is at most {float(worst):.1e}.")
    print(f"pub(super) static {name}: Table = [")
    for j in range(DEGREE + 1):
        print("    [")
        for k in range(32):
            print(f"        {float(rows[k][j]):.9e},")
        print("    ],")
    print("];")


print("//! The tail of GELU in 32 segments, as testdata/approximations/gelu.py printed it.")
print("#![allow(clippy::excessive_precision, reason = \"the digits as the fit printed them\")]")
print()
print("/// Coefficients of t^0 .. t^4 for each segment.")
print(f"pub(super) type Table = [[f32; 32]; {DEGREE + 1}];")
print()
table("EXACT", "Phi(-a), the tail of the normal distribution", exact)
print()
table("TANH", "(1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2", tanh)
