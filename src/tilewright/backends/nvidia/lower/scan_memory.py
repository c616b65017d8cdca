"""What warps tell each other in a scan: each leaves the total of each of its rows, and reads those of all warps.

parts = ScanMemory(layout, run, registers=(4, 8))
parts.store, parts.load        # offsets in the scratch memory; totals of a row lie side by side, for vector loads
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.analysis.reduction_scratch import Run
from tilewright.layouts.linear_layout import LinearLayout


class ScanMemory:
    """Where totals lie, in elements.

    Args:
        layout: of the tile.
        run: the bits of the warp along the axis.
        axis_lanes: the bits of the lane along the axis; lanes that differ in them share a row.
        registers: masks of the bits of the register that number this thread's rows.

    Attributes:
        store: from register (of a row), lane and warp to the offset of its total.
        load: the same, but the lowest bits of the register are those of the warp along the axis.
        size: how many elements there are.
    """

    def __init__(self, layout: LinearLayout, run: Run, axis_lanes: int, registers: Sequence[int]) -> None:
        places = _places(len(run.masks))
        own = tuple(1 << bit for bit in range(len(run.masks)))
        lanes = [
            next(places) if column and not axis_lanes >> bit & 1 else 0
            for bit, column in enumerate(layout.columns["lane"])
        ]
        warps = [
            0 if 1 << bit in run.masks else next(places) if column else 0
            for bit, column in enumerate(layout.columns["warp"])
        ]
        rows = tuple(next(places) for _ in registers)
        self.size = next(places)
        stored = list(warps)
        for place, mask in zip(own, run.masks, strict=True):
            stored[mask.bit_length() - 1] = place
        self.store = self._offsets(rows, lanes, stored)
        self.load = self._offsets((*own, *rows), lanes, warps)

    def _offsets(self, registers: Sequence[int], lanes: Sequence[int], warps: Sequence[int]) -> LinearLayout:
        columns = {"register": tuple(registers), "lane": tuple(lanes), "warp": tuple(warps), "block": ()}
        return LinearLayout(columns, (("offset", self.size),))


def _places(first: int) -> Iterator[int]:
    """The powers of two from bit `first` on."""
    bit = first
    while True:
        yield 1 << bit
        bit += 1
