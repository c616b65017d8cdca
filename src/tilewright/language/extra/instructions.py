"""PTX instructions that mean the same on every machine, as operations on tiles.

    INSTRUCTIONS["shf.l.wrap"](low, high, distance)      the upper half of high:low << distance

Each takes tiles of the type that the instruction names. What PTX leaves to the hardware (`ex2.approx`, `tanh.approx`)
has no exact meaning and is not here. PTX ISA, sections "Integer arithmetic", "Logic and shift" and "Floating point".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language import math
from tilewright.language.extra.bits import bitcast, brev, clz, less, mulhi, plus, popc, times, unsigned, width
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.semantics.types import float32, float64, int32, int64, uint32, uint64

WORD = 32
TF32_DROPS = 13
"""Bits of the fraction that fp32 has and tf32 has not."""


def shift_left(x: Any, distance: Any) -> Any:
    """x << distance; 0 where the distance is the width or more."""
    return where(distance < width(x), x << cast(distance & (width(x) - 1), x.type.scalar), x & 0)


def shift_right(x: Any, distance: Any) -> Any:
    """x >> distance; only the sign, or 0, is left where the distance is the width or more."""
    half = width(x) // 2
    near = x >> cast(distance & (width(x) - 1), x.type.scalar)
    return where(distance < width(x), near, (x >> half) >> (half - 1) >> 1)


def funnel_left(low: Any, high: Any, distance: Any) -> Any:
    """The upper 32 of the 64 bits high:low, shifted left; of the distance the low five bits count."""
    both = cast(unsigned(low), uint64) | (cast(unsigned(high), uint64) << 32)
    return cast((both << cast(unsigned(distance) & 31, uint64)) >> 32, uint32)


def funnel_right(low: Any, high: Any, distance: Any) -> Any:
    """The lower 32 of the 64 bits high:low, shifted right; of the distance the low five bits count."""
    both = cast(unsigned(low), uint64) | (cast(unsigned(high), uint64) << 32)
    return cast(both >> cast(unsigned(distance) & 31, uint64), uint32)


def multiply_wide(x: Any, y: Any) -> Any:
    """The product of 32-bit integers, in 64 bits."""
    wide = uint64 if x.type.scalar.is_int_unsigned() else int64
    return times(cast(x, wide), cast(y, wide))


def multiply_add(x: Any, y: Any, z: Any) -> Any:
    """The low half of x * y + z."""
    return plus(times(x, y), z)


def to_tf32(x: Any) -> Any:
    """fp32 with the fraction of tf32, rounded to nearest and ties away from zero; infinities and NaNs stay."""
    bits = bitcast(x, uint32)
    rounded = (plus(bits, 1 << (TF32_DROPS - 1)) >> TF32_DROPS) << TF32_DROPS
    return where((bits & 0x7F800000) == 0x7F800000, bits, rounded)


def with_sign(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of libdevice, which takes bits as signed integers only."""
    return lambda x: function(bitcast(x, int32 if width(x) == WORD else int64))


INSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "mov": lambda x: x,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x: ~x,
    "shl": shift_left,
    "shr": shift_right,
    "shf.l.wrap": funnel_left,
    "shf.r.wrap": funnel_right,
    "popc": with_sign(popc),
    "clz": with_sign(clz),
    "brev": with_sign(brev),
    "mul.lo": times,
    "mul.hi": mulhi,
    "mul.wide": multiply_wide,
    "mad.lo": multiply_add,
    "neg": lambda x: -x,
    "abs": math.abs,
    "min": minimum,
    "max": maximum,
    "fma.rn": math.fma,
    "sqrt.rn": math.sqrt_rn,
    "div.rn": math.div_rn,
    "cvt.rna.tf32": to_tf32,
    "add": lambda x, y: x + y if x.type.scalar.is_floating() else plus(x, y),
    "sub": lambda x, y: x - y if x.type.scalar.is_floating() else less(x, y),
    "mul": lambda x, y: x * y,
}
"""By name without the type at the end."""
SHIFTS = ("shl", "shr", "shf.l.wrap", "shf.r.wrap")
"""Their last operand is a number of 32 bits, whatever the others are."""
TYPES = {
    **{f"{letter}{bits}": kind for letter in "ub" for bits, kind in ((32, uint32), (64, uint64))},
    "s32": int32,
    "s64": int64,
    "f32": float32,
    "f64": float64,
}
"""What the operands of an instruction are, by the end of its name."""
