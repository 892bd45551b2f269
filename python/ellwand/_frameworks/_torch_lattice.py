"""The array operations of the nested-lattice quantizer in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["TorchArrays"]


class TorchArrays:
    """What the quantizer needs of an array library; see ``NumpyArrays``."""

    what = f"torch {torch.__version__}, {torch.get_num_threads()} threads"

    floor = staticmethod(torch.floor)
    # Rounds halves to even.
    rint = staticmethod(torch.round)
    where = staticmethod(torch.where)
    clip = staticmethod(torch.clamp)
    join = staticmethod(torch.cat)

    def array(self, values: Any, dtype: str) -> Any:
        return torch.from_numpy(np.array(values, dtype))

    def cast(self, x: Any, dtype: str) -> Any:
        return x.to(getattr(torch, dtype))

    def zeros(self, count: int) -> Any:
        return torch.zeros(count, dtype=torch.int64)

    def stack(self, parts: list[Any]) -> Any:
        return torch.stack(parts, 1)
