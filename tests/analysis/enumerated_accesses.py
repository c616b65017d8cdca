"""The addresses and masks of all accesses of a function, for many values of its arguments at once, in NumPy.

Each op does what its reference semantics says, with an axis in front that counts the samples. A loop is entered once
and left in a drawn round: the accesses inside are those of that round.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import numpy as np

from tilewright.analysis.guard_conditions import Comparison, Condition, Extreme, Remainder, Sum
from tilewright.analysis.integer_forms import Monomial, Symbol
from tilewright.analysis.value_forms import size_of
from tilewright.dialects.arith import Constant
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.scf import For
from tilewright.dialects.traits import PointerAccess
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_program import MakeRange, ProgramId
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Reshape, Splat, Trans
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import FloatType
from tilewright.support.exact_rounding import Array

EXACT: dict[str, Callable[..., Array]] = {
    "arith.addi": np.add,
    "arith.muli": np.multiply,
    "arith.shli": np.left_shift,
    "arith.subi": np.subtract,
    "arith.trunci": np.positive,
}
"""The results of ops of 32 bits, computed with more bits."""


class Lanes(NamedTuple):
    """Per sample and lane the address, and whether the lane is active."""

    address: Array
    active: Array


class Samples:
    """The values of a function's values in each of several runs.

    Attributes:
        near: all numbers are small and all arrays close together, so that what can meet does.
        wraps: per value the samples in which a sum of 32 bits that it is computed from wraps.
    """

    def __init__(self, function: Op, rng: Random, count: int, *, near: bool = False) -> None:
        self.count = count
        self.near = near
        self.rng = rng
        self.random = np.random.default_rng(rng.getrandbits(32))
        self.values: dict[Value, Array] = {}
        self.wraps: dict[Value, Array] = {}
        for argument in function.regions[0].block.args:
            self.values[argument] = self.argument(argument)
        self.run(function.regions[0].block)

    def argument(self, value: Value) -> Array:
        """Values that are small, but for some: far ones make 32-bit sums wrap."""
        count, random, name = self.count, self.random, value.name
        if name == "c":
            return random.integers(0, 2, count).astype(np.bool_)
        if name in ("n", "m"):
            small = random.integers(-3, 18, count)
            far = random.integers(-(1 << 31), 1 << 31, count)
            edge = random.choice([(1 << 31) - 1, (1 << 31) - 5, -(1 << 31), 1 << 30, 1 << 29, -(1 << 30)], count)
            kind = random.random(count)
            return (
                small.astype(np.int32)
                if self.near
                else np.where(kind < 0.75, small, np.where(kind < 0.85, far, edge)).astype(np.int32)
            )
        if name == "w":
            near = random.integers(-9, 9, count)
            return (
                near
                if self.near
                else np.where(random.random(count) < 0.8, near, random.integers(-(1 << 27), 1 << 27, count))
            )
        if self.near:
            return random.integers(-4, 5, count) * 4 + (1 << 44)
        apart = random.choice([0, 0, 4, 8, 16, 32, 64, 128, -4, -32, 2, 1, 1 << 20], count)
        return np.where(name == "x", 0, apart) + (1 << 44)

    def run(self, block: Block) -> None:
        for op in block:
            if isinstance(op, For):
                self.loop(op)
            elif op.results:
                found = self.value(op)
                if found is not None:
                    self.values[op.result] = found
                    self.wraps[op.result] = self.wraps_in(op, found)

    def wraps_of(self, value: Value) -> Array:
        return self.wraps.get(value, np.zeros(self.count, np.bool_))

    def wraps_in(self, op: Op, found: Array) -> Array:
        """The samples in which the op, or one that its operands come from, wraps."""
        wraps = np.zeros(self.count, np.bool_)
        if isinstance(op, Load):
            return wraps
        for operand in op.operands:
            wraps = wraps | self.wraps_of(operand)
        exact = EXACT.get(op.name)
        if exact is not None and found.dtype == np.int32:
            differs = exact(*(self.values[operand].astype(np.int64) for operand in op.operands)) != found
            wraps = wraps | differs.reshape(self.count, -1).any(1)
        return wraps

    def loop(self, op: For) -> None:
        rounds = self.rng.randrange(4)
        carried = [self.values[value] for value in op.inits]
        wraps = list(map(self.wraps_of, op.inits))
        for number in range(rounds + 1):
            self.values[op.induction_variable] = self.values[op.low] + np.int32(number) * self.values[op.step]
            self.values.update(zip(op.carried, carried, strict=True))
            self.wraps.update(zip(op.carried, wraps, strict=True))
            self.run(op.body)
            wraps = list(map(self.wraps_of, op.yielded))
            carried = [self.values[value] for value in op.yielded]

    def value(self, op: Op) -> Array | None:
        """The result of an op; None if it is a tile of floats, which no address hangs on."""
        count, shape = self.count, op.result.type.shape or ()
        if isinstance(op.result.type.scalar, FloatType):
            return None
        if isinstance(op, ProgramId):
            far = () if self.near else (1 << 20, (1 << 31) - 1)
            return self.random.choice([0, 0, 1, 2, 3, *far], count).astype(np.int32)
        if isinstance(op, Load):
            low, high = (-3, 12) if self.near or self.random.random() < 0.9 else (-(1 << 15), 1 << 15)
            return self.random.integers(low, high, (count, *shape)).astype(numpy_dtype(op.result.type.scalar))
        if isinstance(op, (Constant, MakeRange)):
            number = op.value.value if isinstance(op, Constant) else np.arange(op.start, op.end)
            return np.broadcast_to(np.asarray(number).astype(numpy_dtype(op.result.type.scalar)), (count, *shape))
        operands = [self.values[value] for value in op.operands]
        if isinstance(op, (Splat, Broadcast, ExpandDims, Reshape, Trans)):
            return self.moved(op, operands[0])
        assert op.definition.elementwise, op.name
        return np.asarray(op.definition.semantics(op, *operands))

    def moved(self, op: Op, array: Array) -> Array:
        shape = (self.count, *(op.result.type.shape or ()))
        if isinstance(op, Splat):
            return np.broadcast_to(array.reshape(self.count, *(1,) * (len(shape) - 1)), shape)
        if isinstance(op, ExpandDims):
            return np.expand_dims(array, op.axis + 1)
        if isinstance(op, Trans):
            return array.transpose(0, *(axis + 1 for axis in op.order))
        return np.broadcast_to(array, shape) if isinstance(op, Broadcast) else array.reshape(shape)

    def lanes(self, op: PointerAccess, width: int) -> Lanes:
        """The lanes of an access, filled up to `width` with lanes that are off."""
        values = self.values
        address = values[op.pointer].reshape(self.count, -1)
        mask = getattr(op, "mask", None)
        active = np.ones_like(address, np.bool_) if mask is None else values[mask].reshape(address.shape)
        if (missing := width - address.shape[1]) > 0:
            address = np.pad(address, ((0, 0), (0, missing)))
            active = np.pad(active, ((0, 0), (0, missing)))
        return Lanes(address, active)

    # ------------------------------------------------------------------ conditions

    def holds(self, condition: Condition) -> Array:
        """Per sample whether a condition holds."""
        if isinstance(condition, Comparison):
            value = self.sum(condition.sum)
            return value >= 0 if condition.relation == ">=" else value == 0
        start = np.full(self.count, condition.word == "and")
        for one in condition.of:
            start = start & self.holds(one) if condition.word == "and" else start | self.holds(one)
        return start

    def sum(self, sum: Sum) -> Array:
        total = np.zeros(self.count, np.int64)
        for monomial, factor in sum.terms.items():
            total = total + factor * self.product(monomial)
        for factor, part in sum.parts:
            if isinstance(part, Extreme):
                values = [self.sum(one) for one in part.among]
                found = np.minimum.reduce(values) if part.sign < 0 else np.maximum.reduce(values)
            elif isinstance(part, Remainder):
                found = self.sum(part.of) % part.divisor
            else:
                found = self.sum(part.left) * self.sum(part.right)
            total = total + factor * found
        return total

    def product(self, monomial: Monomial) -> Array:
        found = np.ones(self.count, np.int64)
        for symbol in monomial:
            found = found * self.symbol(symbol)
        return found

    def symbol(self, symbol: Symbol) -> Array:
        assert not symbol.is_lane, "conditions are about scalars"
        return self.values[symbol.source].astype(np.int64)


class Truth(NamedTuple):
    """Per sample what is so for two accesses: no byte in common; only lanes of one index meet, at one address."""

    apart: Array
    same: Array


def truths(first: Lanes, sizes: tuple[Array, Array], others: Lanes, comparable: Array) -> Truth:
    """The truth about one access and each of several others, along a new axis in front.

    Args:
        first: the one access.
        sizes: its bytes per element, and those of each other one.
        others: the others.
        comparable: which have the same shape and size.
    """
    distance = others.address[:, :, None, :] - first.address[None, :, :, None]
    meets = (distance < sizes[0]) & (distance > -sizes[1][:, None, None, None])
    meets &= others.active[:, :, None, :] & first.active[None, :, :, None]
    own = np.eye(first.address.shape[1], dtype=np.bool_)
    other_index = (meets & ~own).any((2, 3))
    crooked = (meets & own & (distance != 0)).any((2, 3))
    return Truth(~meets.any((2, 3)), ~other_index & ~crooked & comparable[:, None])


def element_sizes(accesses: list[PointerAccess]) -> Array:
    return np.array([size_of(access.pointer) for access in accesses])
