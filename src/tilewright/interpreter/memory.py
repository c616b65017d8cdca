"""The memory of the interpreters: the buffers passed to a kernel, accessed by address.

    memory = Memory([buffer_of("x", x), buffer_of("out", out)])
    memory.read(addresses, np.dtype("f4"), mask, op)

Pointers are plain integers. Every address of an unmasked lane must be in one of the buffers; masked-off lanes access
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewright.ir.attributes import place_of
from tilewright.ir.core import Op
from tilewright.support.diagnostics import TilewrightError

Array: TypeAlias = Any
"""A NumPy array or NumPy scalar."""


NEAR = 4096
"""The distance that a wrong index is thought to reach behind an argument, beyond the argument's own size, in bytes."""
EVERY_LANE = slice(None)
"""The index of all lanes."""
ADVICE = "; memory that a table of addresses names has to be passed as arguments, too"
"""The end of the message about an address that is near no argument."""


class OutOfBoundsError(TilewrightError, IndexError):
    """A lane that no mask switches off points outside of every buffer."""


class ReadOnlyArrayError(TilewrightError, ValueError):
    """A store to an array that must not be written."""


class HostBuffer:
    """The memory of one argument.

    Attributes:
        name: of the argument.
        start: the address that the kernel gets.
        low, high: the first address, and the one behind the last.
        element: bytes per element, to speak of elements in messages.
        writable: whether a kernel may store to it.
    """

    def __init__(self, name: str, start: int, low: int, high: int, *, element: int, writable: bool, owner: Any) -> None:
        self.name, self.start, self.low, self.high = name, start, low, high
        self.element, self.writable = element, writable
        self._bytes = np.asarray(_Bytes(low, high - low, writable, owner)) if high > low else np.empty(0, np.uint8)
        self._typed: dict[tuple[np.dtype[Any], int], np.ndarray[Any, Any]] = {}

    def holds(self, lowest: int, highest: int, size: int) -> bool:
        """Whether elements of `size` bytes at the addresses from `lowest` to `highest` lie in this memory."""
        return self.low <= lowest and highest + size <= self.high

    def typed(self, dtype: np.dtype[Any], phase: int) -> np.ndarray[Any, Any]:
        """The memory from byte `phase` on, as elements of `dtype`."""
        view = self._typed.get((dtype, phase))
        if view is None:
            count = max(0, (self.high - self.low - phase) // dtype.itemsize)
            view = self._bytes[phase : phase + count * dtype.itemsize].view(dtype)
            self._typed[dtype, phase] = view
        return view


class _Bytes:
    """Memory at an address, in the form that NumPy makes arrays of."""

    def __init__(self, address: int, size: int, writable: bool, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, not writable)}


def buffer_of(name: str, array: Any) -> HostBuffer:
    """The memory of a NumPy array, or of an object with `data_ptr()` such as a torch tensor, with any strides."""
    if isinstance(array, np.ndarray):
        start, element, writable = array.ctypes.data, array.dtype.itemsize, array.flags.writeable
        steps = array.strides
    else:
        start, element, writable = array.data_ptr(), array.element_size(), True
        steps = tuple(stride * element for stride in array.stride())
    spans = [(extent - 1) * step for extent, step in zip(array.shape, steps, strict=True)]
    empty = 0 in array.shape
    low = start if empty else start + sum(min(0, span) for span in spans)
    high = start if empty else start + sum(max(0, span) for span in spans) + element
    return HostBuffer(name, start, low, high, element=element, writable=writable, owner=array)


