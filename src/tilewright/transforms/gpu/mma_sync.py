"""Products on `mma.sync`: operands and accumulators in registers, 16x8 of the result per instruction of a warp.

to_mma(dot, 80)             tt.dot %a1, %b1, %c1 : … #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}> … -> #mma
to_scaled_mma(dot, 120)     tt.dot_scaled, whose scales have the layout that the instruction takes
"""

from __future__ import annotations

from tilewright.analysis.value_flow import backward_slice, connected_ops
from tilewright.dialects.tt_dot import Dot, DotScaled
from tilewright.dialects.tt_shape import Broadcast, Cat, ExpandDims, Join, Reshape, Split, Trans
from tilewright.dialects.ttg_program import ConvertLayout, Fp4ToFp
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import Attribute
from tilewright.ir.core import Value, tile_type
from tilewright.ir.effects import is_pure
from tilewright.ir.types import Shape, f64
from tilewright.layouts.conversion import scale_layout
from tilewright.layouts.encodings import Blocked, DotOperand, Linear, NvidiaMma
from tilewright.layouts.inference import linear_encoding
from tilewright.layouts.queries import cga_layout
from tilewright.transforms.gpu.matrix_instructions import (
    NEWEST,
    MatmulOptions,
    balanced_warps,
    instruction_shape,
    result_per_cta,
)
from tilewright.transforms.gpu.scaled_dot import ScaledDot
from tilewright.transforms.gpu.shared_operands import LOADS
from tilewright.transforms.gpu.tile_ops import TileOps, layout_as, layout_of, with_layout, workers_of

VIEWS = (ExpandDims, Reshape, Trans, Join, Split, Cat, Broadcast, ConvertLayout)
ORIGINS = (*LOADS, *VIEWS, Fp4ToFp)
WORD = 32
FP8_KINDS = frozenset({"e4m3", "e5m2"})


def to_mma(dot: Dot, capability: int, options: MatmulOptions = NEWEST) -> None:
    """Give a `tt.dot` the layouts of the instruction."""
    mma = _layout(dot, capability, options)
    bits = min(loaded_bits(dot.a), loaded_bits(dot.b))
    _multiply(dot, mma, bits, [], dict(dot.attributes))


def fits_scaled(dot: ScaledDot, capability: int) -> bool:
    """Whether the instruction of sm_120 computes a `tt.dot_scaled`."""
    a, b = dot.scales
    if capability // 10 != 12 or a is None or b is None or workers_of(dot.op).ctas != 1:
        return False
    if isinstance(layout_of(a), Linear) or isinstance(layout_of(b), Linear) or a.type.scalar is not b.type.scalar:
        return False
    kinds = set(dot.kinds)
    return (kinds <= FP8_KINDS or kinds == {"e2m1"}) and dot.has_terms


def to_scaled_mma(dot: ScaledDot, capability: int) -> None:
    """Give a `tt.dot_scaled` the layouts of the instruction."""
    op = dot.op
    mma = _layout(op, capability, NEWEST)
    ops = TileOps(op)
    scales = []
    for index, scale in enumerate(dot.scales):
        assert scale is not None, "both operands have scales"
        wanted = scale_layout(tile_type(scale).shape, index, mma.warps_per_cta, layout_as(scale, Blocked).cga)
        scales.append(ops.converted(scale, linear_encoding(wanted)))
    bits = min(operand.type.bits for operand in dot.operands)
    _multiply(op, mma, bits, scales, dict(op.attributes))


def _layout(dot: Dot | DotScaled, capability: int, options: MatmulOptions) -> NvidiaMma:
    shape, element = result_per_cta(dot), dot.a.type.scalar
    instruction = instruction_shape(2, shape, element, warps_of(dot))
    if element is f64:
        instruction = (*instruction[:-2], options.f64_rows, instruction[-1])
    cga = cga_layout(layout_of(dot.result))
    return NvidiaMma(2, int(capability == 75), _warps(dot, shape), instruction, cga)


def _multiply(
    dot: Dot | DotScaled, mma: NvidiaMma, bits: int, scales: list[Value], attributes: dict[str, Attribute]
) -> None:
    """`dot` with the result in `mma`; from memory its operands come `bits` wide."""
    ops = TileOps(dot)
    width = max(WORD // bits, 1)
    c = ops.converted(dot.accumulator, mma)  # before the operands are in registers
    a, b = (ops.converted(value, DotOperand(index, mma, width)) for index, value in enumerate((dot.a, dot.b)))
    ops.finish(dot.name, (a, b, c, *scales), with_layout(dot.result.type, mma), attributes)


def _warps(dot: Dot | DotScaled, shape: Shape) -> Shape:
    """Warps over the result; all along one axis when dots feed each other, so that rows stay in one warp."""
    warps = warps_of(dot)
    if len(shape) == 3:
        return balanced_warps(shape, warps)
    chained = False
    for op in connected_ops(dot, lambda op: not isinstance(op, Trans) and op.block is dot.block):
        if isinstance(op, (Dot, DotScaled)) and op is not dot:
            layout = layout_of(op.result)
            if layout.rank != len(shape):
                continue
            if isinstance(layout, NvidiaMma):
                return layout.warps_per_cta
            chained = True
    if chained:
        return (warps, 1) if shape[0] >= shape[1] else (1, warps)
    return balanced_warps(shape, warps)


def loaded_bits(value: Value) -> int:
    """The width with which the elements of an operand come from memory: so wide are the groups its threads have."""
    slice_ = backward_slice(value, lambda op: isinstance(op, ORIGINS) or (op.definition.elementwise and is_pure(op)))
    if any(isinstance(op, Fp4ToFp) for op in slice_):
        return 4
    bits = [op.result.type.bits for op in slice_ if isinstance(op, LOADS) and op.result.type.shape is not None]
    least = min([value.type.bits, *bits])
    return least // 2 if any(isinstance(op, Join) for op in slice_) else least  # each part of a pair has half the group
