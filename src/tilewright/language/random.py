"""Counter-based random numbers: Philox 4x32 (and 4x64), bit for bit Triton's.

rand(seed, offsets)      uniform in [0, 1)
randn(seed, offsets)     normal, by Box and Muller
"""

from __future__ import annotations

from typing import Any

from tilewright.language import math, operations
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument, WrongOperandType
from tilewright.semantics.types import dtype, int32, int64, uint32, uint64
from tilewright.support.diagnostics import SemanticError
from tilewright.support.named_tuple import NamedTuple

N_ROUNDS_DEFAULT = 10
MAX_ROUNDS = 1024


class PhiloxConstants(NamedTuple):
    """Weyl increments of the two keys, and the two multipliers of a round (Salmon et al., 2011)."""

    key_a: int
    key_b: int
    round_a: int
    round_b: int


PHILOX = {
    uint32: PhiloxConstants(0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    uint64: PhiloxConstants(0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B, 0xD2E7470EE14C6C93, 0xCA5A826395121157),
}

Four = tuple[Any, Any, Any, Any]


def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """`n_rounds` rounds on the counter (c0 … c3) under the key (k0, k1), all uint32 or all uint64.

    Args:
        c0, c1, c2, c3: the counter, uint32 or uint64 tiles and of one shape.
        k0, k1: the key, of the same type.
        n_rounds: rounds of Philox; fewer are faster and less random.

    Returns:
        Four tiles of random bits.

    Raises:
        SemanticError: the counter is of another type, or there are more rounds than are unrolled.
    """
    kind = c0.type.scalar
    if kind not in PHILOX:
        raise SemanticError(WrongOperandType("philox_impl", kind, "uint32 or uint64"))
    constants, rounds = PHILOX[kind], unwrap(n_rounds)
    if rounds > MAX_ROUNDS:
        raise SemanticError(BadArgument("philox", "n_rounds", rounds, f"at most {MAX_ROUNDS}, which are unrolled"))
    for _ in range(rounds):
        new_c0 = math.umulhi(constants.round_b, c2) ^ c1 ^ k0
        new_c2 = math.umulhi(constants.round_a, c0) ^ c3 ^ k1
        c0, c1, c2, c3 = new_c0, _product(constants.round_b, c2), new_c2, _product(constants.round_a, c0)
        k0, k1 = _sum(k0, constants.key_a), _sum(k1, constants.key_b)
    return c0, c1, c2, c3


def _product(number: int, x: Any) -> Any:
    return operations.mul(number, x, sanitize_overflow=False)


def _sum(x: Any, number: int) -> Any:
    return operations.add(x, number, sanitize_overflow=False)


def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four tiles of random bits from the 64-bit `seed` and the counter (c0 … c3), 32 or 64 bits wide like c0.

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        c0, c1, c2, c3: the counter, integer tiles of 32 or 64 bits and of one shape.
        n_rounds: rounds of Philox; fewer are faster and less random.

    Raises:
        SemanticError: the seed is no integer, or the counter has another width.
    """
    given = to_tensor(seed)
    if not given.type.scalar.is_int():
        raise SemanticError(WrongOperandType("philox", given.type.scalar, "an integer seed"))
    key: Any = operations.cast(given, uint64)
    counters = [to_tensor(c) for c in (c0, c1, c2, c3)]
    if counters[0].type.scalar.primitive_bitwidth not in (32, 64):
        raise SemanticError(WrongOperandType("philox", counters[0].type.scalar, "counters of 32 or 64 bits"))
    if counters[0].type.scalar.primitive_bitwidth == 32:
        kind: dtype = uint32
        high, low = operations.cast((key >> 32) & 0xFFFFFFFF, uint32), operations.cast(key & 0xFFFFFFFF, uint32)
    else:
        kind, high, low = uint64, operations.cast(to_tensor(0), uint64), key
    b0, b1, b2, b3 = (operations.cast(counter, kind, bitcast=True) for counter in counters)
    return philox_impl(b0, b1, b2, b3, low, high, n_rounds)


def randint4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four tiles of random bits per offset; the cheapest way to get random numbers.

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        offset: integer tile; equal offsets give equal numbers.
        n_rounds: rounds of Philox; fewer are faster and less random.
    """
    given = operations.to_tensor(offset)
    low = operations.cast(given, uint32)  # the counter is four words of 32 bits
    high = zero = low * 0
    if given.type.scalar.primitive_bitwidth == 64:
        high = operations.cast(operations.cast(given, uint64, bitcast=True) >> 32, uint32)
    return philox(seed, low, high, zero, zero, n_rounds)


def randint(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """A tile of random bits in the shape of `offset`.

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        offset: integer tile; equal offsets give equal numbers.
        n_rounds: rounds of Philox; fewer are faster and less random.

    Returns:
        A uint32 tile.
    """
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x: Any) -> Any:
    """Random bits as a number in [0, 1).

    Args:
        x: an integer tile of 32 or 64 bits.

    Raises:
        SemanticError: elements of another type.
    """
    if x.type.scalar not in (uint32, int32, uint64, int64):
        raise SemanticError(WrongOperandType("uint_to_uniform_float", x.type.scalar, "an integer of 32 or 64 bits"))
    if x.type.scalar in (uint32, int32):
        signed, scale = operations.cast(x, int32, bitcast=True), 4.6566127342e-10
    else:
        signed, scale = operations.cast(x, int64, bitcast=True), 1.0842020432385337e-19
    magnitude = operations.where(signed < 0, -signed - 1, signed)
    return magnitude * scale


def rand(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """fp32 numbers uniform in [0, 1), one per offset.

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        offset: integer tile; equal offsets give equal numbers.
        n_rounds: rounds of Philox; fewer are faster and less random.
    """
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed: Any, offsets: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four tiles of numbers uniform in [0, 1).

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        offsets: integer tile; equal offsets give equal numbers.
        n_rounds: rounds of Philox; fewer are faster and less random.
    """
    a, b, c, d = (uint_to_uniform_float(bits) for bits in randint4x(seed, offsets, n_rounds))
    return a, b, c, d


def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[Any, Any]:
    """Two normal numbers from two uniform ones, by Box and Muller.

    Args:
        u1, u2: fp32 tiles of numbers in [0, 1), of one shape.
    """
    radius = math.sqrt(-2.0 * math.log(operations.maximum(1.0e-7, u1)))
    angle = 6.283185307179586 * u2
    return radius * math.cos(angle), radius * math.sin(angle)


def randn(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Any:
    """fp32 numbers of the standard normal distribution, one per offset.

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        offset: integer tile; equal offsets give equal numbers.
        n_rounds: rounds of Philox; fewer are faster and less random.
    """
    first, second, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(first), uint_to_uniform_float(second))[0]


def randn4x(seed: Any, offset: Any, n_rounds: Any = N_ROUNDS_DEFAULT) -> Four:
    """Four tiles of numbers of the standard normal distribution.

    Args:
        seed: an integer of up to 64 bits; another seed gives other numbers.
        offset: integer tile; equal offsets give equal numbers.
        n_rounds: rounds of Philox; fewer are faster and less random.
    """
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return *pair_uniform_to_normal(u1, u2), *pair_uniform_to_normal(u3, u4)
