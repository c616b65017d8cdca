"""All lowerings, by the name of the op: every file of lowerings ends with its own table."""

from __future__ import annotations

from tilewright.backends.nvidia.lower import (
    async_copies,
    buffers,
    calls,
    control,
    convert_layout,
    elementwise,
    fences,
    memory,
    program,
    tiles,
)
from tilewright.backends.nvidia.lower.lowerer import Lowering

LOWERINGS: dict[str, Lowering] = {
    **async_copies.LOWERINGS,
    **buffers.LOWERINGS,
    **calls.LOWERINGS,
    **control.LOWERINGS,
    **convert_layout.LOWERINGS,
    **elementwise.LOWERINGS,
    **fences.LOWERINGS,
    **memory.LOWERINGS,
    **program.LOWERINGS,
    **tiles.LOWERINGS,
}
