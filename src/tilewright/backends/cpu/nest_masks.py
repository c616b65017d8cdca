"""The masks of a nest as scalar conditions before it, and the nest without them.

    tt.store %p, %x, (%start + %i < %n) & (%row < %rows)        %n - %start >= 64 and %row < %rows: all lanes are on
                                                         →      tt.store %p, %x

A version of a nest that runs only if all of its masks are on has no masks, so its lanes need not be distinguished.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from tilewright.backends.cpu.costs import ACCESSES, STORES, conjuncts, is_tile, where_of
from tilewright.backends.cpu.loop_builder import LoopBuilder, operand_of
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound, Uniform
from tilewright.backends.cpu.nest.loads import masks_memory
from tilewright.dialects.arith import Select
from tilewright.dialects.cpu import Nest
from tilewright.dialects.tt_memory import Load
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import i1, i64


class Part(NamedTuple):
    """One of the conditions whose conjunction a mask is.

    Attributes:
        op: the access whose mask it is.
        mask: the condition, as a tile.
        axis: along which lanes differ; None if all are on or off together.
        extent: the number of these lanes.
        below: an i64, so many of them are on; an i1 where they are on or off together.
    """

    op: Op
    mask: Value
    axis: int | None
    extent: int
    below: Value


def context_of(b: LoopBuilder, nest: Nest, lanes: int) -> Context:
    """The context in which lanes of a value of `nest` are asked for, before it."""
    c = Context(b, operand_of, len(nest.outer) + 1)
    c.lanes = lanes
    return c


def parts_of(c: Context, nest: Nest) -> list[Part] | None:
    """All conditions under which lanes of `nest` are on; None if one of them cannot be evaluated before it."""
    found = []
    for op in nest.body:
        masks = where_of(op)[1:] if isinstance(op, ACCESSES) else []
        for mask in [part for whole in masks for part in conjuncts(whole)]:
            shape = mask.type.shape or ()
            long = [axis for axis, extent in enumerate(shape) if extent > 1]
            if len(long) > 1:
                return None
            c.extent = max(shape, default=1)
            lane = evaluate(c, mask, tuple(LANE if axis in long else ZERO for axis in range(len(shape))))
            if isinstance(lane, ActiveLaneBound) and lane.level == 0:
                found.append(Part(op, mask, long[0], c.extent, c.value(lane.below, i64)))
            elif isinstance(lane, Uniform) and lane.level == 0:
                found.append(Part(op, mask, None, 1, c.value(lane.value, i1)))
            else:
                return None
    return found


def holds(c: Context, part: Part) -> Value:
    """Whether all lanes are on, an i1."""
    return part.below if part.axis is None else c.compare("sge", part.below, part.extent, i64, 0)


def all_on(c: Context, nest: Nest) -> Value | None:
    """Whether no mask of `nest` is off anywhere, an i1 before the nest; None if that cannot be decided there."""
    parts = parts_of(c, nest)
    if parts is None:
        return None
    every = dict.fromkeys(holds(c, part) for part in parts) or [c.b.constant(1, i1)]
    return reduce(lambda a, b: c.binary("arith.andi", a, b, i1, 0), every)


def without_masks(nest: Nest) -> Nest:
    """A copy of `nest` all of whose masks are on, and whose stores are not redirected."""
    is_known = [isinstance(op, Select) and is_tile(op.condition) and masks_memory(op.condition) for op in nest.body]
    copy = nest.clone()
    copy.set_operands(())
    for op, is_mask in zip(copy.body, is_known, strict=True):
        if isinstance(op, Load):
            op.set_operands((op.pointer,))
        elif isinstance(op, STORES):
            assert op.block is not None, "it stands in the nest"
            op.block.insert(Op(OPS["tt.store"], (op.pointer, op.value), (), op.attributes, (), (), op.location), op)
            op.erase()
        elif isinstance(op, Select) and is_mask:
            op.replace((op.chosen,))
    return copy
