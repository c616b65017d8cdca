"""Factors of matrix products are turned and reshaped in memory, where that costs nothing, and not in registers.

    %t = tt.trans %x                                     %m = ttg.local_alloc %x
    %m = ttg.local_alloc %t                       ->     %t = ttg.memdesc_trans %m
    … = ttng.warp_group_dot %m, …                        … = ttng.warp_group_dot %t, …

    %t = tt.trans %x                                     %m = ttg.local_alloc %x
    %a = ttg.convert_layout %t : … -> #dot_op     ->     %t = ttg.memdesc_trans %m
    … = tt.dot %a, …                                     %a = ttg.local_load %t : … -> #dot_op

Reshapes move likewise. Scales in shared memory, which tensor memory would get in another order, stay there: their copy
to tensor memory puts them into that order.
"""

from __future__ import annotations

from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op, Value, defining_op
from tilewright.ir.operands import operand_groups
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import MemDescType, i32
from tilewright.layouts.buffer_views import contiguous_offsets, reshaped_buffer, transposed_from
from tilewright.layouts.encodings import (
    DotOperand,
    Encoding,
    LayoutError,
    NvmmaShared,
    PaddedShared,
    Shared,
    SharedLinear,
    TensorMemoryScales,
    encoding,
)
from tilewright.layouts.inference import transposed
from tilewright.layouts.queries import cga_layout, memory_order
from tilewright.layouts.shared_choice import swizzled_for
from tilewright.transforms import conversion_rules
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.gpu.matrix_instructions import tile_of
from tilewright.transforms.gpu.relayout import distributed_of, layout_of
from tilewright.transforms.gpu.shared_operands import LOADS, before_conversions
from tilewright.transforms.matching import has_one_use

