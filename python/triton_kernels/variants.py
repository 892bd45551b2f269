"""How a file of Triton kernels says what is compiled from it.

A file ends with a list VARIANTS: each entry is one kernel with its types and constants fixed, as machine code has it. The
same list serves the compiler (`aot.py`) and the interpreter (`interpret.py`), so that what is judged is what is compiled.
"""

from dataclasses import dataclass, field

# Types of arguments as Triton spells them, and what the launching side hands over for them.
F32, F64, I64 = "*fp32", "*fp64", "*i64"


@dataclass(frozen=True)
class Variant:
    """A kernel `fn` under the name `name`: `types` in the order of its arguments without constants, `constants` by name.

    Arguments named in `sixteens` are promised to be multiples of 16 (bytes for addresses, values for sizes), which is what
    lets the compiler load 16 bytes at a time; whoever launches must keep the promise.
    """

    name: str
    fn: object
    types: dict
    constants: dict = field(default_factory=dict)
    sixteens: tuple = ()
    warps: int = 4
    stages: int = 3


def both(name, fn, types, sixteens, **rest):
    """The variant as it is, and under `name_16` the one for arguments that are multiples of 16."""
    return [
        Variant(name, fn, types, **rest),
        Variant(name + "_16", fn, types, sixteens=tuple(sixteens), **rest),
    ]
