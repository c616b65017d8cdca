"""The PTX of kernels of Gluon, given to NVIDIA's assembler where there is one."""

from __future__ import annotations

from typing import Any

from tilewright.backends.nvidia.ptxas import assemble
from tilewright.backends.nvidia.targets import find
from tilewright.backends.nvidia.tools import find_ptxas


def assembled_text(kernel: Any, capability: int) -> str:
    """The PTX of a kernel, which ptxas takes."""
    text = str(kernel.asm["ptx"])
    assembler = find_ptxas(capability)
    if assembler is not None:
        assemble(text, find(capability).llvm_cpu, ptxas=assembler)
    return text
