"""Uninitialised arrays, as tracked by the sanitizer.

    out = tilewright.uninitialized(np.empty(1000, np.float32))
    kernel[grid](out, …, sanitize="uninit")          # loads of elements that no such kernel stored are reported

An unmarked array counts as written. Only sanitized kernels record their stores in the mark.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tilewright.runtime.arrays import view_of
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.extents import Extent, extent_of

Array = TypeVar("Array")


class _Mark(NamedTuple):
    """The record of a marked array: for each element of its span whether it was written."""

    extent: Extent
    written: Any

    def place(self, extent: Extent) -> slice | None:
        """The elements that are those of `extent`; None when it is no part, or one of other elements."""
        own = self.extent
        inside = own.low <= extent.low and extent.high <= own.high
        if not inside or own.size != extent.size or (extent.low - own.low) % own.size:
            return None
        return slice((extent.low - own.low) // own.size, (extent.high - own.low) // own.size)


_marks: dict[int, _Mark] = {}
"""Marks by serial number. They go when their arrays do, at any time, so a search iterates over a copy."""
_serials = itertools.count()


def uninitialized(array: Array) -> Array:
    """Mark `array` as having no valid contents until a kernel with `sanitize="uninit"` stores to it.

    Args:
        array: a NumPy array or torch tensor; parts of it may be passed to kernels too.

    Returns: `array`.

    Raises:
        ArgumentError: it is no array.

    Example:
        >>> @tw.jit
        ... def read(x_ptr, out_ptr):
        ...     tl.store(out_ptr, tl.load(x_ptr))
        >>> x = tw.uninitialized(np.empty(1))
        >>> read[(1,)](x, np.empty(1), sanitize="uninit")
        Traceback (most recent call last):
        tilewright.runtime.findings.SanitizerError: ...
    """
    extent = _extent(array)
    if not _set(extent, 0):
        serial = next(_serials)
        _marks[serial] = _Mark(extent, np.zeros((extent.high - extent.low) // extent.size, np.uint8))
        weakref.finalize(array, _marks.pop, serial, None)
    return array


def initialized(array: Array) -> Array:
    """Mark the present contents of `array` as valid.

    Args:
        array: what was given to `uninitialized`, or a part of it; any other array is valid anyway.

    Returns: `array`.

    Raises:
        ArgumentError: it is no array.
    """
    _set(_extent(array), 1)
    return array


def written_of(extent: Extent) -> int:
    """The address of the byte that says whether the first element of `extent` was written; 0 if it is unmarked."""
    found = _written(extent)
    return 0 if found is None else int(found.ctypes.data)


def _set(extent: Extent, written: int) -> bool:
    """Change what is known of the array at `extent`; returns whether it, or what it is a part of, was marked."""
    found = _written(extent)
    if found is not None:
        found[:] = written
    return found is not None


def _written(extent: Extent) -> Any:
    """The part of a mark that is about `extent`, one byte per element; None if it is unmarked."""
    places = ((mark, mark.place(extent)) for mark in list(_marks.values()))
    return next((mark.written[place] for mark, place in places if place is not None), None)


def _extent(array: object) -> Extent:
    view = view_of(array)
    extent = extent_of("", view) if view is not None else None
    if extent is None:
        raise ArgumentError(f"a {type(array).__name__} is no array")
    return extent
