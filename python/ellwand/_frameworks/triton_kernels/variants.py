"""How a file of Triton kernels declares its compiled variants.

A file ends with a list VARIANTS: each entry is one kernel with fixed types and constants, as in machine code. The compiler
(`aot.py`) uses the list, and the tests (`triton_rows.py`) fail unless their launches cover it.
"""

from dataclasses import dataclass, field

# Argument types as Triton spells them.
F32, F64, I64 = "*fp32", "*fp64", "*i64"


@dataclass(frozen=True)
class Variant:
    """A kernel `fn` under the name `name`: `types` in the order of its arguments without constants, `constants` by name.

    Arguments named in `sixteens` must be multiples of 16 (bytes for addresses, values for sizes), so that the compiler can load
    16 bytes at a time; the launching code must ensure this.
    """

    name: str
    fn: object
    types: dict
    constants: dict = field(default_factory=dict)
    sixteens: tuple = ()
    warps: int = 4
    stages: int = 3


def both(name, fn, types, sixteens, **rest):
    """The variant, and as `name_16` the one for arguments that are multiples of 16."""
    return [
        Variant(name, fn, types, **rest),
        Variant(name + "_16", fn, types, sixteens=tuple(sixteens), **rest),
    ]
