"""The array operations of the nested-lattice quantizer in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["TorchArrays"]


class TorchArrays:
    """What the quantizer needs of an array library; see ``NumpyArrays``."""

    what = f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    # `round` rounds halves to even, like `rint`.
    floor, rint, where, clip = (staticmethod(f) for f in (torch.floor, torch.round, torch.where, torch.clamp))

    def array(self, values: Any, dtype: str) -> Any:
        return torch.from_numpy(np.array(values, dtype))

    def cast(self, x: Any, dtype: str) -> Any:
        return x.to(getattr(torch, dtype))

    def argmax(self, x: Any) -> Any:
        return x.argmax(-1)

    def zeros(self, count: int) -> Any:
        return torch.zeros(count, dtype=torch.int64)

    def join(self, parts: list[Any]) -> Any:
        return torch.cat(parts)

    def stack(self, parts: list[Any]) -> Any:
        return torch.stack(parts, 1)
