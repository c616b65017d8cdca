"""Transposes and reshapes of dot operands become views of shared memory, which cost nothing.

    %t = tt.trans %x                                     %m = ttg.local_alloc %x
    %m = ttg.local_alloc %t                       ->     %t = ttg.memdesc_trans %m
    … = ttng.warp_group_dot %m, …                        … = ttng.warp_group_dot %t, …

    %t = tt.trans %x                                     %m = ttg.local_alloc %x
    %a = ttg.convert_layout %t : … -> #dot_op     ->     %t = ttg.memdesc_trans %m
    … = tt.dot %a, …                                     %a = ttg.local_load %t : … -> #dot_op

Reshapes are moved likewise. Scales in shared memory that tensor memory needs in another order stay there: their copy to
tensor memory reorders them.

`reduce_data_duplication` moves operands that change their warp through one buffer, from which every thread reads its
elements: in a dot operand the same element is in several threads, and a conversion would write each copy.

    %b = ttg.convert_layout %a : … -> tensor<…, #ttg.dot_op<{…}>>

    %s = ttg.local_alloc %a : … -> !ttg.memdesc<…, #shared, #smem>       swizzled for the reads of the dot
    %b = ttg.local_load %s : … -> tensor<…, #ttg.dot_op<{…}>>
"""

from __future__ import annotations

from tilewright.dialects.tt_descriptors import DescriptorRead
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_shape import Reshape, Trans
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, MemDescReshape, MemDescTrans
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttng_mma import AsyncMma, TensorCoreMmaScaled
from tilewright.dialects.ttng_tensor_memory import TmemAlloc
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Op, Value, buffer_type, defining, tile_type
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import MemDescType, i32
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
    encoding_as,
)
from tilewright.layouts.inference import transposed
from tilewright.layouts.movement import needs_shared_memory
from tilewright.layouts.queries import cga_layout, memory_order
from tilewright.layouts.shared_choice import contiguous_offsets, reshaped_buffer, swizzled_for, transposed_from
from tilewright.transforms import conversion_rules
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.functions import rewrite_functions
from tilewright.transforms.gpu.shared_operands import before_conversions
from tilewright.transforms.gpu.tile_ops import distributed_of, layout_of
from tilewright.transforms.matching import has_one_use

TRANSPOSED = (1, 0)
SCALES_TRANSPOSED = (0, 3, 2, 1, 4)
CHUNK = 512
"""Bytes of scales that one copy to tensor memory takes: 32 rows of 16, from 128 rows with 4 scales each."""


def optimize_dot_operands(module: Op) -> bool:
    """Make products read their operands through memory views."""
    changed = canonicalize(module)
    return rewrite_functions(module, RULES, folds=conversion_rules.FOLDS) or changed


def _shared(type: MemDescType) -> Shared:
    return encoding_as(Shared, type.encoding)


def _like(type: MemDescType, shape: tuple[int, ...], layout: Encoding) -> MemDescType:
    return MemDescType(shape, type.element, layout.text, type.space, type.mutable)


# Operands in registers


def transposed_operand(op: ConvertLayout, rewriter: Rewriter) -> bool:
    """convert(trans(x)) to an operand  ->  load(trans(alloc(x))), swizzled for that operand"""
    layout, trans = layout_of(op.result), defining(op.source, Trans)
    if trans is None or trans.order != TRANSPOSED or not isinstance(layout, DotOperand) or not has_one_use(op.result):
        return False
    if not isinstance(next(iter(op.result.uses)), Dot):
        return False
    converted = defining(trans.source, ConvertLayout)
    origin = trans.source if converted is None else converted.source
    tile, before = tile_type(origin), distributed_of(origin)
    cga = tuple(tuple(reversed(row)) for row in cga_layout(before))
    order = memory_order(before, tile.shape)
    try:
        shared = swizzled_for(layout, tile.shape, order, bits=tile.bits, cga=cga, transposed=True)
    except LayoutError:
        return False
    type = MemDescType(tile.shape, tile.element, shared.text)
    memory = rewriter.create(trans, "ttg.local_alloc", (trans.source,), (type,))
    view = _like(type, tile_type(trans.result).shape, transposed(shared, tile.shape, TRANSPOSED))
    view_op = rewriter.create(
        trans, "ttg.memdesc_trans", memory.results, (view,), {"order": DenseArray(i32, TRANSPOSED)}
    )
    rewriter.replace(op, rewriter.create(trans, "ttg.local_load", view_op.results, (op.result.type,)).results)
    return True


