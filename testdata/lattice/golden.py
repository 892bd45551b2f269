"""Writes golden.txt: codes by exact rational arithmetic, straight from the definitions.

    python3 golden.py > golden.txt

It shares no code with the crate: nearest points by Fractions and squared distances, coordinates by
solving G z = g, input from a small linear congruential generator. Inputs are multiples of 1/16,
so they are exact in every float format.
"""

from fractions import Fraction as F

HALF = F(1, 2)


def basis(lattice):
    if lattice == "Z2":
        return [[1, 0], [0, 1]]
    if lattice == "D4":
        return [[-1, -1, 0, 0], [1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]]
    columns = [[2] + [0] * 7]
    for i in range(1, 7):
        column = [0] * 8
        column[i - 1], column[i] = -1, 1
        columns.append(column)
    return columns + [[HALF] * 8]


def solve(columns, g):
    """z with sum z_i columns_i = g."""
    n = len(g)
    rows = [[F(columns[c][r]) for c in range(n)] + [F(g[r])] for r in range(n)]
    for p in range(n):
        pivot = next(r for r in range(p, n) if rows[r][p] != 0)
        rows[p], rows[pivot] = rows[pivot], rows[p]
        rows[p] = [v / rows[p][p] for v in rows[p]]
        for r in range(n):
            if r != p:
                rows[r] = [a - rows[r][p] * b for a, b in zip(rows[r], rows[p])]
    return [row[-1] for row in rows]


def floor(x):
    return x.numerator // x.denominator


def near_d(x):
    r = [F(floor(v + HALF)) for v in x]
    if sum(r) % 2:
        e = [a - b for a, b in zip(x, r)]
        k = max(range(len(x)), key=lambda i: (abs(e[i]), -i))
        r[k] += 1 if e[k] >= 0 else -1
    return r


def near(lattice, x):
    if lattice == "Z2":
        return [F(floor(v + HALF)) for v in x]
    if lattice == "D4":
        return near_d(x)
    a = near_d(x)
    b = [v + HALF for v in near_d([v - HALF for v in x])]
    da, db = (sum((v - w) ** 2 for v, w in zip(x, p)) for p in (a, b))
    if da != db:
        return a if da < db else b
    return a if a[0] < b[0] else b


def main():
    print("# lattice q M | 16 x | digits, level 0 first | overload   (beta 1, not centred; see golden.py)")
    state = 12345
    for lattice, d in (("Z2", 2), ("D4", 4), ("E8", 8)):
        columns = basis(lattice)
        for q in (2, 3, 4, 5, 7, 8):
            for levels in (1, 2, 3):
                for case in range(7):
                    span = 16 * int(0.7 * q**levels) + 40
                    x = []
                    for _ in range(d):
                        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                        v = (state >> 33) % (2 * span) - span
                        # Multiples of 1, 1/2, 1/4 and 1/16: points, ties and the rest.
                        step = (16, 8, 4, 1)[case % 4]
                        x.append(v // step * step)
                    g = near(lattice, [F(v, 16) for v in x])
                    digits = []
                    for _ in range(levels):
                        z = solve(columns, g)
                        assert all(v.denominator == 1 for v in z)
                        digits += [v.numerator % q for v in z]
                        g = near(lattice, [v / q for v in g])
                    print(lattice, q, levels, "|", *x, "|", *digits, "|", int(any(g)))


main()
