"""The nested-lattice quantizer as array operations on all vectors at once, in NumPy or PyTorch.

Written from the definition: true squared distances in 64-bit integers, and coordinates by the inverse of the basis.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .._case import Case
from .._errors import Unsupported
from .._native import Codes

__all__ = ["NumpyArrays", "prepare"]

LATTICES = ("Z2", "D4", "E8")
#: Fixed-point grid of the input: steps per lattice unit.
UNIT = 1 << 25
#: Inputs are clamped to this, in lattice units.
LIMIT = float(1 << 22)


class NumpyArrays:
    """What the quantizer needs of an array library; see ``TorchArrays``."""

    what = f"numpy {np.__version__}"

    floor = staticmethod(np.floor)
    rint = staticmethod(np.rint)
    where = staticmethod(np.where)
    clip = staticmethod(np.clip)
    join = staticmethod(np.concatenate)

    def array(self, values: Any, dtype: str) -> Any:
        return np.array(values, dtype)

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def zeros(self, count: int) -> Any:
        return np.zeros(count, np.int64)

    def stack(self, parts: list[Any]) -> Any:
        return np.stack(parts, 1)


def basis(lattice: str) -> Any:
    """Basis vectors as rows; doubled for E8, like its points."""
    if lattice == "Z2":
        return np.eye(2, dtype=np.int64)
    if lattice == "D4":
        return np.array([[-1, -1, 0, 0], [1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]])
    rows = [[4, 0, 0, 0, 0, 0, 0, 0]]
    rows += [[0] * (i - 1) + [-2, 2] + [0] * (7 - i) for i in range(1, 7)]
    return np.array([*rows, [1] * 8])


class Codec:
    """Encodes and decodes; ``xp`` is the array library."""

    def __init__(self, xp: Any, case: Case, beta: float) -> None:
        self.xp, self.lattice, self.q, self.levels = xp, case["lattice"], case["q"], case["levels"]
        self.overload = case["overload"]
        rows = basis(self.lattice)
        self.d = len(rows)
        self.points = self.q**self.d
        if case["centred"] or self.overload == "retry":
            raise Unsupported("the array implementations neither centre nor retry; use --centred off --overload flag")
        if self.points >= 1 << 62:
            raise Unsupported(f"a level has q^d = {self.points} points; the array implementations need less than 2^62")
        self.bits = (self.points - 1).bit_length()
        self.beta = beta
        self.scale = xp.array(beta, "float32")
        self.inverse_scale = xp.array(1.0 / float(np.float32(beta)), "float32")
        self.half = xp.array(0.5 if self.lattice == "E8" else 1.0, "float32")
        self.unit = 2 if self.lattice == "E8" else 1
        self.basis = xp.array(rows, "int64")
        self.denominator = round(abs(np.linalg.det(rows)))
        self.inverse = xp.array(np.rint(np.linalg.inv(rows) * self.denominator), "int64")
        self.powers = xp.array([self.q ** (self.d - 1 - i) for i in range(self.d)], "int64")
        self.places = xp.array(range(self.bits), "int64")
        self.byte = xp.array(range(8), "int64")
        self.axis = xp.array(range(self.d), "int64")

    def nearest(self, x: Any, unit: int) -> Any:
        """The lattice point nearest to x / unit; doubled for E8."""
        if self.lattice == "Z2":
            return (2 * x + unit) // (2 * unit)
        if self.lattice == "D4":
            return self.nearest_even(x, unit)
        whole = 2 * self.nearest_even(x, unit)
        half = 2 * self.nearest_even(x - unit // 2, unit) + 1
        a, b = (((2 * x - point * unit) ** 2).sum(-1) for point in (whole, half))
        keep = (b < a) | ((a == b) & (half[:, 0] < whole[:, 0]))
        return self.xp.where(keep[:, None], half, whole)

    def nearest_even(self, x: Any, unit: int) -> Any:
        """Rounds; if the sum is odd, re-rounds the first coordinate with the largest residual."""
        point = (2 * x + unit) // (2 * unit)
        residual = x - point * unit
        worst = self.axis[None, :] == abs(residual).argmax(-1)[:, None]
        odd = point.sum(-1) % 2 == 1
        return point + self.xp.cast(worst & odd[:, None], "int64") * (1 - 2 * self.xp.cast(residual < 0, "int64"))

    def encode(self, x: Any) -> dict[str, Any]:
        """Bit-packed level indices, finest first, and which vectors are outside the codebook."""
        xp = self.xp
        t = xp.cast(xp.clip(x * self.inverse_scale, -LIMIT, LIMIT), "float64")
        whole = xp.floor(t + 0.5)
        fixed = xp.cast(whole, "int64") * UNIT + xp.cast(xp.rint((t - whole) * UNIT), "int64")
        g = self.nearest(fixed, UNIT)
        indices = []
        for _ in range(self.levels):
            digits = (g @ self.inverse) // self.denominator % self.q
            indices.append((digits * self.powers).sum(-1))
            g = self.nearest(g, self.q * self.unit)
        bits = ((xp.stack(indices)[..., None] >> self.places) & 1).reshape(-1)
        bits = xp.join([bits, xp.zeros(-len(bits) % 8)]).reshape(-1, 8)
        out = {"packed": xp.cast((bits << self.byte).sum(-1), "uint8")}
        if self.overload == "flag":
            out["overload"] = xp.cast((g != 0).any(-1), "uint8")
        return out

    def indices(self, packed: Any, vectors: int) -> Any:
        """Level indices, [vectors, levels]."""
        bits = ((self.xp.cast(packed, "int64")[:, None] >> self.byte) & 1).reshape(-1)
        used = bits[: vectors * self.levels * self.bits].reshape(vectors, self.levels, self.bits)
        return (used << self.places).sum(-1)

    def digits(self, indices: Any) -> Any:
        """Digits of level indices, most significant first."""
        return indices[..., None] // self.powers % self.q

    def decode(self, packed: Any, vectors: int) -> Any:
        """The decoded vectors."""
        digits = self.digits(self.indices(packed, vectors))
        total: Any = 0
        for level in range(self.levels):
            g = digits[:, level] @ self.basis
            total = total + self.q**level * (g - self.q * self.nearest(g, self.q * self.unit))
        return self.xp.cast(total, "float32") * self.half * self.scale

    def file(self, shape: tuple[int, ...], packed: Any, overload: Any) -> Any:
        """The code file that our implementations would write for these codes; it may be entropy-coded."""
        mode = {"none": 0, "flag": 1}[self.overload]
        flags = np.packbits(overload, bitorder="little") if overload is not None else np.zeros(0, np.uint8)
        head = struct.pack(
            "<4sHBBHBBfdB7x", b"EWLQ", 1, LATTICES.index(self.lattice), mode << 1, self.q, self.levels, 0,
            self.beta, 0.0, len(shape),
        )  # fmt: skip
        vectors = int(np.prod(shape)) // self.d
        head += struct.pack(f"<{len(shape)}Q4Q", *shape, vectors, len(packed), len(flags), 0)
        plain = head + packed.tobytes() + flags.tobytes()
        return np.frombuffer(Codes.from_bytes(plain).to_bytes(), np.uint8)


class Call:
    """A task of the quantizer; calling it computes once."""

    def __init__(self, codec: Codec, task: str, inputs: dict[str, Any], vectors: int) -> None:
        self.codec, self.task, self.vectors = codec, task, vectors
        self.what_ran = codec.xp.what
        self.made: dict[str, Any] = {}
        self.shape = inputs["x"].shape if task != "lattice-decode" else (vectors, codec.d)
        name = "packed" if task == "lattice-decode" else "x"
        flat = inputs[name] if name == "packed" else inputs[name].reshape(-1, codec.d)
        self.given = codec.xp.array(flat, str(flat.dtype))

    def run(self) -> None:
        """Computes the packed codes, the decoded values, or both."""
        if self.task == "lattice-decode":
            self.made = {"x": self.codec.decode(self.given, self.vectors)}
            return
        self.made = self.codec.encode(self.given)
        if self.task == "lattice-quantize":
            self.made["x"] = self.codec.decode(self.made["packed"], self.vectors).reshape(self.shape)

    def poison(self) -> None:
        """Discards the outputs: they are unavailable until the next run."""
        self.made = {}

    def output(self) -> dict[str, Any]:
        """The outputs, with the same codes also as digits and as a file."""
        made = self.made
        if self.task == "lattice-decode":
            return made
        packed = np.asarray(made["packed"])
        overload = np.asarray(made["overload"]) if "overload" in made else None
        digits = self.codec.digits(self.codec.indices(made["packed"], self.vectors))
        return {**made, "digits": self.codec.xp.cast(digits, "uint8"), "codes": self.codec.file(self.shape, packed, overload)}


def prepare(xp: Any, workload: str, case: Case, inputs: dict[str, Any]) -> Callable[[], Any]:
    """The task on copies of the inputs."""
    codec = Codec(xp, case, float(np.float32(inputs["beta"])))
    vectors = case["batch"] if workload == "lattice-decode" else inputs["x"].size // codec.d
    made: Any = Call(codec, workload, inputs, vectors)
    return made  # type: ignore[no-any-return]