# Operands in shared memory


def transposed_buffer(op: LocalAlloc, rewriter: Rewriter) -> bool:
    """alloc(trans(x))  ->  trans(alloc(x)), if a product reads it"""
    result = op.result
    trans = defining(op.source, Trans) if op.source is not None else None
    if trans is None or trans.order != TRANSPOSED or not has_one_use(result):
        return False
    if not isinstance(next(iter(result.uses)), AsyncMma):
        return False
    type = buffer_type(result)
    layout = _shared(type)
    if not isinstance(layout, NvmmaShared):
        return False
    source = trans.source
    inner = _like(type, tile_type(source).shape, transposed_from(layout, type.shape, TRANSPOSED))
    memory = rewriter.create(op, "ttg.local_alloc", (source,), (inner,))
    order = {"order": DenseArray(i32, TRANSPOSED)}
    rewriter.replace(op, rewriter.create(op, "ttg.memdesc_trans", memory.results, (type,), {**order}).results)
    return True


def reshaped_allocation(op: LocalAlloc, rewriter: Rewriter) -> bool:
    """alloc(reshape(x))  ->  reshape(alloc(x)), if both buffers are of the kind that matrix instructions read"""
    reshape = defining(op.source, Reshape) if op.source is not None else None
    type = buffer_type(op.result)
    if reshape is None or not isinstance(encoding(type.encoding), NvmmaShared):
        return False
    source = reshape.source
    shape = tile_type(source).shape
    try:
        layout = reshaped_buffer(_shared(type), type.shape, shape)
    except LayoutError:
        return False
    if not isinstance(layout, NvmmaShared):
        return False
    memory = rewriter.create(op, "ttg.local_alloc", (source,), (_like(type, shape, layout),))
    rewriter.replace(op, rewriter.create(op, "ttg.memdesc_reshape", memory.results, (type,)).results)
    return True


def views_of_operands(op: AsyncMma, rewriter: Rewriter) -> bool:
    """product(alloc(view(… x)))  ->  product(view(… alloc(x))), for operands with any linear layout"""
    changed = False
    for value in (op.a, op.b):
        if isinstance(value.type, MemDescType) and isinstance(encoding(value.type.encoding), SharedLinear):
            changed |= _allocate_first(value, rewriter)
    return changed


def _allocate_first(operand: Value, rewriter: Rewriter) -> bool:
    """Views of the tile that `operand` is a buffer with become views of the buffer."""
    while isinstance(operand.op, (MemDescReshape, MemDescTrans)):
        operand = operand.op.source
    alloc = defining(operand, LocalAlloc)
    if alloc is None or alloc.source is None:
        return False
    tile, types = alloc.source, [buffer_type(operand)]
    views: list[Reshape | Trans] = []
    while isinstance(tile.op, (Reshape, Trans)):
        views.append(tile.op)
        tile = tile.op.source
        types.append(_before(views[-1], types[-1], tile_type(tile).shape))
    if not views:
        return False
    memory = rewriter.create(alloc, "ttg.local_alloc", (tile,), (types.pop(),)).result
    for view in reversed(views):
        name, attributes = "ttg.memdesc_reshape", {}
        if isinstance(view, Trans):
            name, attributes = "ttg.memdesc_trans", {"order": DenseArray(i32, view.order)}
        memory = rewriter.create(alloc, name, (memory,), (types.pop(),), {**attributes}).result
    rewriter.replace(alloc, [memory])
    return True


def _before(view: Reshape | Trans, type: MemDescType, shape: tuple[int, ...]) -> MemDescType:
    """The type of a buffer that `view` makes one of `type` of."""
    if isinstance(view, Trans):
        return _like(type, shape, transposed_from(_shared(type), type.shape, view.order))
    return _like(type, shape, reshaped_buffer(_shared(type), type.shape, shape))


# Scales


def scales_in_shared_memory(op: TensorCoreMmaScaled, rewriter: Rewriter) -> bool:
    """product(…, tensor memory(view(load(buffer))))  ->  product(…, view(buffer)), if a copy can do the views"""
    changed = False
    for index in (0, 1):  # both may be one value
        old = op.b_scale if index else op.a_scale
        new = _scales_view(old, rewriter)
        if new is not None:
            rewriter.set_operands(op, [new if value is old else value for value in op.operands])
            changed = True
    return changed


