"""Stores across the loads of a nest, which `blocked_transpose` has chosen: square blocks are transposed in registers.

    for 16 rows, for 16 columns:       16 vectors along a row each, transposed, are 16 vectors along a column each
"""

from __future__ import annotations

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.loop_facts import STORE_IS_OUTER, VALUE_IS_OUTER
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, Affine, Index, Uniform, Vector
from tilewright.backends.cpu.nest.stores import Act, write
from tilewright.dialects.tt_memory import Store
from tilewright.ir.core import Value
from tilewright.ir.types import i64


def store_block(c: Context, store: Store, outer: Index, row: Uniform, column: Uniform) -> list[Act]:
    """Compute the W × W elements from (row, column) on; what is returned stores them."""
    along = [(*outer, _next(c, row, i), LANE) for i in range(c.lanes)]
    across = [(*outer, Affine(row.value, 1, row.level, local=True), _next(c, column, i)) for i in range(c.lanes)]
    place, value = store.pointer, store.value
    value_is_outer, store_is_outer = (name in store.attributes for name in (VALUE_IS_OUTER, STORE_IS_OUTER))
    element = value.type.scalar
    vectors = [
        c.as_vector(evaluate(c, value, index), element) for index in (across if value_is_outer else along)
    ]
    if value_is_outer != store_is_outer:
        vectors = [Vector(column, c.depth) for column in transposed(c.b, [v.value for v in vectors])]
    places = [evaluate(c, place, index) for index in (across if store_is_outer else along)]
    return [write(c, address, v, None, element) for address, v in zip(places, vectors, strict=True)]


def _next(c: Context, start: Uniform, number: int) -> Uniform:
    return Uniform(c.add(start.value, number, i64, start.level), start.level)


def transposed(b: LoopBuilder, rows: list[Value]) -> list[Value]:
    """The columns of the square matrix with these rows, a power of two of them: log2 W rounds exchange halves."""
    count = len(rows)
    for half in (1 << bit for bit in range(count.bit_length() - 1)):
        low = [lane if not lane & half else lane - half + count for lane in range(count)]
        high = [lane + half if not lane & half else lane + count for lane in range(count)]
        exchanged = list(rows)
        for i in range(count):
            if not i & half:
                x, y = rows[i], rows[i + half]
                exchanged[i], exchanged[i + half] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        rows = exchanged
    return rows
