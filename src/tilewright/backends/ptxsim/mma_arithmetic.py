"""Products of matrices as tensor instructions of this simulator make them.

    multiply_accumulate(first, second, accumulator, "f32")     # (…, m, k) x (…, k, n) + (…, m, n) -> bytes of f32

The sum of one instruction: every product of two elements is exact; the products of one instruction are added in
float64, in the order of NumPy's `matmul`; that sum and the accumulator are added in float64 and rounded once, to
nearest even, to the type of the result. A matrix product of several instructions rounds after each, in program order.
Products of f16, bf16, tf32 and of narrower types have at most 22 bits, so that the order within an instruction
changes nothing but the last bits of a float64. For f64 each product and sum is rounded as float64. Hardware keeps
fewer bits while it adds, so results agree to the precision of the accumulator, not bit by bit.
Integer sums are exact, then wrap, or saturate where the instruction says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.ptxsim.value_types import INTEGERS, write_elements

Values = NDArray[Any]


def multiply(first: Values, second: Values) -> Values:
    """The product of the values that `read_elements` gives: int64 for integers, else float64."""
    if first.dtype.kind == "i":
        first, second = first.astype(np.float64), second.astype(np.float64)
        counts: Values = np.matmul(first, second).astype(np.int64)
        return counts
    product: Values = np.matmul(first, second)
    return product


def multiply_accumulate(
    first: Values, second: Values, sums: Values, element: str, *, saturate: bool = False
) -> NDArray[np.uint8]:
    """Bytes of `first` x `second` + `sums` as elements of this type, one after the other along the last axis."""
    return finish(multiply(first, second) + sums, element, saturate=saturate)


def finish(total: Values, element: str, *, saturate: bool = False) -> NDArray[np.uint8]:
    """Bytes of a sum as elements of this type: rounded, wrapped, or saturated."""
    if saturate and element in INTEGERS:
        limits = np.iinfo(np.int32)
        total = np.clip(total, limits.min, limits.max)
    return write_elements(total, element)


def multiply_bits(first: Values, second: Values, operation: str) -> Values:
    """The number of ones along the depth in `and`, or in `xor`, of two matrices of bits."""
    both = multiply(first, second)
    if operation == "and":
        return both
    different: Values = first.sum(-1)[..., :, None] + second.sum(-2)[..., None, :] - 2 * both
    return different


def scaled(values: Values, scales: Values, axis: int) -> Values:
    """Values times scales, each of which belongs to a block of neighbours along `axis`."""
    block = values.shape[axis] // scales.shape[axis]
    found: Values = values * np.repeat(scales, block, axis=axis)
    return found
