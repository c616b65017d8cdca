"""Reallocation of registers among warp groups for the duration of a `ttg.warp_specialize`.

    at entry: 168 for each thread of 12 warps
    warps 4 to 7: partitions that want 24; warps 8 to 11: partitions that want 240
    Reallocation(own=240, others=(24, 240)): warps 0 to 3, the kernel's own, take what the others leave

A warp group gets the number of registers that the most demanding of its partitions requests; the kernel's own warps get
what is left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import WARP, Target
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize

GROUP = 4
"""The number of warps of a group."""
SINCE = 90
"""The first compute capability whose warps give registers to one another."""
FILE, MIN_REGISTERS, MAX_REGISTERS, STEP = 65536, 24, 256, 8
"""The number of registers of a multiprocessor; the least, the greatest and the step of the number of a thread."""


class Reallocation(NamedTuple):
    """The registers of a thread while partitions run: of the kernel's own groups, and of each group behind them."""

    own: int
    others: tuple[int, ...]


def specializations(functions: Sequence[Func]) -> list[WarpSpecialize]:
    """The ops that give work to other warps."""
    return [op for function in functions for op in function.walk() if isinstance(op, WarpSpecialize)]


def reallocates(ops: Sequence[WarpSpecialize], own: int, capability: int) -> bool:
    """Whether some op says how many registers its partitions want, and the hardware can follow."""
    return capability >= SINCE and not own % GROUP and any(op.registers for op in ops)


def registers_at_entry(functions: Sequence[Func], target: Target, warps: int, asked: int) -> int:
    """The registers of each thread at entry, of which groups give and take; 0 if none does.

    Args:
        functions: the functions of the kernel.
        target: the device, and the kernel's own number of warps.
        warps: the number of warps of the block, which has a multiprocessor to itself.
        asked: the number of registers that the user wants the kernel to have, or 0.
    """
    if not reallocates(specializations(functions), target.num_warps, target.capability):
        return 0
    return min(max((asked or FILE // (warps * WARP)) // STEP * STEP, MIN_REGISTERS), MAX_REGISTERS)


def reallocation(op: WarpSpecialize, starts: Sequence[int], own: int, warps: int, at_entry: int) -> Reallocation:
    """The registers of all groups while `op` runs.

    Args:
        op: the op, which says what its partitions want.
        starts: the first warp of each partition.
        own: the number of the kernel's own warps.
        warps: the number of warps of the block.
        at_entry: the number of registers of each thread at entry.
    """
    wanted = [MIN_REGISTERS] * (warps // GROUP)
    for first, count, registers in zip(starts, op.partition_warps, op.registers, strict=True):
        for group in range(first // GROUP, (first + count - 1) // GROUP + 1):
            wanted[group] = max(wanted[group], min(-(-registers // STEP) * STEP, MAX_REGISTERS))
    others, groups = tuple(wanted[own // GROUP :]), own // GROUP
    left = (at_entry * len(wanted) - sum(others)) // groups // STEP * STEP
    if left < MIN_REGISTERS:
        asked = f"{sum(others) * GROUP * WARP} of {at_entry * warps * WARP}"
        what = f"warp_specialize that asks for so many registers ({asked})"
        raise refused(op, what, "too few are left to the kernel")
    return Reallocation(min(left, MAX_REGISTERS), others)
