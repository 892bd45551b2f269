"""Coefficients of the polynomials in crates/kernels/src/layers/gelu.rs, for instruction sets without a quick look-up.

    python3 gelu_power.py

needs numpy and scipy. GELU is x Phi(x) = max(x, 0) - a Phi(-a) with a = |x|, and Phi(-a) = p^4 with p = w r(w), w = max(LIMIT - a, 0):
p is smooth where Phi(-a) falls by eight orders of magnitude, and exactly 0 from LIMIT on. The coefficients of r make the error of
a p^4 least, held against TAIL from a = EDGE on and against HEAD below: by linear programs about the solution before. They belong to
powers of w - MIDDLE, whose terms, unlike those of powers of w, add up without cancelling. The first is printed less 1/8,
since the kernel adds w / 8 in the last step. Behind them stands the error that is left when they are rounded to f32.
"""

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import linprog
from scipy.special import erfc

HEAD, TAIL, EDGE = 5e-7, 3e-8, 0.98
POINTS, STEPS = 200, 6


def exact(a):
    return erfc(a / np.sqrt(2)) / 2


def tanh(a):
    return 1 / (1 + np.exp(2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))


def fit(phi, limit, n):
    """n coefficients of r, lowest first."""
    a = limit * (1 - np.cos(np.linspace(0, np.pi, POINTS))) / 2
    w, allowed = limit - a, np.where(a < EDGE, HEAD, TAIL)
    powers = np.stack([(w / limit) ** j for j in range(1, n + 1)], 1)
    p, best = phi(a) ** 0.25, (np.inf, None)
    for _ in range(STEPS):
        slope = a * 4 * p**3 / allowed
        left = slope * p - a * (p**4 - phi(a)) / allowed
        size = np.linalg.norm(slope[:, None] * powers, axis=0)
        rows, ones = slope[:, None] * powers / size, np.ones((POINTS, 1))
        found = linprog([0] * n + [1], A_ub=np.block([[rows, -ones], [-rows, -ones]]), b_ub=np.r_[left, -left],
                        bounds=[(None, None)] * n + [(0, None)], method="highs")
        if found.x is None:
            break
        c = found.x[:n] / size
        p = powers @ c
        worst = np.max(np.abs(a * (p**4 - phi(a))) / allowed)
        if worst < best[0]:
            best = worst, c / limit ** np.arange(1, n + 1)
    return best[1]


def show(name, phi, limit, middle, n):
    c = Polynomial(fit(phi, limit, n))(Polynomial([middle, 1])).coef.astype(np.float32)
    a = np.linspace(0, limit, 200_001)
    p = (limit - a) * np.polyval(c[::-1].astype(float), limit - a - middle)
    left = np.abs(a * (p**4 - phi(a)))
    c[0] -= np.float32(0.125)
    digits = ", ".join(f"{x:.9e}" for x in c.tolist())
    print(f"{name} {limit} {middle} [{digits}] {left[a < 1].max():.1e} below a = 1, {left[a >= 1].max():.1e} above")


if __name__ == "__main__":
    show("exact", exact, 6.125, 3.375, 9)
    show("tanh", tanh, 5.75, 3.5, 12)
