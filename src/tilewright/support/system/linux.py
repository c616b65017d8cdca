"""Linux."""

from __future__ import annotations

import ctypes
import os
import sys

from tilewright.support.system.posix import EXECUTE, READ, WRITE, Posix, c_library, system_error

_PRIVATE_ANONYMOUS = 0x22
NO_RESERVE = 0x4000
"""MAP_NORESERVE, which older Pythons do not name: address space without a promise of memory."""
_SVE_GET_VL, _SVE_VL_LEN_MASK = 51, 0xFFFF
"""PR_SVE_GET_VL of prctl, and the bits of its answer that are a number of bytes (Documentation/arch/arm64/sve.rst)."""

REQUEST_TILES = 158, 0x1023, 18
"""The system call arch_prctl, ARCH_REQ_XCOMP_PERM, and XFEATURE_XTILEDATA (Documentation/arch/x86/xstate.rst)."""


class Linux(Posix):
    """Linux. Pages with code are written first and executable afterwards, never both.

    On AArch64, Linux makes the instruction cache of fresh pages coherent when they become executable.
    """

    name = "linux"
    fault_signals = (11, 7)
    action = "<Q128xi4x8x"
    action_flags = 0x08000004
    reserve_flags = _PRIVATE_ANONYMOUS | NO_RESERVE

    def _why_not_here(self) -> str:
        return "" if sys.platform == "linux" else f"it is made for Linux, macOS and Windows, and this is {sys.platform}"

    def allocate(self, size: int) -> int:
        return self._anonymous(size, READ | WRITE, _PRIVATE_ANONYMOUS)

    def map_code(self, image: bytes) -> int:
        address = self.allocate(len(image))
        ctypes.memmove(address, image, len(image))
        if c_library().mprotect(address, self._whole_pages(len(image)), READ | EXECUTE):
            error = system_error("the system does not let this process make memory executable")
            self.unmap_code(address, len(image))
            raise error
        return address

    def usable_cpus(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else super().usable_cpus()

    def hardware_capabilities(self, entry: int) -> int:
        read = getattr(c_library(), "getauxval", None)
        if read is None:
            return 0
        read.restype, read.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return int(read(entry))

    def scalable_vector_bits(self) -> int:
        length = int(c_library().prctl(_SVE_GET_VL, 0, 0, 0, 0))  # an error where there are none
        return 8 * (length & _SVE_VL_LEN_MASK) if length > 0 else 0

    def may_use_tiles(self) -> bool:
        return int(c_library().syscall(*REQUEST_TILES)) == 0
