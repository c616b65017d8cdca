"""Addresses in one memory for buffers with known lifetimes, so that buffers that are live together never overlap.

    place([Request(1024, 16, Interval(0, 5)), Request(512, 16, Interval(6, 9))], …) -> [0, 0]

Two steps, after Gergov's algorithm (M. Gergov, "Algorithms for compile-time memory optimization", SODA 1999): a first
guess fills gaps from the bottom, largest buffers first, and may be wrong where a gap was wider in time than known. Then
overlapping buffers are moved above each other until none overlap. The offsets are those of Triton.
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Callable, Sequence
from itertools import count

from tilewright.analysis.live_ranges import Interval
from tilewright.support.named_tuple import NamedTuple

FOREVER = 1 << 62


class Request(NamedTuple):
    """A buffer to place: `size` and `alignment` in bytes, and when it is in use."""

    size: int
    alignment: int
    live: Interval


class Gap(NamedTuple):
    """Memory from `offset` up is free during `live`."""

    offset: int
    live: Interval


Together = Callable[[int, int], bool]
"""Whether two buffers, by their places in the list of requests, may be in use at once although their lives differ."""


def place(requests: Sequence[Request], together: Together = lambda a, b: False) -> list[int]:
    """The offset of each of `requests`, in bytes; buffers that are `together` must not overlap, whenever they live."""
    largest_first = sorted(range(len(requests)), key=lambda index: -requests[index].size)
    offsets = _first_guess(requests, largest_first)
    while clashes := _clashes(requests, offsets, together):
        _move_apart(requests, offsets, largest_first, clashes)
    return offsets


def aligned(offset: int, alignment: int) -> int:
    """The first multiple of `alignment` from `offset` on."""
    return -(-offset // alignment) * alignment


def _first_guess(requests: Sequence[Request], largest_first: Sequence[int]) -> list[int]:
    offsets = [0] * len(requests)
    waiting = list(largest_first)
    gaps = [Gap(0, Interval(0, FOREVER))]
    while waiting:
        gap = gaps.pop(0)
        chosen = next((index for index in waiting if _fits(requests[index].live, gap, gaps)), None)
        if chosen is None:
            continue
        waiting.remove(chosen)
        size, alignment, live = requests[chosen]
        offsets[chosen] = aligned(gap.offset, alignment)
        for rest in _rest(gap, live, offsets[chosen] + size):
            insort_right(gaps, rest, key=lambda known: known.offset)
    return offsets


def _fits(live: Interval, gap: Gap, others: Sequence[Gap]) -> bool:
    """Whether a buffer alive during `live` overlaps this gap and no other."""
    return live.overlaps(gap.live) and not any(live.overlaps(other.live) for other in others)


def _rest(gap: Gap, live: Interval, top: int) -> list[Gap]:
    """The gaps that remain of `gap` around and above a buffer that ends at `top`."""
    rest = [Gap(top, Interval(max(gap.live.start, live.start), min(gap.live.end, live.end)))]
    if gap.live.start < live.start:
        rest.append(Gap(gap.offset, Interval(gap.live.start, live.end)))
    if live.end < gap.live.end:
        rest.append(Gap(gap.offset, Interval(live.start, gap.live.end)))
    return rest


def _clashes(requests: Sequence[Request], offsets: Sequence[int], together: Together) -> dict[int, list[int]]:
    """Per buffer the buffers that share bytes with it at some time."""
    spans = [Interval(offset, offset + request.size) for offset, request in zip(offsets, requests, strict=True)]
    found: dict[int, list[int]] = {}
    for a, span in enumerate(spans):
        for b, other in enumerate(spans):
            if a != b and span.overlaps(other) and (requests[a].live.overlaps(requests[b].live) or together(a, b)):
                found.setdefault(a, []).append(b)
    return found


def _move_apart(
    requests: Sequence[Request], offsets: list[int], largest_first: Sequence[int], clashes: dict[int, list[int]]
) -> None:
    """Colour the clashing buffers first-fit; those of the first colour stay, others move above what they clash with."""
    colours: dict[int, int] = {largest_first[0]: 0}
    for index in largest_first:
        taken = {colours.get(other) for other in clashes.get(index, ())}
        colours[index] = next(colour for colour in count() if colour not in taken)
    for index in largest_first:
        if colours[index]:
            above = max((offsets[other] + requests[other].size for other in clashes.get(index, ())), default=0)
            offsets[index] = aligned(above, requests[index].alignment)
