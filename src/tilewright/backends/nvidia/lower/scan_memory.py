"""Exchange between warps in a scan: each leaves the total of each of its rows, and reads those of all warps.

parts = ScanMemory(layout, run, registers=(4, 8))
parts.store, parts.load        # offsets in the scratch memory; totals of a row lie side by side, for vector loads
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.analysis.reduction_plan import Run
from tilewright.layouts.linear_layout import LinearLayout


class ScanMemory:
    """The places of totals, in elements.

    Args:
        layout: of the tile.
        run: the bits of the warp along the axis.
        registers: masks of the bits of the register that number this thread's rows.
        lanes, warps: bits of lanes and warps that share a row.

    Attributes:
        store: from register (of a row), lane and warp to the offset of its total.
        load: the same, but the lowest bits of the register are those of the warp along the axis.
        size: how many elements there are.
    """

    def __init__(
        self, layout: LinearLayout, run: Run, registers: Sequence[int], *, lanes: int = 0, warps: int = 0
    ) -> None:
        places = _places(len(run.masks))
        own = tuple(1 << bit for bit in range(len(run.masks)))
        lane_places = self._numbered(layout.columns["lane"], lanes, places)
        warp_places = self._numbered(layout.columns["warp"], warps | sum(run.masks), places)
        rows = tuple(next(places) for _ in registers)
        self.size = next(places)
        stored = list(warp_places)
        for place, mask in zip(own, run.masks, strict=True):
            stored[mask.bit_length() - 1] = place
        self.store = self._offsets(rows, lane_places, stored)
        self.load = self._offsets((*own, *rows), lane_places, warp_places)

    @staticmethod
    def _numbered(columns: Sequence[int], shared: int, places: Iterator[int]) -> list[int]:
        """A place for each bit that leads to other rows."""
        return [next(places) if column and not shared >> bit & 1 else 0 for bit, column in enumerate(columns)]

    def _offsets(self, registers: Sequence[int], lanes: Sequence[int], warps: Sequence[int]) -> LinearLayout:
        columns = {"register": tuple(registers), "lane": tuple(lanes), "warp": tuple(warps), "block": ()}
        return LinearLayout(columns, (("offset", self.size),))


def _places(first: int) -> Iterator[int]:
    """The powers of two from bit `first` on."""
    bit = first
    while True:
        yield 1 << bit
        bit += 1
