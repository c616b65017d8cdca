"""All lowerings, by the name of the op: every file of lowerings ends with its own table."""

from __future__ import annotations

from tilewright.backends.nvidia.lower import (
    async_copies,
    atomics,
    buffers,
    calls,
    control,
    convert_layout,
    elementwise,
    fences,
    gather,
    histogram,
    memory,
    program,
    reduce,
    reshapes,
    scan,
    tiles,
)
from tilewright.backends.nvidia.lower.dot import dots, wgmma
from tilewright.backends.nvidia.lower.lowerer import Lowering

LOWERINGS: dict[str, Lowering] = {
    **async_copies.LOWERINGS,
    **atomics.LOWERINGS,
    **buffers.LOWERINGS,
    **calls.LOWERINGS,
    **control.LOWERINGS,
    **convert_layout.LOWERINGS,
    **dots.LOWERINGS,
    **elementwise.LOWERINGS,
    **fences.LOWERINGS,
    **gather.LOWERINGS,
    **histogram.LOWERINGS,
    **memory.LOWERINGS,
    **program.LOWERINGS,
    **reduce.LOWERINGS,
    **reshapes.LOWERINGS,
    **scan.LOWERINGS,
    **tiles.LOWERINGS,
    **wgmma.LOWERINGS,
}
