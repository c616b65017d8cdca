"""Where CPython, NumPy and torch keep what the native launcher reads, checked in this process before it is relied on.

Every function here answers from descriptors or from a known object; whatever does not look as expected gives None,
and the launcher leaves such arguments to Python. This is the only file that knows layouts of foreign objects.
"""

from __future__ import annotations

import ctypes
import sys
from types import CellType
from typing import Any

import numpy as np

from tilewright.runtime.drivers.cpu.native.structs import NDARRAY_DATA, NDARRAY_DTYPE, NDARRAY_FLAGS
from tilewright.support.named_tuple import NamedTuple

_TYPE_OFFSET = 8  # of ob_type
_DESCRIPTOR_OFFSET = 40  # of d_member, d_method, d_getset and d_base in descriptor objects
_NO_ARGUMENTS = 4  # METH_NOARGS
_CELL_CONTENT = 16  # of ob_ref


def is_supported_python() -> bool:
    """CPython with a GIL and without debug fields in every object."""
    if sys.implementation.name != "cpython" or hasattr(sys, "gettotalrefcount"):
        return False
    if "t" in sys.abiflags:  # free-threaded
        return False
    return _word(id(_word) + _TYPE_OFFSET) == id(type(_word))


def function_address(library: ctypes.CDLL, name: str) -> int:
    """The address of a C function.

    Errors: ValueError when the library has none of that name.
    """
    return ctypes.addressof(ctypes.c_char.in_dll(library, name))


def slot_offset(owner: type, name: str) -> int | None:
    """Where instances of a class keep the value of its `__slots__` entry `name`."""
    definition = _definition(owner.__dict__.get(name), name, "member_descriptor")
    return None if definition is None else _word(definition + 16)


def cell_offset() -> int | None:
    """Where a cell, a variable that functions share, keeps its content."""
    content = object()
    cell = CellType(content)
    return _CELL_CONTENT if _word(id(cell) + _CELL_CONTENT) == id(content) else None


def subscript_definition() -> int | None:
    """CPython's own record of the method `__getitem__` that stands for the mapping slot."""
    return _definition(type(type.__dict__).__dict__.get("__getitem__"), "__getitem__", "wrapper_descriptor")


def ndarray_is_as_expected() -> bool:
    """Do NumPy arrays keep data, dtype and flags where native code reads them?"""
    probe = np.arange(4, dtype=np.float32)[1:]
    address = id(probe)
    flags = ctypes.c_int32.from_address(address + NDARRAY_FLAGS).value
    data, dtype = _word(address + NDARRAY_DATA), _word(address + NDARRAY_DTYPE)
    expected: int = probe.__array_interface__["data"][0]
    return (data, dtype, flags) == (expected, id(probe.dtype), probe.flags.num)


class TensorAccess(NamedTuple):
    """How to read torch tensors: C functions of the class that all tensors share."""

    data_ptr: int
    dtype_getter: int
    dtype_closure: int
    is_cpu_getter: int
    is_cpu_closure: int


def tensor_access(torch: Any) -> TensorAccess | None:
    """What the module `torch` offers."""
    members = torch._C.TensorBase.__dict__
    method = _definition(members.get("data_ptr"), "data_ptr", "method_descriptor")
    dtype, is_cpu = (_definition(members.get(name), name, "getset_descriptor") for name in ("dtype", "is_cpu"))
    if method is None or dtype is None or is_cpu is None:
        return None
    if ctypes.c_int32.from_address(method + 16).value != _NO_ARGUMENTS:
        return None
    return TensorAccess(_word(method + 8), _word(dtype + 8), _word(dtype + 32), _word(is_cpu + 8), _word(is_cpu + 32))


def _definition(descriptor: object, name: str, kind: str) -> int | None:
    """The C record behind a descriptor; it starts with a pointer to the name, which is checked."""
    if type(descriptor).__name__ != kind:
        return None
    definition = _word(id(descriptor) + _DESCRIPTOR_OFFSET)
    found = ctypes.string_at(_word(definition)) if definition else b""
    return definition if found == name.encode() else None


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
