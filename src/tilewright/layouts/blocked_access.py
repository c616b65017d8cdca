"""The layouts in which Triton 3.5 reads and writes tensor memory.

blocked_access((128, 256), (128, 256), warps=4)     # a thread has a row
scales_access((128, 8), warps=8)                    # a thread has a row of four scales, and others below
"""

from __future__ import annotations

from tilewright.layouts.distributed import Blocked, Linear
from tilewright.layouts.inference import linear_encoding
from tilewright.layouts.keys import Bases
from tilewright.layouts.walk import Walk, shape_of_block

Shape = tuple[int, ...]
ROWS = 128
GROUP = 4
"""Warps, each of which reaches a quarter of the rows."""


def blocked_access(block: tuple[int, int], shape: Shape, *, warps: int, cga: Bases = ()) -> Blocked:
    """The layout of a sum of which one instruction computes `block`, its rows and columns; for 4 or 8 warps."""
    inside = shape_of_block(shape, cga)
    rows, columns = block
    groups, halves = warps // GROUP, ROWS // rows
    along = 1
    if rows == ROWS:
        along = groups if inside[0] > ROWS else 1
    elif inside[0] > rows or inside[1] > columns:
        along = min(inside[0] // rows, groups)
    beside = groups // along
    # With several blocks of 64 rows each group of warps has a whole block.
    parts = beside if rows == ROWS or (inside[0] == rows and inside[1] == columns) else 1
    size = max(columns // (halves * parts), 1)
    return Blocked((1, size), (32 // halves, halves), (GROUP * along, beside), (0, 1), cga)


def second_half_for_second_group(layout: Linear) -> Linear:
    """The layout for warps of 16 rows each: the second four have the second half of the tile, and no other 16 rows."""
    *registers, far = layout.register
    *warps, near = layout.warp
    return Linear((*registers, near), layout.lane, (*warps, far), layout.block)


def scales_access(shape: Shape, *, warps: int, cga: Bases = ()) -> Linear:
    """The layout of scales: four of a row in one register, 32 rows in a warp, every group of four warps the same."""
    rows, columns = shape_of_block(shape, cga)
    registers = [[0, step] if step < columns else [0, 0] for step in (1, 2)]
    registers += [[1 << bit, 0] for bit in range(5, rows.bit_length() - 1)]
    registers += [[0, 1 << bit] for bit in range(2, columns.bit_length() - 1)]
    walk = Walk(2)
    walk.rows["lane"] += [[1 << bit, 0] for bit in range(5)]
    walk.rows["warp"] += [[0, 0], [0, 0], *([registers.pop()] if warps > GROUP else [])]
    walk.rows["register"] += registers
    walk.covers((rows, columns))
    return linear_encoding(walk.fitted(shape, cga, (0, 1)))
