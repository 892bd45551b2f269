"""Coefficients of the table in workloads/layers/src/gelu_table.rs.

    python3 gelu.py > ../../workloads/layers/src/gelu_table.rs

needs mpmath. GELU is x Phi(x) = max(x, 0) - h(|x|) with h(a) = a Phi(-a). The table holds h in segments of width 1/4 about k/4,
k = 0..30, as polynomials of degree 4 in t = a - k/4, by Chebyshev interpolation in 40 digits; the first has no constant term, so
that h(0) = 0; segment 31 is 0. The tanh form has its own h(a) = a (1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2.
"""

from mpmath import mp, mpf, cos, erfc, exp, lu_solve, matrix, pi, sqrt

mp.dps = 40
DEGREE = 4
WIDTH = mpf(1) / 4


def exact(a):
    return erfc(a / sqrt(2)) / 2


def tanh(a):
    u = sqrt(2 / pi) * (a + mpf("0.044715") * a**3)
    return 1 / (1 + exp(2 * u))


def interpolate(f, low, high, first):
    """Coefficients of t^first .. t^DEGREE through f at the Chebyshev nodes of [low, high]; those before are 0."""
    n = DEGREE + 1 - first
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    a, b = matrix(n, n), matrix(n, 1)
    for i, t in enumerate(nodes):
        for j in range(n):
            a[i, j] = t ** (j + first)
        b[i] = f(t)
    return [mpf(0)] * first + list(lu_solve(a, b))


def table(name, about, p):
    rows, worst, tail = [], mpf(0), mpf(0)
    for k in range(31):
        low, high = (mpf(0) if k == 0 else -WIDTH / 2), WIDTH / 2
        h = lambda t: (k * WIDTH + t) * p(k * WIDTH + t)
        c = interpolate(h, low, high, 1 if k == 0 else 0)
        for i in range(201):
            t = low + (high - low) * i / 200
            error = abs(sum(x * t**j for j, x in enumerate(c)) - h(t))
            worst = max(worst, error)
            tail = max(tail, error) if k >= 4 else tail
        rows.append(c)
    rows.append([mpf(0)] * (DEGREE + 1))
    print(f"/// {about}; the error of the polynomials is at most {float(worst):.1e}, and {float(tail):.1e} from a = 7/8 on.")
    print(f"pub(super) static {name}: Table = [")
    for j in range(DEGREE + 1):
        print("    [")
        for k in range(32):
            print(f"        {float(rows[k][j]):.9e},")
        print("    ],")
    print("];")


print("//! What GELU lacks to max(x, 0), in 32 segments, as testdata/approximations/gelu.py printed it.")
print("#![allow(clippy::excessive_precision, reason = \"the digits as the fit printed them\")]")
print()
print("/// Coefficients of t^0 .. t^4 for each segment.")
print(f"pub(super) type Table = [[f32; 32]; {DEGREE + 1}];")
print()
table("EXACT", "a Phi(-a)", exact)
print()
table("TANH", "a (1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2", tanh)
