"""The order in which the steps of a sorting network run, and the register in which each element is then.

The position of an element is an integer: its low bits are the lane, the bits above are the vector. Partners of a step
differ in one bit of their index in the tile. `bits_at` says which index bit each bit of the position currently is:

    16 lanes, 64 elements            bits_at = [0, 1, 2, 3 | 4, 5]
    trade of lane 3 and vector 4     bits_at = [0, 1, 2, 4 | 3, 5]

If the bit of a step is one of the vector, partners are in two vectors, and the step is a minimum and a maximum of whole
vectors. The bit that determines the direction is one of the vector, too, so that each pair of vectors has one
direction. A bit of the lane is first exchanged with a bit of the vector, by one shuffle per vector; the vector bit with
the most distant next use is exchanged.

A pass holds as many vectors as registers allow, those that differ in its `slots`, and executes what it can before they
are stored. After the last step every element is moved to its own position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = 1 << 30
"""The number of a step that does not come."""


class Step(NamedTuple):
    """Elements whose places differ in `bit` are put in order, the other way around where `direction_bit` is set."""

    bit: int
    direction_bit: int | None
    is_descending: bool


class Ordering(NamedTuple):
    """A step where `bit` and `direction_bit` are places."""

    bit: int
    direction_bit: int | None
    is_descending: bool


class Trade(NamedTuple):
    """Pairs of vectors, which differ in `slot`, trade lanes so that `bits_at` becomes `after`."""

    slot: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class Renaming(NamedTuple):
    """Two bits of the vector trade places: vectors are stored elsewhere."""

    a: int
    b: int


Move = Ordering | Trade | Renaming


@dataclass
class Pass:
    """Moves of the vectors that differ in `slots`, between loading and storing them."""

    slots: list[int] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)


def passes_for(steps: Sequence[Step], *, bits: int, lane_bits: int, word_bits: int, most: int) -> list[Pass]:
    """The passes over a tile of 2 ** `bits` elements.

    Args:
        steps: the network.
        bits: those of a place; at least two more than `lane_bits`.
        lane_bits: those of the lane in a vector.
        word_bits: those of the lane in 16 bytes, within which shuffles are simple.
        most: bits of the vector that a pass may have as slots, at least two.
    """
    schedule = Schedule(steps, bits, lane_bits, word_bits, most)
    for number in range(len(steps)):
        schedule.order(number)
    schedule.restore()
    return schedule.passes


class Schedule:
    """Builds the passes, step by step."""

    def __init__(self, steps: Sequence[Step], bits: int, lane_bits: int, word_bits: int, most: int) -> None:
        self.steps, self.lane_bits, self.word_bits, self.most = steps, lane_bits, word_bits, most
        self.bits_at = list(range(bits))
        self.vectors = range(lane_bits, bits)
        self.passes = [Pass()]

    @property
    def slots(self) -> list[int]:
        return self.passes[-1].slots

    def order(self, number: int) -> None:
        """Do step `number`."""
        step = self.steps[number]
        needed = [step.bit] if step.direction_bit is None else [step.bit, step.direction_bit]
        places = [self.bits_at.index(bit) for bit in needed]
        lanes = [place for place in places if place < self.lane_bits]
        self.open([place for place in places if place >= self.lane_bits], needed, len(lanes))
        for bit in needed:
            if (lane := self.bits_at.index(bit)) < self.lane_bits:
                slot = self.victim(needed, number)
                self.open([slot], (), 0)
                self.trade(slot, self.beside(lane, slot))
        bit, *direction = (self.bits_at.index(bit) for bit in needed)
        self.passes[-1].moves.append(Ordering(bit, direction[0] if direction else None, step.is_descending))

    def open(self, slots: Sequence[int], needed: Sequence[int], lanes: int) -> None:
        """Make `slots` those of the last pass, in which `lanes` others can be traded; begin another one if need be."""
        new = [slot for slot in slots if slot not in self.slots]
        free = [slot for slot in self.slots if self.bits_at[slot] not in needed]
        room = self.most - len(self.slots) - len(new)
        if room < 0 or len(free) + room < lanes:
            self.passes.append(Pass())
            new = list(slots)
        self.slots.extend(new)

    def victim(self, needed: Sequence[int], number: int) -> int:
        """The slot whose bit is not `needed` for the longest time after step `number`."""
        choice = self.slots if len(self.slots) == self.most else self.vectors
        free = [slot for slot in choice if self.bits_at[slot] not in needed]
        return max(free, key=lambda slot: (self.next_use(self.bits_at[slot], number), slot in self.slots, -slot))

    def next_use(self, bit: int, number: int) -> int:
        """The number of the next step that asks for `bit`."""
        later = range(number + 1, len(self.steps))
        return next((n for n in later if bit in (self.steps[n].bit, self.steps[n].direction_bit)), NEVER)

    def beside(self, lane: int, slot: int) -> list[int]:
        """`bits_at` after every other element of two vectors has gone to the one, the rest to the other one."""
        top = min(self.word_bits, self.lane_bits) if lane < self.word_bits else self.lane_bits
        lanes = self.bits_at[: self.lane_bits]
        bit = lanes.pop(lane)
        lanes.insert(top - 1, self.bits_at[slot])
        after = [*lanes, *self.bits_at[self.lane_bits :]]
        after[slot] = bit
        return after

    def trade(self, slot: int, after: list[int]) -> None:
        self.passes[-1].moves.append(Trade(slot, tuple(self.bits_at), tuple(after)))
        self.bits_at = after

    def restore(self) -> None:
        """Bring every bit to its own place."""
        while away := [lane for lane in range(self.lane_bits) if self.bits_at[lane] >= self.lane_bits]:
            home = [lane for lane in away if self.bits_at[self.bits_at[lane]] < self.lane_bits]
            lane = (home or away)[0]
            slot = self.bits_at[lane]
            if not home:
                slot = next(slot for slot in self.vectors if self.bits_at[slot] < self.lane_bits)
            after = list(self.bits_at)
            after[lane], after[slot] = after[slot], after[lane]
            self.open([slot], (), 0)
            self.trade(slot, self.sorted_lanes(after) if len(away) == 1 else after)
        if self.sorted_lanes(self.bits_at) != self.bits_at:
            self.open(self.slots[:1] or [self.lane_bits], (), 0)
            self.trade(self.slots[0], self.sorted_lanes(self.bits_at))
        for slot in self.vectors:
            if (other := self.bits_at.index(slot)) != slot:
                self.open([slot, other], (), 0)
                self.passes[-1].moves.append(Renaming(slot, other))
                self.bits_at[slot], self.bits_at[other] = slot, self.bits_at[slot]

    def sorted_lanes(self, bits_at: list[int]) -> list[int]:
        return [*sorted(bits_at[: self.lane_bits]), *bits_at[self.lane_bits :]]
