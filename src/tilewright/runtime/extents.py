"""The memory range of an array, and the array element at an address.

extent_of("x", view_of(np.zeros((4, 5), np.float32)[:, ::2]))      72 bytes from its first element on
extent.element_at(address)                                         (2, 1)
storage_of("x", …)                             all 80 bytes of the array that it is a view of
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.runtime.arrays import ArrayView


class Extent(NamedTuple):
    """The memory of one argument.

    Attributes:
        start: the address of element (0, …, 0).
        low, high: the first address, and the one behind the last.
        size: bytes per element.
        shape, steps: extents, and bytes from one element to the next, for each axis.
    """

    name: str
    start: int
    low: int
    high: int
    size: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    def element_at(self, address: int) -> tuple[int, ...]:
        """The element at `address`; outside of the array, where it would be if the first axis went on."""
        found = [0] * len(self.shape)
        axes = sorted(range(len(self.shape)), key=lambda axis: -abs(self.steps[axis]))
        axes = [axis for axis in axes if self.steps[axis] and (self.shape[axis] > 1 or len(axes) == 1)]
        rest = address - self.start
        for place, axis in enumerate(axes):
            step = self.steps[axis]
            low, high = _reach([(self.shape[other], self.steps[other]) for other in axes[place + 1 :]])
            found[axis] = (rest - low) // step if step > 0 else (high + self.size - 1 - rest) // -step
            rest -= found[axis] * step
        return tuple(found)


def extent_of(name: str, view: ArrayView) -> Extent | None:
    """The extent of an array, or None when it does not say how large it is."""
    owner, start = view.owner, view.address
    if isinstance(owner, np.ndarray):
        size, steps = owner.itemsize, owner.strides
        if owner.flags.c_contiguous:
            return Extent(name, start, start, start + owner.nbytes, size, owner.shape, steps)
    elif hasattr(owner, "element_size") and hasattr(owner, "stride"):
        size = owner.element_size()
        steps = tuple(stride * size for stride in owner.stride())
    else:
        return None
    shape = tuple(map(int, owner.shape))
    if 0 in shape:
        return Extent(name, start, start, start, size, shape, steps)
    low, high = _reach(list(zip(shape, steps, strict=True)))
    return Extent(name, start, start + low, start + high + size, size, shape, steps)


def storage_of(name: str, view: ArrayView) -> Extent | None:
    """The extent of all memory that was allocated together with an array; None when the array does not say."""
    found, owner = extent_of(name, view), view.owner
    if found is None:
        return None
    spans = [(found.low, found.high)]
    while isinstance(owner, np.ndarray):
        start, reach = owner.ctypes.data, _reach(list(zip(owner.shape, owner.strides, strict=True)))
        spans.append((start + reach[0], start + reach[1] + owner.itemsize) if owner.size else (start, start))
        owner = owner.base
    if hasattr(owner, "untyped_storage"):
        storage = owner.untyped_storage()
        spans.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    spans = [(low, high) for low, high in spans if high > low] or spans
    return found._replace(low=min(low for low, _ in spans), high=max(high for _, high in spans))


def _reach(axes: list[tuple[int, int]]) -> tuple[int, int]:
    """The least and the greatest offset of an element."""
    spans = [(extent - 1) * step for extent, step in axes]
    return sum(min(0, span) for span in spans), sum(max(0, span) for span in spans)
