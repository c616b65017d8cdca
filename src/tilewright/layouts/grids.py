"""A tile as a table of the holder of each element, or of its place in shared memory, for drawing.

Neighbours in a row share a cell if they are in consecutive registers of one thread, or consecutive in memory. Of tiles
with more than two dimensions the part is shown where all but the last two coordinates are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tilewright.ir.types import Shape
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Distributed, Shared
from tilewright.layouts.linear_layout import LinearLayout, log2
from tilewright.layouts.memory_access import BANKS, MAX_BITS, address_in


class Cell(NamedTuple):
    """Neighbours of a row.

    Attributes:
        text: the text of the cell.
        kind: what gives the colour: the warp, or the bank.
        shade: the lane, or the row of banks.
    """

    text: str
    kind: int
    shade: int


class Grid(NamedTuple):
    """A table, or its upper left corner.

    Attributes:
        meaning: what the text of a cell says.
        rows: labels.
        columns: labels.
        cells: row by row.
        kinds: how many kinds of cells there are: warps or banks.
        shades: how many shades.
        hidden: rows and columns that are left out.
        copies: how many threads, or bytes, hold each element.
    """

    meaning: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    kinds: int
    shades: int
    hidden: tuple[int, int]
    copies: int


def register_grid(layout: Distributed, shape: Shape, rows: int, columns: int) -> Grid:
    """The registers of the lanes of the warps that hold each element; at most so many rows and columns of cells."""
    linear = to_linear_layout(layout, shape)
    owner = linear.pseudo_invert()
    width = _run(owner, "register", shape[-1])
    places = {name: owner.out_names.index(name) for name in owner.out_names}
    clustered = linear.in_size("block") > 1

    def cell(index: int) -> Cell:
        at = owner.unpack(index)
        register, lane, warp = (at[places[name]] for name in ("register", "lane", "warp"))
        own = f"{register}-{register + width - 1}" if width > 1 else f"{register}"
        block = f"{at[places['block']]}:" if clustered else ""
        return Cell(f"{block}{warp}:{lane}:{own}", warp, lane)

    meaning = f"{'block:' if clustered else ''}warp:lane:{'registers' if width > 1 else 'register'}"
    copies = 1 << (len(linear.all_columns) - linear.rank)
    return _grid(shape, width, (rows, columns), owner, cell, meaning, (linear.in_size("warp"), 32, copies))


def memory_grid(layout: Shared, shape: Shape, bits: int, rows: int, columns: int) -> Grid:
    """The place of each element: its offset in elements, and the bank that serves it.

    Args:
        layout: of shared memory.
        shape: extents of the tile.
        bits: of an element.
        rows, columns: extents of the part of the tile that is shown.
    """
    linear = to_linear_layout(layout, shape)
    place = linear.pseudo_invert()
    address = address_in(layout)
    width = min(_run(place, "offset", shape[-1]), max(MAX_BITS // bits, 1))
    at = place.out_names.index("offset")
    row_elements = BANKS * 32 // bits

    def cell(index: int) -> Cell:
        start = address(place.unpack(index)[at])
        return Cell(f"{start}:{start * bits // 32 % BANKS}", start * bits // 32 % BANKS, start // row_elements)

    copies = 1 << (len(linear.all_columns) - linear.rank)
    elements = f"{width} elements" if width > 1 else "one element"
    return _grid(shape, width, (rows, columns), place, cell, f"offset:bank of {elements}", (BANKS, 8, copies))


def _run(place: LinearLayout, name: str, extent: int) -> int:
    """The number of neighbours along the last dimension that are neighbours in `name` too, from its lowest bit on."""
    columns = place.columns[place.ins[-1]]
    shift, _ = place.shifts[place.out_names.index(name)]
    count = 0
    while count < log2(extent) and columns[count] == 1 << (shift + count):
        count += 1
    return 1 << count


def _grid(
    shape: Shape,
    width: int,
    limits: tuple[int, int],
    place: LinearLayout,
    cell: Callable[[int], Cell],
    meaning: str,
    counts: tuple[int, int, int],
) -> Grid:
    height, across = (shape[-2] if len(shape) > 1 else 1), shape[-1] // width
    down = place.columns[place.ins[-2]] if len(shape) > 1 else ()
    along = place.columns[place.ins[-1]]
    kept = min(height, limits[0]), min(across, limits[1])
    cells = tuple(
        tuple(cell(_combined(down, row) ^ _combined(along, column * width)) for column in range(kept[1]))
        for row in range(kept[0])
    )
    rows = tuple(map(str, range(kept[0]))) if len(shape) > 1 else ("",)
    columns = tuple(_range(column * width, width) for column in range(kept[1]))
    return Grid(meaning, rows, columns, cells, counts[0], counts[1], (height - kept[0], across - kept[1]), counts[2])


def _combined(columns: Sequence[int], index: int) -> int:
    found = 0
    for bit, column in enumerate(columns):
        if index >> bit & 1:
            found ^= column
    return found


def _range(start: int, count: int) -> str:
    return f"{start}-{start + count - 1}" if count > 1 else f"{start}"
