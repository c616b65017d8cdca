"""The whole text of the native runtime."""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native.arguments import add_arguments
from tilewright.runtime.drivers.cpu.native.code import Module
from tilewright.runtime.drivers.cpu.native.execute import add_execute
from tilewright.runtime.drivers.cpu.native.faults import add_faults
from tilewright.runtime.drivers.cpu.native.interrupts import add_interrupts
from tilewright.runtime.drivers.cpu.native.launch import add_launch
from tilewright.runtime.drivers.cpu.native.pool import PROCESSORS, add_pool


def runtime_text(machine: str) -> str:
    """LLVM IR of the runtime for "x86-64" or "aarch64"; it depends on nothing else, so its blob can be cached."""
    module = Module()
    add_pool(module, PROCESSORS[machine])
    add_interrupts(module, PROCESSORS[machine])
    add_faults(module, PROCESSORS[machine])
    add_execute(module)
    add_arguments(module)
    add_launch(module)
    return module.text()
