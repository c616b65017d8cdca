"""Memory for machine code, and memory that lives as long as the process.

    code = map_code(image)
    code.address                            # executable until code.unmap()

The calls of each system are in `support/system`. Pages are never writable and executable at once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping as Map

from tilewright.support.diagnostics import TilewrightError
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM


def why_no_code() -> str:
    """The reason why machine code cannot be mapped into this process; "" where it can."""
    return SYSTEM.why_no_code()


class PlatformError(TilewrightError, OSError):
    """This system cannot run compiled kernels."""


class Mapping(NamedTuple):
    """Executable memory: `size` bytes from `address`, a multiple of the page size."""

    address: int
    size: int

    def unmap(self) -> None:
        """Gives the memory back; running or calling the code afterwards crashes the process."""
        SYSTEM.unmap_code(self.address, self.size)


def map_code(image: bytes, *, pointers: Map[int, int] | None = None) -> Mapping:
    """Maps an image as executable code.

    Args: image: the bytes of a blob for this machine; pointers: addresses to write at given offsets first.
    Errors: OSError when the system gives no executable memory; PlatformError when code cannot be mapped here at all.
    """
    _require_code()
    if pointers:
        filled = bytearray(image)
        for offset, value in pointers.items():
            struct.pack_into("<Q", filled, offset, value)
        image = bytes(filled)
    return Mapping(SYSTEM.map_code(image), len(image))


def allocate(size: int) -> int:
    """Zeroed memory for the life of the process, at a multiple of the page size.

    Errors: OSError when there is none; PlatformError as in `map_code`.
    """
    _require_code()
    return SYSTEM.allocate(size)


def _require_code() -> None:
    """Refuses systems where machine code cannot be mapped."""
    if reason := why_no_code():
        raise PlatformError(
            f"compiled kernels cannot run on this CPU: {reason}; TRITON_INTERPRET=1 runs kernels as Python "
            "functions, and `tilewright.simulate` in a simulated GPU"
        )
