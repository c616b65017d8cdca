"""Odd functions in float by piecewise polynomials whose coefficients are looked up in registers.

    k = round(|x| / width)    u = |x| - k·width    f(x) = ± (((c[k]·u + …)·u + (b[k] - 1))·u + (u + a[k]))

One permute instruction looks a coefficient up for all lanes: 8 of them with AVX2, 16 or (from two registers) 32 with
AVX-512. The slope's 1 is added with `u + a[k]`, which is exact in segment 0, so small arguments round only once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.lanes import Kind, Lanes
from tilewright.backends.llvm.spelling import constant_vector

MAGIC = 12582912.0  # 1.5 · 2²³: adding it rounds to an integer and leaves that in the low bits


def has_segments(k: Kind, count: int) -> bool:
    """Can lanes of `k` look up `count` coefficients at once?"""
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
    result = _looked_up(rounded.bits, rows[0], k)
    for row in rows[1:-1]:
        result = k.fma(result, u, _looked_up(rounded.bits, row, k))
    return k.with_sign_of(k.fma(result, u, u + _looked_up(rounded.bits, rows[-1], k)), x)


def _looked_up(index: Lanes, row: Sequence[float], k: Kind) -> Lanes:
    """row[index] per lane; only the low bits of the index count."""
    tables = [constant_vector(row[start : start + k.lanes], "float") for start in range(0, len(row), k.lanes)]
    position = (index.kind.type, index.name)
    if len(tables) == 2:
        operands = [(k.type, tables[0]), position, (k.type, tables[1])]
        return Lanes(k, k.writer.call(k.type, "llvm.x86.avx512.vpermi2var.ps.512", operands))
    name = "llvm.x86.avx2.permps" if k.lanes == 8 else "llvm.x86.avx512.permvar.sf.512"
    return Lanes(k, k.writer.call(k.type, name, [(k.type, tables[0]), position]))
