"""exp and exp2 in float with a table of powers of two in a register: half as many multiply-adds as without.

    2^x = 2ⁿ · 2^(j/16) · 2^r        n + j/16 = x rounded to sixteenths,  |r| ≤ 1/32
    e^x = 2ⁿ · 2^(j/16) · e^r        n + j/16 = x / ln 2 rounded to sixteenths,  |r| ≤ ln 2 / 32

Adding a large number M rounds, and leaves n and j next to each other in the low bits, so that one permute instruction
looks up the power. The table holds s · 2^(j/16), with a factor s for which rounding these to float costs little; the
polynomials are divided by s. For e^x, s = e^(low · M) comes for free, where ln 2 = high + low:

    r - low · M = (x - n · high) - low · (n + M)

AVX-512 has instructions that scale by 2ⁿ and that give the rest. For 2^x it rounds down, so that n need not be
computed: x scales as well, and 0 ≤ r < 1/16. AVX2 has registers of 8 lanes only, so eighths stand for the sixteenths,
and n is added to the exponent; a factor far from 1, taken out again at the end, leaves room for denormals and infinity.
"""

from __future__ import annotations

import math
import struct

from tilewright.backends.llvm import coefficients
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_registers import added_down, by_registers, has_scaling, looked_up

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147182464599609375
LN2_LOW = -1.904654299957767878541e-9
MAGIC = {8: 1346331.0, 16: 984589.0}
"""The numbers M, per table size: integers whose last bit in float is worth an eighth and a sixteenth. Of all of them,
these give the factors that lose least: at most 0.04 units in the last place of each power (of sixteen, 0.24)."""
LESS = {8: 0.35 * 2.0**-24, 16: 0.0}
"""The share that the factors are smaller by, so that the errors of exp's polynomial go both ways."""
FACTORS = {entries: math.exp(LN2_LOW * magic) * (1 - LESS[entries]) for entries, magic in MAGIC.items()}
"""The factors s."""
FAR = 64
"""The exponent of the factor that is taken out at the end."""
REST = 0.25
"""Larger than every rest, but for arguments whose results are 0 or infinite anyway."""
ABOVE_SIXTEENTH = 0x49
"""Four bits behind the point that are taken away, rounded down, without exceptions, as AVX-512 encodes it."""
ABSOLUTE_MINIMUM = 2
"""The operand with the smaller absolute value, or the one that is a number, as AVX-512 encodes it."""


def has_powers(k: LaneType) -> bool:
    """Whether lanes of `k` can look powers up."""
    target = k.writer.target
    return k.element == "float" and k.lanes % 8 == 0 and target.has_avx2 and target.has_fma


def exp(x: Lanes, *, is_negative: bool = False) -> Lanes:
    """e^x; 0.95 ulp. `is_negative` promises that x is at most 0."""
    k, entries = x.kind, _entries(x.kind)
    if not has_scaling(k):
        x = k.maximum(-104.0, x if is_negative else k.minimum(90.0, x))
    t = k.fma(x, LOG2_E, MAGIC[entries])
    n = t - MAGIC[entries]
    r = _rest(k.fma(t, -LN2_LOW, k.fma(n, -LN2_HIGH, x)))
    table = coefficients.EXP_16_FLOAT if entries == 16 else coefficients.EXP_8_FLOAT
    q = k.fma(k.polynomial(r, table), r * r, r)
    return _power(q, t, n, None if is_negative else x)


def exp2(x: Lanes) -> Lanes:
    """2^x; 0.95 ulp, with AVX-512 0.9."""
    k, entries = x.kind, _entries(x.kind)
    if entries == 16:
        return _exp2_above(x)
    if not has_scaling(k):
        x = k.maximum(-150.0, k.minimum(129.0, x))
    t = x + MAGIC[entries]
    n = t - MAGIC[entries]
    r = _rest(x - n)
    return _power(k.polynomial(r, coefficients.EXP2_8_FLOAT), t, n, x)


def _exp2_above(x: Lanes) -> Lanes:
    """2^x by the rest above the sixteenth below: then n is x itself, rounded down, and the rest of infinity is 0."""
    k = x.kind
    t = added_down(x, k(MAGIC[16]))
    r = by_registers(k, "reduce", [x.name], immediate=ABOVE_SIXTEENTH)
    return _power(k.polynomial(r, coefficients.EXP2_16_ABOVE_FLOAT), t, x, x)


def _entries(k: LaneType) -> int:
    return 16 if k.writer.target.has_avx512f and k.lanes % 16 == 0 else 8


def _rest(r: Lanes) -> Lanes:
    """The rest, clamped: the result must not depend on it where x is so large that it is not small, or is no number."""
    k = r.kind
    return by_registers(k, "range", [r.name, k(REST).name], immediate=ABSOLUTE_MINIMUM) if has_scaling(k) else r


def _power(q: Lanes, t: Lanes, n: Lanes, sign: Lanes | None) -> Lanes:
    """(1 + q) · 2^n, for n in steps of 1/8 or 1/16 that is in the low bits of t; `sign` is n's, None if negative.

    Where there is an instruction that scales, n may be any number between such a step and the next one.
    """
    k, entries = q.kind, _entries(q.kind)
    powers = [_as_float(FACTORS[entries] * 2 ** (j / entries)) for j in range(entries)]
    if has_scaling(k):
        power = looked_up(t.bits, powers, k)
        return by_registers(k, "scalef", [k.fma(power, q, power).name, n.name])
    shift = 23 - entries.bit_length() + 1
    far = k.integers(_bits(2.0**-FAR))
    if sign is not None:
        far = far.kind.select(sign.bits < 0, far, _bits(2.0**FAR))
    zero = (_bits(MAGIC[entries]) << shift) - _bits(1.0)
    starts = [_bits(p) - (j << shift) - zero for j, p in enumerate(powers)]
    wrapped = [(s + (1 << 31)) % (1 << 32) - (1 << 31) for s in starts]
    power = k.from_bits(looked_up(t.bits, wrapped, k.integers) + (t.bits << shift) - far)
    return k.fma(power, q, power) * k.from_bits(far)


def _bits(number: float) -> int:
    found: int = struct.unpack("<i", struct.pack("<f", number))[0]
    return found


def _as_float(number: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found
