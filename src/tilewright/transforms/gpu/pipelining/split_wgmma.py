"""Products with their left operand in registers become two, each over half of the common dimension.

    %d = ttng.warp_group_dot %a, %b, %c        %a0, %a1 = the halves of %a along its columns, in registers as they are
                                         ->    %b0, %b1 = the halves of %b along its rows, views of the buffer
                                               %d0 = ttng.warp_group_dot %a0, %b0, %c
                                               %d  = ttng.warp_group_dot %a1, %b1, %d0

While the second half runs, the registers of the first may be written again.
"""

from __future__ import annotations

from tilewright.dialects.ttng_mma import WarpGroupDot
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Value, buffer_type, tile_type, typed
from tilewright.ir.types import MemDescType, TensorType, i32
from tilewright.layouts.encodings import Distributed, Encoding, NvidiaMma
from tilewright.layouts.inference import reshaped, split, transposed
from tilewright.transforms.gpu.pipelining.writer import Writer
from tilewright.transforms.gpu.relayout import distributed_of, layout_as

PARTS = 2
EXACT = 1 << 30
"""The number of imprecise additions that stands for all of them."""


def split_wgmma(product: WarpGroupDot) -> list[WarpGroupDot]:
    """The products that `product` was divided into; itself where there is nothing to divide."""
    left, right, accumulator = product.a, product.b, product.accumulator
    layout = layout_as(product.result, NvidiaMma)
    if not isinstance(left.type, TensorType) or left.type.shape[-1] <= layout.instr_shape[2]:
        return [product]
    writer, size = Writer(product), left.type.shape[-1] // PARTS
    budget, flag = product.max_imprecise_sums, product.uses_accumulator
    flags, parts = [] if flag is None else [flag], []
    for columns, rows in zip(_halves(writer, left), _rows(writer, right, size), strict=True):
        taken = min(budget, size)
        budget -= taken
        count = Number(EXACT if taken == size else taken, i32)
        attributes = {**product.attributes, "maxNumImpreciseAcc": count}
        operands = [[columns], [rows], [accumulator], flags]
        part = writer.op(product.name, operands, [product.result.type], attributes)
        parts.append(typed(part, WarpGroupDot))
        accumulator, flags = parts[-1].result, []
    product.replace([accumulator])
    return parts


def _halves(writer: Writer, tile: Value) -> tuple[Value, Value]:
    """The left and the right half of `tile`, with its layout."""
    type = tile_type(tile)
    *rows, columns = type.shape
    rank = len(type.shape)
    shape = (*rows, PARTS, columns // PARTS)
    layout: Encoding = reshaped(distributed_of(tile), type.shape, shape)
    apart = writer.op("tt.reshape", [[tile]], (TensorType(shape, type.element, layout.text),)).result
    order = (*range(rank - 1), rank, rank - 1)
    layout = transposed(layout, shape, order)
    shape = (*rows, columns // PARTS, PARTS)
    last: dict[str, Attribute] = {"order": DenseArray(i32, order)}
    pairs = writer.op("tt.trans", [[apart]], (TensorType(shape, type.element, layout.text),), last).result
    assert isinstance(layout, Distributed), "registers stay registers"
    half = TensorType(shape[:-1], type.element, split(layout, shape).text)
    wanted = TensorType(shape[:-1], type.element, type.encoding)
    results = writer.op("tt.split", [[pairs]], (half, half)).results
    first, second = (writer.op("ttg.convert_layout", [[result]], (wanted,)).result for result in results)
    return first, second


def _rows(writer: Writer, buffer: Value, size: int) -> list[Value]:
    """Parts of `buffer` with `size` rows each."""
    type = buffer_type(buffer)
    *outer, _, columns = type.shape
    part = MemDescType((*outer, size, columns), type.element, type.encoding, type.space, False, type.alloc_shape)
    starts = [(*(0 for _ in outer), index * size, 0) for index in range(PARTS)]
    return [
        writer.op("ttg.memdesc_subslice", [[buffer]], (part,), {"offsets": DenseArray(i32, start)}).result
        for start in starts
    ]
