"""The movement that a change of layout needs: none, within a thread, between lanes, or through shared memory.

movement(blocked, transposed_blocked, (64, 64))     # Movement.SHARED
movement(mma, dot_operand_of_mma, (128, 64))        # Movement.REGISTERS
"""

from __future__ import annotations

from enum import Enum, auto
from functools import cache

from tilewright.ir.types import Shape
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Distributed
from tilewright.layouts.linear_layout import LinearLayout, Subspace


class Movement(Enum):
    """The distance that values travel."""

    NOTHING = auto()
    """Every register keeps its value."""
    REGISTERS = auto()
    """Each thread renames its registers."""
    LANES = auto()
    """Lanes of a warp exchange values with shuffles."""
    SHARED = auto()
    """Values go through shared memory."""


@cache
def conversion(source: Distributed, result: Distributed, shape: Shape) -> LinearLayout:
    """The map from places of `result` to their values in `source`, without the blocks, warps and lanes that stay."""
    before, after = to_linear_layout(source, shape), to_linear_layout(result, shape)
    found = after.invert_and_compose(before)
    for name in reversed(after.ins):
        rest = found.quotient([name])
        if rest is None:
            break
        found = rest
    return found


@cache
def movement(source: Distributed, result: Distributed, shape: Shape) -> Movement:
    """The distance that values travel from one layout of a tile to another."""
    if source is result:
        return Movement.NOTHING
    outs = conversion(source, result, shape).out_names
    if not outs:
        return Movement.NOTHING
    if outs == ("register",):
        return Movement.REGISTERS
    if "block" not in outs:
        exchanged = exchanges(to_linear_layout(source, shape), to_linear_layout(result, shape))
        if exchanged is not None and exchanged < 2:
            return Movement.LANES
    return Movement.SHARED


def reorders_registers(source: Distributed, result: Distributed, shape: Shape) -> bool:
    """Whether a conversion costs nothing, as no value leaves its thread."""
    return movement(source, result, shape) in (Movement.NOTHING, Movement.REGISTERS)


def needs_shared_memory(source: Distributed, result: Distributed, shape: Shape) -> bool:
    """Whether values go through shared memory: from warp to warp, or where shuffles would cost more."""
    return movement(source, result, shape) is Movement.SHARED


def exchanges(before: LinearLayout, after: LinearLayout) -> int | None:
    """The number of bits of the register that trade places with bits of the lane.

    None if a value leaves its warp, or if warps must choose between registers.
    """
    if len(before.columns["warp"]) != len(after.columns["warp"]):
        return None
    registers = len(before.columns["register"])
    own = (1 << registers) - 1
    span = Subspace(())
    for bit, column in enumerate((*before.columns["register"], *before.columns["lane"])):
        span.add(column, 1 << bit)
    # A warp that has a copy of another one's values need not ask for them; it may have to choose other lanes.
    warps = [a ^ b for a, b in zip(before.columns["warp"], after.columns["warp"], strict=True)]
    if not all(map(span.spans, (*after.columns["register"], *after.columns["lane"], *warps))):
        return None
    if any(span.solve(warp) & own for warp in warps):
        return None
    from_lanes = sum(span.solve(column) > own for column in after.columns["register"])
    from_registers = sum(bool(span.solve(column) & own) for column in after.columns["lane"])
    return max(from_lanes, from_registers)
