"""A simulator of NVIDIA GPUs: it interprets PTX text, all threads of many CTAs at once in NumPy.

    program = load(ptx_text)
    memory = DeviceMemory()
    address = memory.copy_in(array)
    Launch(program, "kernel", grid=(4, 1, 1), threads=128, shared=1024).run(memory, [address, 5])
    result = memory.copy_out(address, array.shape, array.dtype)

It detects errors that hardware does not report: accesses outside of allocations, reads of memory that was never stored,
races in shared memory, barriers that not all threads reach. An error is a `SimulationError` with the PTX line, the
thread, and the location in the kernel's source.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.families import HANDLERS
from tilewright.backends.ptxsim.memory import DeviceMemory
from tilewright.backends.ptxsim.program import Launch, Program
from tilewright.backends.ptxsim.shared import Uninitialized
from tilewright.support.ptx_syntax import SourcePlace

__all__ = ["DeviceMemory", "Launch", "Program", "SimulationError", "SourcePlace", "Uninitialized", "load"]


@lru_cache(maxsize=256)
def load(text: str) -> Program:
    """The program of a PTX text; kernels are decoded when they are first launched.

    Raises:
        SimulationError: it is no PTX.
    """
    return Program(text, HANDLERS)
