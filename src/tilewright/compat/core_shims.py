"""Shims for what programs use from the inside of Triton's library, as their sorts and scans began as copies of it.

idtype = tl.core.get_int_dtype(bitwidth=x.dtype.primitive_bitwidth, signed=True)
n_dims: tl.constexpr = tl.standard._log2(x.shape[0])
"""

from __future__ import annotations

from tilewright.runtime.constexpr_function import constexpr_function
from tilewright.semantics.constexpr import constexpr
from tilewright.semantics.types import dtype, int1

CONSTEXPR_0 = constexpr(0)
"""A default argument that counts as a constant."""


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of `bitwidth` bits.

    Raises:
        ValueError: there are none.
    """
    if bitwidth == 1:
        return int1
    if bitwidth not in (8, 16, 32, 64):
        raise ValueError(f"there are no integers of {bitwidth} bits: take 1, 8, 16, 32 or 64")
    return dtype(f"int{bitwidth}" if signed else f"uint{bitwidth}")


@constexpr_function
def _log2(i: int) -> int:
    """The position of the highest bit of `i`, which is positive."""
    return max(i.bit_length() - 1, 0)
