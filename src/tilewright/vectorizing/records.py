"""RECORDs: the data with which native code runs a call by itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.backends.llvm.machine import host_identity
from tilewright.vectorizing.build import Code
from tilewright.vectorizing.iteration import chunk_for
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.native.structs import (
    KEY,
    RECORD,
    RESULT_BOOL,
    RESULT_FLOAT,
    RESULT_INT,
    ROLE_ARRAY,
    ROLE_BOOL,
    ROLE_FLOAT,
    ROLE_INT,
)
from tilewright.vectorizing.operands import Operand

_NUMBERS = {"bool": (bool, ROLE_BOOL), "float64": (float, ROLE_FLOAT), "int64": (int, ROLE_INT)}
_kept: list[Any] = []
"""dtypes that records point to; few, and alive as long as the process."""


def scalar_record(code: Code, kinds: Sequence[Kind]) -> Any:
    """The RECORD of a call with Python's numbers."""
    result = RESULT_FLOAT if code.result.is_float else RESULT_BOOL if code.result.is_bool else RESULT_INT
    return _record(map(_number_key, kinds), count=len(kinds), entry=code.address, result=result)


def array_record(code: Code, operands: Sequence[Operand]) -> Any:
    """The RECORD of a call with arrays of one shape and order, and numbers."""
    dtype = np.dtype(code.result.name)
    sizes = [operand.array.itemsize for operand in operands if not operand.kind.weak]
    _kept.append(dtype)
    return _record(
        map(_key, operands),
        count=len(operands),
        is_array=1,
        entry=code.address,
        stream=0 if can_stream(code) else code.address,
        result=id(dtype),
        size=dtype.itemsize,
        lanes=code.lanes,
        chunk=chunk_for(code.lanes, max(*sizes, dtype.itemsize)),
        cost=-1,
        checks=int(code.checks),
    )


def can_stream(code: Code) -> bool:
    """Whether large results should be written past the caches. Each vector has to fill whole cache lines."""
    return (
        code.quick and host_identity().startswith("x86") and code.lanes * np.dtype(code.result.name).itemsize % 64 == 0
    )


def set_stream(record: Any, code: Code) -> None:
    """Let large results be written by this code."""
    RECORD.write(ctypes.addressof(record), "stream", code.address)


def _record(keys: Any, **fields: int) -> Any:
    image = RECORD.pack(**fields) + b"".join(keys)
    return ctypes.create_string_buffer(image, len(image))


def _key(operand: Operand) -> bytes:
    if operand.kind.weak:
        return _number_key(operand.kind)
    dtype = operand.array.dtype
    _kept.append(dtype)
    return KEY.pack(expected=id(dtype), role=ROLE_ARRAY, size=dtype.itemsize)


def _number_key(kind: Kind) -> bytes:
    python, role = _NUMBERS[kind.name]
    return KEY.pack(expected=id(python), role=role, size=np.dtype(kind.name).itemsize)
