"""The bits of NaN results where hardware does not give the canonical NaN of their type.

    cvt.rn.f32.f64 %f1, %fd1;      0xFFF123456789ABCD -> 0xFFC91A2B       sign, the payload's upper bits, quiet
    add.f64 %fd3, %fd1, %fd2;      the second operand's NaN wins over the first one's

PTX leaves most of these bits unspecified. docs/simulator.md has the table of measured and of assumed bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.backends.ptxsim.value_types import Array
from tilewright.support.exact_rounding import FORMATS, Format
from tilewright.support.ptx_syntax import Instruction

QUIET = np.uint64(1 << 51)
"""The bit of f64 that marks a quiet NaN."""
INVALID = np.uint64(0xFFF8 << 48)
"""The NaN of f64 that an operation makes of operands that are none."""
WINNERS = {
    **dict.fromkeys(("add", "sub", "mul", "extremum"), (1, 0)),
    "div": (0, 1),
    "fma": (1, 2, 0),
    "sqrt": (0,),
}
"""The operands of f64 whose NaN is the result's, the first that is one, per operation."""
UPPER_HALF = np.uint64(0x7FFFFFFF << 32)
"""The NaN of f64 instructions that compute with upper halves alone."""


def passed_on(operation: str, operands: Sequence[Array], found: Array) -> Array:
    """Results of f64, with the NaNs that operands pass on: quiet, with sign and payload."""
    nans = found != found
    if not nans.any():
        return found
    bits = np.where(nans, INVALID, found.view(np.uint64))
    for number in reversed(WINNERS[operation]):
        operand = np.ascontiguousarray(operands[number], np.float64)
        bits = np.where(nans & (operand != operand), operand.view(np.uint64) | QUIET, bits)
    return bits.view(np.float64)


def sign_changed(format: str, before: Array, after: Array) -> Array:
    """The bits after neg or abs: a NaN of f64 stays as it is, but quiet; others become the type's own."""
    target = FORMATS[format]
    nan = before.dtype.type(target.nan or 0)
    return np.where(_is_nan(before, target), before | QUIET if format == "f64" else nan, after)


def conversion(instruction: Instruction, source: str, to: str) -> Callable[[Array], Array] | None:
    """Bits of NaNs → bits of what a conversion makes of them; None: the one NaN of the result's type."""
    if any(instruction.has(flag) for flag in ("sat", "relu")):
        return None
    if source == "f64" and to in ("f32", "f16", "bf16"):
        return lambda bits: _shortened(bits, FORMATS["f64"], FORMATS[to])
    if (source, to) == ("bf16", "f32"):
        return lambda bits: bits.astype(np.uint32) << np.uint32(16)
    if (source, to) == ("f32", "tf32") and instruction.has("rna"):
        return lambda bits: bits & np.uint32(0xFFFFE000)
    if instruction.name == "cvt.f32.f32":
        return lambda bits: bits
    return None


def replaced(bits: Array, source: str, found: Array, rule: Callable[[Array], Array]) -> Array:
    """The results `found`, with what `rule` makes of operands that are NaNs."""
    nans = _is_nan(bits, FORMATS[source])
    return np.where(nans, rule(bits).astype(found.dtype), found) if nans.any() else found


def _is_nan(bits: Array, format: Format) -> Array:
    kind = bits.dtype.type
    magnitude = bits & kind((1 << (format.bits - 1)) - 1)
    return magnitude > kind(format.infinite or 0)


def _shortened(bits: Array, wide: Format, narrow: Format) -> Array:
    sign = bits >> np.uint64(wide.bits - 1) << np.uint64(narrow.bits - 1)
    payload = (bits & np.uint64((1 << wide.mantissa) - 1)) >> np.uint64(wide.mantissa - narrow.mantissa)
    return sign | payload | np.uint64((narrow.infinite or 0) | 1 << (narrow.mantissa - 1))
