"""Coefficients of the exponents in workloads/layers/src/gelu_exponent.rs.

    python3 gelu_exponent.py > ../../workloads/layers/src/gelu_exponent.rs

needs numpy and scipy. GELU is x Phi(x), and Phi(-a) = 2^z(a) with a smooth z. The script finds the polynomial whose a 2^z(a) differs from
a Phi(-a) by the smallest multiple of `head`, relative to a Phi(-a), below a = EDGE, and of `tail`, absolute, from there on. A bound on
a 2^z is a bound on z, and z is linear in its coefficients, so each multiple is a linear program. z(0) = -1 is exact, and coefficients are
rounded to f32 one by one from the highest on, the others fitted again around it.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.special import log_ndtr

EDGE = 0.98
# Dense where z must be accurate, then up to where every falling polynomial is negligible.
GRID = np.concatenate([3.5 * (1 - np.cos(np.linspace(0, np.pi, 500))), np.geomspace(7, 300, 400)])[1:]


class Want(NamedTuple):
    """z over the grid, the relative error allowed below EDGE and the absolute one from there on."""

    values: np.ndarray
    head: float
    tail: float


def exact(a):
    return log_ndtr(-a) / np.log(2)


def tanh(a):
    u = np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)
    return -np.logaddexp(0, 2 * u) / np.log(2)


def bounds(want, share):
    """The smallest and the largest z at each point of the grid; the upper bound keeps it from rising again."""
    h = GRID * np.exp2(want.values)
    allow = share * np.where(GRID < EDGE, want.head * h, want.tail)
    with np.errstate(divide="ignore"):
        low, high = np.log2(np.maximum(h - allow, 0) / GRID), np.log2((h + allow) / GRID)
    return low, np.where(GRID > 7, np.minimum(high, -38), high)


def solve(want, share, degree, fixed):
    """c[1..degree] within the bounds, the highest of them `fixed`; None if infeasible."""
    free = degree - len(fixed)
    powers = np.stack([GRID**j for j in range(1, degree + 1)], 1)
    known = -1 + powers[:, free:] @ np.array(fixed)
    low, high = bounds(want, share)
    if free == 0:
        return list(fixed) if np.all((known >= low) & (known <= high)) else None
    scale = 3.0 ** np.arange(1, free + 1)
    a = powers[:, :free] / scale
    finite = np.isfinite(low)
    # Scale rows equally, so that the solver's tolerance is the same share of each bound.
    size = np.concatenate([high - np.where(finite, low, want.values), (high - low)[finite]])
    rows = np.concatenate([a, -a[finite]]) / size[:, None]
    ends = np.concatenate([high - known, (known - low)[finite]]) / size
    # As far inside the bounds as possible.
    found = linprog(np.r_[np.zeros(free), -1], A_ub=np.c_[rows, np.ones(len(ends))], b_ub=ends, bounds=[(None, None)] * free + [(None, 1)], method="highs")
    return list(found.x[:free] / scale) + list(fixed) if found.status == 0 and found.x[free] >= -1e-9 else None


def least(want, degree, fixed=()):
    low, high, best = 0.0, 1e6, None
    for _ in range(40):
        share = (low + high) / 2
        c = solve(want, share, degree, list(fixed))
        low, high, best = (low, share, c) if c else (share, high, best)
    return high, best


def rounded(want, degree):
    fixed = []
    for _ in range(degree):
        share, c = least(want, degree, fixed)
        fixed = [float(np.float32(c[degree - 1 - len(fixed)]))] + fixed
    return least(want, degree, fixed)


def show(name, about, want, degree):
    share, c = rounded(want, degree)
    print(f"/// log2 of {about}; its error in a 2^z is at most {share * want.head:.1e} of it, and {share * want.tail:.1e} from a = {EDGE} on.")
    print(f"pub(super) static {name}: [f32; {degree + 1}] = [")
    for x in [-1.0] + c:
        print(f"    {x:.9e},")
    print("];")


if __name__ == "__main__":
    print("//! Exponents of the normal distribution function, as testdata/approximations/gelu_exponent.py printed them: coefficients of a^0, a^1, ..")
    print('#![allow(clippy::excessive_precision, reason = "the digits as the fit printed them")]')
    print()
    show("EXACT", "Phi(-a)", Want(exact(GRID), 4e-7, 1e-8), 8)
    print()
    show("TANH", "(1 - tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2", Want(tanh(GRID), 1e-6, 4e-8), 8)
