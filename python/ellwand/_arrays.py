"""Arrays of any framework as NumPy arrays, without a copy where that is possible."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ._errors import EllwandError
from ._errors import hidden as __tracebackhide__

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["borrow", "fetched", "like", "named", "plain", "spoil", "spoil_on_device", "waiter"]

_SHAPE = "an array, a number, or a dictionary of these"


def _torch() -> Any:
    """PyTorch if the program has imported it; Ellwand never imports it here."""
    return sys.modules.get("torch")


def _of_torch(name: str, tensor: Any) -> Any:
    if tensor.requires_grad:
        raise EllwandError(f"{name}: the tensor requires a gradient; pass {name}.detach()")
    if tensor.device.type == "meta":
        raise EllwandError(f"{name}: the tensor is on the meta device and holds no values; expected one on the CPU")
    if tensor.device.type != "cpu":
        raise EllwandError(f"{name}: the tensor is on {tensor.device}; expected one on the CPU: pass {name}.cpu()")
    torch = _torch()
    if tensor.layout != torch.strided:
        raise EllwandError(f"{name}: the tensor's layout is {tensor.layout}; expected torch.strided: pass {name}.to_dense()")
    if tensor.dtype == torch.bfloat16:
        # The bits: Ellwand stores bf16 as uint16 everywhere.
        return tensor.view(torch.uint16).numpy()
    if tensor.is_neg() or tensor.is_conj():
        how = "resolve_neg" if tensor.is_neg() else "resolve_conj"
        raise EllwandError(f"{name}: the tensor is a lazy conjugate or negative view; pass {name}.{how}()")
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError) as error:
        # Float8, quantized and other element types that NumPy lacks.
        raise EllwandError(f"{name}: NumPy has no {tensor.dtype} ({error}); pass {name}.float()") from error


def borrow(name: str, value: Any) -> Array:
    """``value`` as a NumPy array on the same memory, if it has any."""
    import numpy as np

    torch = _torch()
    if isinstance(value, np.ndarray):
        return value
    if torch is not None and isinstance(value, torch.Tensor):
        array: Array = _of_torch(name, value)
        return array
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise EllwandError(f"{name}: NumPy cannot borrow a {type(value).__name__}: {error}") from error
    try:
        return np.asarray(value)
    except Exception as error:
        raise EllwandError(f"{name}: a {type(value).__name__} is not an array ({error}); expected {_SHAPE}") from error


def plain(name: str, value: Any) -> Array:
    """``value`` as a NumPy array in row-major order, with an element type that Ellwand supports."""
    import numpy as np

    array = borrow(name, value)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    elif array.dtype == np.float16:
        array = array.astype(np.float32)
    elif array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise EllwandError(f"{name}: its element type is {array.dtype}; expected integers or floats of at most 64 bits")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    # Not ascontiguousarray, which turns a scalar into a vector.
    return np.asarray(native, order="C")


def named(value: Any, names: tuple[str, ...]) -> dict[str, Array]:
    """Outputs by name. A bare array gets the workload's only output name."""
    if value is None:
        raise EllwandError(f"it returned None; expected {_SHAPE}")
    if isinstance(value, Mapping):
        return {str(name): plain(str(name), array) for name, array in value.items()}
    if isinstance(value, (tuple, list)) and names and len(value) == len(names):
        return {name: plain(name, array) for name, array in zip(names, value)}
    if isinstance(value, tuple):
        raise EllwandError(f"it returned {len(value)} values; expected a dictionary with {', '.join(names) or 'their names'}")
    if len(names) != 1:
        raise EllwandError(f"it returned one {type(value).__name__}; expected a dictionary with {', '.join(names)}")
    return {names[0]: plain(names[0], value)}


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in _leaves(each)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [leaf for each in vars(value).values() for leaf in _leaves(each)] if hasattr(value, "__dict__") else [value]
    return [value]


def _is_of_cupy(leaf: Any) -> bool:
    return type(leaf).__module__.split(".")[0] == "cupy"


