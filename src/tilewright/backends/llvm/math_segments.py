"""Odd functions in float by piecewise polynomials whose coefficients are looked up in registers.

    k = round(|x| / width)    u = |x| - k·width    f(x) = ± ((((c[k]·u + …)·u + (b[k] - 1))·u + u) + a[k])

One permute instruction looks a coefficient up for all lanes: 8 of them with AVX2, 16 or (from two registers) 32 with
AVX-512. Taking 1 from the slope leaves a number that is rounded less; in segment 0, where a[0] is 0, only the last sum
rounds visibly. The width is one at which the function's values a[k] are close to floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_registers import looked_up

MAGIC = 12582912.0  # 1.5 · 2²³: adding it rounds to an integer and leaves that in the low bits


def has_segments(k: LaneType, count: int) -> bool:
    """Whether lanes of `k` can look up `count` coefficients at once."""
    if k.element != "float" or k.lanes != count:
        return False
    return k.writer.target.has_avx512f if count == 16 else k.writer.target.has_avx2


def odd_by_segments(x: Lanes, rows: Sequence[Sequence[float]], width: float, *, limit: float) -> Lanes:
    """An odd function that is 1 beyond `limit`.

    Args:
        rows: coefficients per power (highest first) and segment.
        width: of one segment.
    """
    k = x.kind
    magnitude = k.minimum(limit, abs(x))
    rounded = k.fma(magnitude, 1.0 / width, MAGIC)
    u = k.fma(rounded - MAGIC, -width, magnitude)
    result = looked_up(rounded.bits, rows[0], k)
    for row in rows[1:-1]:
        result = k.fma(result, u, looked_up(rounded.bits, row, k))
    return k.with_sign_of(k.fma(result, u, u) + looked_up(rounded.bits, rows[-1], k), x)
