"""The whole native runtime, as LLVM IR: thread pool, argument keys, the call itself.

Each file writes a few functions with the embedded language of `code.py`; `structs.py` has the memory shared by Python
and native code.
"""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native import arguments, device, execute, faults, foreign, interrupts, launch, pool
from tilewright.runtime.drivers.cpu.native.code import Module
from tilewright.runtime.drivers.cpu.native.systems import MACHINES


def runtime_text(machine: str) -> str:
    """LLVM IR of the runtime for one of `MACHINES`; it depends on nothing else, so its blob can be cached."""
    wanted = MACHINES[machine]
    module = Module(wanted, pool.system)
    module.declarations += [*pool.declarations(wanted.processor), *faults.texts()]
    for file in (pool, interrupts, faults, wanted.system.faults, execute, arguments, foreign, launch, device):
        module.add(file)
    return module.text()
