"""Operands of dots that change their warp go through one buffer, from which every thread reads what it needs.

    %b = ttg.convert_layout %a : … -> tensor<…, #ttg.dot_op<{…}>>

    %s = ttg.local_alloc %a : … -> !ttg.memdesc<…, #shared, #smem>       swizzled for the reads of the dot
    %b = ttg.local_load %s : … -> tensor<…, #ttg.dot_op<{…}>>

In a dot's operand the same element lies in several threads. A conversion would write each of these copies.
"""

from __future__ import annotations

from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, tile_type
from tilewright.ir.types import MemDescType
from tilewright.layouts.encodings import DotOperand
from tilewright.layouts.movement import needs_shared_memory
from tilewright.layouts.queries import cga_layout, memory_order
from tilewright.layouts.shared_choice import swizzled_for
from tilewright.transforms.gpu.tile_ops import distributed_of


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