class Memory:
    """All buffers of a launch; they may overlap."""

    def __init__(self, buffers: Sequence[HostBuffer]) -> None:
        self.buffers = list(buffers)

    def reserve(self, size: int, alignment: int) -> int:
        """The address of `size` new bytes that live as long as this memory."""
        array = np.zeros(size + alignment, np.uint8)
        self.buffers.append(buffer_of("scratch memory", array))
        return -(-int(array.ctypes.data) // alignment) * alignment

    def admit(self, array: Array) -> None:
        """Let `array` be accessed by addresses, too."""
        self.buffers.append(buffer_of("scratch memory", array))

    def read(self, addresses: Array, dtype: np.dtype[Any], mask: Array | None, op: Op) -> np.ndarray[Any, Any]:
        """The elements at `addresses` where `mask` holds (None: everywhere); zero elsewhere.

        Raises:
            OutOfBoundsError: an address lies in no buffer.
        """
        result = np.zeros(np.shape(addresses), dtype)
        flat = result.reshape(-1)
        for buffer, lanes, phase, indices in self._places(addresses, dtype, mask, op):
            flat[lanes] = buffer.typed(dtype, phase)[indices]
        return result

    def write(self, addresses: Array, values: Array, mask: Array | None, op: Op) -> None:
        """Put `values` at `addresses` where `mask` holds; of equal addresses the last lane wins.

        Raises:
            OutOfBoundsError: an address lies in no buffer.
            ReadOnlyArrayError: the buffer must not be written.
        """
        shape = np.shape(addresses)
        flat = (values if np.shape(values) == shape else np.broadcast_to(values, shape)).reshape(-1)
        for buffer, lanes, phase, indices in self._places(addresses, flat.dtype, mask, op):
            if not buffer.writable:
                raise ReadOnlyArrayError(f"{op.name} to the read-only argument `{buffer.name}`{place_of(op.location)}")
            buffer.typed(flat.dtype, phase)[indices] = flat[lanes]

    def run(self, first: int, count: int, dtype: np.dtype[Any]) -> tuple[HostBuffer, np.ndarray[Any, Any]] | None:
        """The buffer with `count` elements from an address on, and those elements; None if no buffer has all."""
        end = first + count * dtype.itemsize
        for buffer in self.buffers:
            if buffer.low <= first and end <= buffer.high:
                at, phase = divmod(first - buffer.low, dtype.itemsize)
                return buffer, buffer.typed(dtype, phase)[at : at + count]
        return None

    def _places(
        self, addresses: Array, dtype: np.dtype[Any], mask: Array | None, op: Op
    ) -> Iterator[tuple[HostBuffer, Array, int, Array]]:
        """Per buffer and phase: the lanes that point there, and the elements they point at."""
        flat = np.asarray(addresses, np.int64).reshape(-1)
        lanes: Array = EVERY_LANE
        if mask is not None and not np.all(mask):
            lanes = np.flatnonzero(np.broadcast_to(mask, np.shape(addresses)))
            flat = flat[lanes]
        if not flat.size:
            return
        lowest, highest = (int(flat[0]),) * 2 if flat.size == 1 else (int(flat.min()), int(flat.max()))
        for buffer in self.buffers:
            if buffer.holds(lowest, highest, dtype.itemsize):
                yield from _phases(buffer, lanes, flat - buffer.low, dtype.itemsize)
                return
        lanes = np.arange(flat.size) if lanes is EVERY_LANE else lanes
        yield from self._places_by_buffer(flat, lanes, dtype, np.shape(addresses), op)

    def _places_by_buffer(
        self, left: Array, lanes: Array, dtype: np.dtype[Any], shape: tuple[int, ...], op: Op
    ) -> Iterator[tuple[HostBuffer, Array, int, Array]]:
        """The same for addresses `left` of `lanes` that do not all lie in one buffer."""
        for buffer in self.buffers:
            inside = (left >= buffer.low) & (left <= buffer.high - dtype.itemsize)
            if inside.any():
                yield from _phases(buffer, lanes[inside], left[inside] - buffer.low, dtype.itemsize)
                lanes, left = lanes[~inside], left[~inside]
        if left.size:
            raise OutOfBoundsError(self._explain(int(left[0]), int(lanes[0]), shape, op))

    def _explain(self, address: int, lane: int, shape: tuple[int, ...], op: Op) -> str:
        where = f" (lane {list(map(int, np.unravel_index(lane, shape)))})" if shape else ""
        what = f"{op.name} outside of every argument: address {address:#x}{ADVICE}"
        near = min(self.buffers, key=lambda b: max(b.low - address, address - b.high), default=None)
        if near is not None and max(near.low - address, address - near.high) < near.high - near.low + NEAR:
            index = (address - near.start) // near.element
            count = (near.high - near.low) // near.element
            what = f"{op.name} outside of the argument `{near.name}`: element {index} of {count}"
        return f"{what}{where}{place_of(op.location)}"


def _phases(
    buffer: HostBuffer, lanes: Array, offsets: Array, size: int
) -> Iterator[tuple[HostBuffer, Array, int, Array]]:
    """Lanes by where their elements begin, modulo the size of an element; nearly always there is one such group."""
    first = int(offsets[0]) % size
    if offsets.size == 1:
        yield buffer, lanes, first, offsets // size
        return
    phases = offsets % size
    if (phases == first).all():
        yield buffer, lanes, first, offsets // size
        return
    lanes = np.arange(offsets.size) if lanes is EVERY_LANE else lanes
    for phase in np.unique(phases):
        chosen = phases == phase
        yield buffer, lanes[chosen], int(phase), offsets[chosen] // size
