"""Additions in addresses, whose terms are sign-extended one by one.

    %s = arith.addi %k, %row : i32          %w = arith.extsi %row : i32 to i64
    %t = arith.addi %s, %z : i32       →    %x = arith.addi %outer, %w : i64         (%outer: %z, before the rows)
    %o = arith.extsi %t : i32 to i64        %o = arith.addi %x, %k : i64             (%k: a number that is known)

A pooling reads nine pixels, whose offsets differ by such a constant: nine 32-bit sums are nine addresses, and 64-bit
sums one, because `%k` is part of the load instruction. Terms of outer loops are added before the inner ones.

An addition in an address does not overflow (docs/memory-model.md), so the order of its terms is free once they have 64
bits. In 32 bits another order might overflow where the program's does not. Only sums that the nest itself computes are
split: the program's own scalars are single terms.
"""

from __future__ import annotations

from tilewright.backends.cpu.loop_builder import known
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Scalar
from tilewright.ir.core import Block, Value
from tilewright.ir.types import Type, i64

MIN_BITS = 32
"""Bits of the integers whose sums do not overflow in addresses; narrower ones wrap."""
MIN_TERMS = 3
"""The least number of terms of a sum without a known number: two take as long one by one, and one more register."""


def widened_sum(c: Context, sum: Scalar, source: Type, level: int) -> Scalar:
    """A sum in an address as an i64.

    Args:
        c: the context.
        sum: the sum, which exists at `level`.
        source: its type.
        level: the level of what is returned.
    """
    blocks = [*c.blocks[: c.depth], c.b.block]
    terms, number = _terms(sum, blocks)
    levels = [min(_level_of(c, term, blocks, level), level) for term in terms]
    is_shared = number != 0 or (len(terms) >= MIN_TERMS and len(set(levels)) > 1)
    if source.bits < MIN_BITS or not is_shared:
        return c.extend(sum, source, i64, level)
    total: Scalar = 0
    for deep, term in sorted(zip(levels, terms, strict=True), key=lambda pair: pair[0]):
        total = c.add(total, c.extend(term, source, i64, deep), i64, deep)
    return c.add(total, number, i64, level)


def _terms(sum: Scalar, blocks: list[Block]) -> tuple[list[Value], int]:
    """The values that are added up in `blocks`, in order, and the sum of the numbers among them that are known."""
    waiting, terms, number = [sum], list[Value](), 0
    while waiting:
        part = waiting.pop()
        constant = known(part)
        if isinstance(constant, int):
            number += constant
        elif isinstance(part, Value) and part.op is not None and part.op.name == "arith.addi" and part.block in blocks:
            waiting.extend(reversed(part.op.operands))
        elif isinstance(part, Value):
            terms.append(part)
    return terms, number


def _level_of(c: Context, value: Value, blocks: list[Block], deepest: int) -> int:
    """The level at which a value exists, or `deepest` if unknown."""
    if value.block is c.b.entry:
        return 0
    return next((level for level, block in enumerate(blocks) if block is value.block), deepest)
