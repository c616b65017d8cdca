"""Copies of rows by their numbers: four rows of a tensor at a time, to and from a buffer in shared memory.

    ttng.async_tma_gather %d[%rows, %j] %buffer, %barrier, %p

    @%elected cp.async.bulk.tensor.2d.tile::gather4… [ %s ], [ %d, { %j, %r0, %r1, %r2, %r3 } ], [ %b ];

Each warp copies the rows whose numbers its threads have in registers; of wide rows one box after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.backends.nvidia.lower.buffers import buffer_pointer, byte_size
from tilewright.backends.nvidia.lower.dot.operands_in_memory import uniform_bits
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.mbarriers import barrier_address, elected, on_condition
from tilewright.backends.nvidia.lower.shared_tiles import offset
from tilewright.backends.nvidia.lower.tma_copies import commit, emit, listed, plus, target_space
from tilewright.dialects.ttng_descriptors import AsyncTmaGather, AsyncTmaScatter
from tilewright.ir.core import Value, buffer_type
from tilewright.ir.spans import span_of
from tilewright.ir.types import MemDescType
from tilewright.layouts.conversion import tma_box
from tilewright.layouts.encoding import encoding_as
from tilewright.layouts.shared import NvmmaShared
from tilewright.support.diagnostics import NotSupported, located

ROWS = 4
"""The number of rows that one instruction gathers or scatters."""


class Rows(NamedTuple):
    """Four rows, or as much of them as is copied at once.

    Attributes:
        numbers: of the rows, in registers.
        pointer: where they lie in shared memory.
        column: where in the rows the copy begins.
    """

    numbers: list[str]
    pointer: str
    column: str


def _rows(lowerer: Lowerer, op: AsyncTmaGather | AsyncTmaScatter) -> Iterator[Rows]:
    """The parts that each warp copies of the rows whose numbers it has; four neighbours in its registers at a time."""
    buffer, type = op.buffer, buffer_type(op.buffer)
    layout = lowerer.layout(op.rows)
    if layout.columns["register"][:2] != (1, 2) or any(layout.columns["lane"]) or lowerer.target.num_ctas > 1:
        raise located(NotSupported("these rows", "each thread of a warp must know four in a row"), span_of(op.location))
    registers, base = lowerer.registers(op.rows), buffer_pointer(lowerer, buffer)
    *_, box = tma_box(encoding_as(NvmmaShared, type.encoding), type.shape)
    own = uniform_bits(lowerer, [_row_offset(type, column, 0) for column in layout.columns["warp"]])
    pointer, free = offset(lowerer, base, own), layout.free_masks()["register"]
    for first in range(0, len(registers), ROWS):
        if first & free:
            continue
        row = layout.image({"register": first})
        for column in range(0, type.shape[-1], box):
            place = offset(lowerer, pointer, _row_offset(type, row, column))
            yield Rows(registers[first : first + ROWS], place, plus(lowerer, lowerer.scalar(op.column), str(column)))


def _row_offset(type: MemDescType, row: int, column: int) -> int:
    """The byte of the first element that the engine writes of these rows, before it swizzles."""
    box = tma_box(encoding_as(NvmmaShared, type.encoding), type.shape)
    width, height = box[-1], type.shape[0]
    inside, outside = row % box[0], row // box[0]
    start = (outside * (type.shape[-1] // width) + column // width) * box[0] * width + inside * width
    assert height % box[0] == 0, "boxes fill the tile"
    return start * byte_size(type)


def _chosen_warps(lowerer: Lowerer, rows: Value) -> str:
    """One thread of each warp whose rows no other warp has."""
    free, one = lowerer.layout(rows).free_masks()["warp"], elected(lowerer, lowerer.target.num_warps)
    if not free:
        return one
    w = lowerer.w
    alone = w.emit(f"icmp eq i32 {w.emit(f'and i32 {lowerer.warp()}, {free}')}, 0")
    return w.emit(f"and i1 {one}, {alone}")


def _gather(lowerer: Lowerer, op: AsyncTmaGather) -> None:
    condition = on_condition(lowerer, _chosen_warps(lowerer, op.rows), op.predicate)
    to = target_space(lowerer)
    text = (
        f"@$0 cp.async.bulk.tensor.2d.tile::gather4.shared::{to}.global.mbarrier::complete_tx::bytes "
        f"[ $1 ], [ $2, {listed(4, 1 + ROWS)} ], [ $3 ];"
    )
    for rows in _rows(lowerer, op):
        emit(
            lowerer,
            text,
            [
                ("b", ("i1", condition)),
                ("r", (SHARED_POINTER, rows.pointer)),
                ("l", ("ptr", lowerer.scalar(op.descriptor))),
                ("r", (SHARED_POINTER, barrier_address(lowerer, op.barrier))),
                *(("r", ("i32", place)) for place in (rows.column, *rows.numbers)),
            ],
        )


def _scatter(lowerer: Lowerer, op: AsyncTmaScatter) -> None:
    condition = _chosen_warps(lowerer, op.rows)
    text = (
        "@$0 cp.async.bulk.tensor.2d.tile::scatter4.global.shared::cta.bulk_group "
        f"[ $1, {listed(3, 1 + ROWS)} ], [ $2 ];"
    )
    for rows in _rows(lowerer, op):
        emit(
            lowerer,
            text,
            [
                ("b", ("i1", condition)),
                ("l", ("ptr", lowerer.scalar(op.descriptor))),
                ("r", (SHARED_POINTER, rows.pointer)),
                *(("r", ("i32", place)) for place in (rows.column, *rows.numbers)),
            ],
        )
    commit(lowerer)


LOWERINGS: dict[str, Lowering] = {
    "ttng.async_tma_gather": _gather,
    "ttng.async_tma_scatter": _scatter,
}
