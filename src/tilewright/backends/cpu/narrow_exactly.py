"""A bf16 that equals the f32 it comes from is the upper half of its bits, without rounding.

    %y = arith.truncf %x : f32 to bf16        →        %h = arith.trunci (arith.shrui (tt.bitcast %x), 16) : i32 to i16
                                                       %y = tt.bitcast %h : i16 to bf16

Products of numbers with few digits are exact (`analysis/binary_digits.py`), as 4-bit floats times powers of two are.
Rounding takes six more instructions per vector, because the processor's own conversion flushes subnormals. Instructions
that multiply bf16 flush them as well: what only they read may be truncated if it has so few digits that only subnormals
would be rounded.
"""

from __future__ import annotations

from tilewright.analysis.binary_digits import FORMATS, BinaryDigits, Digits, fits
from tilewright.backends.cpu.dot.spec import multiplies_bf16
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import FloatCast
from tilewright.dialects.traits import Indexing
from tilewright.dialects.tt_dot import Dot
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import bf16, f32, i16, i32, with_element
from tilewright.transforms.op_builder import OpBuilder

MIN_EXTENT = 4
"""Min extent of the right matrix along both axes for which there are instructions."""


def narrow_exactly(module: Op, target: Target) -> bool:
    """Truncate in conversions to bf16 in `module` that need no rounding; returns whether there is one."""
    digits, skips_subnormals = BinaryDigits(), multiplies_bf16(target)
    casts = [op for op in module.ops_of(FloatCast) if _is_narrowed(op)]
    found = [
        op
        for op in casts
        if fits(digits.of(op.operand), "bf16")
        or (skips_subnormals and _rounds_subnormals(digits.of(op.operand)) and _is_multiplied(op.result))
    ]
    for op in found:
        at, type = OpBuilder(op), op.result.type
        bits = at.emit("tt.bitcast", (op.operand,), with_element(type, i32))
        high = at.compute("arith.shrui", bits, at.constant(16, bits.type))
        half = at.emit("arith.trunci", (high,), with_element(type, i16))
        op.replace([at.emit("tt.bitcast", (half,), type)])
    return bool(found)


def _is_narrowed(op: FloatCast) -> bool:
    """Whether `op` makes bf16 of f32."""
    return op.result.type.scalar is bf16 and op.operand.type.scalar is f32


def _rounds_subnormals(digits: Digits | None) -> bool:
    """Whether no other numbers are rounded, and none of those becomes a normal one.

    As many digits as bf16 has would be too many: a number between the largest subnormal and the next one would be.
    """
    return digits is not None and digits.digits < FORMATS["bf16"].digits


def _is_multiplied(value: Value) -> bool:
    """Whether products of tiles, by the instructions for bf16, are all that reads `value`."""
    return all(
        all(map(_is_multiplied, user.results)) if isinstance(user, Indexing) else _is_factor(value, user)
        for user in value.uses
    )


def _is_factor(value: Value, user: Op) -> bool:
    """Whether `user` multiplies `value`, with words and vectors enough for the instructions."""
    if not isinstance(user, Dot) or value is user.accumulator:
        return False
    return min(tile_type(user.b).shape[-2:]) >= MIN_EXTENT
