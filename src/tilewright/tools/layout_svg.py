"""Layouts as one self-contained SVG file: a table for each, coloured by warp and lane, or by bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tilewright.ir.types import Shape
from tilewright.layouts.encodings import Encoding
from tilewright.layouts.grids import Cell, Grid
from tilewright.layouts.walk import shown
from tilewright.tools.layout_text import grid_of, pair_described

HEIGHT, LETTER, MARGIN, LINE = 18, 6.2, 12, 16
"""Height of a row, width of a letter, margin around everything, and height of a line of text, in pixels."""
STYLE = (
    "text{font:10px ui-monospace,Menlo,Consolas,monospace;fill:#222}"
    ".t{font-size:12px;font-weight:bold}.c{text-anchor:middle}.l{fill:#666;text-anchor:middle}"
    "rect{stroke:#fff;stroke-width:1}"
)


def drawing(layouts: Sequence[Encoding], shape: Shape, bits: int, limits: tuple[int, int]) -> str:
    """The file: every layout with its table, and what goes on between the two of a pair."""
    top, width, parts = float(MARGIN), 0.0, []
    for layout in layouts:
        grid = grid_of(layout, shape, bits, limits)
        titles = [layout.text, f"tile {shown(shape)}, elements of {bits} bits; {caption(grid, shape)}"]
        for index, line in enumerate(titles):
            parts.append(text(MARGIN, top + LINE * (index + 0.8), line, "" if index else "t"))
        top += LINE * len(titles) + 6
        columns = cell_width(grid)
        parts += table(grid, top, columns)
        width = max(width, max(map(len, titles)) * 7.4, label_width(grid) + columns * len(grid.columns))
        top += HEIGHT * (len(grid.rows) + 1) + LINE
    if len(layouts) == 2:
        for line in pair_described(layouts[0], layouts[1], shape, bits).splitlines():
            parts.append(text(MARGIN, top + LINE * 0.8, line))
            width, top = max(width, len(line) * LETTER), top + LINE
    size = f'width="{width + 2 * MARGIN:.0f}" height="{top + MARGIN:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


def caption(grid: Grid, shape: Shape) -> str:
    """The caption: what a cell says, and what is left out."""
    down, across = grid.hidden
    rest = f"; {down} rows and {across} columns of cells are left out" if down or across else ""
    ahead = f" at [{', '.join('0' * (len(shape) - 2))}, :, :]" if len(shape) > 2 else ""
    copies = f"; held {grid.copies} times, the first is shown" if grid.copies > 1 else ""
    return f"{grid.meaning}{ahead}{copies}{rest}"


def table(grid: Grid, top: float, width: float) -> Iterator[str]:
    """Labels and cells."""
    left = MARGIN + label_width(grid)
    for index, label in enumerate(grid.columns):
        yield text(left + (index + 0.5) * width, top + HEIGHT * 0.7, label, "l")
    for row, (label, cells) in enumerate(zip(grid.rows, grid.cells, strict=True)):
        y = top + HEIGHT * (row + 1)
        yield text(MARGIN + label_width(grid) / 2, y + HEIGHT * 0.7, label, "l")
        for column, cell in enumerate(cells):
            x = left + column * width
            yield f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{HEIGHT}" fill="{colour(grid, cell)}"/>'
            yield text(x + width / 2, y + HEIGHT * 0.7, cell.text, "c")


def colour(grid: Grid, cell: Cell) -> str:
    """The warp (or bank) is the hue, the lane (or row of banks) the lightness."""
    hue = cell.kind * 360 // max(grid.kinds, 1)
    light = 62 + 30 * (cell.shade % grid.shades) // grid.shades
    return f"hsl({hue},70%,{light}%)"


def text(x: float, y: float, content: str, style: str = "") -> str:
    """One line of text."""
    chosen = f' class="{style}"' if style else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{chosen}>{escape(content)}</text>'


def label_width(grid: Grid) -> float:
    return max(map(len, grid.rows)) * LETTER + 8


def cell_width(grid: Grid) -> float:
    longest = max(len(cell.text) for row in grid.cells for cell in row)
    return float(round(max(longest, *map(len, grid.columns)) * LETTER + 8))
