"""The simulator behind the interface of `driver.Device`: what a GPU would do, without one.

device = Simulated(90)
results = device.run(device.load(entry, ptx), grid, arguments)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from driver import ALIGNMENT, Array, Kernel

from tilewright.backends.ptxsim import DeviceMemory, Launch, load
from tilewright.backends.ptxsim.tensor_maps import ELEMENTS, SWIZZLES, TensorMap


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
        return Kernel(load(code.decode()), entry)

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
        Launch(kernel.function, **shape).run(memory, given)
        return [memory.copy_out(place, array.shape, array.dtype) for place, array in zip(places, arrays, strict=True)]

    def repeat(self, launch: Any, code: bytes, memory: Sequence[Array]) -> list[Array]:
        """Launch once what a bundle has with its memory; what that holds afterwards."""
        device, places = DeviceMemory(), list[int]()
        for (_, phase), piece in zip(launch.pieces, memory, strict=True):
            places.append(device.allocate(piece.size, align=ALIGNMENT, phase=phase))
            device.fill(places[-1], piece)
        given = [_parameter(*parameter, places=places) for parameter in launch.parameters]
        x, y, z = launch.grid
        scratch = launch.scratch * x * y * z * launch.ctas
        given += [device.allocate(scratch) if scratch else 0, 0]
        shape = {"grid": (x * launch.ctas, y, z), "shared": launch.shared, "cluster": (launch.ctas, 1, 1)}
        Launch(load(code.decode()), **shape).run(device, given)
        return [device.bytes_at(place, piece.size) for place, piece in zip(places, memory, strict=True)]


def _parameter(kind: str, *facts: Any, places: Sequence[int]) -> Any:
    if kind == "number":
        return bytes.fromhex(facts[0])
    piece, offset, *rest = facts
    address = places[piece] + offset if piece >= 0 else 0
    if kind == "memory":
        return address
    element, shape, strides, box, swizzle, pads_with_nan = rest
    axes = {"shape": tuple(shape), "strides": tuple(strides), "box": tuple(box)}
    found = TensorMap(
        address=address, element=ELEMENTS[element], swizzle=SWIZZLES[swizzle], fill_nan=pads_with_nan, **axes
    )
    return found.encode()
