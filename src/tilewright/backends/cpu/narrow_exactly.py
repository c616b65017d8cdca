"""A bf16 that is exactly the f32 it comes from is its upper half: nothing is rounded.

    %y = arith.truncf %x : f32 to bf16        →        %h = arith.trunci (arith.shrui (tt.bitcast %x), 16) : i32 to i16
                                                       %y = tt.bitcast %h : i16 to bf16

Products of numbers with few digits are exact (`analysis/binary_digits.py`), as 4-bit floats times powers of two are. To
round takes six instructions more per vector, as the processor's own conversion takes subnormals for zero.
"""

from __future__ import annotations

from tilewright.analysis.binary_digits import BinaryDigits, fits
from tilewright.dialects.arith import FloatCast
from tilewright.ir.core import Op
from tilewright.ir.types import bf16, f32, i16, i32, with_element
from tilewright.transforms.op_builder import OpBuilder


def narrow_exactly(module: Op) -> bool:
    """Cut conversions to bf16 in `module` that have nothing to round; returns whether there is one."""
    digits = BinaryDigits()
    found = [op for op in module.ops_of(FloatCast) if _is_exact(op, digits)]
    for op in found:
        at, type = OpBuilder(op), op.result.type
        bits = at.emit("tt.bitcast", (op.operand,), with_element(type, i32))
        high = at.compute("arith.shrui", bits, at.constant(16, bits.type))
        half = at.emit("arith.trunci", (high,), with_element(type, i16))
        op.replace([at.emit("tt.bitcast", (half,), type)])
    return bool(found)


def _is_exact(op: FloatCast, digits: BinaryDigits) -> bool:
    """Whether `op` makes bf16 of f32, and each number is one of bf16."""
    if op.result.type.scalar is not bf16 or op.operand.type.scalar is not f32:
        return False
    return fits(digits.of(op.operand), "bf16")
