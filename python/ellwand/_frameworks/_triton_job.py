"""Launches of the Triton kernels on PyTorch's tensors, and the arrays they share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton

from .._errors import Unsupported
from ._torch import tensor
from .triton_kernels import attention, layers, matmul, product

__all__ = ["ALL", "CAUSAL", "LIMIT", "PADDING", "Job", "Seen", "cdiv", "even"]

#: Compiled forms of all kernels by name.
VARIANTS: dict[str, Any] = {each.name: each for file in (layers, product, matmul, attention) for each in file.VARIANTS}

#: Largest grid in each direction, from CUDA.
GRID = (2**31 - 1, 65_535, 65_535)
#: The kernels use 32 bits for rows, sizes and positions.
LIMIT = 2**31 - 1

#: Which columns a row sees, encoded for the kernels; 2 also needs the length of every sequence.
Seen = tuple[int, Any]
ALL, CAUSAL, PADDING = 0, 1, 2


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def even(*numbers: int) -> bool:
    """True if all are multiples of 16, so that a kernel can load 16 bytes at a time."""
    return all(number % 16 == 0 for number in numbers)


def interpreted() -> bool:
    """True if Triton interprets the kernels on the processor (TRITON_INTERPRET=1)."""
    return not isinstance(layers.elements, triton.JITFunction)


def device() -> torch.device:
    """The device of all tensors."""
    if interpreted():
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Unsupported("Triton needs a CUDA device, and PyTorch finds none")
    return torch.device("cuda", torch.cuda.current_device())


class Job:
    """The launches of one run, in order."""

    def __init__(self) -> None:
        self.device = device()
        self.steps: list[Callable[[], Any]] = []
        self.outputs: dict[str, torch.Tensor] = {}
        where = "interpreted" if interpreted() else torch.cuda.get_device_name(self.device)
        self.what_ran = f"triton {triton.__version__}, {where}"

    @property
    def launches(self) -> int:
        """The number of kernel launches in a run."""
        return len(self.steps)

    def multiprocessors(self) -> int:
        """Multiprocessors of the device."""
        return 1 if interpreted() else int(torch.cuda.get_device_properties(self.device).multi_processor_count)

    def need_bf16(self) -> None:
        """Raises if the device's tensor cores do not support bf16."""
        if not interpreted() and torch.cuda.get_device_capability(self.device) < (8, 0):
            raise Unsupported("products in bf16 need compute capability 8.0 or newer")

    def input(self, array: Any) -> torch.Tensor:
        """A copy of a NumPy array on the device."""
        made: torch.Tensor = tensor(array).to(self.device)
        return made

    def scratch(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Working memory."""
        return torch.empty(tuple(shape), dtype=dtype, device=self.device)

    def zeros(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Zeroed working memory."""
        return torch.zeros(count, dtype=dtype, device=self.device)

    def result(self, name: str, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Allocates an output; every run writes it."""
        self.outputs[name] = self.scratch(shape, dtype)
        return self.outputs[name]

    def launch(self, name: str, grid: tuple[int, ...], *args: Any) -> None:
        """Appends a launch of the variant ``name``, whose arguments without constants are ``args``."""
        variant = VARIANTS[name]
        for direction, (programs, most) in enumerate(zip(grid, GRID)):
            if programs > most:
                raise Unsupported(f"{name} needs {programs} programs in direction {direction} of its grid; the maximum is {most}")
        # Triton specializes on arguments that are multiples of 16 itself, so `_16` in a name only chooses constants.
        how = dict(variant.constants, num_warps=variant.warps, num_stages=variant.stages, enable_fp_fusion=True)
        self.steps.append(functools.partial(variant.fn[grid], *args, **how))

    def run(self) -> None:
        """Enqueues the launches on the current stream."""
        for step in self.steps:
            step()

    def compile(self) -> Job:
        """Runs once, so that no timed run compiles."""
        try:
            self.run()
        except triton.runtime.errors.OutOfResources as error:
            raise Unsupported(f"the kernel does not fit this device: {error}") from error
        if not interpreted():
            torch.cuda.synchronize(self.device)
        return self

    def output(self) -> dict[str, torch.Tensor]:
        """What the last run wrote."""
        return self.outputs
