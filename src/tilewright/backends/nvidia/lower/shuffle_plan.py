"""Shuffles within a warp for a change of layout: the registers that each lane sends and receives.

    plan = shuffle_plan(before, after, bits=32)
    plan.rounds[1].lane, plan.sends[0].registers       # all lanes read from the lane whose number is theirs XOR this

At most one bit of the register number and one of the lane number are exchanged (`movement.exchanges`). If so, each lane
needs two registers of every pair from two lanes, and provides one for each of two lanes. In round q a lane with bit b
reads register b XOR q, so every lane is read by one lane only, and knows by the parity of its own number which of its
two registers that lane reads. A round is therefore a select, a shuffle, and another select.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from tilewright.backends.nvidia.lower.access_plan import WORD, combinations
from tilewright.layouts.linear_layout import Columns, LinearLayout, Subspace

BITS = 5
"""Bits of the number of a lane; that of a warp has no more."""


class Parity(NamedTuple):
    """The parity of some bits of a thread: whether an odd number of them is set.

    Attributes:
        lane: a mask of bits of the lane.
        warp: a mask of bits of the warp.
    """

    lane: int
    warp: int = 0

    @property
    def columns(self) -> dict[str, Columns]:
        """The parity as a linear map to one bit."""
        return {
            name: tuple(mask >> bit & 1 for bit in range(BITS))
            for name, mask in (("lane", self.lane), ("warp", self.warp))
        }


class Round(NamedTuple):
    """One shuffle of each group.

    Attributes:
        lane: what is added (XOR) to the number of the source lane.
        registers: what is added to a group's register: if the sender's parity is even, and if it is odd.
    """

    lane: int
    registers: tuple[int, int]


class ShufflePlan(NamedTuple):
    """The plan by which a tile goes from one layout to another within warps.

    Attributes:
        asked: per bit of the lane and of the warp: its part of the number of the source lane.
        sender: decides which register a lane sends; None if always the same.
        receiver: decides which round's value a register gets; None if always the same.
        rounds: the shuffles of each group.
        groups: the registers of the tile before that are sent (XOR with what a round says).
        packed: how many groups share a word.
        taken: per register of the tile after: its group, and the round for even and for odd receivers.
    """

    asked: dict[str, Columns]
    sender: Parity | None
    receiver: Parity | None
    rounds: tuple[Round, ...]
    groups: tuple[int, ...]
    packed: int
    taken: tuple[tuple[int, tuple[int, int]], ...]

    def stays(self, round: int) -> bool:
        """Whether each lane reads its own register in this round."""
        own = tuple(1 << bit for bit in range(len(self.asked["lane"])))
        return not self.rounds[round].lane and self.asked["lane"] == own and not any(self.asked["warp"])


class _Sources(NamedTuple):
    """The places of the elements of the tile after in the tile before; pairs are (register, lane).

    Attributes:
        registers: per bit of the register.
        lanes: per bit of the lane.
        warps: per bit of the warp; lanes only.
        alike: numbers of lanes that have the same elements as lane 0.
    """

    registers: list[tuple[int, int]]
    lanes: list[tuple[int, int]]
    warps: list[int]
    alike: list[int]


class _Exchange(NamedTuple):
    """The part of a plan that does not depend on the registers that stay.

    Attributes:
        lanes: per bit of the lane the source lane.
        sender, receiver, rounds: as in the plan.
        rounds_of: per value of the register bit that comes from lanes: its rounds, for even and odd receivers.
    """

    lanes: tuple[int, ...]
    sender: int
    receiver: int
    rounds: tuple[Round, ...]
    rounds_of: tuple[tuple[int, int], tuple[int, int]]

    def cost(self, moves_warps: bool) -> tuple[int, bool, int]:
        """Shuffles, whether they need the number of a lane, and choices; per group."""
        own = self.lanes == tuple(1 << bit for bit in range(len(self.lanes))) and not moves_warps
        shuffles = len(self.rounds) - (own and any(not round.lane for round in self.rounds))
        return shuffles, not own, bool(self.sender) + bool(self.receiver)


@cache
def shuffle_plan(before: LinearLayout, after: LinearLayout, bits: int) -> ShufflePlan:
    """The plan for a conversion that `movement` wants to be shuffles.

    Args:
        before: from register, lane and warp to the tile.
        after: the same, for the result.
        bits: of one element; elements below 32 bits share words.
    """
    sources = _sources(before, after)
    moving = next((pair for pair in sources.registers if pair[1]), (0, 0))
    exchange = min(_exchanges(sources, moving), key=lambda found: found.cost(any(sources.warps)))
    groups: dict[int, int] = {}
    taken = []
    for register in range(after.in_size("register")):
        group, from_lane = 0, 0
        for bit, pair in enumerate(sources.registers):
            if register >> bit & 1:
                from_lane ^= bool(pair[1])
                group ^= 0 if pair[1] else pair[0]
        taken.append((groups.setdefault(group, len(groups)), exchange.rounds_of[from_lane]))
    return ShufflePlan(
        {"lane": exchange.lanes, "warp": tuple(sources.warps)},
        _parity(exchange.sender, sources.warps),
        Parity(exchange.receiver) if exchange.receiver else None,
        exchange.rounds,
        tuple(groups),
        max(1, min(WORD // bits, len(groups))),
        tuple(taken),
    )


def _sources(before: LinearLayout, after: LinearLayout) -> _Sources:
    if after.outs != before.outs:
        after = after.transpose_outs(before.out_names)
    registers = len(before.columns["register"])
    low = (1 << registers) - 1
    span, alike = Subspace(()), []
    for bit, column in enumerate((*before.columns["register"], *before.columns["lane"])):
        rest, mark = span.reduce(column, 1 << bit)
        if not span.add(column, 1 << bit) and not rest and not mark & low:
            alike.append(mark >> registers)

    def pairs(columns: Sequence[int]) -> list[tuple[int, int]]:
        return [(mark & low, mark >> registers) for mark in map(span.solve, columns)]

    warps = [a ^ b for a, b in zip(before.columns["warp"], after.columns["warp"], strict=True)]
    lanes_of_warps = [lane for _, lane in pairs(warps)]
    return _Sources(pairs(after.columns["register"]), pairs(after.columns["lane"]), lanes_of_warps, alike)


def _exchanges(sources: _Sources, moving: tuple[int, int]) -> Iterator[_Exchange]:
    """Ways for lanes to exchange registers; `moving` is the source of the register bit that comes from a lane."""
    lanes = [lane for _, lane in sources.lanes]
    # Where lanes have copies, a lane should ask itself.
    alike = Subspace(sources.alike)
    nearer = [1 << bit if alike.spans(lane ^ 1 << bit) else lane for bit, lane in enumerate(lanes)]
    chosen = next((bit for bit, (register, _) in enumerate(sources.lanes) if register), None)
    for asked in (nearer, lanes):
        if chosen is None:
            yield _without_choice(asked, moving)
            yield from _with_own(asked, moving, alike)
        else:
            other = sources.lanes[chosen][0]
            yield from _traded(asked, moving, chosen, other)
            yield from _chosen_by_sender(asked, moving, chosen, other, sources.alike)
            yield _chosen_by_receiver(asked, moving, chosen, other)


def _without_choice(lanes: Sequence[int], moving: tuple[int, int]) -> _Exchange:
    """The exchange in which each round brings the same registers to all lanes."""
    register, lane = moving
    count = 2 if lane else 1
    rounds = tuple(Round(q * lane, (q * register, q * register)) for q in range(count))
    return _Exchange(tuple(lanes), 0, 0, rounds, ((0, 0), (count - 1, count - 1)))


def _with_own(lanes: Sequence[int], moving: tuple[int, int], alike: Subspace) -> Iterator[_Exchange]:
    """Exchanges in which each lane needs two registers and has one itself: which one is a parity of its number."""
    register, lane = moving
    own = [1 << bit for bit in range(len(lanes))]
    rests = [alike.reduce(asked ^ itself)[0] for asked, itself in zip(lanes, own, strict=True)]
    wanted = alike.reduce(lane)[0]
    if not wanted or any(rest not in (0, wanted) for rest in rests):
        return
    mask = sum(itself for rest, itself in zip(rests, own, strict=True) if rest)
    if not mask:
        return
    if (mask & lane).bit_count() & 1:
        rounds = Round(0, (0, register)), Round(lane, (0, register))
    else:
        rounds = Round(0, (0, register)), Round(lane, (register, 0))
    yield _Exchange(tuple(own), mask if register else 0, mask, rounds, ((0, 1), (1, 0)))


def _traded(lanes: Sequence[int], moving: tuple[int, int], chosen: int, other: int) -> Iterator[_Exchange]:
    """A bit of the register and one of the lane trade places; see the head of this file."""
    register, lane = moving
    if lane and (mask := _functional(len(lanes), zeros=lanes, ones=[lane])):
        asked = (*lanes[:chosen], lanes[chosen] ^ lane, *lanes[chosen + 1 :])
        rounds = (Round(0, (0, other ^ register)), Round(lane, (other, register)))
        yield _Exchange(asked, mask, 1 << chosen, rounds, ((0, 1), (1, 0)))


def _chosen_by_sender(
    lanes: Sequence[int], moving: tuple[int, int], chosen: int, other: int, alike: Sequence[int]
) -> Iterator[_Exchange]:
    """Exchanges in which lanes that need different registers read different lanes."""
    register, lane = moving
    count = 2 if lane else 1
    others = [*lanes[:chosen], *lanes[chosen + 1 :], *([lane] if lane else [])]
    for same in combinations(alike):
        mask = _functional(len(lanes), zeros=others, ones=[lanes[chosen] ^ same])
        if mask:
            asked = (*lanes[:chosen], lanes[chosen] ^ same, *lanes[chosen + 1 :])
            rounds = tuple(Round(q * lane, (q * register, q * register ^ other)) for q in range(count))
            yield _Exchange(asked, mask, 0, rounds, ((0, 0), (count - 1, count - 1)))


def _chosen_by_receiver(lanes: Sequence[int], moving: tuple[int, int], chosen: int, other: int) -> _Exchange:
    """Both registers come from one lane: it sends both, and the receiver selects."""
    register, lane = moving
    count = 2 if lane else 1
    sums = [(q * lane, q * register ^ t * other) for q in range(count) for t in range(2)]
    rounds = tuple(Round(asked, (sent, sent)) for asked, sent in sums)
    last = 2 * (count - 1)
    return _Exchange(tuple(lanes), 0, 1 << chosen, rounds, ((0, 1), (last, last + 1)))


def _functional(bits: int, zeros: Sequence[int], ones: Sequence[int]) -> int:
    """The smallest mask under which `zeros` have an even number of bits and `ones` an odd one; 0 if there is none."""
    fitting = (
        mask
        for mask in range(1, 1 << bits)
        if not any((mask & value).bit_count() & 1 for value in zeros)
        and all((mask & value).bit_count() & 1 for value in ones)
    )
    return min(fitting, key=int.bit_count, default=0)


def _parity(mask: int, warps: Sequence[int]) -> Parity | None:
    """The parity in the source lane: its receiver is another lane in each warp."""
    if not mask:
        return None
    return Parity(mask, sum(((mask & lane).bit_count() & 1) << bit for bit, lane in enumerate(warps)))
