"""The simulator behind the interface of `driver.Device`: what a GPU would do, without one.

device = Simulated(90)
results = device.run(device.load(entry, ptx), grid, arguments)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from driver import Array, Kernel

from tilewright.backends.ptxsim import DeviceMemory, Launch, load


class Simulated:
    """A GPU that is simulated.

    Attributes:
        capability: as 90.
        facts: as of a device.
    """

    def __init__(self, capability: int) -> None:
        self.capability = capability
        self.facts = {"device": "simulator", "capability": capability, "driver": "none"}

    def load(self, entry: Any, code: bytes) -> Kernel:
        """A kernel of the bundle, from its PTX."""
        return Kernel(load(code.decode()), entry)  # type: ignore[arg-type]

    def run(self, kernel: Kernel, grid: Sequence[int], arguments: Sequence[Any]) -> list[Array]:
        """Launch once; what the arrays hold afterwards, in order."""
        memory, entry = DeviceMemory(), kernel.entry
        arrays = [value for value in arguments if isinstance(value, np.ndarray)]
        places = [memory.copy_in(array) for array in arrays]
        rest = iter(places)
        given = [next(rest) if isinstance(value, np.ndarray) else value for value in arguments]
        x, y, z = (*grid, 1, 1)[:3]
        scratch = entry.scratch * x * y * z * entry.ctas
        given += [memory.allocate(scratch) if scratch else 0, 0]
        shape = {"grid": (x * entry.ctas, y, z), "shared": entry.shared, "cluster": (entry.ctas, 1, 1)}
        Launch(kernel.function, **shape).run(memory, given)  # type: ignore[arg-type]
        return [memory.copy_out(place, array.shape, array.dtype) for place, array in zip(places, arrays, strict=True)]
