"""All lowerings, by the name of the op: every file of lowerings ends with its own table."""

from __future__ import annotations

from tilewright.backends.nvidia.lower import calls, control, elementwise, memory, program, tiles
from tilewright.backends.nvidia.lower.lowerer import Lowering

LOWERINGS: dict[str, Lowering] = {
    **calls.LOWERINGS,
    **control.LOWERINGS,
    **elementwise.LOWERINGS,
    **memory.LOWERINGS,
    **program.LOWERINGS,
    **tiles.LOWERINGS,
}
