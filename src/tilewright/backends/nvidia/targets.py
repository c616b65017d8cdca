"""NVIDIA's devices by compute capability: their names in compilers and their limits of shared memory.

find(90).llvm_cpu, find(90).ptx, find(90).shared_limit       # "sm_90a", 84, 232448
"""

from __future__ import annotations

from tilewright.support.diagnostics import TilewrightError
from tilewright.support.named_tuple import NamedTuple

FIRST_WITH_SUFFIX = 90
"""The first capability whose code uses instructions that only the very device has; a suffix `a` asks for them."""
KIBI = 1024


class UnknownDeviceError(TilewrightError, ValueError):
    """There is no code generation for a compute capability."""


class Device(NamedTuple):
    """One kind of device.

    Attributes:
        capability: its compute capability, as 90.
        ptx: the oldest version of PTX, as 84, that has all instructions that we use there.
        shared_limit: max bytes of shared memory that one program may ask for.
    """

    capability: int
    ptx: int
    shared_limit: int

    @property
    def llvm_cpu(self) -> str:
        """The device's name for LLVM and for ptxas."""
        return f"sm_{self.capability}{'a' if self.capability >= FIRST_WITH_SUFFIX else ''}"


DEVICES = {
    capability: Device(capability, ptx, shared * KIBI)
    for capability, ptx, shared in (
        (70, 84, 96),
        (72, 84, 96),
        (75, 84, 64),
        (80, 84, 163),
        (86, 84, 99),
        (87, 84, 163),
        (89, 84, 99),
        (90, 84, 227),
        (100, 87, 227),
        (103, 88, 227),
        (110, 90, 227),
        (120, 87, 99),
        (121, 88, 99),
    )
}
LATEST_PTX = 90
"""The newest version of PTX that LLVM writes."""


def find(capability: int) -> Device:
    """The device of a compute capability.

    Raises:
        UnknownDeviceError: we generate no code for it.
    """
    if capability not in DEVICES:
        known = ", ".join(map(str, DEVICES))
        raise UnknownDeviceError(f"there is no code generation for cuda:{capability}; known are {known}")
    return DEVICES[capability]