def fetched(value: Any) -> Any:
    """``value`` with the arrays that are on a GPU copied to the host."""
    torch = _torch()
    if isinstance(value, Mapping):
        return {name: fetched(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(fetched(each) for each in value)
    if isinstance(value, list):
        return [fetched(each) for each in value]
    if torch is not None and isinstance(value, torch.Tensor) and value.is_cuda:
        return value.cpu()
    return value.get() if _is_of_cupy(value) else value


def waiter(value: Any) -> Callable[[Any], None] | None:
    """The function that waits until results of this kind are computed; None if they need no waiting."""
    leaves = _leaves(value)
    torch = _torch()
    if any(hasattr(leaf, "block_until_ready") for leaf in leaves):

        def block(result: Any) -> None:
            for leaf in _leaves(result):
                # A result may also contain numbers and NumPy arrays.
                if hasattr(leaf, "block_until_ready"):
                    leaf.block_until_ready()

        # JAX computes on XLA's own streams.
        block.elsewhere = True  # type: ignore[attr-defined]
        return block
    cuda = {leaf.device for leaf in leaves if torch is not None and isinstance(leaf, torch.Tensor) and leaf.is_cuda}
    if torch is not None and cuda:

        def synchronize(_result: Any) -> None:
            for device in cuda:
                torch.cuda.synchronize(device)

        return synchronize
    if any(_is_of_cupy(leaf) for leaf in leaves):
        cupy = sys.modules["cupy"]
        return lambda _result: cupy.cuda.get_current_stream().synchronize()
    return _of_work_left()


def _of_work_left() -> Callable[[Any], None] | None:
    """The waiting function for a result without arrays, if a framework is still computing when the function returns."""
    torch, cupy, jax = (sys.modules.get(name) for name in ("torch", "cupy", "jax"))
    if torch is not None and torch.cuda.is_initialized() and not torch.cuda.current_stream().query():
        return lambda _result: torch.cuda.synchronize()
    if cupy is not None and not cupy.cuda.get_current_stream().done:
        return lambda _result: cupy.cuda.get_current_stream().synchronize()
    if jax is not None and not all(array.is_ready() for array in jax.live_arrays()):

        def block(_result: Any) -> None:
            jax.block_until_ready(jax.live_arrays())

        block.elsewhere = True  # type: ignore[attr-defined]
        return block
    return None


def spoil(value: Any, keep: list[Array], byte: int) -> None:
    """Fills writable results that share no memory with ``keep`` with a byte: a function that only returns an earlier answer
    again is then wrong."""
    import numpy as np

    torch = _torch()
    for leaf in _leaves(value):
        if torch is not None and isinstance(leaf, torch.Tensor):
            if leaf.device.type != "cpu" or leaf.requires_grad or leaf.layout != torch.strided:
                continue
            leaf = borrow("result", leaf)
        if not isinstance(leaf, np.ndarray) or not leaf.flags.writeable or leaf.dtype.kind not in "biufcmM":
            continue
        if not any(np.may_share_memory(leaf, array) for array in keep):
            leaf[...] = np.frombuffer(bytes([byte]) * leaf.dtype.itemsize, leaf.dtype)[0]


def spoil_on_device(value: Any, byte: int) -> None:
    """Fills results on a GPU with a byte: the allocator hands out the same memory again, and it still holds the last answer."""
    import numpy as np

    torch = _torch()
    for leaf in _leaves(value):
        if _is_of_cupy(leaf):
            leaf.fill(np.frombuffer(bytes([byte]) * leaf.dtype.itemsize, leaf.dtype)[0])
        elif torch is not None and isinstance(leaf, torch.Tensor) and leaf.is_cuda:
            # Tensors that require a gradient or have overlapping elements cannot be written to.
            if leaf.requires_grad or leaf.layout != torch.strided or 0 in leaf.stride():
                continue
            with torch.inference_mode():
                leaf.fill_(torch.full((leaf.element_size(),), byte, dtype=torch.uint8).view(leaf.dtype)[0])


def like(given: Any, result: Array) -> Any:
    """``result`` as a tensor if ``given`` is one."""
    torch = _torch()
    if torch is not None and isinstance(given, torch.Tensor):
        return torch.from_numpy(result)
    return result
