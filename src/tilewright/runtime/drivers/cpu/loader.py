"""The machine code of kernels in memory, without llvmlite and without files.

    code = LoadedCode(image, entry_offset, name)
    code.entry                              # an address, as long as `code` lives

Every launch holds a reference to the object, and the pool returns only when no worker is inside a job: when the last
reference is gone, no thread runs the code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping as Map
from sys import is_finalizing
from time import monotonic

from tilewright.runtime.drivers.cpu.native.structs import CODE, CODES, Memory, poke
from tilewright.support.executable_memory import map_code
from tilewright.support.locks import fork_safe_lock
from tilewright.support.named_tuple import NamedTuple
from tilewright.support.system import SYSTEM, architecture

BASE_CPUS: Map[str, str] = {
    "x86-64": "x86-64-v2",
    "aarch64": "aarch64",
    "aarch64-macos": "apple-m1",
    "x86-64-windows": "x86-64-v2",
}
"""The processors that the runtime is compiled for, by `host_machine`: the oldest ones."""
_MIN_CODES = 16  # entries to begin with
_SLICE_SECONDS = 0.02
"""The time after which code that runs without the native launcher lets Python handle signals."""


def host_machine() -> str:
    """The machine that a blob must be for to run here: "x86-64" on Linux, "aarch64-macos", "x86-64-windows"."""
    return machine_of(architecture(), SYSTEM.name)


def machine_of(architecture: str, system: str) -> str:
    """The name of a processor and a system together.

    Linux, which came first, goes without saying; what no other system runs on is Linux's.
    """
    name = f"{architecture}-{system}"
    return name if name in BASE_CPUS else architecture


class NativeCodeError(Exception):
    """Native code that the runtime is made of cannot be compiled here; the message says why."""


class Blob(NamedTuple):
    """A linked image. `symbols` maps the exported names to offsets; `machine` is as of `host_machine`."""

    machine: str
    image: bytes
    symbols: Map[str, int]


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


def run_alone(entry: int, launch: Memory, programs: int, scratch_bytes: int) -> None:
    """Slices take a moment at most if programs are short: between them Python handles signals."""
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    scratch = Memory(b"", scratch_bytes + 64)
    aligned = -(-scratch.address // 64) * 64
    run = ctypes.CFUNCTYPE(word, pointer, word, word, pointer)(entry)
    begin, size = 0, 1
    while begin < programs:
        started = monotonic()
        begin = run(launch.address, begin, min(programs, begin + size), aligned)
        size = size * 2 if monotonic() - started < _SLICE_SECONDS else max(1, size // 2)
