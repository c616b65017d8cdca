"""Arrays of the host in the memory of a simulated device, and back.

    regions = Regions(memory, [("x", view_of(x)), ("tail", view_of(x[5:]))])
    regions.address_of(view)        # both views lie in one piece of device memory, as far apart as on the host
    regions.copy_back()             # what the kernel stored, and nothing else

Arrays that overlap share a piece. A piece starts at the same place modulo 256 as on the host, so that addresses are
as divisible as the kernel was compiled for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends.ptxsim import DeviceMemory
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.errors import ArgumentError
from tilewright.runtime.extents import Extent, extent_of

ALIGNMENT = 256


@dataclass
class Region:
    """A piece of the host's memory and its copy.

    Attributes:
        name: the name of the arrays there, for messages.
        low, high: addresses on the host.
        address: the address of the copy.
        writable: may a kernel store there?
        owners: what keeps the host's memory alive.
    """

    name: str
    low: int
    high: int
    writable: bool
    owners: list[Any]
    address: int = 0

    def host_bytes(self) -> Any:
        """The memory on the host."""
        return np.asarray(_Bytes(self)) if self.high > self.low else np.empty(0, np.uint8)


class _Bytes:
    """A region in the form that NumPy makes arrays of."""

    def __init__(self, region: Region) -> None:
        self.owner = region
        self.__array_interface__ = {
            "version": 3,
            "shape": (region.high - region.low,),
            "typestr": "|u1",
            "data": (region.low, not region.writable),
        }


class Regions:
    """The memory of a launch's arrays on a device.

    Args:
        memory: the memory of the device.
        arrays: with the names of the parameters.

    Raises:
        ArgumentError: an array does not say how large it is.
    """

    def __init__(self, memory: DeviceMemory, arrays: Sequence[tuple[str, ArrayView]]) -> None:
        self._memory = memory
        self.regions: list[Region] = []
        for extent, view in sorted(((_extent(*named), named[1]) for named in arrays), key=lambda pair: pair[0].low):
            last = self.regions[-1] if self.regions else None
            if last is not None and extent.low < last.high:
                last.high = max(last.high, extent.high)
                last.writable |= view.writable
                last.owners.append(view.owner)
                last.name = f"{last.name}, {extent.name}"
            else:
                self.regions.append(Region(extent.name, extent.low, extent.high, view.writable, [view.owner]))
        for region in self.regions:
            content, phase = region.host_bytes(), region.low % ALIGNMENT
            start = memory.allocate(content.size, name=region.name, align=ALIGNMENT, phase=phase)
            memory.fill(start, content, writable=region.writable)
            region.address = start

    def address_of(self, view: ArrayView) -> int:
        """The device's address of an array's first element."""
        for region in self.regions:
            if region.low <= view.address < region.high or region.low == view.address:
                return region.address + view.address - region.low
        return 0

    def copy_back(self) -> None:
        """Bring what kernels stored to the host; bytes that they did not store are not touched."""
        for region in self.regions:
            size = region.high - region.low
            stored = self._memory.was_written(region.address, size)
            if region.writable and stored.any():
                region.host_bytes()[stored] = self._memory.bytes_at(region.address, size)[stored]


def _extent(name: str, view: ArrayView) -> Extent:
    found = extent_of(name, view)
    if found is None:
        kind = type(view.owner).__name__
        raise ArgumentError(f"argument {name!r}: a {kind} does not say how large it is, so that it cannot be copied")
    return found