TURNED = (1, 0)
PRODUCTS_OF_BUFFERS = ("ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
SCALES_TURNED = (0, 3, 2, 1, 4)
CHUNK = 512
"""Bytes of scales that one copy to tensor memory takes: 32 rows of 16, from 128 rows with 4 scales each."""


def optimize_dot_operands(module: Op) -> bool:
    """Let products read their factors through views of memory."""
    changed = canonicalize(module)
    return rewrite_functions(module, RULES, folds=conversion_rules.FOLDS) or changed


def _order_of(op: Op) -> tuple[int, ...]:
    order = op.attributes["order"]
    assert isinstance(order, DenseArray), "a transposition has an order"
    return order.values


def _buffer(value: Value) -> MemDescType:
    assert isinstance(value.type, MemDescType), f"{value.type} is no buffer"
    return value.type


def _shared(type: MemDescType) -> Shared:
    layout = encoding(type.encoding)
    assert isinstance(layout, Shared), f"{type} is not in shared memory"
    return layout


def _like(type: MemDescType, shape: tuple[int, ...], layout: Encoding) -> MemDescType:
    return MemDescType(shape, type.element, layout.text, type.space, type.mutable)


# Factors in registers


def turned_factor(op: Op, rewriter: Rewriter) -> bool:
    """convert(trans(x)) to a factor  ->  load(trans(alloc(x))), swizzled for that factor"""
    layout = layout_of(op.results[0])
    turn = defining_op(op.operands[0], "tt.trans")
    if turn is None or _order_of(turn) != TURNED or not isinstance(layout, DotOperand) or not _feeds_dot(op):
        return False
    source = turn.operands[0]
    origin = source.op.operands[0] if source.op is not None and source.op.name == "ttg.convert_layout" else source
    tile, before = tile_of(origin.type), distributed_of(origin)
    cga = tuple(tuple(reversed(row)) for row in cga_layout(before))
    order = memory_order(before, tile.shape)
    try:
        shared = swizzled_for(layout, tile.shape, order, bits=tile.bits, cga=cga, transposed=True)
    except LayoutError:
        return False
    type = MemDescType(tile.shape, tile.element, shared.text)
    memory = rewriter.create(turn, "ttg.local_alloc", (source,), (type,))
    view = _like(type, tile_of(turn.results[0].type).shape, transposed(shared, tile.shape, TURNED))
    view_op = rewriter.create(turn, "ttg.memdesc_trans", memory.results, (view,), {"order": DenseArray(i32, TURNED)})
    rewriter.replace(op, rewriter.create(turn, "ttg.local_load", view_op.results, (op.results[0].type,)).results)
    return True


def _feeds_dot(op: Op) -> bool:
    return has_one_use(op.results[0]) and next(iter(op.results[0].uses)).name == "tt.dot"


# Factors in shared memory


def turned_buffer(op: Op, rewriter: Rewriter) -> bool:
    """alloc(trans(x))  ->  trans(alloc(x)), if a product reads it"""
    result = op.results[0]
    turn = defining_op(op.operands[0], "tt.trans") if op.operands else None
    if turn is None or _order_of(turn) != TURNED or not has_one_use(result):
        return False
    if next(iter(result.uses)).name not in PRODUCTS_OF_BUFFERS:
        return False
    type = _buffer(result)
    layout = _shared(type)
    if not isinstance(layout, NvmmaShared):
        return False
    source = turn.operands[0]
    inner = _like(type, tile_of(source.type).shape, transposed_from(layout, type.shape, TURNED))
    memory = rewriter.create(op, "ttg.local_alloc", (source,), (inner,))
    order = {"order": DenseArray(i32, TURNED)}
    rewriter.replace(op, rewriter.create(op, "ttg.memdesc_trans", memory.results, (type,), {**order}).results)
    return True


def reshaped_allocation(op: Op, rewriter: Rewriter) -> bool:
    """alloc(reshape(x))  ->  reshape(alloc(x)), if both buffers are of the kind that matrix instructions read"""
    reshape = defining_op(op.operands[0], "tt.reshape") if op.operands else None
    type = _buffer(op.results[0])
    if reshape is None or not isinstance(encoding(type.encoding), NvmmaShared):
        return False
    source = reshape.operands[0]
    shape = tile_of(source.type).shape
    try:
        layout = reshaped_buffer(_shared(type), type.shape, shape)
    except LayoutError:
        return False
    if not isinstance(layout, NvmmaShared):
        return False
    memory = rewriter.create(op, "ttg.local_alloc", (source,), (_like(type, shape, layout),))
    rewriter.replace(op, rewriter.create(op, "ttg.memdesc_reshape", memory.results, (type,)).results)
    return True


def views_of_factors(op: Op, rewriter: Rewriter) -> bool:
    """product(alloc(view(… x)))  ->  product(view(… alloc(x))), for factors with any linear layout"""
    changed = False
    for value in op.operands[:2]:
        if isinstance(value.type, MemDescType) and isinstance(encoding(value.type.encoding), SharedLinear):
            changed |= _allocate_first(value, rewriter)
    return changed


def _allocate_first(factor: Value, rewriter: Rewriter) -> bool:
    """Views of the tile that `factor` is a buffer with become views of the buffer."""
    while factor.op is not None and factor.op.name in ("ttg.memdesc_reshape", "ttg.memdesc_trans"):
        factor = factor.op.operands[0]
    alloc = defining_op(factor, "ttg.local_alloc")
    if alloc is None or not alloc.operands:
        return False
    tile, types, views = alloc.operands[0], [_buffer(factor)], []
    while tile.op is not None and tile.op.name in ("tt.reshape", "tt.trans"):
        views.append(tile.op)
        tile = tile.op.operands[0]
        types.append(_before(views[-1], types[-1], tile_of(tile.type).shape))
    if not views:
        return False
    memory = rewriter.create(alloc, "ttg.local_alloc", (tile,), (types.pop(),)).results[0]
    for view in reversed(views):
        turns = view.name == "tt.trans"
        name = "ttg.memdesc_trans" if turns else "ttg.memdesc_reshape"
        attributes = {"order": view.attributes["order"]} if turns else None
        memory = rewriter.create(alloc, name, (memory,), (types.pop(),), attributes).results[0]
    rewriter.replace(alloc, [memory])
    return True


def _before(view: Op, type: MemDescType, shape: tuple[int, ...]) -> MemDescType:
    """The type of a buffer that `view` makes one of `type` of."""
    if view.name == "tt.trans":
        return _like(type, shape, transposed_from(_shared(type), type.shape, _order_of(view)))
    return _like(type, shape, reshaped_buffer(_shared(type), type.shape, shape))


# Scales


def scales_in_shared_memory(op: Op, rewriter: Rewriter) -> bool:
    """product(…, tensor memory(view(load(buffer))))  ->  product(…, view(buffer)), if a copy can do the views"""
    groups = operand_groups(op)
    changed = False
    for name in ("a_scale", "b_scale"):
        old = groups[name][0]
        new = _scales_view(old, op, rewriter)
        if new is not None:
            rewriter.set_operands(op, [new if value is old else value for value in op.operands])
            groups = operand_groups(op)
            changed = True
    return changed


def _scales_view(scale: Value, op: Op, rewriter: Rewriter) -> Value | None:
    """The scales as a view of the buffer that they are loaded from."""
    memory = defining_op(scale, "ttng.tmem_alloc")
    if memory is None or not memory.operands or not isinstance(encoding(_buffer(scale).encoding), TensorMemoryScales):
        return None
    rows, columns = _buffer(scale).shape
    tiles = (rows // 128, columns // 4, 32, 4, 4)
    flat = _maker(memory.operands[0], "tt.reshape")
    turn = None if flat is None else _maker(flat.operands[0], "tt.trans")
    if turn is None or _order_of(turn) != SCALES_TURNED:
        return None
    chunks = _maker(turn.operands[0], "tt.reshape")
    if chunks is None or tile_of(chunks.results[0].type).shape != tiles:
        return None
    load = _maker(chunks.operands[0], "ttg.local_load")
    if load is None or not _can_be_copied(load.operands[0]):
        return None
    return _viewed(load.operands[0], tiles, (rows, columns), memory, rewriter)


def _maker(value: Value, name: str) -> Op | None:
    return defining_op(before_conversions(value), name)


def _can_be_copied(buffer: Value) -> bool:
    """Whether chunks of scales lie in one piece, in the buffer and in its last dimension, or come so from TMA."""
    type = _buffer(buffer)
    layout = encoding(type.encoding)
    if not isinstance(layout, Shared) or isinstance(layout, PaddedShared):
        return False
    if contiguous_offsets(layout, type.shape) < CHUNK:
        return False
    alloc = defining_op(buffer, "ttg.local_alloc")
    load = before_conversions(alloc.operands[0]).op if alloc is not None and alloc.operands else None
    if load is not None and load.name in LOADS and load.name != "tt.load":
        return True
    return len(type.shape) == 2 and type.shape[-1] * type.bits % (CHUNK * 8) == 0


def _viewed(buffer: Value, tiles: tuple[int, ...], shape: tuple[int, ...], before: Op, rewriter: Rewriter) -> Value:
    type = _buffer(buffer)
    chunks = _like(type, tiles, reshaped_buffer(_shared(type), type.shape, tiles))
    turned_shape = tuple(tiles[axis] for axis in SCALES_TURNED)
    turned = _like(type, turned_shape, transposed(_shared(chunks), tiles, SCALES_TURNED))
    flat = _like(type, shape, reshaped_buffer(_shared(turned), turned_shape, shape))
    order = DenseArray(i32, SCALES_TURNED)
    view = rewriter.create(before, "ttg.memdesc_reshape", (buffer,), (chunks,)).results
    view = rewriter.create(before, "ttg.memdesc_trans", view, (turned,), {"order": order}).results
    return rewriter.create(before, "ttg.memdesc_reshape", view, (flat,)).results[0]


RULES: dict[str, tuple[Rule, ...]] = {
    "ttg.convert_layout": (turned_factor, *conversion_rules.RULES["ttg.convert_layout"]),
    "ttg.local_alloc": (turned_buffer, reshaped_allocation),
    "ttng.tc_gen5_mma": (views_of_factors,),
    "ttng.tc_gen5_mma_scaled": (views_of_factors, scales_in_shared_memory),
    "ttng.warp_group_dot": (views_of_factors,),
}
