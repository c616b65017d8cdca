"""Maps blobs into memory as executable code, without llvmlite and without files.

    code = LoadedCode(image, entry_offset, name)
    code.entry                              # an address, as long as `code` lives

The pages are anonymous, written while writable, then switched to read + execute: never both. (On AArch64, Linux makes
the instruction cache of fresh pages coherent when they become executable.) Who runs code holds the object that stands
for it, and the pool returns when no worker is inside: where the last reference is gone, nobody runs the code.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
from collections.abc import Mapping as Map
from functools import cache
from sys import is_finalizing

from tilewright.runtime.drivers.cpu.native.structs import CODE, CODES, Memory, poke
from tilewright.support.diagnostics import TilewrightError
from tilewright.support.locks import fork_safe_lock
from tilewright.support.named_tuple import NamedTuple

_READ_WRITE, _READ_EXECUTE = 3, 5
_MACHINES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}
_FAILED = ctypes.c_void_p(-1).value
_MIN_CODES = 16  # entries to begin with


def host_machine() -> str:
    """The machine name that a blob must have to run here; unknown machines give their own name."""
    name = platform.machine().lower()
    return _MACHINES.get(name, name)


def why_no_code() -> str:
    """The reason why machine code cannot be mapped into this process; "" where it can.

    Windows hands out memory by other functions; macOS on AArch64 wants a flag for memory with code, and the caches of
    instructions told of it. None of that was ever tried.
    """
    return "" if sys.platform == "linux" else f"it is made for Linux, and this is {sys.platform}"


class PlatformError(TilewrightError, OSError):
    """This system cannot run compiled kernels."""


class NativeCodeError(Exception):
    """Native code that the runtime is made of cannot be compiled here; the message says why."""


class Blob(NamedTuple):
    """A linked image. `symbols` maps the exported names to offsets; `machine` is "x86-64" or "aarch64"."""

    machine: str
    image: bytes
    symbols: Map[str, int]


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


class LoadedCode:
    """The machine code of a kernel, mapped as long as this object lives."""

    __slots__ = ("_mapping", "_place", "entry")

    def __init__(self, image: bytes, entry_offset: int, name: str) -> None:
        """Args: image: the bytes of its blob; entry_offset: where its entry point lies in them; name: the kernel's.

        Errors: OSError as in `map_code`.
        """
        self._mapping = map_code(image)
        self.entry = self._mapping.address + entry_offset
        self._place = ranges.add(self._mapping.address, self._mapping.size, f"the kernel {name}")

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """None: another process has to map the code itself."""
        return type(None), ()

    def __del__(self) -> None:
        if hasattr(self, "_place") and not is_finalizing():  # threads that Python does not wait for may run it then
            ranges.remove(self._place)
            self._mapping.unmap()


class CodeRanges:
    """The address ranges of the kernels' machine code, in memory that a signal handler can read at any time."""

    def __init__(self) -> None:
        self._memory = Memory(b"", CODES.size)
        self.address = self._memory.address
        self._lock = fork_safe_lock()
        self._texts: list[Memory] = []  # by place
        self._free: list[int] = []
        self._entries = Memory(b"", _MIN_CODES * CODE.size)
        CODES.write(self.address, "entries", self._entries.address)
        self._retired: list[object] = []  # somebody may be reading it; each is half as large as the next

    def add(self, begin: int, size: int, name: str) -> int:
        """Notes code; gives the place to name when it goes."""
        text = Memory(name.encode())
        entry = CODE.pack(begin=begin, end=begin + size, text=text.address, size=len(text.bytes))
        with self._lock:
            if self._free:
                place = self._free.pop()
                self._texts[place] = text
            else:
                place = len(self._texts)
                self._texts.append(text)
            if (place + 1) * CODE.size > len(self._entries.bytes):
                self._grow()
            poke(self._entries.address + place * CODE.size, entry)
            CODES.write(self.address, "count", len(self._texts))
        return place

    def remove(self, place: int) -> None:
        """Forgets code that is about to be unmapped."""
        with self._lock:
            CODE.write(self._entries.address + place * CODE.size, "end", 0)
            self._free.append(place)

    def _grow(self) -> None:
        self._retired.append(self._entries)
        content = self._entries.bytes
        self._entries = Memory(bytes(content), 2 * len(content))
        CODES.write(self.address, "entries", self._entries.address)


ranges = CodeRanges()
"""All kernels' code that is mapped in this process."""


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
