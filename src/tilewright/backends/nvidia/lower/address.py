"""Linear layouts as arithmetic: which bits of a thread's place go where.

place = place_of(layout, axis=0)
place.columns["lane"]          # what each bit of the lane adds (by XOR) to the coordinate
place.constant(5)              # (0, 12): register 5 lies 12 behind register 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from tilewright.layouts.linear_layout import LinearLayout


class Place(NamedTuple):
    """One output of a layout, as a sum over the bits of its inputs."""

    columns: Mapping[str, Sequence[int]]

    @property
    def running(self) -> int:
        """The bits of the output that depend on the thread."""
        found = 0
        for name, columns in self.columns.items():
            if name != "register":
                for column in columns:
                    found |= column
        return found

    def constant(self, register: int) -> tuple[int, int]:
        """The changes by `register`: by XOR to bits that depend on the thread, and to bits that do not, a sum."""
        found = 0
        for bit, column in enumerate(self.columns.get("register", ())):
            if register >> bit & 1:
                found ^= column
        running = self.running
        return found & running, found & ~running


@cache
def place_of(layout: LinearLayout, axis: int) -> Place:
    """The coordinate along one axis."""
    shift, mask = layout.shifts[axis]
    return Place(
        {name: tuple(column >> shift & mask for column in columns) for name, columns in layout.columns.items()}
    )


@cache
def same_as(layout: LinearLayout) -> list[int]:
    """Per register the first one with the same element."""
    places = [layout.image({"register": number}) for number in range(layout.in_size("register"))]
    first = {place: number for number, place in reversed(list(enumerate(places)))}
    return [first[place] for place in places]


def diagonals(columns: Sequence[int]) -> list[tuple[int, int]]:
    """A matrix over F2 as masks and shifts: y = XOR of (x & mask) << shift over the pairs (shift, mask)."""
    found: dict[int, int] = {}
    for bit, column in enumerate(columns):
        for target in range(column.bit_length()):
            if column >> target & 1:
                found[target - bit] = found.get(target - bit, 0) | 1 << bit
    return sorted(found.items())
