"""Conversion slices: the values that a tile is computed from, each with the layout that gives the tile a new one.

    %a = tt.make_range …         : #x
    %b = tt.expand_dims %a       : #y            slice of %c for the layout #z:
    %c = arith.addi %b, %b       : #y            {%c: #z, %b: #z, %a: slice of #z}
    %d = ttg.convert_layout %c   : #y -> #z

The search ends at values that already have the layout, and at ops that can produce any layout. It goes into branches
and along values carried by loops. It fails if an op cannot have the required layout, or if a value would need two
layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tilewright.dialects.scf import Condition, For, If, While
from tilewright.dialects.traits import Atomic, DotLike
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_shape import Cat, Gather, Reshape
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize
from tilewright.ir.core import Op, Value
from tilewright.ir.dominance import dominates
from tilewright.ir.effects import writes_memory
from tilewright.layouts.encodings import Distributed
from tilewright.transforms.gpu.layout_transfer import (
    can_give,
    has_chosen_layout,
    is_expensive_access,
    is_free,
    layout_of_operands,
    tile_layout,
)

Use: TypeAlias = "tuple[Op, int]"
"""An operand: the op and the position."""
Stop: TypeAlias = "Callable[[Op], bool]"
Copies: TypeAlias = "Mapping[tuple[Value, Distributed], Value]"
"""Values that are the same as others, in another layout."""
NEVER_RECOMPUTED = (DotLike, Atomic, While, Condition)
OPAQUE = (For, While, WarpSpecialize)
"""Ops whose results are not traced."""


class ConversionSlice:
    """Values and the layouts that they need.

    Attributes:
        values: those that must be made again, in the order in which they were found.
        layouts: what each needs; also of values that have it already.
        copies: what can be taken instead of a value; None if one of its users cannot see the copy.
    """

    def __init__(self) -> None:
        self.values: dict[Value, None] = {}
        self.layouts: dict[Value, Distributed] = {}
        self.copies: dict[Value, Value | None] = {}

    def copy(self) -> ConversionSlice:
        """A slice that can grow on its own."""
        found = ConversionSlice()
        found.values, found.layouts, found.copies = dict(self.values), dict(self.layouts), dict(self.copies)
        return found

    def demand(self, value: Value, layout: Distributed) -> bool:
        """Note that `value` needs `layout`; False if it needs another one, too."""
        return self.layouts.setdefault(value, layout) is layout


def never(op: Op) -> bool:
    """Whether to stop at `op`: nowhere."""
    return False


def trace(use: Use, layout: Distributed, found: ConversionSlice, copies: Copies, stop: Stop = never) -> bool:
    """Add to `found` what the operand `use` is computed from so that it has `layout`, also if the search fails.

    What is in `copies` need not be computed again; the search ends at ops that `stop` accepts.

    Args:
        use: the operand.
        found: the slice.
        copies: values that exist in other layouts, too.
        stop: whether the search ends at an op.

    Returns:
        whether everything can have the layout that it needs.
    """
    start = (use, layout)
    seen, waiting = {start}, [start]
    while waiting:
        use, layout = waiting.pop()
        value = use[0].operands[use[1]]
        current = tile_layout(value)
        if current is None:
            continue
        op = value.op
        if isinstance(op, OPAQUE) or not found.demand(value, layout):
            return False
        if current is layout:
            continue
        found.values[value] = None
        if _take_copy(use, layout, found, copies):
            continue
        needed = _needed(value, layout, found, stop)
        if needed is None:
            return False
        for pair in needed:
            if pair not in seen:
                seen.add(pair)
                waiting.append(pair)
    return True


def _take_copy(use: Use, layout: Distributed, found: ConversionSlice, copies: Copies) -> bool:
    op, index = use
    value = op.operands[index]
    copy = copies.get((value, layout))
    if copy is None:
        return False
    known = dominates(copy, op)
    if known:
        found.copies.setdefault(value, copy)
    else:
        found.copies[value] = None
    return known


def _needed(
    value: Value, layout: Distributed, found: ConversionSlice, stop: Stop
) -> list[tuple[Use, Distributed]] | None:
    """The operands that `value` is made from, and the layouts they need; None if it cannot have `layout`."""
    op = value.op
    if op is None:
        return _needed_round_loop(value, layout)
    if isinstance(op, If):
        if stop(op):
            return []
        return [((region.block.terminator, value.index), layout) for region in op.regions]
    return _needed_operands(op, layout, stop) if _demand_results(op, layout, found) else None


def _demand_results(op: Op, layout: Distributed, found: ConversionSlice) -> bool:
    """All results of an op have one layout."""
    for result in op.results:
        if tile_layout(result) is not None:
            if not found.demand(result, layout):
                return False
            found.values[result] = None
    return True


def _needed_round_loop(argument: Value, layout: Distributed) -> list[tuple[Use, Distributed]] | None:
    block = argument.owner
    assert not isinstance(block, Op), "an argument of a block"
    loop = block.region.op if block.region is not None else None
    if not isinstance(loop, For):
        return None
    return [((loop, argument.index + 2), layout), ((block.terminator, argument.index - 1), layout)]


def _needed_operands(op: Op, layout: Distributed, stop: Stop) -> list[tuple[Use, Distributed]] | None:
    if is_free(op):
        return [((op, 0), layout)]
    if can_give(op, layout) or stop(op):
        return []
    if isinstance(op, Cat):
        return None
    # The rows that a gather takes may have any layout; its indices and its result share one.
    positions = [1] if isinstance(op, Gather) else range(len(op.operands))
    needed = layout_of_operands(op, layout) if positions else layout
    return None if needed is None else [((op, position), needed) for position in positions]


def can_recompute(op: Op) -> bool:
    """Whether `op` may be computed a second time in another layout."""
    if isinstance(op, (Load, Store)):
        return not is_expensive_access(op)
    if isinstance(op, (Gather, Reshape)):
        return not has_chosen_layout(op)
    # A branch gets more results in place; everything else is computed twice, so nobody must see that.
    return not isinstance(op, NEVER_RECOMPUTED) and (isinstance(op, If) or not writes_memory(op))
