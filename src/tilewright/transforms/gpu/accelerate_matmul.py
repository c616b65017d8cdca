"""Selection of matrix instructions: each `tt.dot` gets the layouts that its instruction needs.

    %d = tt.dot %a, %b, %c : … -> tensor<64x64xf32, #blocked>

    sm_80   %c1 = ttg.convert_layout %c : … -> tensor<64x64xf32, #mma>
            %a1 = ttg.convert_layout %a : … -> tensor<64x64xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
            %b1 = …
            %d1 = tt.dot %a1, %b1, %c1 : … -> tensor<64x64xf32, #mma>
            %d = ttg.convert_layout %d1 : … -> tensor<64x64xf32, #blocked>
    sm_90   %a1 = ttg.local_alloc %a : … -> !ttg.memdesc<64x64xf16, #shared, #smem>
            %d1 = ttng.warp_group_dot %a1, %b1, %c1 : … -> tensor<64x64xf32, #mma>

    sm_100  the accumulator is in tensor memory: see tcgen05.py

Dots without such an instruction remain, with operands widened to the type of the result. Scaled dots without one become
products of scaled operands: see scaled_dot.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.value_flow import forward_slice
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_dot import INPUT_PRECISIONS, Dot, DotScaled
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.core import Op
from tilewright.ir.types import Type, bf16, f16, i8, i32
from tilewright.layouts.encodings import DotOperand, NvidiaMma
from tilewright.layouts.queries import cga_layout
from tilewright.transforms.gpu import mma_sync, tcgen05
from tilewright.transforms.gpu.matrix_instructions import (
    ALL_FP8,
    FP8,
    NEWEST,
    MatmulOptions,
    grouped_warps,
    instruction_shape,
    mma_reads_fp8,
    result_per_cta,
    version_for,
)
from tilewright.transforms.gpu.scaled_dot import decompose_scaled, scaled_dot, transpose_dot
from tilewright.transforms.gpu.shared_operands import comes_from_load, in_shared_memory, is_transposed
from tilewright.transforms.gpu.tile_ops import TileOps, capability_of, layout_of, with_layout

UNPLACED_DOTS = (Dot, DotScaled)
"""Products that no instruction was chosen for."""


def accelerate_matmul(module: Op, options: MatmulOptions = NEWEST) -> bool:
    """Choose a matrix instruction for every dot of `module` for which the device has one."""
    capability = capability_of(module)
    for scaled in [op for op in module.walk() if isinstance(op, DotScaled)]:
        dot = scaled_dot(scaled)
        if dot.scales[0] is None and dot.scales[1] is not None:
            transpose_dot(dot)
    dots = [op for op in module.walk() if isinstance(op, UNPLACED_DOTS)]
    for op in reversed(dots):  # the last of dots that feed each other decides
        if not isinstance(layout_of(op.result), NvidiaMma):
            _accelerate(op, capability, options)
    for unscaled in [op for op in module.walk() if isinstance(op, Dot)]:
        _widen_operands(unscaled, capability)
    return bool(dots)


def _accelerate(op: Dot | DotScaled, capability: int, options: MatmulOptions) -> None:
    if isinstance(op, DotScaled):
        dot = scaled_dot(op)
        if tcgen05.fits_scaled(dot, capability):
            tcgen05.to_scaled_tcgen05(dot, options)
            return
        if mma_sync.fits_scaled(dot, capability):
            mma_sync.to_scaled_mma(dot, capability)
            return
        op = decompose_scaled(dot)
    match version_for(op, capability):
        case 2:
            mma_sync.to_mma(op, capability, options)
        case 3:
            _to_wgmma(op)
        case 5:
            tcgen05.to_tcgen05(op, options)


# wgmma


def _to_wgmma(dot: Dot) -> None:
    shape, element = result_per_cta(dot), dot.a.type.scalar
    warps = warps_of(dot)
    instruction = instruction_shape(3, shape, element, warps)
    chained = any(isinstance(op, DotLike) for op in forward_slice(dot.result))
    # Rows that the next dot needs stay in one warp.
    split = (warps, 1) if chained else grouped_warps(shape, warps)
    mma = NvidiaMma(3, 0, split, instruction, cga_layout(layout_of(dot.result)))
    any_order = _reads_any_order(element)
    a, b = dot.a, dot.b
    ops = TileOps(dot)
    accumulator = ops.converted(dot.accumulator, mma)  # before an operand is in registers
    if comes_from_load(a):
        first = in_shared_memory(a, 0, any_order=any_order)
    else:
        first = ops.converted(a, DotOperand(0, mma, max(32 // element.bits, 1)))
    second = in_shared_memory(b, 1, any_order=any_order)
    attributes: dict[str, Attribute] = {
        "inputPrecision": Number(INPUT_PRECISIONS.index(dot.input_precision), i32),
        "maxNumImpreciseAcc": Number(dot.max_imprecise_sums, i32),
        "isAsync": False,
    }
    type = with_layout(dot.result.type, mma)
    ops.finish("ttng.warp_group_dot", (first, second, accumulator), type, attributes)


def _reads_any_order(element: Type) -> bool:
    """Whether `wgmma` can read operands column by column: only those of 16 bits."""
    return element in (f16, bf16)


# Operands that no instruction takes


def _widen_operands(dot: Dot, capability: int) -> None:
    """Operands that the instruction cannot read are widened: fp8 to fp16, others to the type of the result."""
    a, result = dot.a.type.scalar, dot.result.type.scalar
    if isinstance(layout_of(dot.result), NvidiaMma):
        if a not in FP8 or mma_reads_fp8(capability):
            return
        wide: Type = f16
    elif a is result:
        return
    else:
        wide = result
    ops = TileOps(dot)
    for index, value in enumerate((dot.a, dot.b)):
        element = value.type.scalar
        name = "tt.fp_to_fp" if element in ALL_FP8 else "arith.extsi" if element is i8 else "arith.extf"
        dot.set_operand(index, ops.cast(name, value, wide))


# What is slow


def forced_orders(module: Op) -> Iterator[tuple[Dot | DotScaled, str]]:
    """Dots whose operands must be transposed in registers on their way to shared memory."""
    capability = capability_of(module)
    for op in [op for op in module.walk() if isinstance(op, UNPLACED_DOTS)]:
        for index in _transposed_operands(op, capability):
            yield (
                op,
                f"Forcing a different order in shared memory than in registers for operand {index}: it is transposed"
                " in registers, and its loads do not run ahead; a transposed tensor in global memory would be faster",
            )


def _transposed_operands(op: Dot | DotScaled, capability: int) -> Iterator[int]:
    if isinstance(layout_of(op.result), NvidiaMma):
        return
    if isinstance(op, Dot) and version_for(op, capability) == 3:
        any_order = _reads_any_order(op.a.type.scalar)
        for index, operand in enumerate((op.a, op.b)):
            if (index or comes_from_load(op.a)) and is_transposed(operand, index, any_order=any_order):
                yield index
    elif isinstance(op, DotScaled) and tcgen05.fits_scaled(scaled_dot(op), capability):
        dot = scaled_dot(op)
        for index in (0, 1):
            wanted = {"any_order": dot.kinds[index] != "e2m1", "outer_first": not dot.along_k[index]}
            if is_transposed(dot.operands[index], index, **wanted):
                yield index
