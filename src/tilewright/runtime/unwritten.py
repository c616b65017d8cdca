"""Arrays that have no valid contents yet, as the sanitizer sees them.

    out = tilewright.uninitialized(np.empty(1000, np.float32))
    kernel[grid](out, …, sanitize="uninit")          # loads of elements that no such kernel stored are reported

An array that nobody marked counts as written. Only sanitised kernels tell the mark what they store.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tilewright.runtime.arrays import view_of
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.extents import Extent, extent_of

Array = TypeVar("Array")


class _Mark(NamedTuple):
    """What is known of a marked array: for each element of its span whether it was written."""

    extent: Extent
    written: Any


_marks: dict[tuple[int, int], _Mark] = {}
_lock = threading.Lock()


def uninitialized(array: Array) -> Array:
    """Mark `array` as having no valid contents until a kernel with `sanitize="uninit"` stores to it.

    Args:
        array: a NumPy array or torch tensor; parts of it may be passed to kernels too.

    Returns: `array`.

    Raises:
        ArgumentError: it is no array.
    """
    extent = _extent(array)
    key = (extent.low, extent.high)
    with _lock:
        _marks[key] = _Mark(extent, np.zeros((extent.high - extent.low) // extent.size, np.uint8))
    weakref.finalize(array, _marks.pop, key, None)
    return array


def initialized(array: Array) -> Array:
    """Take the mark of `uninitialized` off: what `array` holds now is valid.

    Returns: `array`.

    Raises:
        ArgumentError: it is no array.
    """
    extent = _extent(array)
    with _lock:
        for mark in list(_marks.values()):
            if mark.extent.low <= extent.low and extent.high <= mark.extent.high:
                size = mark.extent.size
                first, end = (edge - mark.extent.low for edge in (extent.low, extent.high))
                mark.written[first // size : -(-end // size)] = 1
    return array


def written_of(extent: Extent) -> int:
    """The address of the byte that says whether the first element of `extent` was written; 0 if nobody marked it."""
    with _lock:
        for mark in _marks.values():
            known = mark.extent
            inside = known.low <= extent.low and extent.high <= known.high
            if inside and known.size == extent.size and (extent.low - known.low) % known.size == 0:
                return int(mark.written.ctypes.data) + (extent.low - known.low) // known.size
    return 0


def _extent(array: object) -> Extent:
    view = view_of(array)
    extent = extent_of("", view) if view is not None else None
    if extent is None:
        raise ArgumentError(f"a {type(array).__name__} is no array")
    return extent
