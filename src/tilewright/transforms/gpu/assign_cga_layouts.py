"""Blocks of a cluster load the operands of their own part of a product, so that none reads the memory of another one.

    %b = tt.load %p : tensor<32x64x…, #blocked>                   #blocked: each block has half of the rows
    %f = ttg.convert_layout %b : … -> tensor<32x64xf16, #ttg.dot_op<{opIdx = 1, …}>>

    %q = ttg.convert_layout %p : … -> tensor<32x64x…, #blocked1>  #blocked1: every block has all rows
    %b = tt.load %q : tensor<32x64x…, #blocked1>
    %f = ttg.convert_layout %b : …

Blocks that have rows of the result need all columns of the right operand, and the other way round.
"""

from __future__ import annotations

from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType
from tilewright.layouts.encodings import Blocked, DotOperand
from tilewright.layouts.keys import Bases
from tilewright.layouts.queries import cga_layout, num_ctas
from tilewright.transforms.gpu.tile_ops import TileOps, convert_operand, layout_of, with_layout
from tilewright.transforms.matching import has_one_use


def assign_cga_layouts(module: Op) -> bool:
    """Let the loads of operands in `module`, whose products have blocked layouts, have what each block multiplies."""
    changed = False
    for dot in [op for op in module.walk() if isinstance(op, Dot)]:
        if num_ctas(layout_of(dot.result)) > 1:
            for index, value in enumerate((dot.a, dot.b)):
                changed |= _assign(dot, index, value)
    return changed


def _assign(dot: Dot, index: int, value: Value) -> bool:
    operand, load = layout_of(value), _load_behind(value)
    if load is None or not isinstance(operand, DotOperand):
        return False
    layout, wanted = layout_of(load.result), cga_layout(operand)
    if not isinstance(layout, Blocked) or layout.cga == wanted:
        return False
    _move(load, layout, wanted)
    dot.set_operand(index, TileOps(dot).converted(load.result, operand))
    return True


def _load_behind(value: Value) -> Load | None:
    """The load that gives an operand, if nothing but conversions is between them, and nothing else uses it."""
    op = value.op
    while isinstance(op, ConvertLayout) and has_one_use(op.result):
        op = op.source.op
    return op if isinstance(op, Load) and has_one_use(op.result) else None


def _move(load: Load, layout: Blocked, cga: Bases) -> None:
    """Give a load another way to share its tile; its users are not changed."""
    new = Blocked(layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, layout.order, cga)
    for index, value in enumerate(load.operands):
        if isinstance(value.type, TensorType):
            convert_operand(load, index, new)
    load.result.type = with_layout(load.result.type, new)
