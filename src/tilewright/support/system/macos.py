"""macOS on Apple's processors. Not yet run on a Mac: its calls are tested against a fake of the library.

Memory with code is mapped with MAP_JIT, writable and executable at once; a switch of each thread selects one of the two
(`pthread_jit_write_protect_np`). The instruction cache must be invalidated for new code. Pages have 16 KiB.

Apple, "Porting just-in-time compilers to Apple silicon":
https://developer.apple.com/documentation/apple-silicon/porting-just-in-time-compilers-to-apple-silicon
"""

from __future__ import annotations

import ctypes

from tilewright.support.system.interface import architecture
from tilewright.support.system.posix import EXECUTE, READ, WRITE, Posix, c_library

PRIVATE, ANONYMOUS, FOR_CODE = 0x2, 0x1000, 0x800
"""macOS's MAP_PRIVATE, MAP_ANON and MAP_JIT."""


class MacOS(Posix):
    """macOS."""

    name = "macos"
    wants_proof = True
    thread_key = ctypes.c_ulong
    fault_signals = (11, 10)
    action = "<Q4xi"
    action_flags = 0x41
    reserve_flags = PRIVATE | ANONYMOUS

    def _why_not_here(self) -> str:
        here = architecture()
        return "" if here == "aarch64" else f"on macOS it is made for Apple's processors, and this one is {here}"

    def allocate(self, size: int) -> int:
        return self._anonymous(size, READ | WRITE, PRIVATE | ANONYMOUS)

    def map_code(self, image: bytes) -> int:
        """As in `System`; the hardened runtime wants the entitlement com.apple.security.cs.allow-jit."""
        library = c_library()
        address = self._anonymous(len(image), READ | WRITE | EXECUTE, PRIVATE | ANONYMOUS | FOR_CODE)
        library.pthread_jit_write_protect_np(ctypes.c_int(0))
        try:
            ctypes.memmove(address, image, len(image))
        finally:
            library.pthread_jit_write_protect_np(ctypes.c_int(1))
        library.sys_icache_invalidate(ctypes.c_void_p(address), ctypes.c_size_t(len(image)))
        return address
