"""Instructions that LLVM has as intrinsics of one register each, on lanes of any number.

scale = by_registers(k, "scalef", [x.name, n.name])      # AVX-512: x · 2ⁿ
entry = looked_up(index, (1.0, 1.5, …), k)               # one permute instruction for a table as long as a register

Odd functions in float by piecewise polynomials whose coefficients are looked up so:

    k = round(|x| / width)    u = |x| - k·width    f(x) = ± ((((c[k]·u + …)·u + (b[k] - 1))·u + u) + a[k])

One permute instruction looks a coefficient up for all lanes: 8 of them with AVX2, 16 or (from two registers) 32 with
AVX-512. Subtracting 1 from the slope leaves a number with a smaller rounding error; in segment 0, where a[0] is 0, only
the last addition rounds noticeably. The width is chosen such that the function's values a[k] are close to floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.spelling import constant_vector

ROUNDED_DOWN = "9"
"""Rounding towards minus infinity without exceptions, as instructions of AVX-512 encode it."""


def has_scaling(k: LaneType) -> bool:
    """Whether there are instructions that split a number into an integer and a rest, and scale by powers of two."""
    return k.writer.target.has_avx512f and k.width * k.lanes >= 128


def by_registers(k: LaneType, instruction: str, operands: list[str], *, immediate: int | None = None) -> Lanes:
    """An AVX-512 instruction that LLVM has as a masked intrinsic."""
    w = k.writer
    registers = max(1, k.width * k.lanes // 512)
    lanes = k.lanes // registers
    part = LaneType(w, k.element, lanes)
    bits = part.width * lanes
    name = f"llvm.x86.avx512.mask.{instruction}.p{'s' if part.width == 32 else 'd'}.{bits}"
    numbers = [] if immediate is None else [("i32", str(immediate))]
    mask = ("i16" if lanes == 16 else "i8", "-1")
    rounding = [("i32", "4")] if bits == 512 else []
    results = []
    for start in range(0, k.lanes, lanes):
        parts = [(part.type, w.slice(x, k.element, k.lanes, start, lanes)) for x in operands]
        arguments = [*parts, *numbers, (part.type, "zeroinitializer"), mask, *rounding]
        results.append(w.call(part.type, name, arguments))
    return Lanes(k, w.concat(results, k.element, lanes))


def added_down(a: Lanes, b: Lanes) -> Lanes:
    """The sum in float, rounded towards minus infinity; AVX-512 alone, whole registers of 512 bits."""
    k, w, lanes = a.kind, a.kind.writer, 16
    part = LaneType(w, k.element, lanes)
    results = []
    for start in range(0, k.lanes, lanes):
        terms = [(part.type, w.slice(x.name, k.element, k.lanes, start, lanes)) for x in (a, b)]
        results.append(w.call(part.type, "llvm.x86.avx512.add.ps.512", [*terms, ("i32", ROUNDED_DOWN)]))
    return Lanes(k, w.concat(results, k.element, lanes))


def looked_up(index: Lanes, entries: Sequence[float], k: LaneType) -> Lanes:
    """entries[index] per lane of float or i32: of 8 or 16 entries, or 32 with AVX-512; low bits of an index count."""
    w, lanes = k.writer, 16 if len(entries) > 8 else 8
    part = LaneType(w, k.element, lanes)
    pieces = [entries[start : start + lanes] for start in range(0, len(entries), lanes)]
    tables = [(part.type, constant_vector(piece, k.element)) for piece in pieces]
    results = []
    for start in range(0, k.lanes, lanes):
        where = (f"<{lanes} x i32>", w.slice(index.name, "i32", k.lanes, start, lanes))
        if len(tables) == 2:
            results.append(w.call(part.type, "llvm.x86.avx512.vpermi2var.ps.512", [tables[0], where, tables[1]]))
        else:
            results.append(w.call(part.type, _PERMUTE[k.element, lanes], [tables[0], where]))
    return Lanes(k, w.concat(results, k.element, lanes))


_PERMUTE = {
    ("float", 8): "llvm.x86.avx2.permps",
    ("float", 16): "llvm.x86.avx512.permvar.sf.512",
    ("i32", 8): "llvm.x86.avx2.permd",
    ("i32", 16): "llvm.x86.avx512.permvar.si.512",
}


MAGIC = 12582912.0  # 1.5 · 2²³: adding it rounds to an integer and leaves that in the low bits


def has_segments(k: LaneType, count: int) -> bool:
    """Whether lanes of `k` can look up `count` coefficients at once."""
    if k.element != "float" or k.lanes != count:
        return False
    return k.writer.target.has_avx512f if count == 16 else k.writer.target.has_avx2


Rows = Sequence[Sequence[float]]
"""Coefficients per power (highest first) and segment."""


def odd_by_segments(x: Lanes, rows: Rows, width: float, *, limit: float, middles: Sequence[float] = ()) -> Lanes:
    """An odd function that is 1 beyond `limit`, by segments of one `width` around its multiples, or `middles`.

    Args:
        x: the numbers.
        rows: the coefficients.
        width: the length of a segment.
        limit: the magnitude beyond which it is 1.
        middles: the middle of each segment; without them they are multiples of `width`.
    """
    k = x.kind
    magnitude = k.minimum(limit, abs(x))
    rounded = k.fma(magnitude, 1.0 / width, MAGIC)
    if middles:
        u = magnitude - looked_up(rounded.bits, middles, k)
    else:
        u = k.fma(rounded - MAGIC, -width, magnitude)
    return _value_in_segment(x, u, rounded.bits, rows)


def odd_by_eighths(x: Lanes, rows: Rows, middles: Sequence[float], *, limit: float) -> Lanes:
    """An odd function that is 1 beyond `limit`, by eighths of the binades of |x| + 1: shorter segments near zero."""
    k = x.kind
    magnitude = k.minimum(limit, abs(x))
    segment = (magnitude + 1.0).bits >> 20  # of which 3 bits of the mantissa and 2 of the exponent are looked at
    return _value_in_segment(x, magnitude - looked_up(segment, middles, k), segment, rows)


def _value_in_segment(x: Lanes, u: Lanes, segment: Lanes, rows: Rows) -> Lanes:
    """The polynomial of the segment at `u`, with the sign of `x`."""
    k = x.kind
    result = looked_up(segment, rows[0], k)
    for row in rows[1:-1]:
        result = k.fma(result, u, looked_up(segment, row, k))
    return k.with_sign_of(k.fma(result, u, u) + looked_up(segment, rows[-1], k), x)
