"""The choice of the matrix instruction for a dot, and of the distribution of the result over its warps.

mma.sync (version 2)    from sm_75 on, 16x8 of the result for a warp, operands in registers
wgmma    (version 3)    sm_90, 64xN for a group of four warps, the second operand in shared memory
tcgen05  (version 5)    sm_100, a whole tile, operands in shared memory, the accumulator in tensor memory
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_dot import Dot
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.core import tile_type
from tilewright.ir.types import FLOATS, Shape, Type, bf16, f16, f32, f64, i8, i32
from tilewright.layouts.queries import shape_per_cta
from tilewright.transforms.gpu.tile_ops import layout_of

FP8 = frozenset({FLOATS["f8E5M2"], FLOATS["f8E4M3FN"]})
ALL_FP8 = FP8 | {FLOATS["f8E5M2FNUZ"], FLOATS["f8E4M3FNUZ"]}
TURING, AMPERE = 75, 80
ON_TURING = frozenset({(f16, f16, f32), (f16, f16, f16), (i8, i8, i32)})
"""Elements of the operands and the sum for which sm_75 has matrix instructions; Triton 3.9 uses none of them."""
ROW_BITS = 256
"""Bits of K that one instruction takes of each row of its operands."""
SHORT = 8
"""Bits of elements of which instructions have but one K; Triton refuses products with less."""
MAX_IMPRECISE = 32
"""The number of products added with less precision than f32 from which on fp8 products need no help."""
MAX_WIDTH_OF_INTEGERS, MAX_WIDTH_OF_FLOATS = 128, 256
"""Max N of `wgmma` among powers of two, which extents of tiles are."""


def result_per_cta(dot: DotLike) -> Shape:
    """The extents of one CTA's part of the result of `dot`."""
    return shape_per_cta(layout_of(dot.result), tile_type(dot.result).shape)


def versions_on(capability: int) -> tuple[int, ...]:
    """The matrix instructions of a device, best first."""
    if capability < TURING:
        return ()
    if capability < 90:
        return (2,)
    if capability < 100:
        return (3, 2)
    return (5, 2) if capability < 120 else (2,)


def version_for(dot: Dot, capability: int) -> int:
    """The version of the matrix instruction for `dot`; 0: there is none."""
    a, b, result = dot.a.type.scalar, dot.b.type.scalar, dot.result.type.scalar
    if f64 in (a, result) and capability not in (80, 90):
        return 0
    versions = versions_on(capability)
    if capability < AMPERE and (a, b, result) not in ON_TURING:
        return 0
    if capability == 103 and a is b is i8:
        versions = (2,)
    return next((version for version in versions if _computes(version, dot, capability)), 0)


def _computes(version: int, dot: Dot, capability: int) -> bool:
    a, b = dot.a.type.scalar, dot.b.type.scalar
    if a is b is f32 and dot.input_precision != "tf32":
        return False
    if version == 5 and not _fits_tcgen05(dot):
        return False
    if version == 3 and not _fits_wgmma(dot):
        return False
    bits = 2 * SHORT if a in FP8 and not mma_reads_fp8(capability) else a.bits
    if version == 2 and a.bits == SHORT and not _takes_a_row(dot, bits):
        return False
    return all(type in ALL_FP8 or type in (f16, bf16, f32, f64, i8) for type in (a, b))


def mma_reads_fp8(capability: int) -> bool:
    """Whether `mma.sync` takes operands of fp8; elsewhere they are widened to fp16."""
    return capability == 89 or capability // 10 == 12


def _takes_a_row(dot: Dot, bits: int | None = None) -> bool:
    """Whether K is long enough for one instruction, whose elements have so many `bits`; None: those of the operand."""
    a = tile_type(dot.a)
    return a.shape[-1] * (bits or a.element.bits) >= ROW_BITS


def _fits_wgmma(dot: Dot) -> bool:
    a, result, shape = dot.a.type.scalar, dot.result.type.scalar, result_per_cta(dot)
    if len(shape) != 2 or shape[0] % 64 or shape[1] % 8 or warps_of(dot) % 4 or not _takes_a_row(dot):
        return False
    if a in FP8 and result is f32 and dot.max_imprecise_sums < MAX_IMPRECISE:
        return False
    return a in FP8 or a in (i8, f16, bf16, f32)


def _fits_tcgen05(dot: Dot) -> bool:
    a, b, result = (value.type.scalar for value in (dot.a, dot.b, dot.result))
    shape = result_per_cta(dot)
    integers = [type for type in (a, b, result) if type.text.startswith("i")]
    if integers and not (a is b is i8 and result is i32):
        return False
    if len(shape) != 2 or shape[0] % 64 or shape[1] % 8 or warps_of(dot) not in (4, 8):
        return False
    return _takes_a_row(dot) and f64 not in (a, b, result)


def instruction_shape(version: int, shape: Shape, element: Type, warps: int) -> Shape:
    """The part of the result (and, from version 3 on, of K) that one instruction of a warp computes.

    The version is 2, 3 or 5, `shape` that of one CTA's part of the result, `element` that of the operands.
    """
    if version == 2:
        return (*(1,) * (len(shape) - 2), 8 if element is f64 else 16, 8)
    k = ROW_BITS // element.bits
    if version == 5:
        return (128 if shape[0] >= 128 else 64, min(shape[1], 256), k)
    rows = max(shape[0] // 16, 1)
    most = MAX_WIDTH_OF_INTEGERS if element is i8 else MAX_WIDTH_OF_FLOATS
    return (16, min(max(shape[1] // max(warps // rows, 1), 8), most), k)


def balanced_warps(shape: Shape, warps: int) -> Shape:
    """Warps over a result for `mma.sync`, so that each repeats the instruction as evenly as possible over M and N."""
    if len(shape) == 3:
        return (warps, 1, 1)
    repeats = [-(-shape[0] // 16), -(-shape[1] // 8)]
    found = [1, 1]
    while prod(found) < warps:
        axis = 0 if repeats[0] >= repeats[1] else 1  # in doubt M: its operand takes more registers
        found[axis] *= 2
        if axis or repeats[0] != 1:
            repeats[axis] //= 2
    return tuple(found)


def grouped_warps(shape: Shape, warps: int) -> Shape:
    """Warps over a result for `wgmma`: groups of four along M, and then where the result is left."""
    m, n = 4, 1
    while m * n < warps:
        if shape[0] > 16 * m:
            m *= 2
        else:
            n *= 2
    return (m, n)


@dataclass(frozen=True)
class MatmulOptions:
    """Choices between layouts that all compute the same.

    Attributes:
        f64_rows: rows of the result that one `mma.sync` for f64 computes: 8, or 16.
        blocked_accumulators: what goes to tensor memory has blocked layouts, and the memory is described as Triton 3.5
            does.
        sixteen_rows: a warp reads and writes 16 rows of tensor memory at once where it can, and else 32.
    """

    f64_rows: int = 8
    blocked_accumulators: bool = False
    sixteen_rows: bool = False


NEWEST = MatmulOptions()
