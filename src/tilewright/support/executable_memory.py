"""Memory for machine code, and memory that lives as long as the process.

    code = map_code(image)
    code.address                            # executable until code.unmap()

The pages are anonymous, written while writable, then switched to read + execute: never both. (On AArch64, Linux makes
the instruction cache of fresh pages coherent when they become executable.)
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Mapping as Map
from functools import cache

from tilewright.support.diagnostics import TilewrightError
from tilewright.support.named_tuple import NamedTuple

_READ_WRITE, _READ_EXECUTE = 3, 5
_FAILED = ctypes.c_void_p(-1).value


def why_no_code() -> str:
    """The reason why machine code cannot be mapped into this process; "" where it can.

    Windows hands out memory by other functions; macOS on AArch64 wants a flag for memory with code, and the caches of
    instructions told of it. None of that was ever tried.
    """
    return "" if sys.platform == "linux" else f"it is made for Linux, and this is {sys.platform}"


class PlatformError(TilewrightError, OSError):
    """This system cannot run compiled kernels."""


class Mapping(NamedTuple):
    """Executable memory: `size` bytes from `address`, a multiple of the page size."""

    address: int
    size: int

    def unmap(self) -> None:
        """Gives the memory back; running or calling the code afterwards crashes the process."""
        c_library().munmap(self.address, self.size)


def map_code(image: bytes, *, pointers: Map[int, int] | None = None) -> Mapping:
    """Maps an image as executable code.

    Args: image: the bytes of a blob for this machine; pointers: addresses to write at given offsets first.
    Errors: OSError when the system gives no executable memory; PlatformError when code cannot be mapped here at all.
    """
    _require_code()
    libc = c_library()
    size = -(-len(image) // mmap.PAGESIZE) * mmap.PAGESIZE
    address = allocate(size)
    ctypes.memmove(address, image, len(image))
    for offset, value in (pointers or {}).items():
        ctypes.memmove(address + offset, struct.pack("<Q", value), 8)
    if libc.mprotect(address, size, _READ_EXECUTE):
        error = _system_error("the system does not let this process make memory executable")
        libc.munmap(address, size)
        raise error
    return Mapping(address, size)


def allocate(size: int) -> int:
    """Zeroed memory for the life of the process, at a multiple of the page size.

    Errors: OSError when there is none; PlatformError as in `map_code`.
    """
    _require_code()
    address = c_library().mmap(None, size, _READ_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address == _FAILED:
        raise _system_error("no memory for the runtime")
    return int(address)


def _system_error(message: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{message}: {os.strerror(number)}")


@cache
def c_library() -> ctypes.CDLL:
    """The C library, opened on first use; each opening of its own costs 20 µs."""
    library = ctypes.CDLL(None, use_errno=True)
    address, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = address
    library.mmap.argtypes = [address, size, integer, integer, integer, ctypes.c_long]
    library.mprotect.argtypes = [address, size, integer]
    library.munmap.argtypes = [address, size]
    library.write.restype, library.write.argtypes = ctypes.c_ssize_t, [integer, address, size]
    return library


def _require_code() -> None:
    """Refuses systems where machine code cannot be mapped."""
    if reason := why_no_code():
        raise PlatformError(
            f"compiled kernels cannot run on this CPU: {reason}; TRITON_INTERPRET=1 runs kernels as Python "
            "functions, and `tilewright.simulate` in a simulated GPU"
        )
