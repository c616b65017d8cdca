"""Products on the tensor cores of sm_100: operands in shared memory, the accumulator in tensor memory.

%d = tt.dot %a, %b, %c : … -> tensor<128x256xf32, #blocked>

    %a1 = ttg.local_alloc %a : … -> !ttg.memdesc<128x64xf16, #shared, #smem>
    %b1 = …
    %c1 = ttg.convert_layout %c : … -> tensor<128x256xf32, #linear>
    %m, %t = ttng.tmem_alloc %c1 : … -> (!ttg.memdesc<128x256xf32, #tmem, …, mutable>, !ttg.async.token)
    %t1 = ttng.tc_gen5_mma %a1, %b1, %m[%t], %true, %true : …
    %d1, %t2 = ttng.tmem_load %m[%t1] : … -> tensor<128x256xf32, #linear>
    %d = ttg.convert_layout %d1 : … -> tensor<128x256xf32, #blocked>

Tokens express the order of accesses to tensor memory.

blocked_access((128, 256), (128, 256), warps=4)     # Triton 3.5's layout of an accumulator: a thread has a row
scales_access((128, 8), warps=8)                    # its layout of scales: four of a row, then further rows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.dialects.tt_dot import Dot, DotScaled
from tilewright.dialects.ttg_attributes import TENSOR_MEMORY
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Value, tile_type
from tilewright.ir.operands import SEGMENTS
from tilewright.ir.types import MemDescType, Shape, async_token, f32, i1, i32
from tilewright.layouts.encodings import Blocked, Encoding, Linear, TensorMemory, TensorMemoryScales
from tilewright.layouts.inference import linear_encoding
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import cga_layout, cta_split
from tilewright.layouts.tensor_memory import Access, access_layout
from tilewright.layouts.walk import Walk, shape_of_block
from tilewright.transforms.gpu.matrix_instructions import NEWEST, MatmulOptions, instruction_shape, result_per_cta
from tilewright.transforms.gpu.scaled_dot import ScaledDot
from tilewright.transforms.gpu.shared_operands import in_shared_memory, with_stop_in_shared_memory
from tilewright.transforms.gpu.tile_ops import TileOps, layout_of, with_layout


def blocked_access(block: tuple[int, int], shape: Shape, *, warps: int, cga: Bases = ()) -> Blocked:
    """The layout of a sum of which one instruction computes `block`, its rows and columns; for 4 or 8 warps."""
    inside = shape_of_block(shape, cga)
    rows, columns = block
    groups, halves = warps // WARP_GROUP, ROWS // rows
    along = 1
    if rows == ROWS:
        along = groups if inside[0] > ROWS else 1
    elif inside[0] > rows or inside[1] > columns:
        along = min(inside[0] // rows, groups)
    beside = groups // along
    # With several blocks of 64 rows each warp group has a whole block.
    parts = beside if rows == ROWS or (inside[0] == rows and inside[1] == columns) else 1
    size = max(columns // (halves * parts), 1)
    return Blocked((1, size), (32 // halves, halves), (WARP_GROUP * along, beside), (0, 1), cga)


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
    walk.rows["warp"] += [[0, 0], [0, 0], *([registers.pop()] if warps > WARP_GROUP else [])]
    walk.rows["register"] += registers
    walk.covers((rows, columns))
    return linear_encoding(walk.fitted(shape, cga, ()))


WORD = 32
ROWS, MAX_COLUMNS = 128, 256
"""Rows, and max number of columns, of a scaled product by one instruction."""
MIN_COLUMNS = 16
OPERANDS = 2
WARP_GROUP = 4
"""The number of warps that together reach all rows."""


def to_tcgen05(dot: Dot, options: MatmulOptions = NEWEST) -> None:
    """Compute a `tt.dot`, which must be one that these instructions can, by `ttng.tc_gen5_mma`."""
    element = dot.a.type.scalar
    any_order = element is not f32  # tf32 cannot be read column by column
    operands = [in_shared_memory(value, index, any_order=any_order) for index, value in enumerate((dot.a, dot.b))]
    rows, columns, _ = instruction_shape(5, result_per_cta(dot), element, warps_of(dot))
    ops = TileOps(dot)
    _multiply(ops, dot, operands, _start(ops, dot, (rows, columns), options))


def fits_scaled(dot: ScaledDot, capability: int) -> bool:
    """Whether these instructions compute a `tt.dot_scaled`."""
    if not 100 <= capability < 120 or None in dot.scales or warps_of(dot.op) not in (4, 8):
        return False
    rows, columns = result_per_cta(dot.op)[-2:]
    return len(tile_type(dot.op.result).shape) == 2 and rows >= ROWS and columns >= MIN_COLUMNS and dot.has_terms


def to_scaled_tcgen05(dot: ScaledDot, options: MatmulOptions = NEWEST) -> None:
    """Compute a `tt.dot_scaled` by `ttng.tc_gen5_mma_scaled`."""
    op = dot.op
    mixed = dot.kinds[0] != dot.kinds[1]
    operands, parts = [], cga_layout(layout_of(op.result))
    for index in (0, 1):
        four_bits, along_k = dot.kinds[index] == "e2m1", dot.along_k[index]
        padded = (mixed and four_bits) or not along_k
        # Packed elements must lie in the direction in which they are packed.
        flags = {"any_order": not four_bits, "fp4_padded": padded, "outer_first": not along_k}
        cga = tuple((row[0], 0) if index == 0 else (0, row[1]) for row in parts)
        operands.append(in_shared_memory(dot.operands[index], index, **flags, cga=cga))
    columns = min(result_per_cta(op)[1], MAX_COLUMNS)
    ops = TileOps(op)
    accumulator = _start(ops, op, (ROWS, columns), options)
    scales = [
        _scale_in_tensor_memory(ops, op, scale, options, tuple((row[index], 0) for row in parts))
        for index, scale in enumerate(dot.scales)
        if scale is not None
    ]
    attributes = {name: op.attributes[kind] for name, kind in (("a_type", "a_elem_type"), ("b_type", "b_elem_type"))}
    _multiply(ops, op, [*operands, *scales], accumulator, attributes)


def _scale_in_tensor_memory(ops: TileOps, dot: DotScaled, scale: Value, options: MatmulOptions, parts: Bases) -> Value:
    """Scales in tensor memory; `parts` says which each CTA has: those of its rows, or columns, of the result."""
    tile = tile_type(scale)
    layout: Encoding
    if options.blocked_accumulators:
        rows, columns = cta_split(layout_of(dot.result))
        memory = TensorMemoryScales(split_m=rows, split_n=columns)
        layout = scales_access(tile.shape, warps=warps_of(dot), cga=cga_layout(layout_of(dot.result)))
    else:
        memory = TensorMemoryScales(parts)
        layout = _access(memory, tile.shape, tile.bits, dot, options)
    source = ops.converted(with_stop_in_shared_memory(scale), layout)
    type = MemDescType(tile.shape, tile.element, memory.text, TENSOR_MEMORY)
    return ops.emit("ttng.tmem_alloc", (source,), type)


def _access(
    memory: TensorMemory | TensorMemoryScales,
    shape: tuple[int, ...],
    bits: int,
    dot: Dot | DotScaled,
    options: MatmulOptions,
) -> Encoding:
    """The layout in which a tile goes to tensor memory and comes from it."""
    kinds = (Access.ROWS_16_256, Access.ROWS_32) if options.sixteen_rows else (Access.ROWS_32,)
    found = (access_layout(memory, shape, bits=bits, warps=warps_of(dot), access=kind) for kind in kinds)
    layout = next((layout for layout in found if layout is not None), None)
    assert layout is not None, f"{memory.text} can be accessed row by row"
    return layout


class _Accumulator(NamedTuple):
    """An accumulator in tensor memory, and the layout in which it is read and written."""

    memory: Value
    token: Value
    layout: Encoding


def _start(ops: TileOps, dot: Dot | DotScaled, block: tuple[int, int], options: MatmulOptions) -> _Accumulator:
    """The accumulator in tensor memory that `dot` adds to; one instruction computes `block` of it."""
    result = tile_type(dot.result)
    cga = cga_layout(layout_of(dot.result))
    if options.blocked_accumulators:
        rows, columns = cta_split(layout_of(dot.result))
        parts = TensorMemory(*block, unpacked=True, split_m=rows, split_n=columns)
    else:
        parts = TensorMemory(*block, WORD // result.bits, cga=cga)
    if options.blocked_accumulators and not options.sixteen_rows:
        layout: Encoding = blocked_access(block, result.shape, warps=warps_of(dot), cga=cga)
    else:
        layout = _access(parts, result.shape, result.bits, dot, options)
        if options.blocked_accumulators and isinstance(layout, Linear) and warps_of(dot) > WARP_GROUP:
            layout = second_half_for_second_group(layout)
    start = ops.converted(dot.accumulator, layout)
    type = MemDescType(result.shape, result.element, parts.text, TENSOR_MEMORY, True)
    memory, token = ops.op("ttng.tmem_alloc", (start,), (type, async_token)).results
    return _Accumulator(memory, token, layout)


def _multiply(
    ops: TileOps,
    dot: Dot | DotScaled,
    operands: Sequence[Value],
    accumulator: _Accumulator,
    attributes: dict[str, Attribute] | None = None,
) -> None:
    """Replace `dot` by a product of `operands`: two operands, and scales if there are any."""
    name = "ttng.tc_gen5_mma_scaled" if len(operands) > OPERANDS else "ttng.tc_gen5_mma"
    true = ops.literal(1, i1)
    given = (*operands[:OPERANDS], accumulator.memory, accumulator.token, *operands[OPERANDS:], true, true)
    segments = {SEGMENTS: DenseArray(i32, (*(1 for _ in given), 0, 0))}  # no barriers
    product = ops.emit(name, given, async_token, {**(attributes or {}), **segments})
    loaded = ops.op(
        "ttng.tmem_load", (accumulator.memory, product), (with_layout(dot.result.type, accumulator.layout), async_token)
    )
    ops.replace(loaded.results[0])
