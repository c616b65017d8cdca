"""Arrays as kernel arguments: element type, address and memory of any array on the CPU or a GPU.

    view_of(numpy_array)      ArrayView("fp32", 0x7f…, writable=True, memory="cpu")

It accepts NumPy arrays, objects with `data_ptr()` and `dtype` (torch tensors; torch itself is never imported),
`__array_interface__`, `__cuda_array_interface__` and DLPack. `devices.py` decides which device can use the memory.
Arrays whose values are not simply those in memory (masked or lazily negated ones) are refused; see docs/arrays.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tilewright.runtime.array_shims import TensorWrapper
from tilewright.runtime.drivers.cpu.foreign_arrays import from_dlpack, from_interface, tells_by_interface
from tilewright.runtime.drivers.cpu.native.structs import FREED
from tilewright.runtime.drivers.cpu.python_memory import array_address
from tilewright.runtime.drivers.cpu.records import know_form
from tilewright.runtime.errors import ArgumentError
from tilewright.support.named_tuple import NamedTuple

OFFERED = "float16, bfloat16, float32, float64, bool, or an integer of 8 to 64 bits"
"""The element types that people use, for messages that propose one."""

# Names of element types in NumPy, ml_dtypes, torch and the language -> Triton's names in signatures.
ELEMENT_NAMES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "bool": "i1",
    "float16": "fp16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16",
    "fp16": "fp16",
    "fp32": "fp32",
    "fp64": "fp64",
    "fp8e4b15": "fp8e4b15",
    "fp8e4b8": "fp8e4b8",
    "fp8e4nv": "fp8e4nv",
    "fp8e5": "fp8e5",
    "fp8e5b16": "fp8e5b16",
    "int1": "i1",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "int8": "i8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "uint8": "u8",
}

CPU_MEMORY, CUDA_MEMORY, UNKNOWN_MEMORY = "cpu", "cuda", ""
"""The memories of arrays. `cuda:1` is that GPU's memory, `cuda` some GPU's, which its driver knows from the address."""


class ArrayView(NamedTuple):
    """An array as a kernel sees it.

    Attributes:
        element: Triton's name of the element type.
        writable: whether a kernel may store to it.
        memory: the memory that it is in; "" if its class does not say.
    """

    element: str
    address: int
    writable: bool
    owner: Any
    memory: str = CPU_MEMORY


def view_of(value: Any) -> ArrayView | None:
    """The view of `value`, or None when it is no array at all.

    Raises:
        ArgumentError: it is an array, but of an element type or on a device that no kernel can take.
    """
    reader = _readers.get(type(value))
    if reader is None:
        reader = _reader_for(value)
        if reader is None:
            return None
        _readers[type(value)] = reader
        if reader is _read_cuda_interface:
            know_form(type(value), from_dlpack)
        if reader is _read_interface:
            know_form(type(value), from_interface if tells_by_interface(value) else np.asarray)
    return reader(value)


def element_name(dtype: Any) -> str:
    """Triton's name of a NumPy or torch dtype, or of a dtype of the language.

    Raises:
        ArgumentError: there is no such element type.
    """
    found = _element_names.get(dtype)
    if found is None:
        is_numpy = isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic))
        spelled = np.dtype(dtype).name if is_numpy else str(dtype).rpartition(".")[2]
        found = ELEMENT_NAMES.get(spelled)
        if found is None:
            raise ArgumentError(f"arrays of {spelled} are not supported; convert to {OFFERED}")
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            raise ArgumentError(f"arrays of {dtype.str} are in foreign byte order; convert with .astype({spelled!r})")
        _element_names[dtype] = found
    return found


def check_memory(arrays: Iterable[tuple[str, ArrayView]]) -> None:
    """Refuse arrays that have elements but no memory: a kernel would read what is at address 0, or near it.

    Raises:
        ArgumentError: there is such an array; the message names the argument.
    """
    for name, view in arrays:
        if view.address < FREED and _lacks_memory(view):
            raise ArgumentError(
                f"argument {name!r}: the {type(view.owner).__name__} has elements but no memory: it only stands for an "
                "array, or its memory was freed; pass one that has its elements"
            )


def _lacks_memory(view: ArrayView) -> bool:
    owner = view.owner.base if isinstance(view.owner, TensorWrapper) else view.owner
    if 0 in getattr(owner, "shape", ()):
        return False
    if view.address == 0:
        return True
    return hasattr(owner, "untyped_storage") and owner.untyped_storage().nbytes() == 0


def _read_numpy(value: np.ndarray[Any, Any]) -> ArrayView:
    return ArrayView(element_name(value.dtype), array_address(value), value.flags.writeable, value)


def _is_masked(value: Any) -> bool:
    module = sys.modules.get("numpy.ma")  # nobody has a masked array before it was imported, which takes time
    return module is not None and isinstance(value, module.MaskedArray)


def _refuse_masked(value: Any) -> ArrayView:
    raise ArgumentError(
        "a kernel sees the memory of a MaskedArray and not its mask: pass array.filled(value), or array.data"
    )


def _read_wrapper(value: TensorWrapper) -> ArrayView:
    """A tensor under another element type."""
    view = _read_tensor(value)
    if _is_masked(value.base):
        return _refuse_masked(value.base)
    if isinstance(value.base, np.ndarray):
        return view._replace(writable=value.base.flags.writeable)
    _check_is_not_negated(value.base)
    return view


def _check_is_not_negated(tensor: Any) -> None:
    """Refuses lazily negated or conjugated tensors: in memory their elements are as they were."""
    if hasattr(tensor, "is_neg") and tensor.is_neg():
        raise ArgumentError(
            "the tensor is negated lazily: in its memory are the numbers with the other sign; pass tensor.resolve_neg()"
        )
    if hasattr(tensor, "is_conj") and tensor.is_conj():
        raise ArgumentError("the tensor is conjugated lazily; pass tensor.resolve_conj()")


def _read_tensor(value: Any) -> ArrayView:
    """A torch tensor, or something that looks like one."""
    _check_is_not_negated(value)
    device = getattr(value, "device", None)
    kind = str(getattr(device, "type", device))
    if device is None:
        memory = UNKNOWN_MEMORY
    elif kind.startswith(CUDA_MEMORY):
        memory = str(device)
    elif kind == CPU_MEMORY:
        memory = CPU_MEMORY
    elif kind == "meta":
        raise ArgumentError("the tensor is on device meta, where tensors have no memory: pass one on the CPU or a GPU")
    else:
        raise ArgumentError(f"the tensor is on device {device}, which no kernel can use: pass tensor.cpu()")
    element = element_name(value.dtype)
    try:
        return ArrayView(element, value.data_ptr(), True, value, memory)
    except RuntimeError as error:
        raise ArgumentError(f"the {type(value).__name__} has no memory that a kernel could use: {error}") from error


def _read_interface(value: Any) -> ArrayView:
    try:
        return _read_numpy(np.asarray(value))
    except ValueError as error:
        raise ArgumentError(f"NumPy cannot view the {type(value).__name__}: {error}") from error


def _read_cuda_interface(value: Any) -> ArrayView:
    """An array that, as some of its class, may be on a GPU."""
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return _read_dlpack(value)
    address, is_read_only = interface["data"]
    element = element_name(np.dtype(interface["typestr"]))
    return ArrayView(element, address or 0, not is_read_only, value, CUDA_MEMORY)


def _read_dlpack(value: Any) -> ArrayView:
    try:
        return _read_numpy(np.from_dlpack(value))
    except (BufferError, RuntimeError, ValueError) as error:
        raise ArgumentError(f"NumPy cannot view the {type(value).__name__} through DLPack: {error}") from error


def _reader_for(value: Any) -> Callable[[Any], ArrayView] | None:
    if isinstance(value, np.ndarray):
        return _refuse_masked if _is_masked(value) else _read_numpy
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        return _read_tensor
    if isinstance(value, np.generic):
        return None
    if hasattr(value, "__array_interface__"):
        return _read_interface
    if hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__"):
        return _read_cuda_interface
    return None


_readers: dict[type, Callable[[Any], ArrayView]] = {np.ndarray: _read_numpy, TensorWrapper: _read_wrapper}

_element_names: dict[Any, str] = {}
