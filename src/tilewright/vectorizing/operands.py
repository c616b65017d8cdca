"""Arguments of a call as arrays: NumPy's, torch's (on the CPU), numbers, and objects with DLPack.

operands([x, 2.0, tensor])      Operand(x, Kind("float32")), Operand(array(2.0), WEAK_FLOAT), …
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.runtime.errors import ArgumentError
from tilewright.support.named_tuple import NamedTuple
from tilewright.vectorizing.kinds import BITS, WEAK_KINDS, Kind

Array = np.ndarray[Any, Any]


_KINDS = {np.dtype(name): Kind(name) for name in BITS}
"""The kinds by dtype of this machine's byte order."""


class Operand(NamedTuple):
    """An argument as an array without copying, and the kind of its elements."""

    array: Array
    kind: Kind


def operand(value: Any, position: int) -> Operand:
    """An argument of a vectorized function.

    Raises:
        ArgumentError: it is neither a number nor an array of numbers.
        OverflowError: a Python integer of more than 64 bits.
    """
    weak = WEAK_KINDS.get(value.__class__)
    if weak is not None:
        return Operand(np.array(value, np.dtype(weak.name)), weak)
    return _checked(as_array(value, position), position)


def as_array(value: Any, position: int) -> Array:
    """Anything array-like as a NumPy array, without copying where that is possible.

    Raises:
        ArgumentError: it has no memory that the CPU can read.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        if value.__class__ is not np.ndarray and hasattr(value, "mask"):
            raise ArgumentError(f"argument {position} is a masked array; pass its data, and the mask by where=")
        return np.asarray(value)
    if is_tensor(value):
        return _of_tensor(value, position)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise ArgumentError(f"argument {position} offers DLPack that NumPy cannot take: {error}") from None
    if isinstance(value, (list, tuple)):
        return np.asarray(value)
    if isinstance(value, (bool, int, float)):  # an instance of a subclass
        return np.asarray(value)
    raise ArgumentError(
        f"argument {position} is a {type(value).__name__}; vectorized functions take numbers and arrays"
    )


def _checked(array: Array, position: int) -> Operand:
    kind = _KINDS.get(array.dtype)
    if kind is not None:
        return Operand(array, kind)
    name = array.dtype.name
    if name not in BITS:
        what = "complex numbers are not supported" if array.dtype.kind == "c" else "it cannot be used in computations"
        raise ArgumentError(f"argument {position} is an array of {name}; {what}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return Operand(array, Kind(name))


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _of_tensor(tensor: Any, position: int) -> Array:
    if tensor.device.type != "cpu":
        raise ArgumentError(f"argument {position} is a tensor on {tensor.device}; vectorized functions run on the CPU")
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    try:
        found: Array = tensor.numpy()
    except TypeError:
        raise ArgumentError(f"argument {position} is a tensor of {tensor.dtype}, which NumPy does not have") from None
    return found


def wrapped(result: Array, arguments: Sequence[Any]) -> Any:
    """The result as the arguments are: a tensor if one of them is, a NumPy scalar if it has no axes."""
    if any(map(is_tensor, arguments)):
        return sys.modules["torch"].from_numpy(result)
    return result if result.shape else result[()]
