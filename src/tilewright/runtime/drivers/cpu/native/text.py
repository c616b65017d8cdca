"""The whole native runtime, as LLVM IR: thread pool, argument keys, the call itself.

Each file writes a few functions with the small language of `code.py`; `structs.py` has the memory that Python and
native code share.
"""

from __future__ import annotations

from tilewright.runtime.drivers.cpu.native import arguments, device, execute, faults, interrupts, launch, pool
from tilewright.runtime.drivers.cpu.native.code import PROCESSORS, Module


def runtime_text(machine: str) -> str:
    """LLVM IR of the runtime for "x86-64" or "aarch64"; it depends on nothing else, so its blob can be cached."""
    processor = PROCESSORS[machine]
    module = Module(processor)
    module.declarations += [*pool.declarations(processor), *faults.texts()]
    for file in (pool, interrupts, faults, execute, arguments, launch, device):
        module.add(file)
    return module.text()
