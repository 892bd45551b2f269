"""The array operations of the nested-lattice quantizer in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["TorchArrays"]


class TorchArrays:
    """What the quantizer needs of an array library; see ``NumpyArrays``."""

    what = f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    def floor(self, x: Any) -> Any:
        return torch.floor(x)

    def rint(self, x: Any) -> Any:
        # Halves to even.
        return torch.round(x)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return torch.where(condition, a, b)

    def clip(self, x: Any, least: float, most: float) -> Any:
        return torch.clamp(x, least, most)

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
