"""The operating system interface of machine code: threads, waiting, memory, the handling of faults.

`MACHINES` has every pair of a processor and a system that there is a runtime for. The interface of Python code is in
`support/system`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.runtime.drivers.cpu.loader import machine_of
from tilewright.runtime.drivers.cpu.native.code import PROCESSORS, NativeMachine
from tilewright.runtime.drivers.cpu.native.systems.interface import NativeSystem
from tilewright.runtime.drivers.cpu.native.systems.linux import NativeLinux
from tilewright.runtime.drivers.cpu.native.systems.macos import NativeMacOS
from tilewright.runtime.drivers.cpu.native.systems.windows import NativeWindows

_RUNS_ON: Mapping[str, tuple[tuple[str, type[NativeSystem]], ...]] = {
    "x86-64": (("linux", NativeLinux), ("windows", NativeWindows)),
    "aarch64": (("linux", NativeLinux), ("macos", NativeMacOS)),
}
MACHINES: Mapping[str, NativeMachine] = {
    machine_of(architecture, system): NativeMachine(PROCESSORS[architecture], made(architecture))
    for architecture, systems in _RUNS_ON.items()
    for system, made in systems
}
"""By their names, as `loader.host_machine` gives them."""
