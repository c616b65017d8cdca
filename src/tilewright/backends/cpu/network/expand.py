"""Sorting networks in buffers become minima and maxima of whole vectors, which `schedule.py` chooses.

    "cpu.network"(%b) <{distances = array<i64: …>, …}>
                               →
    scf.for %i = … {  … vector.load … vector.shuffle … arith.select … vector.store … }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod

from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.network.find import lanes_for
from tilewright.backends.cpu.network.schedule import Ordering, Pass, Renaming, Step, Trade, passes_for
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Network, tile_of
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import Type, VectorType, i8
from tilewright.transforms.functions import functions_of

SLOTS = 3
"""Bits that distinguish the vectors of a pass: twice as many vectors are no faster, but twice as much code."""
WORD = 128
"""Bits within which shuffles are simple."""


def expand_networks(module: Op, target: Target) -> bool:
    """Replace the networks in `module` by loops for `target`; returns whether there were any."""
    found = False
    for function in functions_of(module):
        networks = function.ops_of(Network)
        b = LoopBuilder(Block(), entry=function.body)
        for op in networks:
            with b.in_place_of(op):
                Expansion(b, op, target).write()
        found |= bool(networks)
    return found


class Expansion:
    """Writes the loops of one network."""

    def __init__(self, b: LoopBuilder, op: Network, target: Target) -> None:
        self.b, self.op = b, op
        tile = tile_of(op.buffer.type)
        self.lanes = lanes_for(tile, target)
        self.type: Type = VectorType((self.lanes,), tile.element)
        self.bytes = tile.element.bits // 8
        self.bits, self.lane_bits = prod(tile.shape).bit_length() - 1, self.lanes.bit_length() - 1
        self.buffer = b.pointing(op.buffer, i8)
        word_bits = (WORD // tile.element.bits).bit_length() - 1
        self.passes = passes_for(
            steps_of(op),
            bits=self.bits,
            lane_bits=self.lane_bits,
            word_bits=word_bits,
            most=SLOTS,
        )

    def write(self) -> None:
        """Write a loop for each pass, whose iterations are the vectors that differ in no slot."""
        for one in self.passes:
            runs = groupby(range(self.lane_bits, self.bits), one.slots.__contains__)
            self.loops(one, [list(run) for is_slot, run in runs if not is_slot], self.buffer)

    def loops(self, one: Pass, runs: Sequence[Sequence[int]], start: Value) -> None:
        if not runs:
            self.iteration(one, start)
            return
        *outer, run = runs
        with self.b.loop(0, self.bytes << (run[-1] + 1), self.bytes << run[0]) as loop:
            self.loops(one, outer, self.b.offset(start, loop.index))

    def iteration(self, one: Pass, start: Value) -> None:
        """Load the vectors of an iteration, move them, and store them."""
        bits = [list(enumerate(one.slots))] * (1 << len(one.slots))
        at = [self.bytes * sum((n >> i & 1) << slot for i, slot in slots) for n, slots in enumerate(bits)]
        vectors = [self.b.load(self.type, start, offset, align=self.bytes) for offset in at]
        for move in one.moves:
            match move:
                case Ordering():
                    self.order(one, move, vectors)
                case Trade():
                    self.trade(one, move, vectors)
                case Renaming():
                    self.rename(one, move, vectors)
        for vector, offset in zip(vectors, at, strict=True):
            self.b.store(vector, start, offset, align=self.bytes)

    def order(self, one: Pass, move: Ordering, vectors: list[Value]) -> None:
        """Put the smaller numbers of two vectors into the one, the larger ones into the other."""
        for first, second in pairs(len(vectors), one.slots.index(move.bit)):
            is_backwards = move.is_descending
            if move.direction_bit is not None:
                is_backwards ^= bool(first >> one.slots.index(move.direction_bit) & 1)
            low, high = (second, first) if is_backwards else (first, second)
            a, c = vectors[low], vectors[high]
            swaps = self.b.compare(self.op.predicate, a, c)
            vectors[low], vectors[high] = self.b.select(swaps, c, a), self.b.select(swaps, a, c)

    def trade(self, one: Pass, move: Trade, vectors: list[Value]) -> None:
        """Let pairs of vectors trade lanes."""
        shuffles = [[self.origin(move, side, lane) for lane in range(self.lanes)] for side in range(2)]
        for first, second in pairs(len(vectors), one.slots.index(move.slot)):
            sources = vectors[first], vectors[second]
            vectors[first], vectors[second] = (self.b.shuffle(*sources, lanes) for lanes in shuffles)

    def origin(self, move: Trade, side: int, lane: int) -> int:
        """The lane, of both vectors, from which an element comes."""
        there = {bit: lane >> place & 1 for place, bit in enumerate(move.after[: self.lane_bits])}
        there[move.after[move.slot]] = side
        found = sum(there[bit] << place for place, bit in enumerate(move.before[: self.lane_bits]))
        return found + self.lanes * there[move.before[move.slot]]

    def rename(self, one: Pass, move: Renaming, vectors: list[Value]) -> None:
        """Let vectors trade places."""
        a, c = (one.slots.index(slot) for slot in move)
        for n in range(len(vectors)):
            if n >> a & 1 and not n >> c & 1:
                other = n ^ (1 << a) ^ (1 << c)
                vectors[n], vectors[other] = vectors[other], vectors[n]


def pairs(count: int, bit: int) -> Iterator[tuple[int, int]]:
    """The numbers below `count` that differ in `bit` only."""
    return ((n, n | 1 << bit) for n in range(count) if not n >> bit & 1)


def steps_of(op: Network) -> list[Step]:
    """The steps of a network, by bits."""
    direction_bits = [bit.bit_length() - 1 if bit else None for bit in op.direction_bits]
    return [
        Step(distance.bit_length() - 1, bit, is_descending=is_descending != 0)
        for distance, bit, is_descending in zip(op.distances, direction_bits, op.descending, strict=True)
    ]
