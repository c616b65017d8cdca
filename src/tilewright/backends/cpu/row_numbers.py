"""Values of rows from which a tile is computed: buffers hold these, and not the whole tile.

    %rows = tt.load %p : tensor<4x1xi64>                   %kept = cpu.read of a buffer of 4 numbers
    %far = tt.broadcast %rows : … -> tensor<4x256xi64>  →  %far = tt.broadcast %kept : … -> tensor<4x256xi64>
    %place = arith.addi %far, %columns                     %place = arith.addi %far, %columns

Rows of such addresses are contiguous, which is not known of addresses that are in a buffer one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.backends.cpu.affine import is_affine, keeps_lines
from tilewright.backends.cpu.costs import is_lazy_tile, is_tile, makers
from tilewright.backends.cpu.strides import steps_along
from tilewright.dialects.cpu import Read
from tilewright.dialects.tt_atomics import AtomicRmw
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_shape import Broadcast
from tilewright.ir.core import Op, Value, tile_type

SUMS = {"add": "arith.addi", "fadd": "arith.addf"}
"""The ops that are operations of atomics on vectors."""
WIDE = (32, 64)
"""Bits of elements that vectors add as they are."""


def parts_to_keep(value: Value) -> list[Value]:
    """The tiles to be kept in buffers so that `value` loads nothing: numbers of rows, if these do, or `value`."""
    found: dict[Value, None] = {}
    stack, seen = [value], set[Value]()
    while stack:
        each = stack.pop()
        op = each.op
        if each in seen or op is None or not is_lazy_tile(op):
            continue
        seen.add(each)
        if isinstance(op, Load):
            return [value]
        if isinstance(op, Broadcast) and _is_row_level(op.source) and not _is_row_level(each):
            if any(isinstance(maker, Load) for maker in makers(op.source)):
                found[op.source] = None
        else:
            stack.extend(op.operands)
    return list(found) or [value]


def computed_from(value: Value, known: Mapping[Value, Value], insert: Callable[[Op], Op]) -> Value:
    """`value` computed from what is `known` in place of its parts; `insert` puts the new ops where they are needed."""
    new = dict(known)

    def visit(each: Value) -> Value:
        op = each.op
        if each in new or op is None or not is_lazy_tile(op):
            return new.get(each, each)
        operands = [visit(operand) for operand in op.operands]
        if operands != list(op.operands):
            copy = insert(op.clone(dict(zip(op.operands, operands, strict=True))))
            new.update(zip(op.results, copy.results, strict=True))
        return new.setdefault(each, each)

    return visit(value)


def adds_lines(op: Op) -> bool:
    """Whether an atomic only adds to numbers that no other program has, row by row to neighbours of one another."""
    if not isinstance(op, AtomicRmw) or op.operation not in SUMS or op.scope != "cta" or op.result.uses:
        return False
    return tile_type(op.value).bits in WIDE and rows_are_lines(op.pointer)


def rows_are_lines(pointer: Value) -> bool:
    """Whether the last axis of a tile of pointers goes from neighbour to neighbour, wherever its rows lie."""
    shape = pointer.type.shape or ()
    ops = [op for op in makers(pointer) if not is_affine(op.results[0])]
    are_lines = all(keeps_lines(op) or (isinstance(op, Read) and _is_row_level(op.result)) for op in ops)
    return bool(shape) and are_lines and steps_along(pointer).get(len(shape) - 1) == 1


def _is_row_level(tile: Value) -> bool:
    return is_tile(tile) and (tile.type.shape or ())[-1:] == (1,)
