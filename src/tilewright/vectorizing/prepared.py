"""A prepared call: for arguments with these dtypes, shapes and strides only addresses are missing.

key = key_of((x, 2.0), out=None, mask=None)      ((float64, (1000, 3), (24, 8)), float), or None if it is not so simple
prepared = Prepared(code, plan, …)
flags = prepared.run(native, [address of x, address of 2.0, address of the result])
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.runtime.drivers.cpu.native.structs import NDARRAY_DATA
from tilewright.vectorizing.build import Code
from tilewright.vectorizing.iteration import Plan, chunk_for
from tilewright.vectorizing.kinds import WEAK_KINDS
from tilewright.vectorizing.native.structs import CALL, OPERAND

Array = np.ndarray[Any, Any]
_WORD = 8
_FLAGS, _CONTROL = (CALL.fields[name].offset // _WORD for name in ("flags", "control"))


def key_of(values: Sequence[Any], *more: Any) -> Any:
    """The key of a call besides addresses; None if there is anything but numbers and NumPy's arrays."""
    key: list[Any] = []
    for value in (*values, *more):
        kind = value.__class__
        if kind is np.ndarray and value.dtype.isnative:
            key.append((value.dtype, value.shape, value.strides))
        elif kind in WEAK_KINDS or value is None:
            key.append(kind)
        else:
            return None
    return tuple(key)


def address_of(array: Array) -> int:
    """The address of the elements; read as native code reads it, which is five times as fast as NumPy's method."""
    return ctypes.c_uint64.from_address(id(array) + NDARRAY_DATA).value


class Prepared:
    """A CALL without addresses.

    Args:
        code: of the span.
        going: the axes.
        sizes: bytes of an element, per operand.
        may_repeat: the result overlaps no input.
        cost: what earlier runs took; updated.

    Attributes:
        shape, order, dtype: of a new result, for those who make one; set by them.
    """

    def __init__(
        self, code: Code, going: Plan, sizes: Sequence[int], *, may_repeat: bool, cost: ctypes.c_int64
    ) -> None:
        *outer, length = going.extents
        chunk = length if code.lanes == 1 else chunk_for(code.lanes, max(sizes))
        rank, count = len(outer), len(sizes)
        self.programs = per_row = -(-length // chunk)
        for extent in outer:
            self.programs *= extent
        fields = {
            "span": code.address,
            "rest": code.address,
            "lanes": code.lanes,
            "length": length,
            "chunk": chunk,
            "per_row": per_row,
            "count": count,
            "may_repeat": int(may_repeat),
            "rank": rank,
        }
        head = [0] * (CALL.size // _WORD)
        for name, value in fields.items():
            head[CALL.fields[name].offset // _WORD] = value
        outside = [stride for strides in going.strides for stride in strides[:rank]]
        operands = [word for strides in going.strides for word in (0, strides[-1])]
        self._words = [*head, *outer, *sizes, *outside, *operands]
        self._type = ctypes.c_int64 * len(self._words)
        starts = {"shape": len(head), "sizes": len(head) + rank, "strides": len(head) + rank + count}
        self._first = starts["operands"] = starts["strides"] + rank * count
        self._pointers = [(CALL.fields[name].offset // _WORD, start * _WORD) for name, start in starts.items()]
        self._cost, self._cost_at = cost, ctypes.addressof(cost)
        self._free: list[Any] = []
        self.shape: tuple[int, ...] = ()
        self.order: Sequence[int] | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.bool_)

    def run(self, native: Any, addresses: Sequence[int], *, threads: int = 0) -> int:
        """Run all programs, in order if it is on one thread; the flags of what went wrong.

        Raises:
            MemoryError: the launcher has no memory.
        """
        call = self._free.pop() if self._free else self._made()
        place = self._first
        for address in addresses:
            call[place] = address
            place += OPERAND.size // _WORD
        call[_FLAGS] = call[_CONTROL] = 0
        if not native.execute(native.rows, call, self.programs, 0, threads, self._cost_at):
            raise MemoryError("no memory to run the function")
        flags = int(call[_FLAGS])
        self._free.append(call)
        return flags

    def _made(self) -> Any:
        """A CALL in memory; one for each thread that runs at the same time."""
        call = self._type(*self._words)
        start = ctypes.addressof(call)
        for place, offset in self._pointers:
            call[place] = start + offset
        return call

    def new(self) -> Array:
        """A new result."""
        if self.order is None:
            return np.empty(self.shape, self.dtype)
        inverse = np.argsort(self.order)
        return np.empty([self.shape[axis] for axis in self.order], self.dtype).transpose(inverse)
