"""The operating system of this process: `SYSTEM`, the only interface to it.

    SYSTEM.usable_cpus()                    # 2
    SYSTEM.map_code(image)                  # the address of executable memory

`interface.py` declares the functions of a system; one file each implements them for Linux, macOS and Windows. The calls
of machine code are in `runtime/drivers/cpu/native/systems`, in the same form.
"""

from __future__ import annotations

import sys

from tilewright.support.system.interface import System, architecture, is_raised_by_handler, machine_name

if sys.platform == "win32":
    from tilewright.support.system.windows import Windows as _Here
elif sys.platform == "darwin":
    from tilewright.support.system.macos import MacOS as _Here
else:
    from tilewright.support.system.linux import Linux as _Here

__all__ = ["SYSTEM", "System", "architecture", "is_raised_by_handler", "machine_name"]

SYSTEM: System = _Here()
"""The system of this process; others of the family of POSIX are taken for Linux, and refused where that matters."""
