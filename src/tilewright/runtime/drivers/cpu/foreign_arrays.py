"""Arrays of other libraries as NumPy arrays, and the facts by which native code reads them without NumPy.

    from_dlpack(array), from_interface(array)      the arrays that NumPy makes; a launch in Python uses these
    foreign_facts()                                the address of a FOREIGN, for `native/foreign.py`

The arguments with which this NumPy requests a capsule, and whether it writes to arrays of DLPack's first version, are
determined once, so that native code behaves like the installed NumPy.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tilewright.runtime.drivers.cpu.native.structs import ELEMENT, FOREIGN, NDARRAY_WRITABLE, poke
from tilewright.support.executable_memory import allocate

_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's codes of the kinds of dtypes."""
_ELEMENTS = [np.dtype(code) for code in ("f4", "f2", "f8", "i4", "i8", "i2", "i1", "u1", "u2", "u4", "u8", "?")]
_NAMES = {
    "dlpack": "__dlpack__",
    "cuda_interface": "__cuda_array_interface__",
    "interface": "__array_interface__",
    **{name: name for name in ("data", "shape", "strides", "typestr")},
}
_CAPSULES = {
    "versioned": b"dltensor_versioned",
    "used_versioned": b"used_dltensor_versioned",
    "unversioned": b"dltensor",
    "used_unversioned": b"used_dltensor",
}
_MAX_OPTIONS = 3


def from_interface(value: Any) -> np.ndarray[Any, Any]:
    """An array that only `__array_interface__` describes, as NumPy's."""
    return np.asarray(value)


def from_dlpack(value: Any) -> np.ndarray[Any, Any]:
    """A foreign array on the CPU as NumPy's.

    Raises:
        TypeError: it is on a GPU.
    """
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError("the array is not on the CPU")
    return np.from_dlpack(value)


def tells_by_interface(value: Any) -> bool:
    """Whether NumPy reads an array's `__array_interface__`, and no buffer or struct, which it looks for first."""
    try:
        memoryview(value).release()
    except TypeError:
        return not hasattr(value, "__array_struct__")
    return False


class _Probe:
    """An array that notes how it is asked for a capsule, and gives one of the first version."""

    def __init__(self) -> None:
        self.array = np.zeros(1)
        self.options: dict[str, Any] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        self.options = options
        return self.array.__dlpack__()


def foreign_facts() -> int:
    """The address of a FOREIGN, which lives as long as the process."""
    probe = _Probe()
    writes = np.from_dlpack(probe).flags.writeable
    reads_dlpack = len(probe.options) <= _MAX_OPTIONS
    elements = _elements()
    objects = {
        **_NAMES,
        "interface_form": from_interface,
        "typestrs": {dtype.str: elements + ELEMENT.size * index for index, dtype in enumerate(_ELEMENTS)},
        "type_text": str,
        "type_error": TypeError,
        **({"dlpack_form": from_dlpack} if reads_dlpack else {}),
        **({"options": tuple(probe.options)} if probe.options else {}),
        **dict(zip(("arguments", "argument_1", "argument_2"), probe.options.values(), strict=False)),
    }
    words = {name: _for_ever(value) for name, value in objects.items()}
    words |= {name: _text(value) for name, value in _CAPSULES.items()}
    image = FOREIGN.pack(elements=elements, unversioned_flags=NDARRAY_WRITABLE * writes, **words)
    return _placed(image)


def _elements() -> int:
    """The address of the ELEMENTs."""
    images = [
        ELEMENT.pack(
            code=_KINDS[dtype.kind] | 8 * dtype.itemsize << 8 | 1 << 16, size=dtype.itemsize, dtype=_for_ever(dtype)
        )
        for dtype in _ELEMENTS
    ]
    return _placed(b"".join([*images, ELEMENT.pack()]))


def _for_ever(value: object) -> int:
    """The address of an object that is never taken away again."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return id(value)


def _text(text: bytes) -> int:
    return _placed(text + b"\0")


def _placed(image: bytes) -> int:
    address = allocate(len(image))
    poke(address, image)
    return address
