"""The operating system that this process runs on: `SYSTEM`, which nothing else asks for.

    SYSTEM.usable_cpus()                    # 2
    SYSTEM.map_code(image)                  # the address of executable memory

`interface.py` says what a system has to do; one file each says how Linux, macOS and Windows do it. What machine code
asks of the system is written in `runtime/drivers/cpu/native/systems`, in the same way.
"""

from __future__ import annotations

import sys

from tilewright.support.system.interface import System, architecture, machine_name

if sys.platform == "win32":
    from tilewright.support.system.windows import Windows as _Here
elif sys.platform == "darwin":
    from tilewright.support.system.macos import MacOS as _Here
else:
    from tilewright.support.system.linux import Linux as _Here

__all__ = ["SYSTEM", "System", "architecture", "machine_name"]

SYSTEM: System = _Here()
"""The system of this process; others of the family of POSIX are taken for Linux, and refused where that matters."""