def _scales_view(scale: Value, rewriter: Rewriter) -> Value | None:
    """The scales as a view of the buffer that they are loaded from."""
    memory, type = defining(scale, TmemAlloc), buffer_type(scale)
    if memory is None or memory.source is None or not isinstance(encoding(type.encoding), TensorMemoryScales):
        return None
    rows, columns = type.shape
    tiles = (rows // 128, columns // 4, 32, 4, 4)
    flat = defining(before_conversions(memory.source), Reshape)
    trans = None if flat is None else defining(before_conversions(flat.source), Trans)
    if trans is None or trans.order != SCALES_TRANSPOSED:
        return None
    chunks = defining(before_conversions(trans.source), Reshape)
    if chunks is None or tile_type(chunks.result).shape != tiles:
        return None
    load = defining(before_conversions(chunks.source), LocalLoad)
    if load is None or not _can_be_copied(load.buffer):
        return None
    return _viewed(load.buffer, tiles, (rows, columns), memory, rewriter)


def _can_be_copied(buffer: Value) -> bool:
    """Whether chunks of scales lie in one piece, in the buffer and in its last dimension, or come so from TMA."""
    type = buffer_type(buffer)
    layout = encoding(type.encoding)
    if not isinstance(layout, Shared) or isinstance(layout, PaddedShared):
        return False
    if contiguous_offsets(layout, type.shape) < CHUNK:
        return False
    alloc = defining(buffer, LocalAlloc)
    source = None if alloc is None else alloc.source
    if source is not None and isinstance(before_conversions(source).op, DescriptorRead):
        return True
    return len(type.shape) == 2 and type.shape[-1] * type.bits % (CHUNK * 8) == 0


def _viewed(buffer: Value, tiles: tuple[int, ...], shape: tuple[int, ...], before: Op, rewriter: Rewriter) -> Value:
    type = buffer_type(buffer)
    chunks = _like(type, tiles, reshaped_buffer(_shared(type), type.shape, tiles))
    transposed_shape = tuple(tiles[axis] for axis in SCALES_TRANSPOSED)
    transposed_view = _like(type, transposed_shape, transposed(_shared(chunks), tiles, SCALES_TRANSPOSED))
    flat = _like(type, shape, reshaped_buffer(_shared(transposed_view), transposed_shape, shape))
    order = DenseArray(i32, SCALES_TRANSPOSED)
    view = rewriter.create(before, "ttg.memdesc_reshape", (buffer,), (chunks,)).results
    view = rewriter.create(before, "ttg.memdesc_trans", view, (transposed_view,), {"order": order}).results
    return rewriter.create(before, "ttg.memdesc_reshape", view, (flat,)).result


RULES: dict[str, tuple[Rule, ...]] = {
    "ttg.convert_layout": (transposed_operand, *conversion_rules.RULES["ttg.convert_layout"]),
    "ttg.local_alloc": (transposed_buffer, reshaped_allocation),
    "ttng.tc_gen5_mma": (views_of_operands,),
    "ttng.tc_gen5_mma_scaled": (views_of_operands, scales_in_shared_memory),
    "ttng.warp_group_dot": (views_of_operands,),
}


def reduce_data_duplication(module: Op) -> bool:
    """Replace the conversions to operands of dots in `module` that need shared memory."""
    conversions = [op for op in module.walk() if isinstance(op, ConvertLayout)]
    return sum(map(_through_buffer, conversions)) > 0


def _through_buffer(op: ConvertLayout) -> bool:
    result, source, type = distributed_of(op.result), distributed_of(op.source), tile_type(op.source)
    if not isinstance(result, DotOperand) or not needs_shared_memory(source, result, type.shape):
        return False
    order = memory_order(source, type.shape)
    shared = swizzled_for(result, type.shape, order, bits=type.bits, cga=cga_layout(source))
    assert op.block is not None, "an op of a function is in a block"
    buffer = Op.create(
        "ttg.local_alloc", op.operands, (MemDescType(type.shape, type.element, shared.text),), location=op.location
    )
    load = Op.create("ttg.local_load", buffer.results, (op.result.type,), location=op.location)
    op.block.insert(buffer, op)
    op.block.insert(load, op)
    op.replace(load.results)
    return True
