"""`ttng.tmem_copy` on `tcgen05.cp`: from shared memory to tensor memory, past the registers.

    ttng.tmem_copy %scales, %m       @$0 tcgen05.cp.cta_group::1.32x128b.warpx4 [$1], $2;     for each 16 bytes of a row

One thread starts it; products that the thread starts afterwards see what was copied. An instruction takes some rows of
16 or 32 bytes each, and writes them to the rows of one or of several warps.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.nvidia.lower.buffers import buffer_layout
from tilewright.backends.nvidia.lower.dot.matrix_descriptors import OF_TCGEN05, Tile
from tilewright.backends.nvidia.lower.dot.operands_in_memory import OperandInMemory
from tilewright.backends.nvidia.lower.dot.tcgen05 import commit, one_thread
from tilewright.backends.nvidia.lower.dot.tensor_memory import memory_of
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.dialects.ttng_tensor_memory import TmemCopy
from tilewright.ir.core import buffer_type
from tilewright.layouts.linear_layout import LinearLayout

WORD = 32
ROWS_OF_A_WARP = 32
BITS_OF_ROWS = 5
ALWAYS = "true"


class Form(NamedTuple):
    """One form of the instruction.

    Attributes:
        name: as in PTX.
        bits: of a row that it copies.
    """

    name: str
    bits: int


COPIED = {
    (False, False): Form("128x256b", 256),
    (True, False): Form("64x128b.warpx2::02_13", 128),
    (False, True): Form("64x128b.warpx2::01_23", 128),
    (True, True): Form("32x128b.warpx4", 128),
}
"""The forms of copies, by whether warps 0 and 1, and warps 0 and 2, get the same rows."""
NARROW = Form("128x128b", 128)


def form_of(places: LinearLayout, bits: int) -> Form:
    """The form that copies to these places.

    Args:
        places: from row, col (in elements) and block of tensor memory to the offset in shared memory.
        bits: bits of an element.
    """
    rows = [row[0] for row in places.bases["row"]]
    first, second = rows[BITS_OF_ROWS] == 0, rows[BITS_OF_ROWS + 1] == 0
    if not first and not second and places.in_size("col") * bits == NARROW.bits:
        return NARROW
    return COPIED[first, second]


def lower_copy(lowerer: Lowerer, op: TmemCopy) -> None:
    """Write a `ttng.tmem_copy`."""
    source, target, barrier = op.source, op.target, op.barrier
    bits = buffer_type(source).element.bits
    places = memory_of(buffer_type(target)).invert_and_compose(buffer_layout(buffer_type(source)))
    form = form_of(places, bits)
    step = form.bits // bits
    one_warp = places.with_columns(row=places.columns["row"][:BITS_OF_ROWS])
    base = lowerer.buffer(target).address
    with one_thread(lowerer, ALWAYS) as elected:
        tile = Tile(0, ROWS_OF_A_WARP, step)
        rows = OperandInMemory(lowerer, source, tile, fixed=OF_TCGEN05, places=one_warp)
        for column in range(0, places.in_size("col"), step):
            distance = column * bits // WORD
            address = lowerer.w.emit(f"add i32 {base}, {distance}") if distance else base
            text = f"@$0 tcgen05.cp.cta_group::1.{form.name} [$1], $2;"
            operands = [("i1", elected), ("i32", address), ("i64", rows.at(0, column))]
            lowerer.assembly("void", text, "b,r,l", operands)
        if barrier is not None:
            commit(lowerer, barrier, elected, ALWAYS)


LOWERINGS: dict[str, Lowering] = {"ttng.tmem_copy": lower_copy}
